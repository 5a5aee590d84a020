//! What is done outside the world.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::State;
use super::locked;
use crate::effect::Effect;

/// Tells the world of real guests that have powered off by themselves.
pub(super) async fn hear(state: Weak<State>, mut powered_off: UnboundedReceiver<u32>) {
    while let Some(vmid) = powered_off.recv().await {
        if let Some(state) = state.upgrade() {
            state.world().powered_off(vmid);
        }
    }
}

impl State {
    /// Applies an effect; a failure is the text that Proxmox VE would print.
    pub(super) async fn apply(&self, effect: &Effect) -> Result<(), String> {
        match &self.hypervisor {
            Some(hypervisor) => {
                hypervisor.apply(effect).await.map_err(|error| format!("{error:#}"))
            }
            None => self.act(effect).await,
        }
    }

    async fn act(&self, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::Started(spec) => {
                let own = locked(&self.behaviours).get(&spec.vmid).cloned();
                let behaviour = own.unwrap_or_else(|| locked(&self.behaviour).clone());
                self.guests.start(spec.as_ref().clone(), behaviour).await.map_err(|error| {
                    tracing::warn!(vmid = spec.vmid, %error, "a guest does not start");
                    "start failed: QEMU exited with code 1".to_owned()
                })
            }
            Effect::Stopped { vmid } => {
                self.guests.stop(*vmid).await;
                Ok(())
            }
            Effect::ShutDown { vmid, timeout, force } => {
                let timeout = Duration::from_secs(*timeout);
                match self.guests.shut_down(*vmid, timeout).await {
                    Err(_) if *force => {
                        self.guests.stop(*vmid).await;
                        Ok(())
                    }
                    result => result.map_err(|error| error.to_string()),
                }
            }
            Effect::Rebooted { guest, timeout } => {
                let timeout = Duration::from_secs(*timeout);
                let spec = guest.as_ref().clone();
                self.guests.reboot(spec, timeout).await.map_err(|error| error.to_string())
            }
            Effect::Destroyed { vmid } => {
                self.guests.destroy(*vmid).await.map_err(|error| error.to_string())
            }
            // An acted cluster has no disks.
            Effect::Disk(_) => Ok(()),
        }
    }
}
