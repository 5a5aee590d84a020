//! The API, served by every node on its address.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::Commands;
use super::Sim;
use super::api::Outcome;
use super::locked;
use crate::call::Method;
use crate::https;
use crate::https::Identity;
use crate::https::Response;
use crate::https::Unread;
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

impl Sim {
    /// Where the main node serves the API, `https://ADDRESS:8006`; nothing when it does not.
    pub fn https_url(&self) -> Option<String> {
        let main = self.world(|world| world.main_node.clone());
        self.https_url_of(&main)
    }

    /// Where a node serves the API.
    pub fn https_url_of(&self, node: &str) -> Option<String> {
        self.https.address(node).map(|address| format!("https://{address}"))
    }

    /// The SHA-256 of the main node's certificate, in pairs of digits with colons.
    pub fn fingerprint(&self) -> String {
        self.world(|world| {
            let main = world.nodes.get(&world.main_node);
            main.map(|node| node.fingerprint.clone()).unwrap_or_default()
        })
    }

    /// The file with the certificate of the cluster's authority.
    pub fn authority(&self) -> &Path {
        &self.https.authority
    }

    /// The calls that reached the API, in order.
    pub fn called(&self) -> Vec<Called> {
        locked(&self.state().called).clone()
    }

    /// Changes how the API behaves.
    pub fn set_manners(&self, manners: Manners) {
        *locked(&self.state().manners) = manners;
    }

    /// Lets time pass, for tickets and codes.
    pub fn pass(&self, time: Duration) {
        self.state().ahead.fetch_add(time.as_secs(), Ordering::Relaxed);
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
        let response = match https::read(&mut stream, &mut rest).await {
            Err(Unread::Closed) => return Ok(()),
            Err(Unread::Refused(response)) => response,
            Ok(request) => match commands.respond(node, &request).await {
                Outcome::Answered(response) => response,
                Outcome::Dropped { polite: false } => return Ok(()),
                Outcome::Dropped { polite: true } => return stream.shutdown().await,
            },
        };
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
