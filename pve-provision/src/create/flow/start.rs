//! Starting the VM, until it runs or it is known why not.

use pve_api::Error;
use pve_api::QemuState;
use pve_api::Upid;
use tokio::time::Instant;
use tokio::time::sleep;

use super::Failure;
use super::Remedy;
use super::Run;
use crate::create::load::explain;
use crate::event::Event;
use crate::step::Step;

const STEP: Step = Step::StartingVm;

/// The task by which a VM under HA is started: over as soon as the wish is filed.
const WISH: &str = "hastart";

/// Why the VM is not known to run.
pub(super) enum NotStarted {
    /// It does not run.
    Failed(Failure),
    /// It may run, or come to run.
    Unknown(Failure),
}

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// Starts the VM.
    pub(super) async fn start(&mut self) -> Result<(), NotStarted> {
        self.started(STEP, "starting the VM");
        let result = if self.sees_it_run().await.is_ok_and(|runs| runs) {
            Ok(())
        } else {
            self.begin().await
        };
        let command = format!("qm start {}", self.vmid());
        match result {
            Ok(()) => {
                self.done(STEP, "the VM runs");
                Ok(())
            }
            Err(NotStarted::Failed(failure)) => {
                Err(NotStarted::Failed(self.failed(failure.with_command(command), self.vm())))
            }
            Err(NotStarted::Unknown(failure)) => {
                Err(NotStarted::Unknown(self.failed(failure, self.vm())))
            }
        }
    }

    async fn begin(&mut self) -> Result<(), NotStarted> {
        let until = Instant::now() + self.patience.lock;
        loop {
            let error = match self.client.node(self.node()).qemu(self.vmid()).start().await {
                Ok(upid) => match self.attend(&upid, Instant::now() < until).await? {
                    Attended::Done => return Ok(()),
                    Attended::Locked => {
                        sleep(self.patience.pause).await;
                        continue;
                    }
                },
                Err(error) => error,
            };
            if !error.had_no_effect() {
                self.notice(STEP, format!("looking for what came of it: {}", explain(&error)));
                return self.comes_to_run("the answer to the request was lost").await;
            }
            if !error.is_transient() || Instant::now() >= until {
                return Err(NotStarted::Failed(Failure::of_call(STEP, &error)));
            }
            sleep(self.patience.pause).await;
        }
    }

    /// Follows the task of the start, and what it has only asked for.
    async fn attend(&mut self, upid: &Upid, has_patience: bool) -> Result<Attended, NotStarted> {
        let exit = match self.watch(STEP, upid).await {
            Ok(exit) => exit,
            Err(_) if self.sees_it_run().await.is_ok_and(|runs| runs) => {
                return Ok(Attended::Done);
            }
            Err(error) => {
                let mut failure = Failure::of_call(STEP, &error);
                failure.reason = format!("the start goes on without us: {}", failure.reason);
                return Err(NotStarted::Unknown(failure));
            }
        };
        match exit.into_result() {
            Ok(warnings) => {
                for warning in warnings {
                    self.notice(STEP, warning);
                }
            }
            Err(failure) if failure.locked() && has_patience => return Ok(Attended::Locked),
            Err(failure) => return Err(NotStarted::Failed(Failure::of_task(STEP, &failure))),
        }
        if upid.kind() == WISH {
            self.notice(STEP, "HA was asked to start it; waiting until it runs");
            self.comes_to_run("HA was asked to start it").await?;
        }
        Ok(Attended::Done)
    }

    /// Waits until the VM runs; what is known when it does not is told after `so_far`.
    async fn comes_to_run(&self, so_far: &str) -> Result<(), NotStarted> {
        let until = Instant::now() + self.patience.look;
        loop {
            let seen = self.sees_it_run().await;
            match &seen {
                Ok(true) => return Ok(()),
                // No waiting brings a session back.
                Err(error @ Error::NeedsLogin { .. }) => {
                    let mut failure = Failure::of_call(STEP, error);
                    failure.reason = format!("{so_far}, and it may start yet: {}", failure.reason);
                    return Err(NotStarted::Unknown(failure));
                }
                _ => {}
            }
            if Instant::now() >= until {
                let known = match seen {
                    Ok(_) => self.what_ha_says().await,
                    Err(error) => format!("its state cannot be read: {}", explain(&error)),
                };
                let waited = self.patience.look.as_secs();
                let reason = format!("{so_far}, and {waited} s later {known}; it may start yet");
                let look = Remedy::Command(format!("qm status {} --verbose", self.vmid()));
                return Err(NotStarted::Unknown(Failure::new(STEP, reason).remedy(look)));
            }
            sleep(self.patience.pause).await;
        }
    }

    async fn sees_it_run(&self) -> pve_api::Result<bool> {
        let status = self.client.node(self.node()).qemu(self.vmid()).status().await?;
        Ok(status.status == QemuState::Running)
    }

    async fn what_ha_says(&self) -> String {
        let status = self.client.node(self.node()).qemu(self.vmid()).status().await;
        match status.ok().and_then(|status| status.ha).filter(|ha| ha.managed) {
            Some(ha) => {
                let state = ha.state.as_deref().unwrap_or("nothing yet");
                format!("it does not run (HA's manager says of it: {state})")
            }
            None => "it does not run".to_owned(),
        }
    }
}

enum Attended {
    Done,
    /// Something else held the VM's lock, so it may be tried again.
    Locked,
}
