//! One job: its log, the queue in front of its file, and its cancellation.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::RwLockReadGuard;
use std::sync::Weak;
use std::time::Duration;

use jiff::Timestamp;
use pve_api::NodeName;
use pve_api::Vmid;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::entry::Entry;
use super::files::Contents;
use super::files::LogFile;
use super::id::JobId;
use super::reader::Reader;
use super::record::Record;
use super::record::State;
use crate::event::Event;
use crate::event::Kind;
use crate::step::Step;

/// Lines and progress are not waited for until this many records wait for the disk.
const UNWAITED: usize = 256;

/// Readers are woken no more often than this: a burst of lines goes to a thousand readers in few packets.
const PACE: Duration = Duration::from_millis(20);

/// A handle on a job; clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct Job {
    inner: Arc<Inner>,
}

/// Why a job was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// Somebody asked for it.
    Requested,
    /// The server stops and waits no longer.
    ServerStops,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "cancelled on request",
            Self::ServerStops => "cancelled because the server stops",
        })
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    id: JobId,
    request: Value,
    left_over: bool,
    jobs: Weak<Shared>,
    cancellation: CancellationToken,
    reason: OnceLock<CancelReason>,
    queue: Mutex<Queue>,
    /// Used by the one task that empties the queue; absent when the log has ended.
    file: Mutex<Option<LogFile>>,
    log: RwLock<Log>,
    growth: watch::Sender<Growth>,
    pace: Mutex<Pace>,
}

/// What is reported but not yet on disk.
#[derive(Debug)]
struct Queue {
    next: u64,
    records: Vec<Queued>,
    /// Whether a task empties the queue now.
    emptying: bool,
    ended: bool,
}

#[derive(Debug)]
struct Queued {
    record: Record,
    written: oneshot::Sender<io::Result<()>>,
}

/// What readers see.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) entries: Vec<Arc<Entry>>,
    state: State,
}

/// What readers wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Growth {
    /// The number of the next event.
    pub(super) events: u64,
    pub(super) ended: bool,
}

/// When readers were woken last, and whether a task will wake them again.
#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
    scheduled: bool,
}

impl Job {
    /// The job's id.
    pub fn id(&self) -> &JobId {
        &self.inner.id
    }

    /// What was asked for, without its secrets.
    pub fn request(&self) -> &Value {
        &self.inner.request
    }

    /// What the log comes to.
    pub fn state(&self) -> State {
        self.inner.state()
    }

    /// Whether the server that ran this job is gone.
    pub fn is_left_over(&self) -> bool {
        self.inner.left_over
    }

    /// Appends an event.
    ///
    /// Relayed lines and progress follow to the disk shortly, all else is there when this returns. The event
    /// is in the log however the future ends. A disk that fails is reported to the server's own log; the job
    /// goes on.
    pub async fn report(&self, step: Step, kind: Kind) {
        let hurried = matches!(kind, Kind::Line { .. } | Kind::Progress { .. });
        let (waiting, written) = self
            .inner
            .enqueue(|number| Record::Event(Event { number, time: Timestamp::now(), step, kind }));
        if !hurried || waiting > UNWAITED {
            // What failed is already logged.
            let _ = written.await;
        }
    }

    /// Writes down which VM this job is about to make; it is on disk when this returns.
    pub async fn claim(&self, vmid: Vmid, node: &NodeName) -> io::Result<()> {
        let (_, written) = self.inner.enqueue(|_| Record::claimed(vmid, node));
        written.await.unwrap_or_else(|closed| Err(io::Error::other(closed)))
    }

    /// Ends the log. Nothing can be appended after it.
    pub async fn end(&self) {
        let (_, written) = self.inner.enqueue(|_| Record::ended());
        let _ = written.await;
    }

    /// Is cancelled when the job shall stop by the rule of its step.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.inner.cancellation
    }

    /// Cancels the job; the first reason stays.
    pub fn cancel(&self, reason: CancelReason) {
        self.inner.reason.get_or_init(|| reason);
        self.inner.cancellation.cancel();
    }

    /// Why the job was cancelled, when it was.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.inner.reason.get().copied()
    }

    /// A reader of the events from `number` on.
    pub fn read_from(&self, number: u64) -> Reader {
        Reader::new(Arc::clone(&self.inner), number)
    }
}

impl From<Arc<Inner>> for Job {
    fn from(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

impl Inner {
    /// A job that starts now.
    pub(super) fn started(
        id: JobId,
        contents: Contents,
        file: LogFile,
        jobs: Weak<Shared>,
    ) -> Arc<Self> {
        Self::new(id, contents, Some(file), jobs, false)
    }

    /// A job whose log was found; without `file` nothing can be appended.
    pub(super) fn found(
        id: JobId,
        contents: Contents,
        file: Option<LogFile>,
        jobs: Weak<Shared>,
    ) -> Arc<Self> {
        Self::new(id, contents, file, jobs, true)
    }

    fn new(
        id: JobId,
        contents: Contents,
        file: Option<LogFile>,
        jobs: Weak<Shared>,
        left_over: bool,
    ) -> Arc<Self> {
        let mut log = Log { entries: Vec::new(), state: State::new(contents.accepted) };
        for record in contents.records {
            log.append(record);
        }
        let growth = log.growth();
        let queue = Queue {
            next: growth.events,
            records: Vec::new(),
            emptying: false,
            ended: file.is_none(),
        };
        Arc::new(Self {
            id,
            request: contents.request,
            left_over,
            jobs,
            cancellation: CancellationToken::new(),
            reason: OnceLock::new(),
            queue: Mutex::new(queue),
            file: Mutex::new(file),
            log: RwLock::new(log),
            growth: watch::Sender::new(growth),
            pace: Mutex::default(),
        })
    }

    pub(super) const fn id(&self) -> JobId {
        self.id
    }

    pub(super) fn state(&self) -> State {
        self.log().state.clone()
    }

    pub(super) fn log(&self) -> RwLockReadGuard<'_, Log> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn growth(&self) -> watch::Receiver<Growth> {
        self.growth.subscribe()
    }

    /// Puts a record in its place in the log: the order of these calls is the order of the log.
    ///
    /// Answers how many records wait for the disk, and how to wait for this one.
    fn enqueue(
        self: &Arc<Self>,
        record: impl FnOnce(u64) -> Record,
    ) -> (usize, oneshot::Receiver<io::Result<()>>) {
        let (written, waiter) = oneshot::channel();
        let mut queue = self.queue();
        if queue.ended {
            tracing::error!(job = %self.id, "something was reported after the end of the job");
            return (0, waiter);
        }
        let record = record(queue.next);
        match &record {
            Record::Event(_) => queue.next += 1,
            Record::Ended { .. } => queue.ended = true,
            Record::Accepted { .. } | Record::Claimed { .. } => {}
        }
        queue.records.push(Queued { record, written });
        if !queue.emptying {
            queue.emptying = true;
            let inner = Arc::clone(self);
            tokio::task::spawn_blocking(move || inner.empty_queue());
        }
        (queue.records.len(), waiter)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings what is queued to the disk, all that waits at a time, and then to the readers.
    fn empty_queue(self: Arc<Self>) {
        loop {
            let batch = {
                let mut queue = self.queue();
                if queue.records.is_empty() {
                    queue.emptying = false;
                    return;
                }
                std::mem::take(&mut queue.records)
            };
            let written = self.write(&batch);
            if let Err(error) = &written {
                tracing::error!(job = %self.id, %error, "cannot write the job's log");
            }
            for queued in self.publish(batch) {
                let answer = match &written {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // Nobody has to wait for it.
                let _ = queued.send(answer);
            }
        }
    }

    fn write(&self, batch: &[Queued]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_mut() else { return Ok(()) };
        let written = file.append(batch.iter().map(|queued| &queued.record));
        let ends = batch.iter().any(|queued| matches!(queued.record, Record::Ended { .. }));
        if written.is_err() && ends {
            file.discard();
        }
        written
    }

    /// Wakes the readers, now or soon.
    fn announce(self: &Arc<Self>, growth: Growth) {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let due = pace.last.map(|last| last + PACE).filter(|due| *due > Instant::now());
        match due {
            Some(due) if !growth.ended => {
                if !pace.scheduled {
                    pace.scheduled = true;
                    tokio::spawn(Arc::clone(self).announce_at(due));
                }
            }
            _ => {
                pace.last = Some(Instant::now());
                self.growth.send_replace(growth);
            }
        }
    }

    async fn announce_at(self: Arc<Self>, due: Instant) {
        tokio::time::sleep_until(due).await;
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.scheduled = false;
        pace.last = Some(Instant::now());
        self.growth.send_replace(self.log().growth());
    }

    fn publish(self: &Arc<Self>, batch: Vec<Queued>) -> Vec<oneshot::Sender<io::Result<()>>> {
        let mut log = self.log.write().unwrap_or_else(PoisonError::into_inner);
        let mut waiters = Vec::with_capacity(batch.len());
        for Queued { record, written } in batch {
            log.append(record);
            waiters.push(written);
        }
        let growth = log.growth();
        drop(log);
        if growth.ended {
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
            if let Some(jobs) = self.jobs.upgrade() {
                jobs.retire(self);
            }
        }
        self.announce(growth);
        waiters
    }
}

impl Log {
    fn append(&mut self, record: Record) {
        self.state.apply(&record);
        if let Record::Event(event) = record {
            self.entries.push(Arc::new(Entry::new(event)));
        }
    }

    const fn growth(&self) -> Growth {
        Growth { events: self.state.events, ended: self.state.ended.is_some() }
    }
}
