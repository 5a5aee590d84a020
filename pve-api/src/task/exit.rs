//! How tasks end.

use std::error::Error;
use std::fmt;

use crate::error::task_says_exists;
use crate::error::task_says_locked;

/// So many lines of the log come with a failure.
const TAIL: usize = 20;

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskExit {
    /// Well.
    Ok,
    /// Well, with so many warnings, which are lines of its log.
    Warnings(u32, Vec<String>),
    /// Not well.
    Failed(TaskFailure),
}

/// How a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskFailure {
    /// The closing words, such as `command 'qemu-img' failed`; may say little.
    pub status: String,
    /// The last lines of the log, which often say more.
    pub log: Vec<String>,
}

impl TaskFailure {
    /// Whether what the task was to make is there already.
    pub fn already_exists(&self) -> bool {
        task_says_exists(&self.status)
    }

    /// Whether something else held a lock, so that the same may succeed later.
    pub fn locked(&self) -> bool {
        task_says_locked(&self.status)
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)
    }
}

impl Error for TaskFailure {}

impl TaskExit {
    /// Whether the task did what it was to do.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Ok | Self::Warnings(..))
    }

    /// `Ok` with the warnings, or the failure.
    pub fn into_result(self) -> Result<Vec<String>, TaskFailure> {
        match self {
            Self::Ok => Ok(Vec::new()),
            Self::Warnings(_, lines) => Ok(lines),
            Self::Failed(failure) => Err(failure),
        }
    }

    pub(super) fn new(exit: Option<&str>, log: &[String]) -> Self {
        let tail = || log[log.len().saturating_sub(TAIL)..].to_vec();
        match exit {
            Some("OK") => Self::Ok,
            Some(status) => match status.strip_prefix("WARNINGS: ").map(str::parse) {
                Some(Ok(count)) => Self::Warnings(count, warnings(log)),
                _ => Self::Failed(TaskFailure { status: status.to_owned(), log: tail() }),
            },
            None => {
                let status = "ended without saying how".to_owned();
                Self::Failed(TaskFailure { status, log: tail() })
            }
        }
    }
}

fn warnings(log: &[String]) -> Vec<String> {
    log.iter().filter(|line| line.to_ascii_lowercase().starts_with("warn")).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_with_warnings_has_succeeded() {
        let log: Vec<String> = ["WARN: no efidisk configured!", "generating", "TASK WARNINGS: 1"]
            .map(Into::into)
            .into();
        let exit = TaskExit::new(Some("WARNINGS: 1"), &log);
        assert!(exit.is_success());
        assert_eq!(exit, TaskExit::Warnings(1, vec!["WARN: no efidisk configured!".to_owned()]));
        assert_eq!(TaskExit::new(Some("OK"), &log), TaskExit::Ok);
    }

    #[test]
    fn every_other_ending_is_a_failure_that_brings_its_log() {
        let log: Vec<String> = (1..=30).map(|n| format!("line {n}")).collect();
        for (said, status) in [
            (Some("unexpected status"), "unexpected status"),
            (Some("got timeout"), "got timeout"),
            (Some("WARNINGS: many"), "WARNINGS: many"),
            (Some("ok"), "ok"),
            (None, "ended without saying how"),
        ] {
            let TaskExit::Failed(failure) = TaskExit::new(said, &log) else { panic!("{said:?}") };
            assert_eq!(failure.status, status);
            assert_eq!(failure.log.len(), TAIL);
            assert_eq!(failure.log.last().map(String::as_str), Some("line 30"));
        }
    }

    #[test]
    fn a_failure_says_whether_something_was_taken_or_locked() {
        let failure = |status: &str| TaskFailure { status: status.to_owned(), log: Vec::new() };
        assert!(
            failure("unable to create VM 100 - VM 100 already exists on node 'pve1'")
                .already_exists()
        );
        assert!(failure("VM is locked (backup)").locked());
        assert!(
            failure("can't lock file '/var/lock/qemu-server/lock-120.conf' - got timeout").locked()
        );
        assert!(!failure("start failed: QEMU exited with code 1").locked());
    }
}
