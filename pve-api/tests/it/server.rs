//! A server that speaks just enough HTTP over TLS, answers from a script, and remembers what it saw.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;

use pve_api::Address;
use pve_api::ApiToken;
use pve_api::Client;
use pve_api::Fingerprint;
use pve_api::Settings;
use pve_api::Timeouts;
use pve_api::Trust;
use rcgen::CertificateParams;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt as _;
use tokio::io::ReadBuf;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;

use crate::secrets;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) connection: usize,
    /// How many TLS records it came in.
    pub(crate) records: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// The fields of a form.
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(&self.body).into_owned().collect()
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Answer {
        status: u16,
        reason: String,
        headers: Vec<&'static str>,
        body: String,
    },
    /// Closes the connection properly, without an answer.
    Close,
    /// Drops the connection without TLS's goodbye.
    Cut,
    /// Sends half of an answer and drops the connection.
    Half,
    /// Says nothing and keeps the connection.
    Silence,
    /// Waits until so many are waiting, and then does this.
    Together(Arc<Barrier>, Box<Self>),
}

impl Reply {
    pub(crate) fn data(data: &str) -> Self {
        Self::status(200, "OK", &format!("{{\"data\":{data}}}"))
    }

    pub(crate) fn status(status: u16, reason: &str, body: &str) -> Self {
        let (reason, body) = (reason.to_owned(), body.to_owned());
        Self::Answer { status, reason, headers: Vec::new(), body }
    }

    pub(crate) fn together(self, barrier: &Arc<Barrier>) -> Self {
        Self::Together(Arc::clone(barrier), Box::new(self))
    }
}

/// A certificate with its key.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: KeyPair,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "pve1.example.org");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "Proxmox Virtual Environment");
        params.not_before = rcgen::date_time_ymd(2026, 11, 30);
        params.not_after = rcgen::date_time_ymd(2028, 11, 29);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { certificate, key }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }
}

type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// The server; it stops listening when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) identity: Identity,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            secrets::assert_none_logged();
        }
    }
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(Identity::new(), script).await
    }

    pub(crate) async fn start_with(
        identity: Identity,
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_as(identity, None, rustls::DEFAULT_VERSIONS, script).await
    }

    /// A server that may show a certificate which is not its own.
    pub(crate) async fn start_as(
        identity: Identity,
        shown: Option<CertificateDer<'static>>,
        versions: &[&'static rustls::SupportedProtocolVersion],
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        secrets::watch_logs();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let acceptor = acceptor(&identity, shown, versions);
        let (log, count, script): (_, _, Script) =
            (Arc::clone(&seen), Arc::clone(&connections), Arc::new(script));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, log, script) =
                    (acceptor.clone(), Arc::clone(&log), Arc::clone(&script));
                tokio::spawn(async move {
                    let _ = serve(stream, acceptor, number, &log, &script).await;
                });
            }
        });
        Self { address, identity, seen, connections, task }
    }

    pub(crate) fn address(&self) -> Address {
        self.address.to_string().parse().unwrap()
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings::new(self.address(), Trust::Fingerprints(vec![self.identity.fingerprint()]))
    }

    pub(crate) fn door(&self) -> pve_api::Server {
        pve_api::Server::new(&self.settings()).unwrap()
    }

    /// A client with an API token.
    pub(crate) fn client(&self) -> Client {
        token_client(&self.settings())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }
}

pub(crate) fn token_client(settings: &Settings) -> Client {
    let token: ApiToken = format!("root@pam!ci={}", secrets::TOKEN).parse().unwrap();
    pve_api::Server::new(settings).unwrap().token(&token)
}

/// Settings that give up quickly.
pub(crate) fn impatient(mut settings: Settings) -> Settings {
    settings.timeouts =
        Timeouts { answer: std::time::Duration::from_millis(300), ..Timeouts::default() };
    settings
}

/// An address at which connections are taken and nothing is said.
pub(crate) async fn silent() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    (listener, address)
}

/// An address at which nobody listens.
pub(crate) async fn deserted() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string().parse().unwrap()
}

#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Shown {
    fn resolve(&self, _hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn acceptor(
    identity: &Identity,
    shown: Option<CertificateDer<'static>>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(identity.key.serialize_der()).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let certificate = shown.unwrap_or_else(|| identity.certificate.clone());
    let shown = Shown(Arc::new(CertifiedKey::new(vec![certificate], key)));
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    TlsAcceptor::from(Arc::new(config))
}

/// Counts the records of application data that come in.
struct Tap {
    inner: TcpStream,
    records: Arc<AtomicUsize>,
    /// What is known of the header of the next record, and how much of this one is to come.
    header: Vec<u8>,
    left: usize,
}

impl Tap {
    fn count(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.header.push(bytes[0]);
            bytes = &bytes[1..];
            if let [kind, _, _, high, low] = self.header[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.header.clear();
                if kind == 23 {
                    self.records.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let fresh = buffer.filled()[before..].to_vec();
        self.count(&fresh);
        polled
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    connection: usize,
    log: &Mutex<Vec<Seen>>,
    script: &Script,
) -> io::Result<()> {
    let records = Arc::new(AtomicUsize::new(0));
    let tap = Tap { inner: stream, records: Arc::clone(&records), header: Vec::new(), left: 0 };
    let mut tls = acceptor.accept(tap).await?;
    // The end of the handshake looks like data from outside.
    let mut before = records.load(Ordering::SeqCst);
    let mut buffer = Vec::new();
    loop {
        let Some(mut seen) = read_request(&mut tls, &mut buffer).await? else { return Ok(()) };
        let now = records.load(Ordering::SeqCst);
        (seen.connection, seen.records) = (connection, now - before);
        before = now;
        log.lock().unwrap().push(seen.clone());
        let mut reply = script(&seen);
        while let Reply::Together(barrier, then) = reply {
            barrier.wait().await;
            reply = *then;
        }
        match reply {
            Reply::Answer { status, reason, headers, body } => {
                let mut head =
                    format!("HTTP/1.1 {status} {reason}\r\nContent-Length: {}\r\n", body.len());
                for header in headers {
                    head += header;
                    head += "\r\n";
                }
                tls.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
                tls.flush().await?;
                // Proxmox VE hangs up after every error.
                if status >= 400 {
                    return tls.shutdown().await;
                }
            }
            Reply::Close => return tls.shutdown().await,
            Reply::Cut => return Ok(()),
            Reply::Half => {
                tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":").await?;
                return tls.flush().await;
            }
            Reply::Silence => std::future::pending().await,
            Reply::Together(..) => {}
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn read_request(
    tls: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Seen>> {
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 4);
            break head;
        }
        if tls.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let mut word = || first.next().unwrap_or_default().to_owned();
    let (method, target) = (word(), word());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        if tls.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = buffer.drain(..length).collect();
    Ok(Some(Seen { connection: 0, records: 0, method, target, headers, body }))
}
