//! The simulator as a process: a world with faces, guests, a mirror and a directory.
//!
//! [`Sim`] is the same thing in a test as behind the `pve-sim` binary. Everything it makes lies in
//! one directory, which goes when it is dropped.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::guest::Behaviour;
use crate::guest::Guests;
use crate::https::Authority;
use crate::mirror::Mirror;
use crate::node_ssh::NodeSsh;
use crate::real::Hypervisor;
use crate::world::Disks;
use crate::world::World;

mod api;
mod commands;
mod config;
mod directory;
mod effects;
mod fault;
mod https;
mod images;
mod network;
mod nodes;
mod recorder;
mod socket;

pub use commands::Commands;
pub use config::Account;
pub use config::Config;
pub use config::Place;
pub use fault::Fault;
pub use fault::FaultAnswer;
pub use fault::Faults;
pub use https::Called;
pub use https::Manners;
pub use recorder::Recorded;

/// The port of the SSH servers of guests and nodes; nothing below 1024 needs to be opened.
const SSH_PORT: u16 = 2222;

/// What the parts of a running simulator share.
#[derive(Debug)]
struct State {
    world: Mutex<World>,
    directory: directory::Directory,
    faults: Faults,
    recorder: recorder::Recorder,
    latency: Mutex<Duration>,
    lock_patience: Duration,
    locks: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<()>>>>,
    guests: Guests,
    /// In place of the acted guests.
    hypervisor: Option<Hypervisor>,
    behaviour: Mutex<Behaviour>,
    behaviours: Mutex<HashMap<u32, Behaviour>>,
    manners: Mutex<Manners>,
    called: Mutex<Vec<Called>>,
    /// How many seconds the clock is ahead of the machine's.
    ahead: AtomicU64,
    /// Lets commands go that would never end.
    ended: CancellationToken,
}

impl State {
    /// The world, with its clock set.
    fn world(&self) -> MutexGuard<'_, World> {
        let mut world = locked(&self.world);
        world.now = now() + self.ahead.load(Ordering::Relaxed);
        world
    }

    /// Writes `/etc/pve` anew where it has changed.
    fn publish(&self, world: &World) {
        if let Err(error) = self.directory.publish(world) {
            tracing::error!(%error, "/etc/pve could not be written");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A running simulator; all of it ends when this is dropped.
#[derive(Debug)]
pub struct Sim {
    commands: Commands,
    gateway: Ipv4Addr,
    addresses: BTreeMap<String, Ipv4Addr>,
    mirror: Mirror,
    images_file: PathBuf,
    nodes: Mutex<Vec<(String, NodeSsh)>>,
    https: https::Https,
    server: JoinHandle<()>,
    /// Holds the network.
    _claim: Option<std::net::TcpListener>,
    /// Removes the directory.
    temporary: Option<TempDir>,
    root: PathBuf,
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.server.abort();
        self.state().ended.cancel();
    }
}

impl Sim {
    /// Starts a cluster.
    pub async fn start(config: Config) -> io::Result<Self> {
        let (gateway, claim) = match &config.place {
            Place::Loopback => {
                let (gateway, claim) = network::claim()?;
                (gateway, Some(claim))
            }
            Place::Real(gateway) | Place::Interface { gateway, .. } => (*gateway, None),
        };
        let temporary = match &config.directory {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("pve-sim-").tempdir()?),
        };
        let root = config
            .directory
            .clone()
            .or_else(|| temporary.as_ref().map(|directory| directory.path().to_owned()))
            .unwrap_or_default();
        let addresses: BTreeMap<String, Ipv4Addr> = (11_u8..)
            .zip(&config.nodes)
            .map(|(last, name)| (name.clone(), network::host(gateway, last)))
            .collect();
        let (hypervisor, powered_off) = match config.place {
            Place::Loopback | Place::Interface { .. } => (None, None),
            Place::Real(_) => {
                let (hypervisor, powered_off) = Hypervisor::new(&root.join("vm"));
                (Some(hypervisor), Some(powered_off))
            }
        };
        let state = Arc::new(State { hypervisor, ..state(&config, &root, &addresses)? });
        let authority = root.join("pve-root-ca.pem");
        let identities = {
            let mut world = state.world();
            let made = Authority::new(world.now)?;
            std::fs::write(&authority, made.pem())?;
            crate::https::certify(&made, &mut world)?
        };
        state.publish(&state.world());
        if let Some(powered_off) = powered_off {
            tokio::spawn(effects::hear(Arc::downgrade(&state), powered_off));
        }
        directory::place_faces(&root, config.program.as_deref())?;
        let commands = Commands::new(Arc::clone(&state));
        let server = socket::serve(&root.join("bin"), commands.clone())?;
        let mirror = Mirror::with_catalogue(gateway.into(), &root.join("images")).await?;
        images::publish(&state, &mirror);
        let images_file = root.join("images.toml");
        tokio::fs::write(&images_file, mirror.images_toml()).await?;
        let nodes = nodes::serve(&root, &config.nodes, &addresses, &commands).await?;
        let https = https::serve(authority, &addresses, identities, &commands).await?;
        Ok(Self {
            commands,
            https,
            gateway,
            addresses,
            mirror,
            images_file,
            nodes: Mutex::new(nodes),
            server,
            _claim: claim,
            temporary,
            root,
        })
    }

    /// Ends everything and removes the directory, if the simulator made it.
    pub async fn stop(mut self) {
        for vmid in self.state().guests.known() {
            self.state().guests.stop(vmid).await;
        }
        if let Some(hypervisor) = &self.state().hypervisor {
            hypervisor.stop_all().await;
        }
        if let Some(temporary) = self.temporary.take()
            && let Err(error) = temporary.close()
        {
            tracing::warn!(%error, "the directory could not be removed");
        }
    }

    fn state(&self) -> &Arc<State> {
        self.commands.state()
    }

    /// The directory that holds all state.
    pub fn directory(&self) -> &Path {
        &self.root
    }

    /// The directory with `qm`, `pvesm` and `pvesh`.
    pub fn bin_directory(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// The directory that stands for `/etc/pve`.
    pub fn pve_directory(&self) -> PathBuf {
        self.root.join("pve")
    }

    /// The gateway of the guests' /24.
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }

    /// The address of a node.
    pub fn node_address(&self, node: &str) -> Option<SocketAddr> {
        self.addresses.get(node).map(|address| SocketAddr::from((*address, SSH_PORT)))
    }

    /// The port of the guests' SSH servers; the nodes' are where acted guests' are.
    pub fn ssh_port(&self) -> u16 {
        if self.state().hypervisor.is_some() { 22 } else { SSH_PORT }
    }

    /// Where the images are.
    pub fn mirror_url(&self) -> &str {
        self.mirror.url()
    }

    /// The mirror, to plant faults in.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// The file that makes the mirror's images known.
    pub fn images_file(&self) -> &Path {
        &self.images_file
    }

    /// The acted guests.
    pub fn guests(&self) -> &Guests {
        &self.state().guests
    }

    /// What runs the real guests, where they are real.
    pub fn hypervisor(&self) -> Option<&Hypervisor> {
        self.state().hypervisor.as_ref()
    }

    /// Says how a guest behaves from its next start on; without a number, how all others do.
    pub fn behave(&self, vmid: Option<u32>, behaviour: Behaviour) {
        match vmid {
            Some(vmid) => {
                locked(&self.state().behaviours).insert(vmid, behaviour);
            }
            None => *locked(&self.state().behaviour) = behaviour,
        }
    }

    /// The file of public keys that root of another node may log in with to a node; to be filled
    /// by a test.
    pub fn authorized_keys(&self) -> PathBuf {
        nodes::authorized_keys(&self.root)
    }

    /// The lines of a known-hosts file for the nodes.
    pub fn known_hosts(&self) -> String {
        locked(&self.nodes).iter().map(|(name, node)| node.known_hosts_line(&[name])).collect()
    }

    /// Cuts a node's power, for good: its guests and its SSH server are gone, and the cluster has
    /// quorum only while more than half of its nodes are up.
    pub async fn take_down(&self, node: &str) {
        locked(&self.nodes).retain(|(name, _)| name != node);
        self.https.take_down(node);
        let gone = self.change(|world| {
            if let Some(found) = world.nodes.get_mut(node) {
                found.online = false;
            }
            let up = world.nodes.values().filter(|node| node.online).count();
            let all = world.nodes.len();
            if let Some(cluster) = &mut world.cluster {
                cluster.quorate = up * 2 > all;
            }
            let here = world.guests.iter_mut().filter(|(_, guest)| guest.node == node);
            let running = here.filter_map(|(vmid, guest)| guest.running.take().map(|_| *vmid));
            running.collect::<Vec<u32>>()
        });
        for vmid in gone {
            self.state().guests.stop(vmid).await;
        }
    }

    /// Every command that was begun, in order.
    pub fn commands(&self) -> Vec<Recorded> {
        self.state().recorder.all()
    }

    /// The faults.
    pub fn faults(&self) -> &Faults {
        &self.state().faults
    }

    /// How long each command takes from now on.
    pub fn set_latency(&self, latency: Duration) {
        *locked(&self.state().latency) = latency;
    }

    /// Looks at the world.
    pub fn world<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.state().world())
    }

    /// Changes the world behind everybody's back; `/etc/pve` follows.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.state().world();
        let result = change(&mut world);
        self.state().publish(&world);
        result
    }

    /// What runs commands, for other transports than the faces.
    pub fn runner(&self) -> &Commands {
        &self.commands
    }
}

fn state(
    config: &Config,
    root: &Path,
    addresses: &BTreeMap<String, Ipv4Addr>,
) -> io::Result<State> {
    let nodes: Vec<(&str, Ipv4Addr)> = config
        .nodes
        .iter()
        .filter_map(|name| Some((name.as_str(), *addresses.get(name)?)))
        .collect();
    let mut world = World::new(&nodes, now());
    world.release = config.release;
    world.host.machine = true;
    world.entropy = crate::world::Entropy::new(network::seed());
    for node in world.nodes.values_mut() {
        node.cpus = 16;
    }
    for storage in &config.storages {
        world.storages.insert(storage.name.clone(), storage.clone());
    }
    for account in &config.accounts {
        account.enter(&mut world);
    }
    world.access.lifetime = config.ticket_lifetime;
    if matches!(config.place, Place::Real(_)) {
        world.disks = Disks::Real(root.join("disks"));
    }
    Ok(State {
        directory: directory::Directory::create(root, &world)?,
        faults: Faults::new(config.faults.clone()),
        recorder: recorder::Recorder::create(&root.join("log"))?,
        latency: Mutex::new(config.latency),
        lock_patience: config.lock_patience,
        locks: Mutex::default(),
        guests: match &config.place {
            Place::Interface { interface, .. } => Guests::on_interface(SSH_PORT, interface),
            Place::Loopback | Place::Real(_) => Guests::new(SSH_PORT),
        },
        hypervisor: None,
        behaviour: Mutex::new(config.behaviour.clone()),
        behaviours: Mutex::default(),
        manners: Mutex::new(config.manners.clone()),
        called: Mutex::default(),
        ahead: AtomicU64::new(0),
        ended: CancellationToken::new(),
        world: Mutex::new(world),
    })
}
