//! `qm`, `pvesm` and `pvesh`: an argument parser and a printer over the calls.
//!
//! Pure as the calls are: [`begin`] says what a command prints and what is left to do, and whoever
//! drives it runs the [`Worker`] and asks [`ended`] for the last words and the exit code.

use std::path::Path;

use crate::call::Died;
use crate::call::Line;
use crate::call::Stream;
use crate::call::Worker;
use crate::effect::Effect;
use crate::world::World;

mod arguments;
mod pvesh;
mod pvesm;
mod qm;
mod table;

/// A command as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The node that it runs on.
    pub node: String,
    /// `qm`, `pvesm` or `pvesh`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it was started: relative paths are looked up from there.
    pub directory: String,
}

impl Invocation {
    /// A path argument made absolute.
    fn path(&self, text: &str) -> String {
        Path::new(&self.directory).join(text).to_string_lossy().into_owned()
    }
}

/// A command that has begun.
#[derive(Debug)]
pub struct Begun {
    /// What it prints at once.
    pub lines: Vec<Line>,
    /// What is to be done outside the world.
    pub effects: Vec<Effect>,
    /// How it goes on.
    pub next: Next,
}

/// How a command goes on.
#[derive(Debug)]
pub enum Next {
    /// It ends with this code.
    Exit(i32),
    /// It runs a worker in the foreground.
    Work(Worker, Ending),
}

/// How a command ends when its worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The exit code of a failed task; `None` leaves it to the failure.
    failure: Option<i32>,
    /// What is printed at the end whatever happened.
    last: Option<String>,
}

impl Begun {
    fn exit(lines: Vec<Line>, code: i32) -> Self {
        Self { lines, effects: Vec::new(), next: Next::Exit(code) }
    }

    fn errors(text: impl IntoIterator<Item = String>, code: i32) -> Self {
        Self::exit(text.into_iter().map(err).collect(), code)
    }
}

fn out(text: impl Into<String>) -> Line {
    Line { stream: Stream::Out, text: text.into() }
}

fn err(text: impl Into<String>) -> Line {
    Line { stream: Stream::Err, text: text.into() }
}

/// Begins a command.
pub fn begin(world: &mut World, invocation: &Invocation) -> Begun {
    match invocation.program.as_str() {
        "qm" => qm::begin(world, invocation),
        "pvesm" => pvesm::begin(world, invocation),
        "pvesh" => pvesh::begin(world, invocation),
        other => Begun::errors([format!("{other}: command not found")], 127),
    }
}

/// The last words and the exit code of a command whose worker has ended.
pub fn ended(ending: &Ending, result: Result<(), Died>) -> (Vec<Line>, i32) {
    let mut lines: Vec<Line> = ending.last.iter().map(out).collect();
    match result {
        Ok(()) => (lines, 0),
        Err(died) => {
            lines.push(err(died.text));
            (lines, ending.failure.unwrap_or(died.exit))
        }
    }
}

/// What a failed call prints, with the usage line where parameters were wrong.
fn complaint(died: &Died, usage: &str) -> Vec<Line> {
    if died.errors.is_empty() {
        return vec![err(died.text.clone())];
    }
    let mut lines = vec![err(format!("{} {}", died.status, died.text))];
    lines.extend(died.errors.iter().map(|(name, text)| err(format!("{name}: {text}"))));
    lines.push(err(usage));
    lines
}
