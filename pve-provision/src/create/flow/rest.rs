//! What follows a VM with a console: starting it, and HA.

use pve_api::Error;
use pve_api::QemuState;
use tokio::time::Instant;
use tokio::time::sleep;

use super::Failure;
use super::Run;
use crate::create::load::explain;
use crate::create::render::ha_line;
use crate::create::render::ha_state;
use crate::event::Event;
use crate::step::Step;

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// Starts the VM and puts it under HA, as far as asked. Neither waits for the other's success.
    pub(super) async fn rest(&mut self) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut runs = false;
        if self.plan.start {
            match self.start().await {
                Ok(()) => runs = true,
                Err(failure) => failures.push(failure),
            }
        }
        if self.plan.ha
            && let Err(failure) = self.add_to_ha(runs).await
        {
            failures.push(failure);
        }
        failures
    }

    async fn start(&mut self) -> Result<(), Failure> {
        const STEP: Step = Step::StartingVm;
        self.started(STEP, "starting the VM");
        if let Err(failure) = self.start_and_watch(STEP).await {
            let failure = failure.with_command(format!("qm start {}", self.vmid()));
            let left = self.vm();
            return Err(self.failed(failure, left));
        }
        self.done(STEP, "the VM runs");
        Ok(())
    }

    async fn start_and_watch(&mut self, step: Step) -> Result<(), Failure> {
        if self.runs().await {
            return Ok(());
        }
        let until = Instant::now() + self.patience.lock;
        loop {
            let error = match self.client.node(self.node()).qemu(self.vmid()).start().await {
                Ok(upid) => match self.watch(step, &upid).await {
                    Ok(exit) => {
                        let warnings = exit.into_result();
                        let warnings = warnings.map_err(|error| Failure::of_task(step, &error))?;
                        for warning in warnings {
                            self.notice(step, warning);
                        }
                        return Ok(());
                    }
                    Err(error) => return Err(Failure::of_call(step, &error)),
                },
                Err(error) => error,
            };
            // Whether a lost request was carried out shows in the VM's state, sooner or later.
            let is_lost = matches!(error, Error::UnknownOutcome { .. });
            if is_lost && self.comes_to_run().await {
                return Ok(());
            }
            if is_lost || !error.is_transient() || Instant::now() >= until {
                return Err(Failure::of_call(step, &error));
            }
            sleep(self.patience.pause).await;
        }
    }

    async fn runs(&self) -> bool {
        let status = self.client.node(self.node()).qemu(self.vmid()).status().await;
        status.is_ok_and(|status| status.status == QemuState::Running)
    }

    async fn comes_to_run(&self) -> bool {
        let until = Instant::now() + self.patience.look;
        loop {
            if self.runs().await {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            sleep(self.patience.pause).await;
        }
    }

    async fn add_to_ha(&mut self, runs: bool) -> Result<(), Failure> {
        const STEP: Step = Step::AddingToHa;
        let (vmid, state) = (self.vmid(), ha_state(runs));
        self.started(STEP, format!("putting the VM under HA as {state}"));
        let until = Instant::now() + self.patience.lock;
        let error = loop {
            let error = match self.client.cluster().ha().add(vmid, &state, None).await {
                Ok(()) | Err(Error::AlreadyExists { .. }) => break None,
                Err(error) => error,
            };
            let is_lost = matches!(error, Error::UnknownOutcome { .. });
            if is_lost && matches!(self.client.cluster().ha().resource(vmid).await, Ok(Some(_))) {
                break None;
            }
            // What is there already is refused as such, so it may be sent again.
            if !(is_lost || error.is_transient()) || Instant::now() >= until {
                break Some(error);
            }
            self.notice(STEP, format!("trying again: {}", explain(&error)));
            sleep(self.patience.pause).await;
        };
        if let Some(error) = error {
            let failure = Failure::of_call(STEP, &error).with_command(ha_line(vmid, &state));
            let left = self.vm();
            return Err(self.failed(failure, left));
        }
        self.done(STEP, format!("HA keeps the VM {state}"));
        Ok(())
    }
}
