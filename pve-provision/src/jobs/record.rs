//! What a log consists of, and what it comes to.

use jiff::Timestamp;
use pve_api::NodeName;
use pve_api::Vmid;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use crate::event::Event;
use crate::event::Kind;
use crate::event::Left;
use crate::step::Step;

/// One line of a log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// Always the first line.
    Accepted {
        time: Timestamp,
        request: Value,
    },
    /// Written before the command that makes the VM.
    Claimed {
        time: Timestamp,
        vmid: Vmid,
        node: NodeName,
    },
    Event(Event),
    /// Always the last line.
    Ended {
        time: Timestamp,
    },
}

impl Record {
    pub(super) fn accepted(request: Value) -> Self {
        Self::Accepted { time: Timestamp::now(), request }
    }

    pub(super) fn claimed(vmid: Vmid, node: &NodeName) -> Self {
        Self::Claimed { time: Timestamp::now(), vmid, node: node.clone() }
    }

    pub(super) fn ended() -> Self {
        Self::Ended { time: Timestamp::now() }
    }
}

/// What a log comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// When the job was accepted.
    pub accepted: Timestamp,
    /// The VM that the job may have made: it is written down before it is made.
    pub claimed: Option<Claim>,
    /// The step of the last event.
    pub step: Option<Step>,
    /// What the first failure left, when there was one.
    pub failed: Option<Left>,
    /// How many events there are, which is the number of the next one.
    pub events: u64,
    /// When the job ended.
    pub ended: Option<Timestamp>,
}

/// The VM that a job claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Its number.
    pub vmid: Vmid,
    /// The node on which it is made.
    pub node: NodeName,
}

impl State {
    pub(super) const fn new(accepted: Timestamp) -> Self {
        Self { accepted, claimed: None, step: None, failed: None, events: 0, ended: None }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        match record {
            Record::Accepted { .. } => {}
            Record::Claimed { vmid, node, .. } => {
                self.claimed = Some(Claim { vmid: *vmid, node: node.clone() });
            }
            Record::Event(event) => {
                self.step = Some(event.step);
                self.events = event.number + 1;
                if let Kind::Failed { left, .. } = &event.kind {
                    self.failed.get_or_insert_with(|| left.clone());
                }
            }
            Record::Ended { time } => self.ended = Some(*time),
        }
    }
}
