//! Tasks: what the server does after it has answered.
//!
//! A call that answers with a [`Upid`] has only begun its work. Whether the work succeeds shows in
//! the task alone.

use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::endpoint;
use crate::error::Error;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::Upid;
use crate::id::Vmid;
use crate::list::List;
use crate::node::Node;
use crate::record::record;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;

pub use exit::TaskExit;
pub use exit::TaskFailure;

mod exit;

/// The calls about one task, made to the node that runs it.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    client: &'a Client,
    upid: &'a Upid,
}

impl Client {
    /// The calls about one task.
    pub fn task<'a>(&'a self, upid: &'a Upid) -> Task<'a> {
        Task { client: self, upid }
    }
}

record! {
    /// The state of a task.
    TaskStatus {
        /// Whether it runs.
        "status" status: TaskState,
    }
    optional {
        /// How it ended: `OK`, `WARNINGS: n`, or what went wrong.
        "exitstatus" exit: String,
        /// Its id.
        "upid" upid: Upid,
        /// The node that runs it.
        "node" node: NodeName,
        /// What it does.
        "type" kind: String,
        /// What it does it to.
        "id" id: String,
        /// Who started it.
        "user" user: String,
        /// The name of the API token that started it.
        "tokenid" token: String,
        /// When it began, in seconds since 1970.
        "starttime" started: u64,
        /// Its process.
        "pid" pid: u64,
        /// When its process began, in the kernel's ticks.
        "pstart" process_start: u64,
    }
}

words! {
    /// Whether a task runs.
    TaskState {
        /// It does.
        Running = "running",
        /// It has ended.
        Stopped = "stopped",
    }
}

record! {
    /// A task as the list shows it.
    TaskSummary {
        /// Its id.
        "upid" upid: Upid,
    }
    optional {
        /// How it ended; missing while it runs.
        "status" exit: String,
        /// The node that runs it.
        "node" node: NodeName,
        /// What it does.
        "type" kind: String,
        /// What it does it to.
        "id" id: String,
        /// Who started it.
        "user" user: String,
        /// The name of the API token that started it.
        "tokenid" token: String,
        /// When it began, in seconds since 1970.
        "starttime" started: u64,
        /// When it ended, in seconds since 1970.
        "endtime" ended: u64,
        /// Its process.
        "pid" pid: u64,
        /// When its process began, in the kernel's ticks.
        "pstart" process_start: u64,
    }
}

record! {
    /// A line of a task's log.
    LogLine {
        /// Its number, from 1.
        "n" number: u64,
        /// Its text.
        "t" text: String,
    }
    optional {}
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only those about this guest.
    pub vmid: Option<Vmid>,
    /// Only those that failed.
    pub errors: bool,
    /// Also those that still run; otherwise only those that have ended.
    pub running: bool,
    /// Only those that began at this second since 1970 or later.
    pub since: Option<u64>,
    /// Only those of this kind, such as `qmcreate`.
    pub kind: Option<String>,
    /// At most so many, 50 unless said.
    pub limit: Option<u32>,
}

impl Node<'_> {
    /// Lists tasks of the node, the newest first.
    ///
    /// `GET /nodes/{node}/tasks`.
    pub async fn tasks(&self, filter: &TaskFilter) -> Result<List<TaskSummary>> {
        self.client.list(tasks(self.name, filter)).await
    }
}

/// What is heard of a task while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Heard<'a> {
    /// A line of its log.
    Line(&'a str),
    /// Its node cannot be asked at the moment, or its log cannot be read; the waiting goes on.
    Unreachable(&'a Error),
}

/// So many lines of the log are read at once.
const PAGE: u32 = 500;
/// Most tasks are over within a second, so ask soon …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … and then less and less often.
const LAST_PAUSE: Duration = Duration::from_secs(1);

impl Task<'_> {
    /// The task's id.
    pub fn upid(&self) -> &Upid {
        self.upid
    }

    /// Reads the state of the task.
    ///
    /// `GET /nodes/{node}/tasks/{upid}/status`.
    pub async fn status(&self) -> Result<TaskStatus> {
        self.client.get(Request::new(&endpoint::TASK_STATUS, &[self.upid.node(), self.upid])).await
    }

    /// Reads lines of the task's log, from the line after `start`.
    ///
    /// `GET /nodes/{node}/tasks/{upid}/log`. The log of a task that has just begun is the line
    /// `no content`.
    pub async fn log(&self, start: u64, limit: u32) -> Result<Vec<LogLine>> {
        let Lines(lines) = self.client.get(log(self.upid, start, limit)).await?;
        Ok(lines)
    }

    /// Asks the task to stop; it may need a while.
    ///
    /// `DELETE /nodes/{node}/tasks/{upid}`.
    pub async fn stop(&self) -> Result<()> {
        self.client.done(Request::new(&endpoint::TASK_STOP, &[self.upid.node(), self.upid])).await
    }

    /// Waits for the task to end.
    pub async fn wait(&self) -> Result<TaskExit> {
        self.follow(|_| ()).await
    }

    /// Waits for the task to end, and hands on each line of its log as it comes.
    ///
    /// There is no limit to the waiting but the caller's own. A node that does not answer for a
    /// while is waited for, too: the task goes on without us. How it ended counts for more than its
    /// log: one that cannot be read does not end the waiting.
    pub async fn follow(&self, mut heard: impl FnMut(Heard<'_>)) -> Result<TaskExit> {
        let mut log = Follower { task: *self, lines: Vec::new() };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.ended(&mut log, &mut heard).await {
                Ok(Some(exit)) => return Ok(exit),
                Ok(None) => {}
                Err(error) if error.is_transient() => heard(Heard::Unreachable(&error)),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(LAST_PAUSE);
        }
    }

    async fn ended(
        &self,
        log: &mut Follower<'_>,
        heard: &mut impl FnMut(Heard<'_>),
    ) -> Result<Option<TaskExit>> {
        // The state first: what the log has after the end is all of it.
        let mut status = self.status().await?;
        if status.status == TaskState::Stopped && status.exit.is_none() {
            // It may have ended between two of the server's own reads.
            status = self.status().await?;
        }
        if let Err(error) = log.catch_up(heard).await {
            tracing::debug!(upid = %self.upid, %error, "the log cannot be read");
            heard(Heard::Unreachable(&error));
        }
        if status.status == TaskState::Stopped {
            return Ok(Some(TaskExit::new(status.exit.as_deref(), &log.lines)));
        }
        Ok(None)
    }
}

/// How far the log has been read.
struct Follower<'a> {
    task: Task<'a>,
    lines: Vec<String>,
}

impl Follower<'_> {
    async fn catch_up(&mut self, heard: &mut impl FnMut(Heard<'_>)) -> Result<()> {
        loop {
            let start = self.lines.len() as u64;
            let page = self.task.log(start, PAGE).await?;
            let whole = page.len() >= PAGE as usize;
            let before = self.lines.len();
            for line in page {
                // An empty log is the line "no content" with number 1, to be read again later.
                if line.number > start && !(line.number == 1 && line.text == "no content") {
                    heard(Heard::Line(&line.text));
                    self.lines.push(line.text);
                }
            }
            // A page without anything new is the end, however long it is.
            if !whole || self.lines.len() == before {
                return Ok(());
            }
        }
    }
}

/// A log's lines. Servers up to 8 give a log that is not there as a single line, not a list.
pub(crate) struct Lines(Vec<LogLine>);

impl<'de> serde::Deserialize<'de> for Lines {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let lines = match Value::deserialize(deserializer)? {
            Value::Array(lines) => lines,
            Value::Null => Vec::new(),
            line => vec![line],
        };
        let lines = lines.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        lines.map(Self).map_err(serde::de::Error::custom)
    }
}

pub(crate) fn tasks(node: &NodeName, filter: &TaskFilter) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("vmid", filter.vmid);
    parameters.switch("errors", filter.errors);
    parameters.maybe("source", filter.running.then_some("all"));
    parameters.maybe("since", filter.since);
    parameters.maybe("typefilter", filter.kind.as_deref());
    parameters.maybe("limit", filter.limit);
    Request::new(&endpoint::TASKS, &[node]).with(parameters)
}

pub(crate) fn log(upid: &Upid, start: u64, limit: u32) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("start", start);
    parameters.set("limit", limit);
    Request::new(&endpoint::TASK_LOG, &[upid.node(), upid]).with(parameters)
}
