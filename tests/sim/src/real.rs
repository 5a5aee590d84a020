//! Guests that really run: QEMU behind the commands of the simulated node.
//!
//! A VM is started as Proxmox VE starts it: BIOS on an i440fx board, the disk behind virtio-scsi, a
//! cloud-init drive made anew each time, a tap on the bridge, a serial socket and the guest agent's
//! channel. Needs root and the packages `qemu-system-x86`, `qemu-utils`, `genisoimage`, `iproute2`.
//!
//! The processor is always emulated: that `/dev/kvm` opens does not prove that a guest runs on it.

mod disk;
mod machine;
mod monitor;

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::Context;
use anyhow::ensure;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;

use self::machine::Running;
use crate::effect::Effect;
use crate::effect::GuestSpec;

/// How long Proxmox VE gives a guest to answer a ping of its agent.
const PING: Duration = Duration::from_secs(3);

/// The QEMU processes of the simulated nodes, and their disks.
///
/// When the runtime that started them ends, all machines are killed.
#[derive(Debug, Clone)]
pub struct Hypervisor {
    directory: PathBuf,
    machines: Arc<Mutex<HashMap<u32, Running>>>,
    /// The second halves of reboots.
    restarts: Arc<Mutex<HashMap<u32, JoinHandle<()>>>>,
    powered_off: UnboundedSender<u32>,
}

impl Hypervisor {
    /// Keeps sockets, cloud-init drives and logs in a directory per VM below `directory`, whose
    /// path must be short enough for Unix sockets.
    ///
    /// The receiver gets the VMs that power off by themselves.
    pub fn new(directory: &Path) -> (Self, UnboundedReceiver<u32>) {
        let (powered_off, receiver) = unbounded_channel();
        let directory = directory.to_owned();
        let (machines, restarts) = (Arc::default(), Arc::default());
        (Self { directory, machines, restarts, powered_off }, receiver)
    }

    /// Does what a call asks for outside the world; an error is what Proxmox VE would print.
    pub async fn apply(&self, effect: &Effect) -> anyhow::Result<()> {
        match effect {
            Effect::Started(guest) => self.start(guest).await,
            Effect::Stopped { vmid } => {
                self.stop(*vmid).await;
                Ok(())
            }
            Effect::ShutDown { vmid, timeout, force } => {
                let down = self.shut_down(*vmid, Duration::from_secs(*timeout)).await;
                if down.is_err() && *force {
                    self.stop(*vmid).await;
                    return Ok(());
                }
                down
            }
            Effect::Rebooted { guest, timeout } => {
                self.shut_down(guest.vmid, Duration::from_secs(*timeout)).await?;
                self.start_later(guest);
                Ok(())
            }
            Effect::Destroyed { vmid } => {
                self.stop(*vmid).await;
                locked(&self.machines).remove(vmid);
                // A VM that was never started has none.
                let _ = tokio::fs::remove_dir_all(self.files(*vmid)).await;
                Ok(())
            }
            Effect::Disk(change) => disk::apply(change).await,
        }
    }

    /// Cuts the power of all machines.
    pub async fn stop_all(&self) {
        let all: Vec<u32> = locked(&self.machines).keys().copied().collect();
        for vmid in all {
            self.stop(vmid).await;
        }
    }

    /// Whether the VM's process lives; it also ends by the guest's own power-off.
    pub fn is_running(&self, vmid: u32) -> bool {
        self.running(vmid).is_some()
    }

    /// Asks the guest agent on its own channel whether it is there.
    pub async fn ping(&self, vmid: u32) -> anyhow::Result<()> {
        monitor::ping(&self.files(vmid).join(machine::AGENT_SOCKET), PING).await
    }

    /// What the guest has written to its serial port.
    pub fn serial_log(&self, vmid: u32) -> PathBuf {
        self.files(vmid).join(machine::SERIAL_LOG)
    }

    async fn start(&self, guest: &GuestSpec) -> anyhow::Result<()> {
        ensure!(!self.is_running(guest.vmid), "VM {} already running", guest.vmid);
        let running = machine::start(guest, &self.files(guest.vmid)).await?;
        locked(&self.machines).insert(guest.vmid, running.clone());
        let (powered_off, vmid) = (self.powered_off.clone(), guest.vmid);
        tokio::spawn(async move {
            running.ended().await;
            if !running.is_asked() {
                // Nobody has to listen.
                let _ = powered_off.send(vmid);
            }
        });
        Ok(())
    }

    /// The command returns when the VM is down; it is started again by the event daemon.
    fn start_later(&self, guest: &GuestSpec) {
        let (hypervisor, guest, vmid) = (self.clone(), guest.clone(), guest.vmid);
        let restart = tokio::spawn(async move {
            if let Err(error) = hypervisor.start(&guest).await {
                tracing::error!("VM {vmid} does not start again: {error:#}");
                let _ = hypervisor.powered_off.send(vmid);
            }
        });
        locked(&self.restarts).insert(vmid, restart);
    }

    /// Waits for a restart that is under way.
    async fn restarted(&self, vmid: u32) {
        let restart = locked(&self.restarts).remove(&vmid);
        if let Some(restart) = restart {
            // It says itself how it went.
            let _ = restart.await;
        }
    }

    async fn stop(&self, vmid: u32) {
        self.restarted(vmid).await;
        if let Some(running) = self.running(vmid) {
            running.stop().await;
        }
    }

    async fn shut_down(&self, vmid: u32, limit: Duration) -> anyhow::Result<()> {
        self.restarted(vmid).await;
        let running = self.running(vmid).with_context(|| format!("VM {vmid} not running"))?;
        running.ask(true);
        let down = async {
            self.ask_to_power_off(vmid).await?;
            let ended = tokio::time::timeout(limit, running.ended()).await;
            ensure!(ended.is_ok(), "VM quit/powerdown failed - got timeout");
            Ok(())
        };
        let down: anyhow::Result<()> = down.await;
        running.ask(down.is_ok());
        down
    }

    /// Through the guest's agent when that answers, else by the power button.
    async fn ask_to_power_off(&self, vmid: u32) -> anyhow::Result<()> {
        let agent = self.files(vmid).join(machine::AGENT_SOCKET);
        if agent.exists() && monitor::ping(&agent, PING).await.is_ok() {
            return monitor::shut_down(&agent, PING).await;
        }
        let monitor = self.files(vmid).join(machine::MONITOR_SOCKET);
        monitor::execute(&monitor, "system_powerdown").await
    }

    fn files(&self, vmid: u32) -> PathBuf {
        self.directory.join(vmid.to_string())
    }

    fn running(&self, vmid: u32) -> Option<Running> {
        locked(&self.machines).get(&vmid).filter(|machine| !machine.has_ended()).cloned()
    }
}

/// A lock whose holder cannot have left it half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
