//! What a job says: events, and their form on the wire.

use jiff::Timestamp;
use pve_api::NodeName;
use pve_api::Vmid;
use serde::Deserialize;
use serde::Serialize;

use crate::step::Step;

/// One thing that happened in a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The place in the job's log, counted from 0.
    pub number: u64,
    /// When it happened.
    pub time: Timestamp,
    /// The step it belongs to.
    pub step: Step,
    /// What happened.
    pub kind: Kind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The step begins, or says what it does now.
    Started(String),
    /// A line that a command printed.
    Line {
        /// Where it was printed.
        stream: Stream,
        /// The line without its end.
        text: String,
    },
    /// How far a transfer is.
    Progress {
        /// Bytes that are there.
        done: u64,
        /// Bytes in all, when known.
        total: Option<u64>,
        /// Bytes a second.
        rate: u64,
    },
    /// Something the admin should know; not a failure.
    Notice(String),
    /// The step has ended well.
    Done(String),
    /// One line of the final report.
    Report(String),
    /// The step has failed.
    Failed {
        /// What failed, on what, why, and what to do next.
        text: String,
        /// What is left in the cluster.
        left: Left,
    },
}

/// Where a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a failed job leaves in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Nothing of this job.
    Nothing,
    /// The VM of this job.
    Vm {
        /// Its number.
        vmid: Vmid,
        /// The node that has it.
        node: NodeName,
    },
    /// It could not be found out.
    Unknown,
}

/// An event as the HTTP API sends it: exactly these three keys, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wire {
    /// `<stage> > <step>`.
    pub step: &'static str,
    /// `processing`, `success` or `error`.
    pub status: &'static str,
    /// `[*] …`, `[+] …`, `[-] …`, or two blanks and a relayed line.
    pub message: String,
}

impl Event {
    /// The event in the form of the HTTP API.
    pub fn wire(&self) -> Wire {
        let (status, message) = match &self.kind {
            Kind::Started(text) | Kind::Notice(text) => ("processing", format!("[*] {text}")),
            Kind::Line { text, .. } => ("processing", format!("  {text}")),
            Kind::Progress { done, total, rate } => ("processing", progress(*done, *total, *rate)),
            Kind::Done(text) => ("success", format!("[+] {text}")),
            Kind::Report(text) => ("success", format!("[*] {text}")),
            Kind::Failed { text, .. } => ("error", format!("[-] {text}")),
        };
        Wire { step: self.step.name(), status, message }
    }
}

fn progress(done: u64, total: Option<u64>, rate: u64) -> String {
    let (done_mib, rate_mib) = (mebibytes(done), mebibytes(rate));
    match total {
        Some(total) if total > 0 => {
            let percent = u128::from(done) * 100 / u128::from(total);
            format!("[*] {done_mib} of {} MiB ({percent}%), {rate_mib} MiB/s", mebibytes(total))
        }
        _ => format!("[*] {done_mib} MiB, {rate_mib} MiB/s"),
    }
}

/// Bytes as MiB with one decimal.
fn mebibytes(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 20);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(kind: Kind) -> String {
        let event = Event { number: 7, time: Timestamp::UNIX_EPOCH, step: Step::Finalizing, kind };
        serde_json::to_string(&event.wire()).unwrap()
    }

    #[test]
    fn an_event_has_three_keys_in_the_specified_order() {
        let kinds = [
            Kind::Done("VM installation completed in 182.41s".to_owned()),
            Kind::Report("VMID: 120".to_owned()),
            Kind::Line { stream: Stream::Stderr, text: "a \"b\"\t\\".to_owned() },
            Kind::Failed { text: "no".to_owned(), left: Left::Unknown },
            Kind::Progress { done: 3 << 20, total: Some(4 << 20), rate: 1_572_864 },
            Kind::Progress { done: 1 << 19, total: None, rate: 0 },
        ];
        insta::assert_snapshot!(kinds.map(wire).join("\n"), @r#"
        {"step":"VM initialization > finalizing","status":"success","message":"[+] VM installation completed in 182.41s"}
        {"step":"VM initialization > finalizing","status":"success","message":"[*] VMID: 120"}
        {"step":"VM initialization > finalizing","status":"processing","message":"  a \"b\"\t\\"}
        {"step":"VM initialization > finalizing","status":"error","message":"[-] no"}
        {"step":"VM initialization > finalizing","status":"processing","message":"[*] 3.0 of 4.0 MiB (75%), 1.5 MiB/s"}
        {"step":"VM initialization > finalizing","status":"processing","message":"[*] 0.5 MiB, 0.0 MiB/s"}
        "#);
    }
}
