//! What a simulated cluster is to be like.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use super::Fault;
use super::Manners;
use crate::guest::Behaviour;
use crate::schema::Release;
use crate::world::Storage;
use crate::world::World;
use crate::world::access::Entry;
use crate::world::access::Recovery;
use crate::world::access::Totp;
use crate::world::access::User;

/// The secret of root's API token.
const SECRET: &str = "01234567-89ab-cdef-0123-456789abcdef";

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
    /// Who may log in to the API.
    pub accounts: Vec<Account>,
    /// How the API behaves.
    pub manners: Manners,
    /// For how many seconds a ticket is good.
    pub ticket_lifetime: u64,
}

/// Somebody who may log in to the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// `name@realm`.
    pub user: String,
    /// The password.
    pub password: String,
    /// The secret of a code generator, in base 32, if codes are asked for.
    pub totp: Option<String>,
    /// Recovery keys, if there are any.
    pub recovery: Vec<String>,
    /// API tokens: name, secret, and whether their rights are their own.
    pub tokens: Vec<(String, String, bool)>,
    /// Roles, each with the path it is granted on. A token is named by `user!token` in front of
    /// the path and a blank.
    pub roles: Vec<(String, String)>,
}

impl Account {
    /// An account without factors, tokens or rights.
    pub fn new(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: password.to_owned(), ..Self::default() }
    }

    /// Grants a role.
    #[must_use]
    pub fn role(mut self, path: &str, role: &str) -> Self {
        self.roles.push((path.to_owned(), role.to_owned()));
        self
    }

    /// Adds an API token.
    #[must_use]
    pub fn token(mut self, name: &str, secret: &str, separate: bool) -> Self {
        self.tokens.push((name.to_owned(), secret.to_owned(), separate));
        self
    }

    pub(super) fn enter(&self, world: &mut World) {
        let access = &mut world.access;
        access.users.insert(self.user.clone(), User::with_password(&self.password));
        for (name, secret, separate) in &self.tokens {
            access.token(&self.user, name, secret, *separate);
        }
        for (path, role) in &self.roles {
            match path.split_once(' ') {
                Some((to, path)) => access.grant(path, to, role),
                None => access.grant(path, &self.user, role),
            }
        }
        let factors = access.factors.entry(self.user.clone()).or_default();
        if let Some(totp) = self.totp.as_deref().and_then(Totp::new) {
            let id = world.entropy.uuid();
            factors.entries.push(Entry::totp(&id, "phone", totp, world.now));
        }
        if !self.recovery.is_empty() {
            let keys = self.recovery.iter().cloned().map(Some).collect();
            factors.recovery = Some(Recovery { keys, created: world.now });
        }
    }
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
            accounts: vec![
                Account::new("root@pam", "simulated").token("sim", SECRET, false),
                Account::new("auditor@pve", "simulated").role("/", "PVEAuditor"),
                Account::new("nobody@pve", "simulated"),
                Account {
                    totp: Some("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ".to_owned()),
                    ..Account::new("careful@pve", "simulated").role("/", "PVEAdmin")
                },
            ],
            manners: Manners::default(),
            ticket_lifetime: 7200,
        }
    }
}
