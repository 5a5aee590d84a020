//! Putting the VM under HA.

use pve_api::Error;
use pve_api::HaState;
use tokio::time::Instant;
use tokio::time::sleep;

use super::Failure;
use super::Remedy;
use super::Run;
use crate::create::load::explain;
use crate::create::render::ha_line;
use crate::event::Event;
use crate::step::Step;

const STEP: Step = Step::AddingToHa;

impl<R: FnMut(Event) + Send> Run<'_, R> {
    /// Puts the VM under HA in this state, which is always said: the server's own would start it.
    pub(super) async fn add_to_ha(&mut self, state: &HaState) -> Result<(), Failure> {
        self.started(STEP, format!("putting the VM under HA as {state}"));
        match self.add(state).await {
            Ok(there) => {
                self.done(STEP, format!("HA keeps the VM {there}"));
                Ok(())
            }
            Err(failure) => {
                let failure = failure.with_command(ha_line(self.vmid(), state));
                Err(self.failed(failure, self.vm()))
            }
        }
    }

    /// Gives the state in which HA has it.
    async fn add(&mut self, state: &HaState) -> Result<HaState, Failure> {
        let until = Instant::now() + self.patience.lock;
        let mut waiting = false;
        loop {
            let vmid = self.vmid();
            let error = match self.client.cluster().ha().add(vmid, state, None).await {
                Ok(()) => return Ok(state.clone()),
                Err(error) => error,
            };
            let is_there = matches!(error, Error::AlreadyExists { .. });
            let is_lost = !error.had_no_effect();
            if is_there || is_lost {
                match self.client.cluster().ha().resource(vmid).await {
                    Ok(Some(there)) => return self.keeps(state, there.state),
                    // It need not be readable for those who may add to it.
                    Err(_) if is_there => return Ok(state.clone()),
                    _ => {}
                }
            }
            // What is there already is refused as such, so it may be sent again; what is refused for
            // good is not.
            let is_unknown = matches!(error, Error::UnknownOutcome { .. });
            let again = is_there || is_unknown || error.is_transient();
            if !again || Instant::now() >= until {
                return Err(Failure::of_call(STEP, &error));
            }
            if !waiting {
                waiting = true;
                self.notice(STEP, format!("trying again: {}", explain(&error)));
            }
            sleep(self.patience.pause).await;
        }
    }

    /// What is under HA already is left as it is, unless it would undo the start.
    fn keeps(&mut self, wanted: &HaState, there: Option<HaState>) -> Result<HaState, Failure> {
        let there = there.unwrap_or(HaState::Started);
        let stops = matches!(there, HaState::Stopped | HaState::Disabled);
        if *wanted == HaState::Started && stops {
            let reason = format!("HA has the VM already, as {there}, and so stops it");
            let vmid = self.vmid();
            let command = format!("ha-manager set vm:{vmid} --state started");
            return Err(Failure::new(STEP, reason).remedy(Remedy::Command(command)));
        }
        Ok(there)
    }
}
