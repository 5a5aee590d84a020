//! Acted guests: an SSH server per VM that plays a boot in named, timed phases and answers what the
//! product asks. Whatever arrives is looked at and recorded, never executed.
//!
//! A guest listens on its own loopback address, so that none of this needs root.

mod act;
mod behaviour;
mod boot;
mod interface;
mod play;
mod record;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use russh::keys::PrivateKey;
use russh::keys::PublicKey;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::act::Act;
pub use self::act::Recognised;
pub use self::act::recognise;
pub use self::behaviour::Behaviour;
pub use self::behaviour::Boot;
pub use self::behaviour::CloudInit;
pub use self::behaviour::CloudInitEnd;
pub use self::behaviour::End;
pub use self::behaviour::HostKey;
pub use self::behaviour::Play;
pub use self::behaviour::Script;
pub use self::behaviour::Stream;
pub use self::behaviour::When;
pub use self::record::BootSeen;
pub use self::record::Ended;
pub use self::record::Executed;
pub use self::record::Login;
pub use self::record::Seen;

use self::interface::Interface;
use crate::effect::GuestSpec;

/// All acted guests of a cluster.
#[derive(Debug, Clone)]
pub struct Guests {
    port: u16,
    /// Where the guests' addresses are added and taken away; none on loopback.
    interface: Option<Interface>,
    machines: Arc<Mutex<HashMap<u32, Machine>>>,
}

/// A guest did not power off when it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("VM quit/powerdown failed - got timeout")]
pub struct StaysUp;

/// What is left of a VM while its power is off, and how to reach it while it is on.
#[derive(Debug)]
struct Machine {
    memory: Arc<Memory>,
    power: Option<Power>,
}

#[derive(Debug)]
struct Power {
    on: CancellationToken,
    boots: mpsc::UnboundedSender<Arc<Guest>>,
    behaviour: Behaviour,
    address: Option<Ipv4Addr>,
    task: JoinHandle<Option<()>>,
}

impl Drop for Power {
    fn drop(&mut self) {
        self.on.cancel();
    }
}

/// What outlives a boot.
#[derive(Debug)]
struct Memory {
    seen: Mutex<Seen>,
    host_key: Mutex<PrivateKey>,
    /// Whether a first boot has begun: cloud-init then has nothing more to do.
    set_up: Mutex<bool>,
}

impl Memory {
    fn new() -> io::Result<Self> {
        let host_key = Mutex::new(crate::ssh::new_key()?);
        Ok(Self { seen: Mutex::default(), host_key, set_up: Mutex::default() })
    }
}

impl Guests {
    /// No guests yet; the port is that of their SSH servers.
    pub fn new(port: u16) -> Self {
        Self { port, interface: None, machines: Arc::default() }
    }

    /// No guests yet; each brings its address to this interface when it is powered on, and takes it
    /// along when it goes. An address without a guest is silent. Needs a network namespace to rule over.
    pub fn on_interface(port: u16, interface: &str) -> Self {
        Self { interface: Some(Interface(interface.to_owned())), ..Self::new(port) }
    }

    /// Powers a guest on. One that is on already is powered off first.
    pub async fn start(&self, spec: GuestSpec, behaviour: Behaviour) -> io::Result<()> {
        self.stop(spec.vmid).await;
        if let (Some(interface), Some(address)) = (&self.interface, spec.address) {
            interface.add(address).await?;
        }
        self.power_on(spec, behaviour)
    }

    fn power_on(&self, spec: GuestSpec, behaviour: Behaviour) -> io::Result<()> {
        let mut machines = locked(&self.machines);
        let vmid = spec.vmid;
        let memory = match machines.get(&vmid) {
            Some(machine) => Arc::clone(&machine.memory),
            None => Arc::new(Memory::new()?),
        };
        let first = !std::mem::replace(&mut *locked(&memory.set_up), true);
        let on = CancellationToken::new();
        let (boots, orders) = mpsc::unbounded_channel();
        let address = spec.address;
        let guest = Arc::new(Guest::new(spec, self.port, behaviour.clone(), Arc::clone(&memory)));
        // Seen from now on, not from when the task gets its turn.
        let id = boot::begin(&guest)?;
        let boots_of_it = boot::run(guest, id, first, orders);
        let task = tokio::spawn(on.clone().run_until_cancelled_owned(boots_of_it));
        let power = Power { on, boots, behaviour, address, task };
        machines.insert(vmid, Machine { memory, power: Some(power) });
        Ok(())
    }

    /// Powers a guest off, at once. When this returns nothing of it answers any more.
    pub async fn stop(&self, vmid: u32) {
        let power = locked(&self.machines).get_mut(&vmid).and_then(|machine| machine.power.take());
        if let Some(mut power) = power {
            power.on.cancel();
            if let Err(error) = (&mut power.task).await {
                tracing::warn!(vmid, %error, "a guest has fallen over");
            }
            if let (Some(interface), Some(address)) = (&self.interface, power.address) {
                interface.remove(address).await;
            }
        }
    }

    /// Asks a guest to power off and waits until it has, for at most `timeout`.
    pub async fn shut_down(&self, vmid: u32, timeout: Duration) -> Result<(), StaysUp> {
        self.quit(vmid, timeout).await?;
        self.stop(vmid).await;
        Ok(())
    }

    /// Asks a guest to power off, waits until it has, and boots it as `spec` says.
    ///
    /// A guest that lingers answers on for a while with its old boot.
    pub async fn reboot(&self, spec: GuestSpec, timeout: Duration) -> Result<(), StaysUp> {
        let vmid = spec.vmid;
        self.quit(vmid, timeout).await?;
        let machines = locked(&self.machines);
        let Some(machine) = machines.get(&vmid) else { return Ok(()) };
        if let Some(power) = &machine.power {
            let guest =
                Guest::new(spec, self.port, power.behaviour.clone(), Arc::clone(&machine.memory));
            // Refused only by a guest that could not boot at all.
            _ = power.boots.send(Arc::new(guest));
        }
        Ok(())
    }

    async fn quit(&self, vmid: u32, timeout: Duration) -> Result<(), StaysUp> {
        let asked = locked(&self.machines)
            .get(&vmid)
            .and_then(|machine| machine.power.as_ref())
            .map(|power| power.behaviour.powers_off);
        match asked.map(When::pick) {
            None => Ok(()),
            Some(Some(takes)) if takes <= timeout => {
                tokio::time::sleep(takes).await;
                Ok(())
            }
            Some(_) => {
                tokio::time::sleep(timeout).await;
                Err(StaysUp)
            }
        }
    }

    /// Powers a guest off and forgets its disk, host key and all; what it has seen stays.
    pub async fn destroy(&self, vmid: u32) -> io::Result<()> {
        self.stop(vmid).await;
        if let Some(machine) = locked(&self.machines).get(&vmid) {
            *locked(&machine.memory.set_up) = false;
            *locked(&machine.memory.host_key) = crate::ssh::new_key()?;
        }
        Ok(())
    }

    /// Whether a guest is powered on.
    pub fn is_on(&self, vmid: u32) -> bool {
        locked(&self.machines).get(&vmid).is_some_and(|machine| machine.power.is_some())
    }

    /// What has been seen under this VM id.
    pub fn seen(&self, vmid: u32) -> Seen {
        let memory = locked(&self.machines).get(&vmid).map(|machine| Arc::clone(&machine.memory));
        memory.map(|memory| locked(&memory.seen).clone()).unwrap_or_default()
    }

    /// The VM ids that anything is known about, in order.
    pub fn known(&self) -> Vec<u32> {
        let mut known: Vec<u32> = locked(&self.machines).keys().copied().collect();
        known.sort_unstable();
        known
    }
}

/// A powered guest.
#[derive(Debug)]
struct Guest {
    spec: GuestSpec,
    /// Who can log in: `ciuser`, or the image's own default.
    user: Option<String>,
    keys: Vec<PublicKey>,
    /// Where it listens; nowhere without a static address.
    listens: Option<SocketAddr>,
    behaviour: Behaviour,
    memory: Arc<Memory>,
}

impl Guest {
    fn new(spec: GuestSpec, port: u16, behaviour: Behaviour, memory: Arc<Memory>) -> Self {
        // Lines that are no keys admit nobody, as in an `authorized_keys` file.
        let keys = spec.keys.iter().filter_map(|line| PublicKey::from_openssh(line).ok()).collect();
        let user = spec.user.clone().or_else(|| default_user(&spec).map(str::to_owned));
        let listens = spec.address.map(|address| SocketAddr::from((address, port)));
        Self { spec, user, keys, listens, behaviour, memory }
    }

    fn see(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut locked(&self.memory.seen));
    }
}

/// The user that an image brings along, by the operating system in its tags or its file's name.
fn default_user(spec: &GuestSpec) -> Option<&'static str> {
    let imported = spec.disk.as_ref().and_then(|disk| disk.imported_from.as_deref());
    let told = |system: &str| {
        [spec.tags.as_deref(), imported]
            .into_iter()
            .flatten()
            .any(|text| text.to_lowercase().contains(system))
    };
    [("debian", "debian"), ("ubuntu", "ubuntu"), ("rocky", "rocky")]
        .into_iter()
        .find_map(|(system, user)| told(system).then_some(user))
}

/// A lock whose holder cannot have left it half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
