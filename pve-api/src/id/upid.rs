//! Identifiers of tasks.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use super::InvalidId;
use super::NodeName;

/// The identifier of a task, such as
/// `UPID:pve1:0000088B:0002858F:6B0D7BE0:qmcreate:110:admin@pve:`.
///
/// It says on which node the task runs, which need not be the node that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upid {
    text: String,
    node: NodeName,
    started: u64,
    kind: String,
    id: String,
    user: String,
}

impl Upid {
    /// The text as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The node on which the task runs; only that node's word counts for how it ended.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// When the task began, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// What the task does, such as `qmcreate`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it does it to, mostly a VMID; may be empty.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Who started it: `root@pam`, or `root@pam!name` for an API token.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl FromStr for Upid {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId { text: text.to_owned(), wanted: "a task id (UPID:…)" };
        let is_hex = |part: &str, lengths: &[usize]| {
            lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let parts: Vec<&str> = text.split(':').collect();
        let ["UPID", node, pid, process_start, started, kind, id, user, ""] = parts[..] else {
            return Err(wrong());
        };
        let blank = |part: &str| part.contains(char::is_whitespace);
        if !is_hex(pid, &[8])
            || !is_hex(process_start, &[8, 9])
            || !is_hex(started, &[8])
            || kind.is_empty()
            || user.is_empty()
            || blank(kind)
            || blank(id)
            || blank(user)
        {
            return Err(wrong());
        }
        Ok(Self {
            text: text.to_owned(),
            node: node.parse().ok().ok_or_else(wrong)?,
            started: u64::from_str_radix(started, 16).ok().ok_or_else(wrong)?,
            kind: kind.to_owned(),
            id: id.to_owned(),
            user: user.to_owned(),
        })
    }
}

impl TryFrom<String> for Upid {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Upid> for String {
    fn from(upid: Upid) -> Self {
        upid.text
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_says_node_kind_guest_and_user() {
        let upid: Upid =
            "UPID:pve2:000014C9:00034C34:6B0D7DDC:qmcreate:121:admin@pve!cli:".parse().unwrap();
        assert_eq!(upid.node().as_str(), "pve2");
        assert_eq!(upid.started(), 1_796_046_300);
        assert_eq!((upid.kind(), upid.id(), upid.user()), ("qmcreate", "121", "admin@pve!cli"));
    }

    #[test]
    fn a_worker_id_may_be_empty_or_a_file_name() {
        for text in [
            "UPID:pve1:00002723:0004A4AB:6B0D814E:imgcopy::admin@pve!cli:",
            "UPID:pve1:00001101:00323234A:6B0D7D74:download:cloud.qcow2:admin@pve:",
        ] {
            assert_eq!(text.parse::<Upid>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "UPID:garbage",
            "UPID:pve1:0:0:0:a:b:c:",
            "UPID:pve1:00002723:0004A4AB:6B0D814E:imgcopy::admin@pve",
        ] {
            assert!(bad.parse::<Upid>().is_err(), "{bad}");
        }
    }
}
