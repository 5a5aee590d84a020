//! Faults: commands that fail, hang or take their time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;

use super::locked;

/// What goes wrong, where and how often.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// A regular expression that the command line must match, e.g. `^qm resize 10[0-9] `, or the
    /// line of an API call, e.g. `^POST /nodes/pve1/qemu .*vmid=100`.
    pub pattern: String,
    /// How many matching commands are hit; all of them when absent.
    #[serde(default)]
    pub times: Option<u32>,
    /// How many matching commands are let through before.
    #[serde(default)]
    pub after: u32,
    /// Milliseconds more than usual, before anything else happens.
    #[serde(default)]
    pub delay: u64,
    /// What happens.
    #[serde(default)]
    pub answer: FaultAnswer,
}

/// What happens to a command that is hit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAnswer {
    /// It is done as ever, only later.
    #[default]
    Pass,
    /// It is not done; this is printed.
    Instead {
        /// On standard output, with its newlines.
        #[serde(default)]
        stdout: String,
        /// On standard error, with its newlines.
        #[serde(default)]
        stderr: String,
        /// The exit code.
        exit: i32,
    },
    /// It is done, its output is relayed, and then this is printed.
    Then {
        /// On standard output, with its newlines.
        #[serde(default)]
        stdout: String,
        /// On standard error, with its newlines.
        #[serde(default)]
        stderr: String,
        /// The exit code.
        exit: i32,
    },
    /// Something holds the VM's lock: nothing is done, after the time that a lock is waited for.
    LockTimeout,
    /// An API call is not made; this is its answer.
    Answer {
        /// The status.
        status: u16,
        /// The message.
        text: String,
        /// Complaints about parameters.
        #[serde(default)]
        errors: BTreeMap<String, String>,
    },
    /// The connection of an API call ends without an answer.
    Drop {
        /// Whether the call is made first.
        #[serde(default)]
        done: bool,
        /// Whether TLS is ended as it should be, with an alert that says so.
        #[serde(default)]
        polite: bool,
    },
    /// The command never ends and does nothing.
    Hang,
    /// It is done, but the command never ends.
    DoneThenHang,
    /// What is to be done outside the world fails with this text: a start, a copy, a reboot.
    Effect(String),
}

impl Fault {
    /// A fault that hits one command.
    pub fn once(pattern: &str, answer: FaultAnswer) -> Self {
        Self { times: Some(1), ..Self::always(pattern, answer) }
    }

    /// A fault that hits every matching command.
    pub fn always(pattern: &str, answer: FaultAnswer) -> Self {
        Self { pattern: pattern.to_owned(), times: None, after: 0, delay: 0, answer }
    }

    /// A command that fails with a text on standard error, not done.
    pub fn fails(pattern: &str, stderr: &str, exit: i32) -> Self {
        let stderr = format!("{stderr}\n");
        Self::always(pattern, FaultAnswer::Instead { stdout: String::new(), stderr, exit })
    }
}

/// The faults that are left, in order; the first that matches hits.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Planned>>);

/// A fault with its pattern made ready: every call is held against it.
#[derive(Debug)]
struct Planned {
    fault: Fault,
    pattern: Option<Regex>,
}

impl From<Fault> for Planned {
    fn from(fault: Fault) -> Self {
        Self { pattern: Regex::new(&fault.pattern).ok(), fault }
    }
}

/// What a hit does.
#[derive(Debug, Clone, Default)]
pub(super) struct Hit {
    pub(super) delay: Duration,
    pub(super) answer: FaultAnswer,
}

impl Faults {
    pub(super) fn new(faults: Vec<Fault>) -> Self {
        Self(Mutex::new(faults.into_iter().map(Planned::from).collect()))
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        locked(&self.0).push(fault.into());
    }

    /// Takes all of them away.
    pub fn clear(&self) {
        locked(&self.0).clear();
    }

    /// The faults that have not been used up.
    pub fn left(&self) -> Vec<Fault> {
        let planned = locked(&self.0);
        let faults = planned.iter().map(|planned| &planned.fault);
        faults.filter(|fault| fault.times != Some(0)).cloned().collect()
    }

    /// What happens to a command line.
    pub(super) fn hit(&self, line: &str) -> Hit {
        for Planned { fault, pattern } in &mut *locked(&self.0) {
            let matches = pattern.as_ref().is_some_and(|pattern| pattern.is_match(line));
            if !matches || fault.times == Some(0) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            fault.times = fault.times.map(|times| times - 1);
            return Hit { delay: Duration::from_millis(fault.delay), answer: fault.answer.clone() };
        }
        Hit::default()
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;
    use super::FaultAnswer;
    use super::Faults;

    #[test]
    fn a_fault_hits_as_often_as_it_says_and_not_before() {
        let text = r#"{"pattern": "^qm start", "times": 2, "after": 1, "answer": "hang"}"#;
        let faults = Faults::new(vec![serde_json::from_str::<Fault>(text).unwrap()]);
        let answers: Vec<FaultAnswer> =
            ["qm start 1", "qm stop 1", "qm start 1", "qm start 2", "qm start 3"]
                .map(|line| faults.hit(line).answer)
                .into();
        let (pass, hang) = (FaultAnswer::Pass, FaultAnswer::Hang);
        assert_eq!(answers, [pass.clone(), pass.clone(), hang.clone(), hang, pass]);
        assert!(faults.left().is_empty());
    }
}
