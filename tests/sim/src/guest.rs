//! Acted guests: an SSH server per VM that plays a boot in named, timed phases and answers what the
//! product asks. Whatever arrives is looked at and recorded, never executed.
//!
//! A guest listens on its own loopback address, so that none of this needs root.

mod act;
mod behaviour;
mod boot;
mod play;
mod record;
#[cfg(test)]
mod tests;
mod words;

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use russh::keys::PrivateKey;
use russh::keys::PublicKey;
use tokio::sync::mpsc;
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

/// A VM as its guest needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestSpec {
    /// The VM's id.
    pub vmid: u32,
    /// Its host name.
    pub name: String,
    /// The one user who can log in, as `ciuser` says.
    pub user: String,
    /// The public keys that can log in, one line each, as `sshkeys` says.
    pub keys: Vec<String>,
    /// Its address, as `ipconfig0` says.
    pub address: Ipv4Addr,
    /// The length of the network's prefix.
    pub prefix: u8,
    /// The port of its SSH server.
    pub port: u16,
}

/// All acted guests of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Guests {
    machines: Arc<Mutex<HashMap<u32, Machine>>>,
}

/// What is left of a VM while its power is off, and how to reach it while it is on.
#[derive(Debug)]
struct Machine {
    memory: Arc<Memory>,
    power: Option<Power>,
}

#[derive(Debug)]
struct Power {
    on: CancellationToken,
    reboots: mpsc::UnboundedSender<()>,
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
}

impl Guests {
    /// No guests yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Powers a guest on. One that is on already is powered off first.
    ///
    /// Must be called inside a tokio runtime.
    pub fn start(&self, spec: GuestSpec, behaviour: Behaviour) -> io::Result<()> {
        let mut machines = locked(&self.machines);
        let memory = match machines.get(&spec.vmid) {
            Some(machine) => Arc::clone(&machine.memory),
            None => Arc::new(Memory { seen: Mutex::default(), host_key: Mutex::new(crate::ssh::new_key()?) }),
        };
        let on = CancellationToken::new();
        let (reboots, orders) = mpsc::unbounded_channel();
        let guest = Arc::new(Guest::new(spec, behaviour, Arc::clone(&memory)));
        let vmid = guest.spec.vmid;
        tokio::spawn(on.clone().run_until_cancelled_owned(boot::run(guest, orders)));
        // Replacing the entry drops the power of the one before.
        machines.insert(vmid, Machine { memory, power: Some(Power { on, reboots }) });
        Ok(())
    }

    /// Powers a guest off, at once.
    pub fn stop(&self, vmid: u32) {
        if let Some(machine) = locked(&self.machines).get_mut(&vmid) {
            machine.power = None;
        }
    }

    /// Boots a guest anew.
    pub fn reboot(&self, vmid: u32) {
        if let Some(power) = locked(&self.machines).get(&vmid).and_then(|machine| machine.power.as_ref()) {
            // Fails only when the guest has been powered off meanwhile.
            _ = power.reboots.send(());
        }
    }

    /// Powers a guest off and forgets its host key; what it has seen stays.
    pub fn destroy(&self, vmid: u32) -> io::Result<()> {
        if let Some(machine) = locked(&self.machines).get_mut(&vmid) {
            machine.power = None;
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
    behaviour: Behaviour,
    keys: Vec<PublicKey>,
    memory: Arc<Memory>,
}

impl Guest {
    fn new(spec: GuestSpec, behaviour: Behaviour, memory: Arc<Memory>) -> Self {
        // Lines that are no keys admit nobody, as in an `authorized_keys` file.
        let keys = spec.keys.iter().filter_map(|line| PublicKey::from_openssh(line).ok()).collect();
        Self { spec, behaviour, keys, memory }
    }

    fn see(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut locked(&self.memory.seen));
    }
}

/// A lock whose holder cannot have left it half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
