//! What a simulated cluster is to be like.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use super::Fault;
use crate::guest::Behaviour;
use crate::schema::Release;
use crate::world::Storage;

/// What a cluster is to be like.
#[derive(Debug, Clone)]
pub struct Config {
    /// Names of the nodes; the first is the main node, two or more are a cluster.
    pub nodes: Vec<String>,
    /// Which release answers.
    pub release: Release,
    /// How long each command takes.
    pub latency: Duration,
    /// How long a command waits for a VM's lock.
    pub lock_patience: Duration,
    /// The storages.
    pub storages: Vec<Storage>,
    /// Faults that are there from the start.
    pub faults: Vec<Fault>,
    /// How guests behave for which nothing else is said.
    pub behaviour: Behaviour,
    /// The directory for all state; a new one in the system's temporary directory when absent.
    pub directory: Option<PathBuf>,
    /// The `pve-sim` program, which becomes the faces; looked for beside the running program and
    /// above it when absent.
    pub program: Option<PathBuf>,
    /// Where the guests live.
    pub place: Place,
}

/// The network of a simulated cluster: a /24 with the gateway at its `.1` and nodes from `.11`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// A free /24 in 127/8, with acted guests.
    #[default]
    Loopback,
    /// A network that exists, where this is the gateway; volumes are files, guests are real.
    Real(Ipv4Addr),
    /// A network that exists, with acted guests that bring their addresses to an interface: one
    /// without a guest is silent, where a loopback address refuses.
    Interface {
        /// The gateway, an address of this machine.
        gateway: Ipv4Addr,
        /// The interface, e.g. `vmbr0`.
        interface: String,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nodes: vec!["pve1".to_owned()],
            release: Release::default(),
            latency: Duration::ZERO,
            lock_patience: Duration::from_secs(10),
            storages: vec![
                Storage::directory("local", "/var/lib/vz", "iso,vztmpl,backup,images,import"),
                Storage::new("local-zfs", "zfspool", "images,rootdir"),
            ],
            faults: Vec::new(),
            behaviour: Behaviour::default(),
            directory: None,
            program: None,
            place: Place::default(),
        }
    }
}
