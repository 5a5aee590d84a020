//! Every command with all it was given.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use serde::Serialize;

use super::locked;

/// A command that was begun.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded {
    /// Its place in the order of beginnings.
    pub number: usize,
    /// The node that it ran on.
    pub node: String,
    /// `qm`, `pvesm` or `pvesh`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The environment of its process.
    pub environment: BTreeMap<String, String>,
    /// Where it was started.
    pub directory: String,
    /// When it began, in seconds since the epoch.
    pub started: f64,
    /// When it ended.
    pub ended: Option<f64>,
    /// How it ended.
    pub exit: Option<i32>,
    /// Whether its process went away before it had ended: it was killed.
    pub abandoned: bool,
}

impl Recorded {
    /// The command line, for reading.
    pub fn line(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }
}

/// Keeps commands in memory, and those that have ended in `commands.jsonl`.
#[derive(Debug)]
pub(super) struct Recorder {
    file: Mutex<File>,
    commands: Mutex<Vec<Recorded>>,
}

impl Recorder {
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let file = File::create(directory.join("commands.jsonl"))?;
        Ok(Self { file: Mutex::new(file), commands: Mutex::default() })
    }

    /// Notes a beginning; the number is for [`Recorder::end`].
    pub(super) fn begin(&self, mut recorded: Recorded) -> usize {
        let mut commands = locked(&self.commands);
        recorded.number = commands.len();
        recorded.started = seconds();
        commands.push(recorded);
        commands.len() - 1
    }

    /// Notes an end.
    pub(super) fn end(&self, number: usize, exit: i32) {
        let mut commands = locked(&self.commands);
        let Some(command) = commands.get_mut(number) else { return };
        command.ended = Some(seconds());
        command.exit = Some(exit);
        let line = serde_json::to_string(command).unwrap_or_default();
        if let Err(error) = writeln!(locked(&self.file), "{line}") {
            tracing::warn!(%error, "a command could not be recorded");
        }
    }

    /// Notes that nobody waits for a command any more.
    pub(super) fn abandon(&self, number: usize) {
        if let Some(command) = locked(&self.commands).get_mut(number) {
            command.abandoned = true;
        }
    }

    pub(super) fn all(&self) -> Vec<Recorded> {
        locked(&self.commands).clone()
    }
}

fn seconds() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
