//! The id of a job.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde::Serializer;
use thiserror::Error;
use uuid::Uuid;

/// The id of a job: a UUID of version 7, so that ids sort by the time of their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Uuid);

/// A text that is not a job's id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not the id of a job")]
pub struct InvalidJobId(String);

impl JobId {
    pub(super) fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl FromStr for JobId {
    type Err = InvalidJobId;

    /// Takes the hyphenated form in lower case only: an id names a file.
    fn from_str(text: &str) -> Result<Self, InvalidJobId> {
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().to_string() == text => Ok(Self(uuid)),
            _ => Err(InvalidJobId(text.to_owned())),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
