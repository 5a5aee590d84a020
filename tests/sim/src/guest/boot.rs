//! One boot after the other: the moments at which a guest becomes reachable, and its connections.

use std::collections::HashMap;
use std::fs;
use std::io;
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
use tokio_util::sync::DropGuard;

use crate::guest::BootSeen;
use crate::guest::Guest;
use crate::guest::HostKey;
use crate::guest::Login;
use crate::guest::When;
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

/// Boots, and boots again as often as it is told to. Dropping the future is the power switch.
pub(crate) async fn run(guest: Arc<Guest>, mut reboots: mpsc::UnboundedReceiver<()>) {
    let mut first = true;
    loop {
        let boot = boot(Arc::clone(&guest), first);
        tokio::pin!(boot);
        tokio::select! {
            ended = &mut boot => {
                if let Err(error) = ended {
                    tracing::warn!(vmid = guest.spec.vmid, %error, "a guest cannot boot");
                    return;
                }
            }
            order = reboots.recv() => {
                if order.is_none() {
                    return;
                }
                // The old boot answers on for a while, or not at all.
                _ = tokio::time::timeout(guest.behaviour.lingers, boot).await;
            }
        }
        first = false;
    }
}

async fn boot(guest: Arc<Guest>, first: bool) -> io::Result<()> {
    let plan = if first { &guest.behaviour.first } else { &guest.behaviour.again }.clone();
    let id = random_id()?;
    let began = SystemTime::now();
    let seen = BootSeen { id: id.clone(), began, port_open: None, login_possible: None };
    guest.see(|seen_so_far| seen_so_far.boots.push(seen));
    if !first && guest.behaviour.host_key == HostKey::NewEachBoot {
        *locked(&guest.memory.host_key) = ssh::new_key()?;
    }
    let Some(port) = moment(Instant::now(), plan.port)? else { return std::future::pending().await };
    tokio::time::sleep_until(port).await;
    let listener = listen(&guest).await?;
    let open = Instant::now();
    let settled = open + plan.resets;
    let banner = moment(settled, plan.banner)?;
    let login = match banner {
        Some(banner) => moment(banner, plan.login)?,
        None => None,
    };
    let now = SystemTime::now();
    guest.see(|seen| {
        if let Some(boot) = seen.boots.last_mut() {
            boot.port_open = Some(now);
            boot.login_possible = login.map(|login| now + login.duration_since(open));
        }
    });
    let off = CancellationToken::new();
    let _off: DropGuard = off.clone().drop_guard();
    let processes = Mutex::default();
    let booted = Arc::new(Booted { guest, id, first, banner, login, processes, off });
    accept(listener, settled, booted).await
}

async fn listen(guest: &Guest) -> io::Result<TcpListener> {
    loop {
        match TcpListener::bind((guest.spec.address, guest.spec.port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => tokio::time::sleep(BIND_AGAIN).await,
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
        match self.login {
            Some(login) if self.first && behaviour.end == CloudInitEnd::Hangs => {
                _ = login;
                std::future::pending().await
            }
            Some(login) if self.first => tokio::time::sleep_until(login + behaviour.takes).await,
            Some(_) | None => {}
        }
    }

    /// Whether cloud-init has ended.
    pub(crate) fn cloud_init_has_ended(&self) -> bool {
        let behaviour = &self.guest.behaviour.cloud_init;
        let ended = self.login.is_some_and(|login| login + behaviour.takes <= Instant::now());
        !self.first || ended && behaviour.end != CloudInitEnd::Hangs
    }

    pub(crate) fn admits_user(&self, user: &str) -> bool {
        user == self.guest.spec.user || self.guest.behaviour.root && user == "root"
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

/// When something happens, seen from `start`.
fn moment(start: Instant, when: When) -> io::Result<Option<Instant>> {
    Ok(match when {
        When::After(after) => Some(start + after),
        When::Between(low, high) => {
            let span = high.saturating_sub(low);
            let share = random_share()?;
            Some(start + low + span.mul_f64(share))
        }
        When::Never => None,
    })
}

/// A number between 0 and 1.
fn random_share() -> io::Result<f64> {
    let id = random_id()?;
    let head = id.split('-').next().unwrap_or_default();
    let number = u32::from_str_radix(head, 16).map_err(io::Error::other)?;
    Ok(f64::from(number) / f64::from(u32::MAX))
}

/// A random id in the form in which Linux names its boots; Linux makes a new one for every reader.
fn random_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim_end().to_owned())
}

