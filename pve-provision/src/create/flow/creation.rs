//! The create request and its task, and what to make of an answer that was lost.

use std::collections::HashSet;

use pve_api::Error;
use pve_api::Heard;
use pve_api::TaskExit;
use pve_api::TaskFilter;
use pve_api::Upid;
use tokio::time::Instant;
use tokio::time::sleep;

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

const STEP: Step = Step::CreatingThroughApi;

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// Makes the VM; gives the warnings of the task.
    pub(super) async fn create(&mut self) -> Result<Vec<String>, End> {
        if let Err(failure) = self.check_privileges().await {
            return Err(self.nothing_made(failure));
        }
        self.started(STEP, format!("creating VM {} on {}", self.vmid(), self.node()));
        // Only to tell later tasks from these, should an answer be lost.
        let before = self.create_tasks().await.unwrap_or_default();
        match self.client.node(self.node()).create(&self.plan.create).await {
            Ok(upid) => self.follow(&upid).await,
            Err(error) if error.had_no_effect() => {
                let failure = self.refused(&error).await;
                Err(self.nothing_made(failure))
            }
            Err(error) => {
                self.notice(STEP, format!("looking for what came of it: {}", explain(&error)));
                let upid = self.look_for_task(&before).await?;
                self.follow(&upid).await
            }
        }
    }

    /// Waits for the create task; gives its warnings.
    pub(super) async fn follow(&mut self, upid: &Upid) -> Result<Vec<String>, End> {
        match self.watch(STEP, upid).await {
            Ok(TaskExit::Failed(failure)) => {
                let mut said = Failure::of_task(STEP, &failure);
                if failure.already_exists() {
                    said.remedy = self.other_number().await;
                }
                Err(self.nothing_made(said))
            }
            Ok(exit) => {
                let warnings = exit.into_result().unwrap_or_default();
                for warning in &warnings {
                    self.notice(STEP, warning);
                }
                self.done(STEP, format!("VM {} is made on {}", self.vmid(), self.node()));
                Ok(warnings)
            }
            Err(error) => {
                let mut failure = Failure::of_call(STEP, &error);
                failure.reason = format!("the task goes on without us: {}", failure.reason);
                Err(self.unknown(failure, Stage::Follow(upid.clone())))
            }
        }
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

    /// The create tasks for our number that the node knows.
    async fn create_tasks(&self) -> pve_api::Result<HashSet<Upid>> {
        let filter = TaskFilter {
            vmid: Some(self.vmid()),
            running: true,
            kind: Some("qmcreate".to_owned()),
            ..TaskFilter::default()
        };
        let tasks = self.client.node(self.node()).tasks(&filter).await?;
        Ok(tasks.into_iter().map(|task| task.upid).collect())
    }

    /// Looks for the task of a request whose answer was lost. The number is what the server itself
    /// goes by, so a task that begins now for our number and by our account is ours.
    async fn look_for_task(&mut self, before: &HashSet<Upid>) -> Result<Upid, End> {
        let account = self.client.account();
        let until = Instant::now() + self.patience.look;
        loop {
            let tasks = self.create_tasks().await;
            let ours = tasks
                .iter()
                .flatten()
                .find(|upid| !before.contains(*upid) && upid.user() == account);
            if let Some(upid) = ours {
                self.notice(STEP, "the request was carried out after all");
                return Ok(upid.clone());
            }
            if Instant::now() >= until {
                let reason = match self.client.cluster().is_free(self.vmid()).await {
                    Ok(true) => "no task and no VM came of it, but it may still come".to_owned(),
                    Ok(false) => {
                        format!("VM ID {} is taken now; by whom is not known", self.vmid())
                    }
                    Err(error) => explain(&error),
                };
                let reason = format!("the answer to the request was lost: {reason}");
                return Err(self.unknown(Failure::new(STEP, reason), Stage::Create));
            }
            sleep(self.patience.pause).await;
        }
    }

    /// A refusal, with its complaints at their fields.
    async fn refused(&mut self, error: &Error) -> Failure {
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

    async fn other_number(&mut self) -> Remedy {
        let next = self.client.cluster().next_id().await.ok();
        if let Some(next) = next {
            self.notice(STEP, format!("VM ID {next} is free"));
        }
        Remedy::TakeNumber(next)
    }

    fn nothing_made(&mut self, failure: Failure) -> End {
        End::NothingMade(self.failed(failure, Left::Nothing))
    }

    fn unknown(&mut self, failure: Failure, resume: Stage) -> End {
        let text = failure.reason.clone();
        self.say(failure.step, Kind::Failed { text, left: Left::Unknown });
        End::Unknown { failure, resume }
    }
}
