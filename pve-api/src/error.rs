//! Why a call failed, sorted by what the caller can do about it.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use http::Method;
use thiserror::Error;

use crate::trust::Certificate;

pub(crate) use classify::classify;
pub(crate) use classify::lost;
pub(crate) use classify::only_checked;
pub(crate) use classify::task_says_exists;
pub(crate) use classify::task_says_locked;

mod classify;

/// What a call gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The method and path of a request, without its parameters: those may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Whether the work is done by a task, which begins only when all checks are over.
    pub(crate) starts_task: bool,
}

impl Call {
    /// The HTTP method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path below `/api2/json`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the request only reads.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// What the server said when it refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status; also 595 to 599, which are not HTTP but Proxmox VE's own.
    pub status: u16,
    /// The message of the body, or else the reason phrase; without the trailing line end.
    pub message: String,
    /// What is wrong with which parameter.
    pub errors: BTreeMap<String, String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim_end_matches('.'))?;
        for (index, (name, text)) in self.errors.iter().enumerate() {
            let mark = if index == 0 { ": " } else { "; " };
            write!(f, "{mark}{name}: {text}")?;
        }
        Ok(())
    }
}

impl StdError for Refusal {}

/// The error of this type in the chain of causes.
pub(crate) fn find<'a, T: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // `source` of an I/O error skips the error that it was made of.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}

/// What lies behind an error that is not the server's own word.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Why a call to the Proxmox VE API failed.
///
/// The variants follow what a caller can do next, not which library failed. Whether something may
/// have been changed all the same, [`Error::had_no_effect`] knows.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was not carried out and may be sent again: no address could be reached, or the
    /// session that it needs could not be renewed for now.
    #[error("{call}: not sent")]
    NotSent {
        /// What was asked.
        call: Call,
        /// Why the last address could not be reached, or the session could not be renewed.
        source: Cause,
    },
    /// The server showed a certificate that is not trusted; nothing was sent. Show it to the
    /// person, who may decide to pin it. If it *was* pinned and changed, refuse loudly.
    #[error("{call}: certificate {} is not trusted: {reason}", certificate.fingerprint)]
    Untrusted {
        /// What was asked.
        call: Call,
        /// What the server showed.
        certificate: Box<Certificate>,
        /// Why it is not trusted.
        reason: String,
    },
    /// The answer to a write was lost: it may have had its effect. Look before repeating it.
    #[error("{call}: the answer was lost, it may have been done")]
    UnknownOutcome {
        /// What was asked.
        call: Call,
        /// How the answer was lost.
        source: Cause,
    },
    /// The answer to a read was lost, and so were those to its repetitions. Nothing was changed.
    #[error("{call}: the answer was lost")]
    Interrupted {
        /// What was asked.
        call: Call,
        /// How the answer was lost.
        source: Cause,
    },
    /// Wrong user, password, second factor or token, or an account that is disabled or locked:
    /// the server does not tell which. Each such answer takes three seconds, so never try in a
    /// loop.
    #[error("{call}: not accepted")]
    Unauthorized {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// The session has ended and cannot be renewed: somebody has to log in again. The request was
    /// not carried out.
    #[error("{call}: the session has ended, log in again")]
    NeedsLogin {
        /// What was asked.
        call: Call,
    },
    /// The account lacks a privilege.
    #[error("{call}: not permitted")]
    NotPermitted {
        /// What was asked.
        call: Call,
        /// The object on which the privilege is missing, such as `/vms/100`, if the server says.
        path: Option<String>,
        /// The privileges of which one would do, such as `VM.Allocate`, if the server says.
        privileges: Vec<String>,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// What was to be made is there already: take another name or number.
    #[error("{call}: already exists")]
    AlreadyExists {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// What was asked for is not there.
    #[error("{call}: not found")]
    NotFound {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// Something else holds a lock: a backup, a migration, or just another command. The request may
    /// succeed later.
    #[error("{call}: locked")]
    Locked {
        /// What was asked.
        call: Call,
        /// The lock's name, such as `backup`, if the server says.
        by: Option<String>,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// Somebody changed the configuration since its digest was read: read it again.
    #[error("{call}: changed meanwhile")]
    Changed {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// The cluster has no quorum, so nothing can be changed for now.
    #[error("{call}: no quorum")]
    NoQuorum {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// The server that was asked cannot reach the node named in the path; other nodes go on.
    #[error("{call}: node unreachable")]
    NodeUnreachable {
        /// What was asked.
        call: Call,
        /// The node, if the path names one.
        node: Option<String>,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// This server does not know the call: it is older or newer than the call.
    #[error("{call}: not offered by this version of Proxmox VE")]
    NotOffered {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// The server refused for another reason, or for several parameters at once.
    #[error("{call}: refused")]
    Refused {
        /// What was asked.
        call: Call,
        /// What the server said.
        source: Box<Refusal>,
    },
    /// The server answered with something that this version of the crate does not understand. A
    /// write *was* carried out.
    #[error("{call}: unexpected answer at `{path}`: {problem}")]
    Decode {
        /// What was asked.
        call: Call,
        /// Where in the document.
        path: String,
        /// What was found there.
        problem: String,
    },
    /// A file to be sent could not be read to its end. The server discards what it got of it.
    #[error("{call}: cannot read what is to be sent")]
    Source {
        /// What was asked.
        call: Call,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What was asked.
    pub fn call(&self) -> &Call {
        match self {
            Self::NotSent { call, .. }
            | Self::Untrusted { call, .. }
            | Self::UnknownOutcome { call, .. }
            | Self::Interrupted { call, .. }
            | Self::Unauthorized { call, .. }
            | Self::NeedsLogin { call }
            | Self::NotPermitted { call, .. }
            | Self::AlreadyExists { call, .. }
            | Self::NotFound { call, .. }
            | Self::Locked { call, .. }
            | Self::Changed { call, .. }
            | Self::NoQuorum { call, .. }
            | Self::NodeUnreachable { call, .. }
            | Self::NotOffered { call, .. }
            | Self::Refused { call, .. }
            | Self::Decode { call, .. }
            | Self::Source { call, .. } => call,
        }
    }

    /// What the server said, if it answered.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Unauthorized { source, .. }
            | Self::NotPermitted { source, .. }
            | Self::AlreadyExists { source, .. }
            | Self::NotFound { source, .. }
            | Self::Locked { source, .. }
            | Self::Changed { source, .. }
            | Self::NoQuorum { source, .. }
            | Self::NodeUnreachable { source, .. }
            | Self::NotOffered { source, .. }
            | Self::Refused { source, .. } => Some(source),
            Self::UnknownOutcome { source, .. } | Self::Interrupted { source, .. } => {
                source.downcast_ref()
            }
            Self::NotSent { .. }
            | Self::Untrusted { .. }
            | Self::NeedsLogin { .. }
            | Self::Decode { .. }
            | Self::Source { .. } => None,
        }
    }

    /// Whether it is certain that the request changed nothing.
    ///
    /// A refusal alone does not say so: a server that failed half way has refused, too, with some
    /// of a configuration set or a disk made.
    pub fn had_no_effect(&self) -> bool {
        match self {
            Self::UnknownOutcome { .. } => false,
            Self::Decode { call, .. } => call.is_read(),
            Self::NotSent { .. }
            | Self::Untrusted { .. }
            | Self::Interrupted { .. }
            | Self::NeedsLogin { .. }
            | Self::Source { .. } => true,
            Self::Unauthorized { call, source }
            | Self::NotPermitted { call, source, .. }
            | Self::AlreadyExists { call, source }
            | Self::NotFound { call, source }
            | Self::Locked { call, source, .. }
            | Self::Changed { call, source }
            | Self::NoQuorum { call, source }
            | Self::NodeUnreachable { call, source, .. }
            | Self::NotOffered { call, source }
            | Self::Refused { call, source } => only_checked(call, source),
        }
    }

    /// Whether the same request may succeed in a while without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NotSent { .. }
            | Self::Interrupted { .. }
            | Self::Locked { .. }
            | Self::NoQuorum { .. }
            | Self::NodeUnreachable { .. } => true,
            Self::Untrusted { .. }
            | Self::UnknownOutcome { .. }
            | Self::Unauthorized { .. }
            | Self::NeedsLogin { .. }
            | Self::NotPermitted { .. }
            | Self::AlreadyExists { .. }
            | Self::NotFound { .. }
            | Self::Changed { .. }
            | Self::NotOffered { .. }
            | Self::Refused { .. }
            | Self::Decode { .. }
            | Self::Source { .. } => false,
        }
    }
}
