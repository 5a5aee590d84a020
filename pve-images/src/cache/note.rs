//! The notes beside an image and beside a part of one, and what they say of the file.

use std::fs::File;
use std::time::SystemTime;

use serde::Deserialize;
use serde::Serialize;
use url::Url;

use crate::checksum::Sum;
use crate::client::Remote;
use crate::error::Error;
use crate::files;
use crate::files::Modified;
use crate::files::Place;

/// What is known of a whole file: `<name>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) url: String,
    pub(super) size: u64,
    pub(super) modified: Modified,
    pub(super) sum: Sum,
    /// The publisher's list has this sum.
    pub(super) verified: bool,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// When this was written, in seconds since 1970.
    pub(super) time: u64,
}

/// Of what a `.part` is a part: `<name>.part.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) url: String,
    pub(super) length: Option<u64>,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
}

impl State {
    pub(super) fn new(url: &Url, remote: &Remote) -> Self {
        let Remote { length, etag, last_modified } = remote.clone();
        Self { url: url.to_string(), length, etag, last_modified }
    }

    pub(super) fn remote(self) -> Remote {
        Remote { length: self.length, etag: self.etag, last_modified: self.last_modified }
    }
}

/// What lies at an image's name.
pub(super) enum Look {
    /// Nothing.
    Absent,
    /// The image, whole.
    Agreed,
    /// A file that its note does not fit, or that has none.
    Doubtful(Doubt),
}

/// A file of which is not known yet whether it is the image.
pub(super) struct Doubt {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) modified: Modified,
    /// The note, if it speaks of the same address.
    pub(super) note: Option<Note>,
}

/// Compares a file with its note. `verified` asks that the publisher's list was looked at.
pub(super) fn look(place: &Place, url: &Url, verified: bool) -> Result<Look, Error> {
    let path = place.whole();
    let Some(file) = files::open(&path, false)? else { return Ok(Look::Absent) };
    let found = file.metadata().map_err(Error::file("look at", path))?;
    let (size, modified) = (found.len(), Modified::of(&found));
    let note = files::read_note::<Note>(&place.side())?.filter(|note| note.url == url.as_str());
    let agreed = note.as_ref().is_some_and(|note| {
        note.size == size && note.modified == modified && (note.verified || !verified)
    });
    Ok(if agreed { Look::Agreed } else { Look::Doubtful(Doubt { file, size, modified, note }) })
}

/// The time for a note.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
