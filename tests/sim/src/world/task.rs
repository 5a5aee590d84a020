//! Tasks: what a worker writes about itself.

use super::World;

/// A task of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// `UPID:node:pid:pstart:starttime:type:id:user:`.
    pub upid: String,
    /// Where it runs.
    pub node: String,
    /// `qmcreate`, `qmstart` ….
    pub kind: String,
    /// The guest's number, or nothing.
    pub id: String,
    /// `root@pam`, or a token's `user!name`.
    pub user: String,
    /// When it began.
    pub started: u64,
    /// When and how it ended.
    pub ended: Option<(u64, Result<(), String>)>,
    /// Its log.
    pub log: Vec<String>,
}

impl World {
    /// Begins a task and returns its id.
    pub(crate) fn begin_task(&mut self, node: &str, kind: &str, id: &str, user: &str) -> String {
        let pid = 2000 + self.entropy.below(30_000);
        let pstart = 100_000 + self.entropy.below(900_000);
        let started = self.now;
        let upid = format!("UPID:{node}:{pid:08X}:{pstart:08X}:{started:08X}:{kind}:{id}:{user}:");
        self.tasks.push(Task {
            upid: upid.clone(),
            node: node.to_owned(),
            kind: kind.to_owned(),
            id: id.to_owned(),
            user: user.to_owned(),
            started,
            ended: None,
            log: Vec::new(),
        });
        upid
    }

    /// The task of this id.
    pub fn task(&self, upid: &str) -> Option<&Task> {
        self.tasks.iter().rev().find(|task| task.upid == upid)
    }

    /// The task of this id, to be written to.
    pub(crate) fn task_mut(&mut self, upid: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().rev().find(|task| task.upid == upid)
    }

    /// Ends a task that has not ended yet.
    pub(crate) fn end_task(&mut self, upid: &str, result: Result<(), String>) {
        let now = self.now;
        if let Some(task) = self.task_mut(upid)
            && task.ended.is_none()
        {
            task.log.push(match &result {
                Ok(()) => "TASK OK".to_owned(),
                Err(text) => format!("TASK ERROR: {text}"),
            });
            task.ended = Some((now, result));
        }
    }
}
