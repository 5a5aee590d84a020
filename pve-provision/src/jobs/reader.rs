//! A place in a job's log that moves on as the log grows.

use std::sync::Arc;
use std::vec;

use tokio::sync::watch;

use super::entry::Entry;
use super::job::Growth;
use super::job::Inner;

/// How many entries a reader takes at a time; it bounds what a thousand readers hold at once.
const BATCH: usize = 64;

/// Reads the events of a job to its end.
#[derive(Debug)]
pub struct Reader {
    job: Arc<Inner>,
    growth: watch::Receiver<Growth>,
    next: u64,
    taken: vec::IntoIter<Arc<Entry>>,
}

impl Reader {
    pub(super) fn new(job: Arc<Inner>, next: u64) -> Self {
        let growth = job.growth();
        Self { job, growth, next, taken: Vec::new().into_iter() }
    }

    /// The next event; nothing when the job has ended.
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Arc<Entry>> {
        loop {
            if let Some(entry) = self.ready() {
                return Some(entry);
            }
            let next = self.next;
            // The sender lives in the job, which this reader holds.
            let growth =
                *self.growth.wait_for(|seen| seen.events > next || seen.ended).await.ok()?;
            if growth.events <= next {
                return None;
            }
        }
    }

    /// The next event, if it is there already.
    pub fn ready(&mut self) -> Option<Arc<Entry>> {
        if self.taken.len() == 0 {
            let log = self.job.log();
            let start = log.entries.partition_point(|entry| entry.event.number < self.next);
            let end = log.entries.len().min(start + BATCH);
            self.taken = Vec::from(&log.entries[start..end]).into_iter();
        }
        let entry = self.taken.next()?;
        self.next = entry.event.number + 1;
        Some(entry)
    }

    /// The number of the event that comes next; after the end, the number that the log's end has.
    pub const fn position(&self) -> u64 {
        self.next
    }
}
