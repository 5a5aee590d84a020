//! What a caller hears while it waits, and how often.

use std::time::Duration;
use std::time::Instant;

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
    pub(crate) fn new(now: Instant, done: u64) -> Self {
        Self { since: now, at: done, said: false }
    }

    /// A report, when one is due and there is something new.
    pub(crate) fn progress(
        &mut self,
        now: Instant,
        done: u64,
        total: Option<u64>,
    ) -> Option<Update> {
        let is_due = now.duration_since(self.since) >= PACE;
        (is_due && done != self.at).then(|| self.report(now, done, total))
    }

    /// The last report: also of a transfer that was too short for one before.
    pub(crate) fn end(&mut self, now: Instant, done: u64) -> Option<Update> {
        let is_due = !self.said || now.duration_since(self.since) >= PACE;
        is_due.then(|| self.report(now, done, Some(done)))
    }

    fn report(&mut self, now: Instant, done: u64, total: Option<u64>) -> Update {
        let new = u128::from(done.saturating_sub(self.at));
        let rate = new * 1_000_000 / now.duration_since(self.since).as_micros().max(1);
        *self = Self { since: now, at: done, said: true };
        Update::Progress { done, total, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn progress_is_told_at_most_twice_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(start, 0);
        let told: Vec<u64> = (0..5000)
            .step_by(7)
            .filter(|&at| pace.progress(after(start, at), at + 1, None).is_some())
            .collect();
        assert!(told.len() >= 9, "{told:?}");
        assert!(told[0] >= 500 && told.windows(2).all(|pair| pair[1] - pair[0] >= 500), "{told:?}");
    }

    #[test]
    fn the_rate_is_that_of_new_bytes_since_the_last_report() {
        let start = Instant::now();
        let mut pace = Pace::new(start, 1000);
        let expect = |done, rate| Some(Update::Progress { done, total: Some(9000), rate });
        assert_eq!(pace.progress(after(start, 500), 2000, Some(9000)), expect(2000, 2000));
        assert_eq!(pace.progress(after(start, 1500), 5000, Some(9000)), expect(5000, 3000));
        assert_eq!(pace.progress(after(start, 2500), 5000, Some(9000)), None, "nothing new");
    }

    #[test]
    fn a_short_transfer_is_told_of_once_at_its_end() {
        let start = Instant::now();
        let mut pace = Pace::new(start, 0);
        assert!(pace.end(after(start, 10), 300).is_some());
        assert!(pace.end(after(start, 20), 300).is_none());
    }
}
