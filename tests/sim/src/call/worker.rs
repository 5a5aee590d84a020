//! The rest of a call that takes long.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::call::Died;
use crate::call::Line;
use crate::call::Stream;
use crate::effect::Effect;
use crate::world::World;

/// What a stage prints and asks for.
#[derive(Debug, Default)]
pub struct Output {
    /// Its lines.
    pub lines: Vec<Line>,
    /// What is to be done outside the world.
    pub effects: Vec<Effect>,
    /// Tasks that begin now and go on by themselves.
    pub follow: Vec<Worker>,
}

impl Output {
    /// Prints a line.
    pub fn say(&mut self, text: impl Into<String>) {
        self.lines.push(Line { stream: Stream::Out, text: text.into() });
    }

    /// Prints a line on standard error.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.lines.push(Line { stream: Stream::Err, text: text.into() });
    }

    /// Asks for something to be done outside the world.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}

type Stage = Box<dyn FnOnce(&mut World, &mut Output) -> Result<(), Died> + Send>;

/// Stages that are run in turn; when one fails, the others are not, and what was made is undone.
pub struct Worker {
    /// The task's id; empty for work that is not a task.
    pub upid: String,
    stages: VecDeque<Stage>,
    undo: Option<Stage>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Worker({}, {} stages left)", self.upid, self.stages.len())
    }
}

/// What became of a worker that was let run.
#[derive(Debug)]
pub enum Step {
    /// A stage ran; its effects are to be applied before the next one.
    Ran(Output),
    /// The worker has ended.
    Ended(Output, Result<(), Died>),
}

impl Worker {
    /// A worker of the task `upid`.
    pub fn new(upid: String) -> Self {
        Self { upid, stages: VecDeque::new(), undo: None }
    }

    /// Appends a stage.
    #[must_use]
    pub fn then(
        mut self,
        stage: impl FnOnce(&mut World, &mut Output) -> Result<(), Died> + Send + 'static,
    ) -> Self {
        self.stages.push_back(Box::new(stage));
        self
    }

    /// Says what a failure undoes.
    #[must_use]
    pub fn undo(mut self, stage: impl FnOnce(&mut World, &mut Output) + Send + 'static) -> Self {
        self.undo = Some(Box::new(move |world, output| {
            stage(world, output);
            Ok(())
        }));
        self
    }

    /// The guest that the task is about.
    pub fn vmid(&self, world: &World) -> Option<u32> {
        world.task(&self.upid)?.id.parse().ok()
    }

    /// The wait before each call of [`Worker::run`] that lets all of it take `whole`.
    ///
    /// The end takes a call of its own.
    pub fn pause(&self, whole: Duration) -> Duration {
        whole / u32::try_from(self.stages.len() + 1).unwrap_or(u32::MAX)
    }

    /// Runs the next stage.
    pub fn run(&mut self, world: &mut World) -> Step {
        if world.task(&self.upid).is_some_and(|task| task.ended.is_some()) {
            return self.end(world, Output::default(), Died::new("received interrupt"));
        }
        let Some(stage) = self.stages.pop_front() else {
            world.end_task(&self.upid, Ok(()));
            return Step::Ended(Output::default(), Ok(()));
        };
        let mut output = Output::default();
        match stage(world, &mut output) {
            Ok(()) => {
                self.log(world, &output);
                Step::Ran(output)
            }
            Err(died) => self.end(world, output, died),
        }
    }

    /// Ends the worker because an effect failed.
    pub fn fail(&mut self, world: &mut World, died: Died) -> Step {
        self.end(world, Output::default(), died)
    }

    fn end(&mut self, world: &mut World, mut output: Output, died: Died) -> Step {
        self.stages.clear();
        if let Some(undo) = self.undo.take() {
            // An undo has no failure of its own.
            let _ = undo(world, &mut output);
        }
        self.log(world, &output);
        world.end_task(&self.upid, Err(died.text.clone()));
        Step::Ended(output, Err(died))
    }

    fn log(&self, world: &mut World, output: &Output) {
        if let Some(task) = world.task_mut(&self.upid) {
            let said = output.lines.iter().filter(|line| line.stream == Stream::Out);
            task.log.extend(said.map(|line| line.text.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_waits_before_all_stages_and_the_end_are_the_whole_time() {
        let whole = Duration::from_millis(600);
        let mut world = World::new(&[("pve1", Ipv4Addr::LOCALHOST)], 0);
        for stages in 0..4 {
            let mut worker = Worker::new(String::new());
            for _ in 0..stages {
                worker = worker.then(|_, _| Ok(()));
            }
            let pause = worker.pause(whole);
            let mut taken = pause;
            while let Step::Ran(_) = worker.run(&mut world) {
                taken += pause;
            }
            assert_eq!(taken, whole, "{stages} stages");
        }
    }
}
