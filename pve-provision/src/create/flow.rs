//! The flow: from a plan to a VM with a console, by requests, each a step with its own events.
//!
//! Create, wait for the task, set up the console, start if asked, then HA. The start comes before
//! HA: the start of a VM under HA is only a wish whose failure nobody is told, and HA must not start
//! a VM before its console is set. What failed can be tried again from where it stopped.

mod console;
mod creation;
mod ha;
mod lost;
mod start;

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use pve_api::Client;
use pve_api::HaState;
use pve_api::NodeName;
use pve_api::TaskFailure;
use pve_api::Upid;
use pve_api::Vmid;

use super::field::Key;
use super::load::explain;
use super::privileges::Privileges;
use super::render::Plan;
use crate::event::Event;
use crate::event::Kind;
use crate::event::Left;
use crate::event::Stream;
use crate::step::Step;
use start::NotStarted;

/// From where the flow goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// From the beginning.
    Create,
    /// From a request whose answer was lost: what came of it is looked for first, and only if that
    /// is nothing, it is sent again. Holds the create tasks that there were before it.
    Again(HashSet<Upid>),
    /// From a create task that was begun.
    Follow(Upid),
    /// From a VM that was made: console, start, HA. What is done already is left as it is.
    Finish,
}

/// How the flow ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The VM is as it was asked for. What the task warned about is told.
    Made {
        /// The warnings of the create task.
        warnings: Vec<String>,
    },
    /// Nothing was made.
    NothingMade(Failure),
    /// The VM was made, but its serial console could not be set up; it was not started.
    WithoutConsole(Failure),
    /// The VM was made and has its console, but starting it or putting it under HA failed.
    Incomplete(Vec<Failure>),
    /// It could not be found out whether the VM was made.
    Unknown {
        /// Why not.
        failure: Failure,
        /// From where to go on.
        resume: Stage,
    },
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step.
    pub step: Step,
    /// Why, in the server's own words where it has some.
    pub reason: String,
    /// Complaints about single fields.
    pub fields: Vec<(Key, String)>,
    /// What else can be done.
    pub remedy: Remedy,
}

/// What can be done about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// What the reason says.
    None,
    /// Log in again; nothing that was said is lost.
    LogIn,
    /// The number was taken meanwhile; this one is free, if one could be had.
    TakeNumber(Option<Vmid>),
    /// An administrator can grant what is missing by these lines.
    Grant(Vec<String>),
    /// The same can be done by this line on the node.
    Command(String),
}

impl Failure {
    fn new(step: Step, reason: impl Into<String>) -> Self {
        Self { step, reason: reason.into(), fields: Vec::new(), remedy: Remedy::None }
    }

    fn remedy(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }

    fn of_call(step: Step, error: &pve_api::Error) -> Self {
        let remedy = match error {
            pve_api::Error::NeedsLogin { .. } => Remedy::LogIn,
            _ => Remedy::None,
        };
        Self::new(step, explain(error)).remedy(remedy)
    }

    fn of_task(step: Step, failure: &TaskFailure) -> Self {
        Self::new(step, failure.to_string())
    }
}

/// How long the flow has patience with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// With a lock that something else holds: Proxmox VE keeps some for 30 s.
    pub lock: Duration,
    /// With looking for what came of a request whose answer was lost: the server itself gives
    /// another node 30 s.
    pub look: Duration,
    /// Between two tries.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            lock: Duration::from_secs(45),
            look: Duration::from_secs(35),
            pause: Duration::from_secs(1),
        }
    }
}

/// Carries out a plan from a stage on, and tells every event as it happens.
///
/// Once it has begun, let it run: dropped, it leaves behind what the server goes on to do.
pub async fn run(
    client: &Client,
    plan: &Plan,
    stage: Stage,
    patience: &Patience,
    report: impl FnMut(Event) + Send,
) -> End {
    let mut run = Run { client, plan, patience, report, number: 0 };
    let warnings = match stage {
        Stage::Finish => Vec::new(),
        Stage::Follow(upid) => match run.follow(&upid).await {
            Ok(warnings) => warnings,
            Err(end) => return end,
        },
        Stage::Again(before) => match run.again(before).await {
            Ok(warnings) => warnings,
            Err(end) => return end,
        },
        Stage::Create => match run.create().await {
            Ok(warnings) => warnings,
            Err(end) => return end,
        },
    };
    if let Err(failure) = run.set_up_console().await {
        return End::WithoutConsole(failure);
    }
    let failures = run.rest().await;
    if failures.is_empty() { End::Made { warnings } } else { End::Incomplete(failures) }
}

struct Run<'a, R> {
    client: &'a Client,
    plan: &'a Plan,
    patience: &'a Patience,
    report: R,
    number: u64,
}

impl<R: FnMut(Event) + Send> Run<'_, R> {
    fn vmid(&self) -> Vmid {
        self.plan.vmid()
    }

    fn node(&self) -> &NodeName {
        &self.plan.node
    }

    fn say(&mut self, step: Step, kind: Kind) {
        let event = Event { number: self.number, time: Timestamp::now(), step, kind };
        self.number += 1;
        (self.report)(event);
    }

    fn started(&mut self, step: Step, text: impl Into<String>) {
        self.say(step, Kind::Started(text.into()));
    }

    fn done(&mut self, step: Step, text: impl Into<String>) {
        self.say(step, Kind::Done(text.into()));
    }

    fn notice(&mut self, step: Step, text: impl Into<String>) {
        self.say(step, Kind::Notice(text.into()));
    }

    fn line(&mut self, step: Step, text: &str) {
        self.say(step, Kind::Line { stream: Stream::Stdout, text: text.to_owned() });
    }

    /// Tells a failure and what is left, and gives it back.
    fn failed(&mut self, failure: Failure, left: Left) -> Failure {
        let mut text = failure.reason.clone();
        if let Remedy::Command(command) = &failure.remedy {
            text = format!("{text}; on the node: {command}");
        }
        self.say(failure.step, Kind::Failed { text, left });
        failure
    }

    /// Starts the VM and puts it under HA, as far as asked. Neither waits for the other's success.
    async fn rest(&mut self) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut state = HaState::Stopped;
        if self.plan.start {
            match self.start().await {
                Ok(()) => state = HaState::Started,
                Err(NotStarted::Failed(failure)) => failures.push(failure),
                Err(NotStarted::Unknown(failure)) => {
                    // Told to keep it stopped, HA would stop what may be starting just now.
                    state = HaState::Started;
                    failures.push(failure);
                }
            }
        }
        if self.plan.ha
            && let Err(failure) = self.add_to_ha(&state).await
        {
            failures.push(failure);
        }
        failures
    }

    fn vm(&self) -> Left {
        Left::Vm { vmid: self.vmid(), node: self.node().clone() }
    }

    /// What the account lacks, as far as that can be found out.
    async fn check_privileges(&mut self) -> Result<(), Failure> {
        const STEP: Step = Step::CheckingPrivileges;
        self.started(STEP, "comparing privileges with what is needed");
        let granted = match self.client.permissions().await {
            Ok(granted) => granted,
            Err(
                error @ (pve_api::Error::NeedsLogin { .. } | pve_api::Error::Unauthorized { .. }),
            ) => return Err(Failure::of_call(STEP, &error)),
            Err(error) => {
                self.notice(STEP, format!("left to the server: {}", explain(&error)));
                return Ok(());
            }
        };
        let account = self.client.account();
        let privileges = Privileges::new(self.plan, &granted, &account);
        if privileges.missing.is_empty() {
            self.done(STEP, format!("{account} may do all of it"));
            return Ok(());
        }
        let missing: Vec<String> = privileges.missing.iter().map(ToString::to_string).collect();
        let reason = format!("{account} lacks {}", missing.join(", "));
        Err(Failure::new(STEP, reason).remedy(Remedy::Grant(privileges.grants)))
    }
}
