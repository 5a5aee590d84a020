//! Why there is no image.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::StatusCode;

/// Why an image could not be had.
///
/// The variants follow what a caller can do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer came: the network, a name, a certificate.
    #[error("{method} {url}: no whole answer")]
    Unreachable {
        /// The request's method.
        method: &'static str,
        /// What was asked for.
        url: String,
        /// What went wrong.
        source: Cause,
    },
    /// The answer did not come in time.
    #[error("{method} {url}: no answer within {} s; is the publisher's server up, and is it reachable from here?", limit.as_secs_f32())]
    Late {
        /// The request's method.
        method: &'static str,
        /// What was asked for.
        url: String,
        /// How long it was waited.
        limit: Duration,
    },
    /// The server answered that it will not give the file.
    #[error("{method} {url}: answered {status}{}", advice(*status))]
    Status {
        /// The request's method.
        method: &'static str,
        /// What was asked for.
        url: String,
        /// The answer.
        status: StatusCode,
    },
    /// The transfer broke off, again and again; what is there stays, and the next try goes on from it.
    #[error("GET {url}: broke off {times} times, the last time at {done} of {} bytes; the next try goes on from there", or_unknown(*total))]
    Interrupted {
        /// What was asked for.
        url: String,
        /// How often.
        times: u32,
        /// Bytes that are there.
        done: u64,
        /// Bytes in all, when known.
        total: Option<u64>,
        /// What went wrong the last time.
        source: Cause,
    },
    /// Fewer or more bytes came than were announced.
    #[error(
        "GET {url}: {got} bytes came where {expected} were announced; the publisher's server or a proxy before it is at fault, try again later"
    )]
    Length {
        /// What was asked for.
        url: String,
        /// Bytes that were announced.
        expected: u64,
        /// Bytes that came.
        got: u64,
    },
    /// Neither a length nor a checksum says whether the file is whole.
    #[error(
        "GET {url}: the server does not say how long the file is and there is no checksum to judge it by; name the publisher's list as 'sums' of the image"
    )]
    Unjudgeable {
        /// What was asked for.
        url: String,
    },
    /// The file is not the one of the publisher's list, also when both were fetched once more.
    #[error(
        "{url} has the checksum {got}, but {sums} says {expected}; both were fetched twice, so the mirror is damaged or just being changed: try again later"
    )]
    Checksum {
        /// The image.
        url: String,
        /// The list.
        sums: String,
        /// The checksum of the list.
        expected: String,
        /// The checksum of what came.
        got: String,
    },
    /// The publisher's list has no checksum of the file.
    #[error(
        "the checksum list {sums} has no SHA-256 or SHA-512 line for {name}; correct 'sums' of the image, or do without (IMAGE_VERIFY=off)"
    )]
    NotListed {
        /// The list.
        sums: String,
        /// The file.
        name: String,
    },
    /// What came is not a disk image that stands on its own.
    #[error("{url} is not a qcow2 image that can be used: {reason}")]
    NotAnImage {
        /// What was asked for.
        url: String,
        /// Why not.
        reason: &'static str,
    },
    /// The file system has no room for the image.
    #[error("no room in {} for {name}: {} more are needed, {} are free; make room, or choose another directory (IMAGE_DIR)", directory.display(), needed.map_or_else(|| "unknown many bytes".to_owned(), bytes), bytes(*available))]
    NoRoom {
        /// Where the image was to lie.
        directory: PathBuf,
        /// The image's file.
        name: String,
        /// Bytes that are missing yet, when the length is known.
        needed: Option<u64>,
        /// Bytes that are free.
        available: u64,
    },
    /// A file stands in the way that is not ours; in a directory that everybody may write to it is not trusted.
    #[error("{} {reason}; remove it, or choose another directory (IMAGE_DIR)", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The system refused something.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The image's address has no file name that could be used in the cache.
    #[error("{url} {reason}")]
    Name {
        /// The address.
        url: String,
        /// Why.
        reason: &'static str,
    },
    /// The machine trusts no certificate authority, so that no `https` address can be used.
    #[error("{url}: no certificate can be verified on this machine; install ca-certificates")]
    Trust {
        /// What was to be asked for.
        url: String,
        /// Why.
        source: rustls::Error,
    },
    /// The HTTP client could not be built.
    #[error("cannot set up HTTP")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A download of the same image that this one waited for has failed; to try again at once would fail likewise.
    #[error("the download of the same image that was waited for has failed: {reason}")]
    Elsewhere {
        /// What the other one was told, with its causes.
        reason: String,
    },
    /// The partial file was taken away or replaced during the download.
    #[error("{} was removed or replaced while it was being written; nothing else may touch it, try again", path.display())]
    Disturbed {
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Whether the partial file is of no use any more, or only fills the file system up.
    pub(crate) fn spoils_the_part(&self) -> bool {
        matches!(
            self,
            Self::Length { .. }
                | Self::Unjudgeable { .. }
                | Self::Checksum { .. }
                | Self::NotAnImage { .. }
                | Self::NoRoom { .. }
        )
    }
}

/// What went wrong on the way, said by the last in the chain of causes: those before it only say that something did.
#[derive(Debug)]
pub struct Cause(reqwest::Error);

impl From<reqwest::Error> for Cause {
    fn from(error: reqwest::Error) -> Self {
        // The address stands in our own errors.
        Self(error.without_url())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last: &dyn std::error::Error = &self.0;
        while let Some(cause) = last.source() {
            last = cause;
        }
        fmt::Display::fmt(last, f)
    }
}

impl std::error::Error for Cause {}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            "; the publisher has moved the file: give the new address in IMAGES_FILE"
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; the server or a proxy before it lets nobody in from here"
        }
        status if status.is_server_error() => {
            "; the publisher's server is in trouble, try again later"
        }
        _ => "",
    }
}

fn or_unknown(total: Option<u64>) -> String {
    total.map_or_else(|| "unknown".to_owned(), |total| total.to_string())
}

/// A number of bytes, exact and in a unit that people read.
pub(crate) fn bytes(number: u64) -> String {
    let tenths = u128::from(number) * 10 / (1 << 20);
    format!("{number} bytes ({}.{} MiB)", tenths / 10, tenths % 10)
}
