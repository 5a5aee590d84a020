//! How a command is carried out: recorder, faults, locks, latency, and the stages of its work.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::UnboundedSender;

use super::State;
use super::fault::FaultAnswer;
use super::locked;
use super::recorder::Recorded;
use crate::call::Died;
use crate::call::Line;
use crate::call::Step;
use crate::call::Stream;
use crate::call::Worker;
use crate::cli;
use crate::cli::Ending;
use crate::cli::Invocation;
use crate::cli::Next;
use crate::effect::Effect;
use crate::face::Frame;

/// Commands that hold the lock of the VM that they name.
const LOCKING: [&str; 13] = [
    "create",
    "set",
    "importdisk",
    "disk",
    "resize",
    "unlink",
    "start",
    "stop",
    "shutdown",
    "reboot",
    "destroy",
    "migrate",
    "unlock",
];

/// Carries out commands; cheap to clone.
#[derive(Debug, Clone)]
pub struct Commands(Arc<State>);

/// Where a command's output goes.
#[derive(Debug, Clone)]
struct Sink(UnboundedSender<Frame>);

impl Sink {
    /// Nobody may be listening any more; the command goes on.
    fn send(&self, frame: Frame) {
        let _ = self.0.send(frame);
    }

    fn text(&self, stream: Stream, text: String) {
        if text.is_empty() {
            return;
        }
        self.send(match stream {
            Stream::Out => Frame::Out(text),
            Stream::Err => Frame::Err(text),
        });
    }

    fn lines(&self, lines: Vec<Line>) {
        for line in lines {
            self.text(line.stream, line.text + "\n");
        }
    }
}

impl Commands {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self(state)
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.0
    }

    /// The node whose commands the faces are.
    pub fn main_node(&self) -> String {
        self.0.world().main_node.clone()
    }

    /// Carries out a command and sends what it prints; ends when the command does.
    pub async fn run(
        &self,
        invocation: Invocation,
        environment: Vec<(String, String)>,
        sink: UnboundedSender<Frame>,
    ) -> i32 {
        let sink = Sink(sink);
        let number = self.0.recorder.begin(Recorded {
            number: 0,
            node: invocation.node.clone(),
            program: invocation.program.clone(),
            arguments: invocation.arguments.clone(),
            environment: environment.into_iter().collect(),
            directory: invocation.directory.clone(),
            started: 0.0,
            ended: None,
            exit: None,
            abandoned: false,
        });
        let code = self.attended(number, &invocation, &sink).await;
        // The record is there before the process is gone.
        self.0.recorder.end(number, code);
        sink.send(Frame::Exit(code));
        code
    }

    /// Carries a command out whether or not its process is still there, unless the simulator ends.
    async fn attended(&self, number: usize, invocation: &Invocation, sink: &Sink) -> i32 {
        let mut work = pin!(self.carry_out(invocation, sink));
        let ended = self.0.ended.cancelled();
        tokio::select! {
            code = &mut work => return code,
            () = sink.0.closed() => self.0.recorder.abandon(number),
            () = ended => return 255,
        }
        tokio::select! {
            code = work => code,
            () = self.0.ended.cancelled() => 255,
        }
    }

    async fn carry_out(&self, invocation: &Invocation, sink: &Sink) -> i32 {
        let line = format!("{} {}", invocation.program, invocation.arguments.join(" "));
        let hit = self.0.faults.hit(&line);
        let latency = *locked(&self.0.latency);
        tokio::time::sleep(latency / 2 + hit.delay).await;
        match hit.answer {
            FaultAnswer::Instead { stdout, stderr, exit } => {
                tokio::time::sleep(latency / 2).await;
                sink.text(Stream::Out, stdout);
                sink.text(Stream::Err, stderr);
                return exit;
            }
            FaultAnswer::Hang => return std::future::pending().await,
            FaultAnswer::LockTimeout => {
                sink.text(Stream::Err, "trying to acquire lock...\n".to_owned());
                tokio::time::sleep(self.0.lock_patience).await;
                return no_lock(sink, vmid(invocation).unwrap_or_default());
            }
            _ => {}
        }
        let Ok(_guard) = self.lock(invocation, sink).await else {
            return no_lock(sink, vmid(invocation).unwrap_or_default());
        };
        let broken = match &hit.answer {
            FaultAnswer::Effect(text) => Some(text.as_str()),
            _ => None,
        };
        let code = self.work(invocation, sink, latency / 2, broken).await;
        match hit.answer {
            FaultAnswer::Then { stdout, stderr, exit } => {
                sink.text(Stream::Out, stdout);
                sink.text(Stream::Err, stderr);
                exit
            }
            FaultAnswer::DoneThenHang => std::future::pending().await,
            _ => code,
        }
    }

    /// Waits for the VM's lock as long as Proxmox VE does.
    async fn lock(
        &self,
        invocation: &Invocation,
        sink: &Sink,
    ) -> Result<Option<OwnedMutexGuard<()>>, tokio::time::error::Elapsed> {
        let changes =
            invocation.arguments.first().is_some_and(|word| LOCKING.contains(&word.as_str()));
        let Some(vmid) = vmid(invocation).filter(|_| changes && invocation.program == "qm") else {
            return Ok(None);
        };
        let lock = Arc::clone(locked(&self.0.locks).entry(vmid).or_default());
        if let Ok(guard) = Arc::clone(&lock).try_lock_owned() {
            return Ok(Some(guard));
        }
        sink.text(Stream::Err, "trying to acquire lock...\n".to_owned());
        let guard = tokio::time::timeout(self.0.lock_patience, lock.lock_owned()).await?;
        sink.text(Stream::Err, " OK\n".to_owned());
        Ok(Some(guard))
    }

    async fn work(
        &self,
        invocation: &Invocation,
        sink: &Sink,
        latency: Duration,
        broken: Option<&str>,
    ) -> i32 {
        let begun = {
            let mut world = self.0.world();
            let begun = cli::begin(&mut world, invocation);
            self.0.publish(&world);
            begun
        };
        sink.lines(begun.lines);
        if let Err(text) = self.apply(begun.effects, broken).await {
            sink.text(Stream::Err, format!("{text}\n"));
            return 255;
        }
        match begun.next {
            Next::Exit(code) => {
                tokio::time::sleep(latency).await;
                code
            }
            Next::Work(worker, ending) => self.drive(worker, &ending, sink, latency, broken).await,
        }
    }

    /// Lets a worker run, its stages spread over the time that the command takes.
    async fn drive(
        &self,
        mut worker: Worker,
        ending: &Ending,
        sink: &Sink,
        latency: Duration,
        broken: Option<&str>,
    ) -> i32 {
        let pause = worker.pause(latency);
        loop {
            tokio::time::sleep(pause).await;
            let mut step = self.step(|world| worker.run(world));
            if let Step::Ran(output) = &mut step {
                sink.lines(std::mem::take(&mut output.lines));
                self.follow(std::mem::take(&mut output.follow));
                let effects = std::mem::take(&mut output.effects);
                match self.apply(effects, broken).await {
                    Ok(()) => continue,
                    Err(text) => step = self.step(|world| worker.fail(world, Died::new(text))),
                }
            }
            let Step::Ended(output, result) = step else { continue };
            sink.lines(output.lines);
            // What an undo asks for has no failure of its own.
            let _ = self.apply(output.effects, None).await;
            let (lines, code) = cli::ended(ending, result);
            sink.lines(lines);
            return code;
        }
    }

    pub(super) fn step(&self, run: impl FnOnce(&mut crate::world::World) -> Step) -> Step {
        let mut world = self.0.world();
        let step = run(&mut world);
        self.0.publish(&world);
        step
    }

    pub(super) async fn apply(
        &self,
        effects: Vec<Effect>,
        broken: Option<&str>,
    ) -> Result<(), String> {
        for effect in effects {
            if let Some(text) = broken {
                return Err(text.to_owned());
            }
            self.0.apply(&effect).await?;
        }
        Ok(())
    }
}

/// The VM that a command names: its first argument that is a number.
fn vmid(invocation: &Invocation) -> Option<u32> {
    invocation.arguments.iter().find_map(|argument| argument.parse().ok())
}

fn no_lock(sink: &Sink, vmid: u32) -> i32 {
    let file = format!("/var/lock/qemu-server/lock-{vmid}.conf");
    sink.text(Stream::Err, format!("can't lock file '{file}' - got timeout\n"));
    4
}
