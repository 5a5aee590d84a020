//! One boot after the other: the moments at which a guest becomes reachable, and its connections.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::SystemTime;

use russh::keys::PublicKey;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::guest::BootSeen;
use crate::guest::Guest;
use crate::guest::HostKey;
use crate::guest::Login;
use crate::guest::behaviour::CloudInitEnd;
use crate::guest::locked;
use crate::ssh;

/// How often a taken port is tried again: its last owner may just be leaving.
const BIND_AGAIN: Duration = Duration::from_millis(10);

/// A boot of which at least the port is open.
pub(crate) struct Booted {
    pub(crate) guest: Arc<Guest>,
    pub(crate) id: String,
    /// Whether this is the boot in which cloud-init has work to do.
    first: bool,
    banner: Option<Instant>,
    login: Option<Instant>,
    /// The commands that run, by process id.
    pub(crate) processes: Mutex<HashMap<u32, CancellationToken>>,
    /// Cancelled when the boot ends.
    pub(crate) off: CancellationToken,
}

/// Switches the power on: the boot has an id and is seen.
pub(crate) fn begin(guest: &Guest) -> io::Result<String> {
    let id = random_id()?;
    let boot = BootSeen {
        id: id.clone(),
        began: SystemTime::now(),
        port_open: None,
        login_possible: None,
    };
    guest.see(|seen| seen.boots.push(boot));
    Ok(id)
}

/// Boots, and boots again as often as it is told to. Dropping the future is the power switch.
pub(crate) async fn run(
    guest: Arc<Guest>,
    id: String,
    first: bool,
    mut boots: mpsc::UnboundedReceiver<Arc<Guest>>,
) {
    let vmid = guest.spec.vmid;
    let mut next = (guest, Ok(id), first);
    loop {
        let (guest, id, first) = next;
        let lingers = guest.behaviour.lingers;
        let boot = async { boot(guest, id?, first).await };
        tokio::pin!(boot);
        tokio::select! {
            ended = &mut boot => {
                if let Err(error) = ended {
                    tracing::warn!(vmid, %error, "a guest cannot boot");
                }
                return;
            }
            order = boots.recv() => {
                let Some(guest) = order else { return };
                // The old boot answers on for a while, or not at all.
                _ = tokio::time::timeout(lingers, &mut boot).await;
                let id = begin(&guest);
                next = (guest, id, false);
            }
        }
    }
}

async fn boot(guest: Arc<Guest>, id: String, first: bool) -> io::Result<()> {
    let behaviour = &guest.behaviour;
    let plan = if first { behaviour.first.clone() } else { behaviour.again.clone() };
    if !first && behaviour.host_key == HostKey::NewEachBoot {
        *locked(&guest.memory.host_key) = ssh::new_key()?;
    }
    let (Some(port), Some(listens)) = (plan.port.pick(), guest.listens) else {
        return std::future::pending().await;
    };
    tokio::time::sleep(port).await;
    let listener = listen(listens).await?;
    let open = Instant::now();
    let settled = open + plan.resets;
    let banner = plan.banner.pick().map(|after| settled + after);
    let login = banner.and_then(|banner| Some(banner + plan.login.pick()?));
    let now = SystemTime::now();
    guest.see(|seen| {
        if let Some(boot) = seen.boots.last_mut() {
            boot.port_open = Some(now);
            boot.login_possible = login.map(|login| now + login.duration_since(open));
        }
    });
    let off = CancellationToken::new();
    let _off = off.clone().drop_guard();
    let processes = Mutex::default();
    let booted = Arc::new(Booted { guest, id, first, banner, login, processes, off });
    accept(listener, settled, booted).await
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tokio::time::sleep(BIND_AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn accept(listener: TcpListener, settled: Instant, booted: Arc<Booted>) -> io::Result<()> {
    // Dropping the set ends the connections with the boot.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (tcp, _) = accepted?;
                booted.guest.see(|seen| seen.connections.push(SystemTime::now()));
                if Instant::now() < settled {
                    ssh::reset(tcp);
                } else {
                    connections.spawn(connection(Arc::clone(&booted), tcp));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(booted: Arc<Booted>, tcp: TcpStream) {
    match booted.banner {
        Some(banner) => tokio::time::sleep_until(banner).await,
        None => std::future::pending().await,
    }
    let key = locked(&booted.guest.memory.host_key).clone();
    ssh::serve(booted, key, tcp).await;
}

impl Booted {
    fn login_is_possible(&self) -> bool {
        self.login.is_some_and(|login| login <= Instant::now())
    }

    /// Resolves when cloud-init has ended; never when it does not.
    pub(crate) async fn cloud_init_ended(&self) {
        let behaviour = &self.guest.behaviour.cloud_init;
        let Some(login) = self.login.filter(|_| self.first) else { return };
        if behaviour.end == CloudInitEnd::Hangs {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep_until(login + behaviour.takes).await;
    }

    /// Whether cloud-init has ended.
    pub(crate) fn cloud_init_has_ended(&self) -> bool {
        let behaviour = &self.guest.behaviour.cloud_init;
        let ended = self.login.is_some_and(|login| login + behaviour.takes <= Instant::now());
        !self.first || ended && behaviour.end != CloudInitEnd::Hangs
    }

    fn admits_user(&self, user: &str) -> bool {
        self.guest.user.as_deref() == Some(user) || self.guest.behaviour.root && user == "root"
    }
}

impl ssh::Host for Booted {
    fn server_id(&self) -> String {
        "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3".to_owned()
    }

    fn admits(&self, user: &str, key: &PublicKey) -> bool {
        let known = self.guest.keys.iter().any(|known| known.key_data() == key.key_data());
        known && self.admits_user(user) && self.login_is_possible()
    }

    fn logged_in(&self, user: &str) {
        let login = Login { user: user.to_owned(), at: SystemTime::now(), boot: self.id.clone() };
        self.guest.see(|seen| seen.logins.push(login));
        if self.guest.behaviour.host_key == HostKey::NewAfterFirstLogin {
            match ssh::new_key() {
                Ok(key) => *locked(&self.guest.memory.host_key) = key,
                Err(error) => tracing::warn!(%error, "a guest keeps its host key"),
            }
        }
    }

    fn refused(&self, _user: &str) {
        self.guest.see(|seen| seen.refusals.push(SystemTime::now()));
    }

    async fn exec(self: Arc<Self>, call: ssh::Call) -> ssh::Exit {
        crate::guest::play::play(&self, call).await
    }
}

/// A random id in the form in which Linux names its boots; Linux makes a new one for every reader.
fn random_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim_end().to_owned())
}
