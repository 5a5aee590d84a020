//! The create request and its task.

use pve_api::Error;
use pve_api::Heard;
use pve_api::TaskExit;
use pve_api::TaskFailure;
use pve_api::Upid;

use super::End;
use super::Failure;
use super::Remedy;
use super::Run;
use super::Stage;
use crate::create::load::explain;
use crate::event::Event;
use crate::event::Kind;
use crate::event::Left;
use crate::step::Step;

pub(super) const STEP: Step = Step::CreatingThroughApi;

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// Makes the VM; gives the warnings of the task.
    pub(super) async fn create(&mut self) -> Result<Vec<String>, End> {
        if let Err(failure) = self.check_privileges().await {
            return Err(self.nothing_made(failure));
        }
        self.started(STEP, format!("creating VM {} on {}", self.vmid(), self.node()));
        // Only to tell later tasks from these, should an answer be lost.
        let before = match self.create_tasks().await {
            Ok(before) => before,
            Err(error) => return Err(self.nothing_made(Failure::of_call(STEP, &error))),
        };
        match self.client.node(self.node()).create(&self.plan.create).await {
            Ok(upid) => self.follow(&upid).await,
            Err(error) if error.had_no_effect() => {
                let failure = self.refused(&error).await;
                Err(self.nothing_made(failure))
            }
            Err(error) => {
                self.notice(STEP, format!("looking for what came of it: {}", explain(&error)));
                self.look_or_lose(before).await
            }
        }
    }

    /// Waits for the create task; gives its warnings.
    pub(super) async fn follow(&mut self, upid: &Upid) -> Result<Vec<String>, End> {
        match self.watch(STEP, upid).await {
            Ok(exit) => match exit.into_result() {
                Ok(warnings) => Ok(self.made(warnings)),
                Err(failure) => {
                    let failure = self.of_create_task(&failure).await;
                    Err(self.nothing_made(failure))
                }
            },
            Err(error) => {
                let mut failure = Failure::of_call(STEP, &error);
                failure.reason = format!("the task goes on without us: {}", failure.reason);
                Err(self.unknown(failure, Stage::Follow(upid.clone())))
            }
        }
    }

    /// Tells that the VM is made, and what the task warned about.
    pub(super) fn made(&mut self, warnings: Vec<String>) -> Vec<String> {
        for warning in &warnings {
            self.notice(STEP, warning);
        }
        self.done(STEP, format!("VM {} is made on {}", self.vmid(), self.node()));
        warnings
    }

    /// Why the task failed; a number that was taken is answered with one that is free.
    pub(super) async fn of_create_task(&mut self, failure: &TaskFailure) -> Failure {
        let mut said = Failure::of_task(STEP, failure);
        if failure.already_exists() {
            said.remedy = self.other_number().await;
        }
        said
    }

    /// Follows a task and relays its log.
    pub(super) async fn watch(&mut self, step: Step, upid: &Upid) -> pve_api::Result<TaskExit> {
        let client = self.client;
        let mut unreachable = false;
        let heard = |heard: Heard<'_>| match heard {
            Heard::Line(text) => {
                unreachable = false;
                self.line(step, text);
            }
            Heard::Unreachable(error) if !unreachable => {
                unreachable = true;
                self.notice(step, format!("no word of the task: {}", explain(error)));
            }
            _ => {}
        };
        client.task(upid).follow(heard).await
    }

    /// A refusal, with its complaints at their fields.
    pub(super) async fn refused(&mut self, error: &Error) -> Failure {
        let mut failure = Failure::of_call(STEP, error);
        if matches!(error, Error::AlreadyExists { .. }) {
            failure.remedy = self.other_number().await;
        }
        for (parameter, text) in error.refusal().iter().flat_map(|refusal| &refusal.errors) {
            if let Some(key) = self.plan.key_of(parameter) {
                failure.fields.push((key, text.clone()));
            }
        }
        failure
    }

    pub(super) async fn other_number(&mut self) -> Remedy {
        // The server's own list lags behind what it has just made.
        let next = self.client.cluster().next_id().await.ok();
        let next = next.filter(|next| *next != self.vmid());
        if let Some(next) = next {
            self.notice(STEP, format!("VM ID {next} is free"));
        }
        Remedy::TakeNumber(next)
    }

    pub(super) fn nothing_made(&mut self, failure: Failure) -> End {
        End::NothingMade(self.failed(failure, Left::Nothing))
    }

    pub(super) fn unknown(&mut self, failure: Failure, resume: Stage) -> End {
        let text = failure.reason.clone();
        self.say(failure.step, Kind::Failed { text, left: Left::Unknown });
        End::Unknown { failure, resume }
    }
}
