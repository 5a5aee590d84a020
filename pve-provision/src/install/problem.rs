//! Why a step failed, in words for the admin.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use pve_api::NodeName;
use thiserror::Error;

use super::ssh::LoginError;

/// Why a step failed.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    /// Somebody asked for it.
    #[error("{0}")]
    Cancelled(String),
    /// Not done, for a reason found out by looking.
    #[error("{0}")]
    Refused(String),
    /// A command could not be run or failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// An image is not to be had.
    #[error(transparent)]
    Image(#[from] pve_images::Error),
    /// A file could not be read or written.
    #[error("cannot {doing}")]
    File { doing: String, source: io::Error },
    /// The VM cannot be logged into.
    #[error("{0}")]
    NotReady(String),
}

/// Why a command has no good result.
#[derive(Debug, Error)]
pub(crate) enum CommandError {
    /// It was not begun.
    #[error("{title} could not be run")]
    NotRun { title: String, source: io::Error },
    /// The node that it has to run on cannot be reached; it was not begun.
    #[error("{title} could not be run on {node}")]
    NoNode { title: String, node: NodeName, source: LoginError },
    /// It ended badly, with these last words.
    #[error("{title} failed with exit code {code}: {text}")]
    Failed { title: String, code: i32, text: String },
    /// How it ended is not known: it may have had its effect.
    #[error("how {title} ended is not known: {why}")]
    Unknown { title: String, why: String },
    /// It goes on: a command that changes the cluster is never killed.
    #[error("{title} has not ended within {} s and is left running", limit.as_secs())]
    StillRunning { title: String, limit: Duration },
}

impl CommandError {
    /// What the command printed, when it ended badly.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Failed { text, .. } => text,
            _ => "",
        }
    }

    /// Whether it may still be having its effect.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::StillRunning { .. })
    }
}

impl Problem {
    pub(crate) fn file(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::File { doing, source }
    }
}

/// An error and all that caused it, in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
