//! The one place that reads the server's words.
//!
//! Proxmox VE says most of what went wrong in a sentence under status 500, so the sentence has to
//! be read. Each pattern here stands in a recorded answer.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Call;
use super::Cause;
use super::Error;
use super::Refusal;

/// The error that an answer with a status other than 2xx means.
///
/// Servers like to repeat what they refuse, so `secrets` are blotted out.
pub(crate) fn classify(
    call: Call,
    status: u16,
    reason: &str,
    body: &[u8],
    secrets: &[&str],
) -> Error {
    let mut source = Box::new(refusal(status, reason, body));
    for secret in secrets.iter().filter(|secret| secret.len() >= SHORT) {
        source.message = source.message.replace(secret, "…");
        source.errors.values_mut().for_each(|text| *text = text.replace(secret, "…"));
    }
    match status {
        401 => Error::Unauthorized { call, source },
        403 => forbidden(call, source),
        400 | 404 => wrong_parameters(call, source),
        // "too large" is 501, too: that is not about the version.
        501 if source.message.ends_with("not implemented") => Error::NotOffered { call, source },
        595 => unreachable(call, source),
        // The connection to the other node failed before anything was sent over it: mostly a host
        // name where a node name should be.
        596 if source.message.contains("certificate") => unreachable(call, source),
        // A proxy before the server gave up waiting for it; the server may still be at work.
        408 | 502..=504 | 596..=599 => lost(call, source),
        _ => failed(call, source),
    }
}

/// Anything shorter stands in any sentence by accident.
const SHORT: usize = 3;

/// The error that a lost answer means.
pub(crate) fn lost(call: Call, source: Cause) -> Error {
    if call.is_read() {
        Error::Interrupted { call, source }
    } else {
        Error::UnknownOutcome { call, source }
    }
}

#[derive(Deserialize, Default)]
struct Body {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    errors: Option<BTreeMap<String, serde_json::Value>>,
}

fn refusal(status: u16, reason: &str, body: &[u8]) -> Refusal {
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    let message = match body.message.as_deref().map(str::trim) {
        Some(message) if !message.is_empty() => message.to_owned(),
        _ if reason.trim().is_empty() => format!("status {status}"),
        _ => reason.trim().to_owned(),
    };
    let errors = body.errors.unwrap_or_default().into_iter().map(|(name, text)| {
        let text = match text {
            serde_json::Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        (name, text)
    });
    Refusal { status, message, errors: errors.collect() }
}

fn unreachable(call: Call, source: Box<Refusal>) -> Error {
    let node = call.path.strip_prefix("/nodes/").and_then(|rest| rest.split('/').next());
    Error::NodeUnreachable { node: node.map(str::to_owned), call, source }
}

/// Reads `Permission check failed (/vms/110, VM.Config.Disk|VM.Config.CPU)`.
fn forbidden(call: Call, source: Box<Refusal>) -> Error {
    let inside = source
        .message
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .and_then(|inside| inside.split_once(", "))
        .filter(|(path, _)| path.starts_with('/'));
    let (path, privileges) = match inside {
        // A restricted tag needs `Sys.Modify for modifying tag 'prod'`.
        Some((path, privileges)) => {
            let words = privileges.split(' ').next().unwrap_or_default();
            (Some(path.to_owned()), words.split('|').map(str::to_owned).collect())
        }
        None => (None, Vec::new()),
    };
    if source.message.ends_with("does not exist)") {
        return Error::NotFound { call, source };
    }
    Error::NotPermitted { call, path, privileges, source }
}

/// Status 400 (and the rare 404): `errors` by parameter.
fn wrong_parameters(call: Call, source: Box<Refusal>) -> Error {
    let only = match source.errors.iter().next() {
        Some((name, text)) if source.errors.len() == 1 => Some((name.as_str(), text.as_str())),
        _ => None,
    };
    match only {
        Some(("vmid", text)) if text.ends_with("already exists") => {
            Error::AlreadyExists { call, source }
        }
        Some(("upid", "no such task") | ("storage", "No such storage.")) => {
            Error::NotFound { call, source }
        }
        Some((_, text)) if root_only(text) => {
            Error::NotPermitted { call, path: None, privileges: Vec::new(), source }
        }
        None if source.status == 404 || source.message.starts_with("No such ") => {
            Error::NotFound { call, source }
        }
        _ => Error::Refused { call, source },
    }
}

/// Status 500: the handler gave up with a sentence.
fn failed(call: Call, source: Box<Refusal>) -> Error {
    let said = source.message.as_str();
    if said.contains("no quorum") {
        return Error::NoQuorum { call, source };
    }
    if said.starts_with("hostname lookup '") {
        return unreachable(call, source);
    }
    if said.starts_with("checksum mismatch (file change") {
        return Error::Changed { call, source };
    }
    if let Some(LockName(by)) = lock(said) {
        return Error::Locked { call, by, source };
    }
    if root_only(said) {
        return Error::NotPermitted { call, path: None, privileges: Vec::new(), source };
    }
    if exists(said) {
        return Error::AlreadyExists { call, source };
    }
    if missing(said) {
        return Error::NotFound { call, source };
    }
    Error::Refused { call, source }
}

/// Whether a refusal was the result of a check, before anything was changed.
pub(crate) fn only_checked(call: &Call, refusal: &Refusal) -> bool {
    let said = refusal.message.as_str();
    match refusal.status {
        _ if call.is_read() => true,
        400..=499 => !refusal.errors.values().any(|text| half_way(text)),
        // Nothing of that name here, or the node was not reached.
        501 | 595 | 596 => true,
        // The sentence of something between us and the server, which knows nothing.
        500 if said == "Internal Server Error" || said == "status 500" => false,
        // All that comes before a task are checks, but for the beginning of the task itself.
        500 if call.starts_task => !said.contains("worker"),
        500 => first_checks(said),
        _ => false,
    }
}

/// Whether a complaint about a parameter comes from the work and not from the check: other
/// parameters of a running machine may have been changed by then.
fn half_way(text: &str) -> bool {
    text.starts_with("hotplug problem") || text.starts_with("unable to apply pending change")
}

/// Whether a sentence under status 500 belongs to what is checked before anything else. Missing
/// storages and volumes do not: they show when the disks before them have been made.
fn first_checks(said: &str) -> bool {
    const STARTS: [&str; 6] = [
        "checksum mismatch (file change",
        "cluster not ready - no quorum?",
        "hostname lookup '",
        "Configuration file '",
        "can't lock file ",
        "no options specified",
    ];
    STARTS.iter().any(|start| said.starts_with(start))
        || root_only(said)
        || said.contains(" is locked (")
        // The lock of a file of the cluster; a storage's is taken once for each disk.
        || said.contains("cfs-lock 'file-") || said.contains("cfs-lock 'domain-")
        || said.ends_with("already defined")
        || said.contains(" does not exist in cluster")
        || said.ends_with("not HA managed!")
}

/// Whether only `root@pam` with a password may do it: not even its API token.
fn root_only(said: &str) -> bool {
    ["only root can ", "Only root can ", "Only root may "]
        .iter()
        .any(|start| said.starts_with(start))
}

/// A lock that the sentence complains about, by its name if it has one.
fn lock(said: &str) -> Option<LockName> {
    if let Some((_, by)) = said.split_once(" is locked (") {
        return Some(LockName(by.split(')').next().map(str::to_owned)));
    }
    (said.starts_with("can't lock file ") || said.contains("error: got lock request timeout"))
        .then_some(LockName(None))
}

struct LockName(Option<String>);

fn exists(said: &str) -> bool {
    // "… already exists on node 'pve1'", "config file already exists", "pool 'p2' already exists",
    // "resource ID 'vm:110' already defined"
    said.contains("already exists") || said.ends_with("already defined")
}

/// Whether the sentence says that the *object* of the call is missing.
///
/// Sentences such as `storage 'x' does not exist` also come when a parameter names it; that, too,
/// is found by looking for something that is not there.
fn missing(said: &str) -> bool {
    said.ends_with("does not exist")
        || said.starts_with("Configuration file '") && said.contains("' does not exist")
        || said.starts_with("no such ")
        || said.contains(" does not exist in cluster")
        || said.ends_with(", not HA managed!")
        || said.ends_with("' is not HA managed")
}

/// Whether a task's closing words mean that what it was to make is there already.
pub(crate) fn task_says_exists(status: &str) -> bool {
    exists(status)
}

/// Whether a task's closing words mean that something else held a lock.
pub(crate) fn task_says_locked(status: &str) -> bool {
    lock(status).is_some()
}
