//! What a caller hears while it waits, and how often.

use std::time::Duration;

use tokio::time::Instant;

/// The least time between two reports of progress.
pub(crate) const PACE: Duration = Duration::from_millis(500);

/// Something to tell while an image is being looked at or downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// How far the download is; at most twice a second.
    Progress {
        /// Bytes that are there.
        done: u64,
        /// Bytes in all, when known.
        total: Option<u64>,
        /// Bytes a second since the last report.
        rate: u64,
    },
    /// Something that an admin should know; not a failure.
    Notice(String),
}

/// Turns a count that grows into reports that are not too many.
pub(crate) struct Pace {
    since: Instant,
    at: u64,
    said: bool,
}

impl Pace {
    /// Begins with what is there already, so that the rate speaks of new bytes only.
    pub(crate) fn new(done: u64) -> Self {
        Self { since: Instant::now(), at: done, said: false }
    }

    /// A report, when one is due and there is something new.
    pub(crate) fn progress(&mut self, done: u64, total: Option<u64>) -> Option<Update> {
        let passed = self.since.elapsed();
        if passed < PACE || done == self.at {
            return None;
        }
        Some(self.report(done, total, passed))
    }

    /// The last report: also of a transfer that was too short for one before.
    pub(crate) fn end(&mut self, done: u64) -> Option<Update> {
        let passed = self.since.elapsed();
        if self.said && passed < PACE {
            return None;
        }
        Some(self.report(done, Some(done), passed))
    }

    fn report(&mut self, done: u64, total: Option<u64>, passed: Duration) -> Update {
        let new = u128::from(done.saturating_sub(self.at));
        let rate = new * 1_000_000 / passed.as_micros().max(1);
        *self = Self { since: Instant::now(), at: done, said: true };
        Update::Progress { done, total, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
    }
}
