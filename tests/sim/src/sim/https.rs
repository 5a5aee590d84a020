//! The API, served by every node on its address.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::SystemTime;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OwnedMutexGuard;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Commands;
use super::fault::FaultAnswer;
use super::fault::Hit;
use super::locked;
use crate::call::Answer;
use crate::call::Died;
use crate::call::Method;
use crate::call::Step;
use crate::call::Worker;
use crate::effect::Effect;
use crate::https;
use crate::https::Identity;
use crate::https::Request;
use crate::https::Response;
use crate::https::Unread;
use crate::https::Wanted;
use crate::mirror::date::http_date;

/// The port that Proxmox VE listens on.
const PORT: u16 = 8006;

/// How the API behaves, whatever the world is like.
#[derive(Debug, Clone)]
pub struct Manners {
    /// How long a 401 is held back.
    pub hold: Duration,
    /// How long every call takes at least.
    pub latency: Duration,
    /// Whether a connection is dropped when a body comes later than its head and the caller shows
    /// a ticket, as a recorded release did.
    pub drops_late_bodies: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self { hold: Duration::from_secs(3), latency: Duration::ZERO, drops_late_bodies: false }
    }
}

/// A call that reached the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The node that was asked.
    pub node: String,
    /// `GET`.
    pub method: Method,
    /// The path below `/api2/json`.
    pub path: String,
    /// Its parameters, secrets included.
    pub parameters: BTreeMap<String, String>,
    /// Who called; empty when nobody was logged in.
    pub user: String,
    /// The status of the answer, whether or not it arrived.
    pub status: u16,
}

/// The nodes' servers; those of a node end when it does.
#[derive(Debug, Default)]
pub(super) struct Https {
    servers: Mutex<BTreeMap<String, (SocketAddr, CancellationToken)>>,
    /// The certificate of the cluster's authority.
    pub(super) authority: PathBuf,
}

impl Drop for Https {
    fn drop(&mut self) {
        for (_, ended) in locked(&self.servers).values() {
            ended.cancel();
        }
    }
}

impl Https {
    pub(super) fn address(&self, node: &str) -> Option<SocketAddr> {
        locked(&self.servers).get(node).map(|(address, _)| *address)
    }

    pub(super) fn take_down(&self, node: &str) {
        if let Some((_, ended)) = locked(&self.servers).remove(node) {
            ended.cancel();
        }
    }
}

/// Starts the servers; a node whose address is not one of this machine's has none.
pub(super) async fn serve(
    authority: PathBuf,
    addresses: &BTreeMap<String, Ipv4Addr>,
    identities: Vec<(String, Identity)>,
    commands: &Commands,
) -> io::Result<Https> {
    let mut servers = BTreeMap::new();
    for (name, identity) in identities {
        let Some(address) = addresses.get(&name) else { continue };
        let listener = match TcpListener::bind((*address, PORT)).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::info!(node = name, %error, "a node does not serve the API");
                continue;
            }
        };
        let ended = CancellationToken::new();
        servers.insert(name.clone(), (listener.local_addr()?, ended.clone()));
        let acceptor = TlsAcceptor::from(identity.config);
        tokio::spawn(ended.clone().run_until_cancelled_owned(accept(
            listener,
            acceptor,
            name,
            commands.clone(),
            ended,
        )));
    }
    Ok(Https { servers: Mutex::new(servers), authority })
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    node: String,
    commands: Commands,
    ended: CancellationToken,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let (acceptor, node, commands) = (acceptor.clone(), node.clone(), commands.clone());
        let connection = async move {
            if let Err(error) = connection(stream, acceptor, &node, &commands).await {
                tracing::debug!(%error, "a connection breaks");
            }
        };
        tokio::spawn(ended.clone().run_until_cancelled_owned(connection));
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    node: &str,
    commands: &Commands,
) -> io::Result<()> {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        return plain(stream).await;
    }
    let mut stream = acceptor.accept(stream).await?;
    let mut rest = Vec::new();
    loop {
        let (response, last) = match https::read(&mut stream, &mut rest).await {
            Err(Unread::Closed) => return Ok(()),
            Err(Unread::Refused(response)) => (response, true),
            Ok(request) => match commands.respond(node, &request).await {
                Outcome::Answered(response) => (response, request.closes()),
                Outcome::Dropped { polite: false } => return Ok(()),
                Outcome::Dropped { polite: true } => return stream.shutdown().await,
            },
        };
        let response =
            if last { Response { connection: vec!["close"], ..response } } else { response };
        https::write(&mut stream, &response, &http_date(SystemTime::now())).await?;
        if response.closes() {
            return stream.shutdown().await;
        }
    }
}

/// Whoever speaks no TLS is sent to where it is spoken.
async fn plain(mut stream: TcpStream) -> io::Result<()> {
    let mut rest = Vec::new();
    let Ok(request) = https::read(&mut stream, &mut rest).await else { return Ok(()) };
    let host = request.header("Host").unwrap_or_default();
    let response = Response {
        connection: vec!["Keep-Alive"],
        location: Some(format!("https://{host}{}", request.target)),
        ..Response::text(301, "Moved Permanently")
    };
    https::write(&mut stream, &response, &http_date(SystemTime::now())).await?;
    stream.shutdown().await?;
    // What the other side still sends is not worth a reset.
    let _ = stream.read(&mut [0; 1024]).await;
    Ok(())
}

/// What becomes of a request.
enum Outcome {
    Answered(Response),
    /// The connection ends without an answer, with or without a word of TLS.
    Dropped {
        polite: bool,
    },
}

/// A failure as the API writes it.
fn failure(died: Died) -> Response {
    https::failure(&Answer::default().failed(died))
}

fn lock_timeout(vmid: u32) -> Died {
    Died::new(format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout"))
}

/// The VM whose lock a call needs.
fn vmid(wanted: &Wanted) -> Option<u32> {
    if wanted.method == Method::Get {
        return None;
    }
    let (_, rest) = wanted.path.split_once("/qemu")?;
    match rest.split('/').nth(1) {
        Some(vmid) => vmid.parse().ok(),
        None => wanted.parameters.get("vmid")?.parse().ok(),
    }
}

impl Commands {
    async fn respond(&self, node: &str, request: &Request) -> Outcome {
        let manners = locked(&self.state().manners).clone();
        if manners.drops_late_bodies
            && request.in_pieces
            && request.cookie("PVEAuthCookie").is_some()
        {
            return Outcome::Dropped { polite: false };
        }
        let wanted = match https::wanted(request) {
            Ok(wanted) => wanted,
            Err(response) => return Outcome::Answered(*response),
        };
        let hit = self.state().faults.hit(&wanted.line());
        tokio::time::sleep(manners.latency + hit.delay).await;
        let outcome = match self.instead(&hit, vmid(&wanted)).await {
            Some(outcome) => outcome,
            None => self.made(node, request, wanted, &hit).await,
        };
        if let Outcome::Answered(response) = &outcome
            && response.status == 401
        {
            tokio::time::sleep(manners.hold).await;
        }
        outcome
    }

    /// What a fault answers without the call being made.
    async fn instead(&self, hit: &Hit, vmid: Option<u32>) -> Option<Outcome> {
        match &hit.answer {
            FaultAnswer::Answer { status, text, errors } => {
                let died = Died { status: *status, errors: errors.clone(), ..Died::new(text) };
                Some(Outcome::Answered(failure(died)))
            }
            FaultAnswer::Drop { done: false, polite } => Some(Outcome::Dropped { polite: *polite }),
            FaultAnswer::Hang => {
                self.state().ended.cancelled().await;
                Some(Outcome::Dropped { polite: false })
            }
            FaultAnswer::LockTimeout => {
                tokio::time::sleep(self.state().lock_patience).await;
                Some(Outcome::Answered(failure(lock_timeout(vmid.unwrap_or_default()))))
            }
            FaultAnswer::Instead { stderr, .. } => {
                Some(Outcome::Answered(failure(Died::new(stderr.trim_end()))))
            }
            _ => None,
        }
    }

    async fn made(&self, node: &str, request: &Request, wanted: Wanted, hit: &Hit) -> Outcome {
        let vmid = vmid(&wanted);
        // What goes on as a task takes the lock there; the rest is over when it is answered.
        let synchronous = wanted.method == Method::Put && wanted.path.ends_with("/config");
        let guard = match vmid.filter(|_| synchronous) {
            None => None,
            Some(vmid) => match self.lock_vm(vmid).await {
                Some(guard) => Some(guard),
                None => return Outcome::Answered(failure(lock_timeout(vmid))),
            },
        };
        let reply = {
            let mut world = self.state().world();
            let reply = https::answer(&mut world, node, request, wanted);
            self.state().publish(&world);
            reply
        };
        let broken = match &hit.answer {
            FaultAnswer::Effect(text) => Some(text.clone()),
            _ => None,
        };
        let response = match self.apply(reply.effects, broken.as_deref()).await {
            Ok(()) => reply.response,
            Err(text) => failure(Died::new(text)),
        };
        drop(guard);
        if let Some(made) = reply.made {
            locked(&self.state().called).push(Called {
                node: node.to_owned(),
                method: made.method,
                path: made.path,
                parameters: made.parameters,
                user: made.user,
                status: response.status,
            });
        }
        if let Some(worker) = reply.worker {
            let commands = self.clone();
            let ended = self.state().ended.clone();
            let task = async move { commands.task(worker, vmid, broken).await };
            tokio::spawn(ended.run_until_cancelled_owned(task));
        }
        match &hit.answer {
            FaultAnswer::Drop { polite, .. } => Outcome::Dropped { polite: *polite },
            FaultAnswer::DoneThenHang => {
                self.state().ended.cancelled().await;
                Outcome::Dropped { polite: false }
            }
            _ => Outcome::Answered(response),
        }
    }

    async fn lock_vm(&self, vmid: u32) -> Option<OwnedMutexGuard<()>> {
        let lock = Arc::clone(locked(&self.state().locks).entry(vmid).or_default());
        tokio::time::timeout(self.state().lock_patience, lock.lock_owned()).await.ok()
    }

    /// Lets a task run to its end, its stages spread over the time that a command takes.
    async fn task(&self, mut worker: Worker, vmid: Option<u32>, broken: Option<String>) {
        let latency = *locked(&self.state().latency);
        let guard = match vmid {
            None => None,
            Some(vmid) => {
                let guard = self.lock_vm(vmid).await;
                if guard.is_none() {
                    let step = self.step(|world| worker.fail(world, lock_timeout(vmid)));
                    self.finish(step).await;
                    return;
                }
                guard
            }
        };
        let pause = latency / u32::try_from(worker.left().max(1)).unwrap_or(1);
        loop {
            tokio::time::sleep(pause).await;
            let mut step = self.step(|world| worker.run(world));
            if let Step::Ran(output) = &mut step {
                self.follow(std::mem::take(&mut output.follow));
                let effects: Vec<Effect> = std::mem::take(&mut output.effects);
                match self.apply(effects, broken.as_deref()).await {
                    Ok(()) => continue,
                    Err(text) => step = self.step(|world| worker.fail(world, Died::new(text))),
                }
            }
            self.finish(step).await;
            drop(guard);
            return;
        }
    }

    /// Lets tasks go on by themselves.
    pub(super) fn follow(&self, workers: Vec<Worker>) {
        for worker in workers {
            let vmid = worker.vmid(&self.state().world());
            let commands = self.clone();
            let ended = self.state().ended.clone();
            let task = async move { commands.task(worker, vmid, None).await };
            tokio::spawn(ended.run_until_cancelled_owned(task));
        }
    }

    /// What an undo asks for has no failure of its own.
    async fn finish(&self, step: Step) {
        if let Step::Ended(output, _) = step {
            let _ = self.apply(output.effects, None).await;
        }
    }
}
