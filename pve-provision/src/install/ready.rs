//! Waiting until a VM can be logged into, in named states.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::settings::Patience;
use super::ssh::HostKey;
use super::ssh::Link;
use super::ssh::LoginError;
use super::ssh::Ssh;
use super::ssh::Target;

/// Between two looks at a port that is not open yet; they cost next to nothing.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Between two looks when the last one reached the server, so that it is not overrun.
const BETWEEN_VISITS: Duration = Duration::from_secs(1);
/// How long a connection may take that nobody answers.
const ANSWER: Duration = Duration::from_secs(1);
/// How long one login may take, the reading of the boot id included.
const ONE_LOGIN: Duration = Duration::from_secs(30);
/// How long an open port may keep silent.
const BANNER: Duration = Duration::from_secs(3);

/// How far a VM is on its way to a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing has been tried yet.
    Starting,
    /// Nobody answers at the address.
    NoRoute,
    /// The machine is there, its SSH server is not.
    PortClosed,
    /// The connection broke off.
    Reset,
    /// The port is open and says nothing.
    NoBanner,
    /// The server is there and does not let us in.
    Refused(String),
    /// A login succeeds, but it is the boot from before.
    OldBoot,
    /// ssh fails for another reason.
    Other(String),
    /// It is done.
    LoggedIn,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("not tried yet"),
            Self::NoRoute => f.write_str("no route"),
            Self::PortClosed => f.write_str("port closed"),
            Self::Reset => f.write_str("connection reset"),
            Self::NoBanner => f.write_str("no banner"),
            Self::Refused(why) => write!(f, "login refused ({why})"),
            Self::OldBoot => f.write_str("logged in, but still to the boot from before"),
            Self::Other(why) => write!(f, "ssh failed ({why})"),
            Self::LoggedIn => f.write_str("logged in"),
        }
    }
}

/// The VM that is waited for.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) identity: PathBuf,
    /// The host key of the first login, written then and asked for ever after.
    pub(crate) known_hosts: PathBuf,
}

/// A login and the boot that it belongs to.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) link: Link,
    pub(crate) boot_id: String,
}

/// Waits for a login on another boot than `old_boot`; the states go to `states`.
///
/// # Errors
///
/// Says in which state the VM was when the time ran out, or that its host key has changed.
pub(crate) async fn wait(
    ssh: &Ssh,
    host: &Host,
    patience: &Patience,
    old_boot: Option<&str>,
    states: &watch::Sender<State>,
) -> Result<Login, String> {
    // The states of an ssh connection are large, and every job would carry them from its start.
    let login = Box::pin(wait_for_ever(ssh, host, patience, old_boot, states));
    match tokio::time::timeout(patience.ready, login).await {
        Ok(login) => login,
        Err(_) => Err(format!(
            "no login as {}@{} within {} s; the last state was: {}",
            host.user,
            host.address,
            patience.ready.as_secs(),
            *states.borrow()
        )),
    }
}

async fn wait_for_ever(
    ssh: &Ssh,
    host: &Host,
    patience: &Patience,
    old_boot: Option<&str>,
    states: &watch::Sender<State>,
) -> Result<Login, String> {
    loop {
        // The port is watched closely only until it opens; from then on ssh speaks for itself.
        while let Err(state) = look(host.address, host.port).await {
            let pause = if state == State::Reset { BETWEEN_VISITS } else { BETWEEN_LOOKS };
            enter(states, state);
            tokio::time::sleep(pause).await;
        }
        loop {
            let tried = Instant::now();
            match log_in(ssh, host).await {
                Ok(login) if old_boot == Some(login.boot_id.as_str()) => {
                    enter(states, State::OldBoot);
                    tokio::time::sleep(BETWEEN_VISITS).await;
                    break;
                }
                Ok(login) => {
                    enter(states, State::LoggedIn);
                    return Ok(login);
                }
                Err(LoginError::HostKeyChanged(_)) => {
                    return Err(format!(
                        "the host key of {} is not the one of the first login: this is another machine, \
                         or its keys were made anew",
                        host.address
                    ));
                }
                Err(LoginError::Refused(why)) => {
                    enter(states, State::Refused(why));
                    tokio::time::sleep_until(tried + patience.between_logins).await;
                }
                Err(error) => {
                    enter(states, state_of(error));
                    tokio::time::sleep(BETWEEN_VISITS).await;
                    break;
                }
            }
        }
    }
}

/// Enters a state; staying in one is no news.
fn enter(states: &watch::Sender<State>, state: State) {
    states.send_if_modified(|current| {
        let is_new = *current != state;
        *current = state;
        is_new
    });
}

fn state_of(error: LoginError) -> State {
    match error {
        LoginError::NoRoute(_) => State::NoRoute,
        LoginError::PortClosed(_) => State::PortClosed,
        LoginError::Reset(_) => State::Reset,
        LoginError::NoBanner(_) => State::NoBanner,
        LoginError::Refused(why) => State::Refused(why),
        LoginError::HostKeyChanged(why) | LoginError::Other(why) => State::Other(why),
        LoginError::NotRun(error) => State::Other(format!("cannot run ssh: {error}")),
    }
}

/// The boot that a VM is on, when it can be logged into now.
pub(crate) async fn boot_id(ssh: &Ssh, host: &Host) -> Option<String> {
    look(host.address, host.port).await.ok()?;
    let login = tokio::time::timeout(ONE_LOGIN, Box::pin(log_in(ssh, host))).await;
    login.ok()?.ok().map(|login| login.boot_id)
}

/// Waits until an SSH server greets: for VMs that do not know our key.
pub(crate) async fn wait_for_banner(
    address: Ipv4Addr,
    port: u16,
    limit: Duration,
) -> Result<(), String> {
    let mut last = State::Starting;
    let greeted = async {
        while let Err(state) = look(address, port).await {
            last = state;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    let greeted = tokio::time::timeout(limit, greeted).await;
    match greeted {
        Ok(()) => Ok(()),
        Err(_) => Err(format!(
            "no SSH server at {address} within {} s; the last state was: {last}",
            limit.as_secs()
        )),
    }
}

/// Whether an SSH server greets at that port.
pub(crate) async fn look(address: Ipv4Addr, port: u16) -> Result<(), State> {
    let mut stream = match tokio::time::timeout(ANSWER, TcpStream::connect((address, port))).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(State::PortClosed);
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
            return Err(State::Reset);
        }
        Ok(Err(_)) | Err(_) => return Err(State::NoRoute),
        Ok(Ok(stream)) => stream,
    };
    let mut greeting = [0; 4];
    match tokio::time::timeout(BANNER, stream.read_exact(&mut greeting)).await {
        Err(_) => Err(State::NoBanner),
        Ok(Err(_)) => Err(State::Reset),
        // A server may say something before its banner; ssh can read that.
        Ok(Ok(_)) => Ok(()),
    }
}

async fn log_in(ssh: &Ssh, host: &Host) -> Result<Login, LoginError> {
    let learned = host.known_hosts.with_extension("new");
    let pinned = host.known_hosts.exists();
    let host_key = if pinned {
        HostKey::Known { file: host.known_hosts.clone(), alias: None }
    } else {
        // A key that was seen before a login succeeded binds nobody: first boots make their keys anew.
        empty(&learned).map_err(LoginError::NotRun)?;
        HostKey::Learn(learned.clone())
    };
    let target = Target {
        host: host.address.to_string(),
        port: host.port,
        user: host.user.clone(),
        identities: vec![host.identity.clone()],
        host_key,
    };
    let link = ssh.open(&target).await?;
    let lost = |error: io::Error| LoginError::Reset(error.to_string());
    let (code, boot_id) = link.read("cat /proc/sys/kernel/random/boot_id").await.map_err(lost)?;
    if code != 0 || boot_id.trim().is_empty() {
        return Err(LoginError::Other(format!("the boot id could not be read (exit code {code})")));
    }
    if !pinned {
        std::fs::rename(&learned, &host.known_hosts).map_err(LoginError::NotRun)?;
    }
    Ok(Login { link, boot_id: boot_id.trim().to_owned() })
}

fn empty(path: &Path) -> io::Result<()> {
    std::fs::write(path, "")
}
