//! The jobs of a server: each an append-only log, in memory while it runs and in a file for good.
//!
//! A job's state is a fold over its log and `append` is the only write. A reader holds a place in the log
//! and waits for it to grow, so that replay, a late reader and a thousand readers are one code path: nobody
//! lags and nobody slows the job.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::Weak;

use serde::Serialize;
use serde_json::Value;

use self::files::Files;
use self::job::Inner;

mod entry;
mod files;
mod id;
mod job;
mod reader;
mod record;

pub use self::entry::Entry;
pub use self::id::InvalidJobId;
pub use self::id::JobId;
pub use self::job::CancelReason;
pub use self::job::Job;
pub use self::reader::Reader;
pub use self::record::Claim;
pub use self::record::State;

/// How many ended jobs are kept.
const ENDED_KEPT: usize = 200;

/// All jobs of one state directory.
#[derive(Debug, Clone)]
pub struct Jobs {
    shared: Arc<Shared>,
}

/// A job in a list.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The job's id.
    pub id: JobId,
    /// What its log comes to.
    #[serde(flatten)]
    pub state: State,
}

#[derive(Debug)]
struct Shared {
    files: Files,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    jobs: BTreeMap<JobId, Slot>,
    /// The ended jobs, the one that ended first in front.
    ended: VecDeque<JobId>,
}

#[derive(Debug)]
enum Slot {
    /// The log is still written and wholly in memory.
    Running(Arc<Inner>),
    /// The log is in its file, and in memory only while somebody reads it.
    Ended { reading: Weak<Inner>, state: Option<State> },
}

impl Jobs {
    /// Opens the state directory, and reads the logs in it that have no end.
    ///
    /// The directory is made when it is missing. It is locked: a second server on the same directory would
    /// take the jobs of the first for those of a crashed one.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let files = Files::open(directory)?;
        let mut table = Table::default();
        let mut unfinished = Vec::new();
        for id in files.list()? {
            if files.has_ended(&id)? {
                table.ended.push_back(id);
                table.jobs.insert(id, Slot::Ended { reading: Weak::new(), state: None });
            } else {
                unfinished.push(id);
            }
        }
        let jobs = Self { shared: Arc::new(Shared { files, table: Mutex::new(table) }) };
        for id in unfinished {
            if let Some((contents, file)) = jobs.shared.files.reopen(&id)? {
                let inner = Inner::found(id, contents, Some(file), Arc::downgrade(&jobs.shared));
                jobs.shared.table().jobs.insert(id, Slot::Running(inner));
            }
        }
        jobs.shared.prune();
        Ok(jobs)
    }

    /// Starts a job. `request` is what was asked for, without its secrets.
    ///
    /// The job is on disk when this returns.
    pub async fn start(&self, request: Value) -> io::Result<Job> {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let id = JobId::new();
            let record = record::Record::accepted(request);
            let file = shared.files.create(&id, &record)?;
            let contents = files::Contents::of(record);
            let inner = Inner::started(id, contents, file, Arc::downgrade(&shared));
            shared.table().jobs.insert(id, Slot::Running(Arc::clone(&inner)));
            Ok(Job::from(inner))
        })
        .await
    }

    /// The job of that id; one that has ended is read back from its file.
    pub async fn get(&self, id: &JobId) -> Option<Job> {
        if let Some(inner) = self.shared.table().in_memory(id)? {
            return Some(Job::from(inner));
        }
        let (shared, id) = (Arc::clone(&self.shared), *id);
        blocking(move || shared.read_back(&id))
            .await
            .inspect_err(|error| tracing::error!(job = %id, %error, "cannot read the job's log"))
            .ok()
            .flatten()
            .map(Job::from)
    }

    /// Whether there is a job of that id, running or kept.
    pub fn knows(&self, id: &JobId) -> bool {
        self.shared.table().jobs.contains_key(id)
    }

    /// All jobs that are kept, the newest first.
    pub async fn list(&self) -> Vec<Summary> {
        let shared = Arc::clone(&self.shared);
        let summaries = blocking(move || {
            let ids: Vec<JobId> = shared.table().jobs.keys().rev().copied().collect();
            Ok(ids.into_iter().filter_map(|id| shared.summary(id)).collect())
        });
        summaries.await.unwrap_or_default()
    }

    /// The jobs whose log has no end because the server that ran them is gone.
    pub fn unfinished(&self) -> Vec<Job> {
        self.running().into_iter().filter(Job::is_left_over).collect()
    }

    /// The jobs whose log has no end yet, the oldest first.
    pub fn running(&self) -> Vec<Job> {
        let table = self.shared.table();
        let running = table.jobs.values().filter_map(|slot| match slot {
            Slot::Running(inner) => Some(Job::from(Arc::clone(inner))),
            Slot::Ended { .. } => None,
        });
        running.collect()
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an ended job out of memory, and forgets the ones that ended longest ago.
    fn retire(&self, inner: &Arc<Inner>) {
        let slot = Slot::Ended { reading: Arc::downgrade(inner), state: Some(inner.state()) };
        let mut table = self.table();
        table.jobs.insert(inner.id(), slot);
        table.ended.push_back(inner.id());
        drop(table);
        self.prune();
    }

    fn prune(&self) {
        let mut table = self.table();
        let surplus = table.ended.len().saturating_sub(ENDED_KEPT);
        let forgotten: Vec<JobId> = table.ended.drain(..surplus).collect();
        for id in &forgotten {
            table.jobs.remove(id);
        }
        drop(table);
        for id in forgotten {
            if let Err(error) = self.files.remove(&id) {
                tracing::warn!(job = %id, %error, "cannot remove the log of an old job");
            }
        }
    }

    /// Reads the log of an ended job into memory, where concurrent readers share it.
    fn read_back(self: &Arc<Self>, id: &JobId) -> io::Result<Option<Arc<Inner>>> {
        let Some(contents) = self.files.read(id)? else { return Ok(None) };
        let mut table = self.table();
        match table.in_memory(id) {
            None => Ok(None),
            Some(Some(other)) => Ok(Some(other)),
            Some(None) => {
                let inner = Inner::found(*id, contents, None, Arc::downgrade(self));
                let slot =
                    Slot::Ended { reading: Arc::downgrade(&inner), state: Some(inner.state()) };
                table.jobs.insert(*id, slot);
                Ok(Some(inner))
            }
        }
    }

    fn summary(self: &Arc<Self>, id: JobId) -> Option<Summary> {
        let known = match self.table().jobs.get(&id)? {
            Slot::Running(inner) => Some(inner.state()),
            Slot::Ended { state, .. } => state.clone(),
        };
        let state = match known {
            Some(state) => state,
            None => self
                .read_back(&id)
                .inspect_err(
                    |error| tracing::error!(job = %id, %error, "cannot read the job's log"),
                )
                .ok()??
                .state(),
        };
        Some(Summary { id, state })
    }
}

impl Table {
    /// Nothing for a job that is not known, `Some(None)` for one that is only in its file.
    #[expect(clippy::option_option, reason = "the two absences are answered differently")]
    fn in_memory(&self, id: &JobId) -> Option<Option<Arc<Inner>>> {
        match self.jobs.get(id)? {
            Slot::Running(inner) => Some(Some(Arc::clone(inner))),
            Slot::Ended { reading, .. } => Some(reading.upgrade()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Names the path in an error of the file system.
fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.into();
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
