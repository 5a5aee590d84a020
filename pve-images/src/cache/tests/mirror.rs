//! A publisher's server that does what a test tells it to, down to cutting a connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Duration;
use tokio_rustls::TlsAcceptor;
use url::Url;

/// A request that came.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    /// By names in lower case.
    pub(super) headers: HashMap<String, String>,
    /// How many of the same method and path came before.
    pub(super) before: usize,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// How the end of the body is told.
    pub(super) framing: Framing,
    /// After so many bytes of the body the connection is cut.
    pub(super) cut: Option<usize>,
    /// After so many bytes of the body nothing comes any more.
    pub(super) stall: Option<usize>,
    /// Wait so long after every 64 KiB.
    pub(super) slow: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    Close,
}

impl Reply {
    pub(super) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            framing: Framing::Length,
            cut: None,
            stall: None,
            slow: Duration::ZERO,
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn cut(mut self, at: usize) -> Self {
        self.cut = Some(at);
        self
    }

    pub(super) fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    pub(super) fn slow(mut self, pause: Duration) -> Self {
        self.slow = pause;
        self
    }
}

/// A file as a good server gives it: with `Range` and `If-Range`.
pub(super) fn file(asked: &Asked, body: &[u8], etag: &str) -> Reply {
    let quoted = format!("\"{etag}\"");
    let from = asked.header("range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse::<usize>().unwrap(), to.parse::<usize>().ok()))
    });
    let fits = asked.header("if-range").is_none_or(|mark| mark == quoted);
    let reply = match from {
        Some((from, to)) if fits && from < body.len() => {
            let to = to.unwrap_or(body.len() - 1).min(body.len() - 1);
            Reply::new(206, &body[from..=to])
                .header("Content-Range", format!("bytes {from}-{to}/{}", body.len()))
        }
        Some(_) if fits => {
            Reply::new(416, "").header("Content-Range", format!("bytes */{}", body.len()))
        }
        _ => Reply::new(200, body),
    };
    reply.header("ETag", quoted)
}

type Handler = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// A connection, plain or encrypted.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The server; it ends when dropped.
pub(super) struct Mirror {
    scheme: &'static str,
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Mirror {
    /// Answers every request by a function.
    pub(super) async fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen("http", None, Arc::new(answer)).await
    }

    /// The same over TLS, and the certificate that has to be trusted for it.
    pub(super) async fn start_tls(
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(settings));
        (Self::listen("https", Some(acceptor), Arc::new(answer)).await, made.cert.pem())
    }

    async fn listen(scheme: &'static str, tls: Option<TlsAcceptor>, answer: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::default();
        let task = tokio::spawn(serve(listener, tls, answer, Arc::clone(&asked)));
        Self { scheme, address, asked, task }
    }

    /// Gives an image and a list that fits it.
    pub(super) async fn good(body: Vec<u8>) -> Self {
        Self::start(move |asked| match asked.path.as_str() {
            "/SHA512SUMS" => Reply::new(200, super::list(&body)),
            _ => file(asked, &body, "1"),
        })
        .await
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn url(&self, name: &str) -> Url {
        format!("{}://{}/{name}", self.scheme, self.address).parse().unwrap()
    }

    /// The requests that came, without those for other paths.
    pub(super) fn asked(&self, method: &str, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.method == method && asked.path == path).cloned().collect()
    }

    /// How many `GET`s came for the image.
    pub(super) fn downloads(&self) -> usize {
        self.asked("GET", &format!("/{}", super::NAME)).len()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    answer: Handler,
    log: Arc<Mutex<Vec<Asked>>>,
) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, answer, log) = (tls.clone(), Arc::clone(&answer), Arc::clone(&log));
        connections.spawn(async move {
            let stream: Box<dyn Stream> = match tls {
                None => Box::new(stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Box::new(stream),
                    Err(_) => return,
                },
            };
            let mut stream = BufReader::new(stream);
            // A client that goes away ends its connection.
            while let Some(asked) = read(&mut stream, &log).await {
                let reply = answer(&asked);
                if write(stream.get_mut(), &asked, reply).await != Some(()) {
                    break;
                }
            }
        });
    }
}

async fn read(stream: &mut BufReader<Box<dyn Stream>>, log: &Mutex<Vec<Asked>>) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines[0].split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut log = log.lock().unwrap();
    let before = log.iter().filter(|other| other.method == method && other.path == path).count();
    let asked = Asked { method, path, headers, before };
    log.push(asked.clone());
    Some(asked)
}

/// `None` when the connection is over.
async fn write(stream: &mut Box<dyn Stream>, asked: &Asked, reply: Reply) -> Option<()> {
    use std::fmt::Write as _;

    let mut head = format!("HTTP/1.1 {} Because\r\n", reply.status);
    for (name, value) in &reply.headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    match reply.framing {
        Framing::Length if reply.headers.iter().any(|(name, _)| *name == "Content-Length") => {}
        Framing::Length => write!(head, "Content-Length: {}\r\n", reply.body.len()).unwrap(),
        Framing::Chunked => head += "Transfer-Encoding: chunked\r\n",
        Framing::Close => head += "Connection: close\r\n",
    }
    head += "\r\n";
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    if asked.method == "HEAD" {
        return Some(());
    }
    let end = reply.cut.or(reply.stall).unwrap_or(reply.body.len()).min(reply.body.len());
    for piece in reply.body[..end].chunks(64 << 10) {
        if reply.framing == Framing::Chunked {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await.ok()?;
        }
        stream.write_all(piece).await.ok()?;
        if reply.framing == Framing::Chunked {
            stream.write_all(b"\r\n").await.ok()?;
        }
        if !reply.slow.is_zero() {
            tokio::time::sleep(reply.slow).await;
        }
    }
    if reply.stall.is_some() {
        std::future::pending::<()>().await;
    }
    if reply.cut.is_some() || reply.framing == Framing::Close {
        let _ = stream.shutdown().await;
        return None;
    }
    if reply.framing == Framing::Chunked {
        stream.write_all(b"0\r\n\r\n").await.ok()?;
    }
    stream.flush().await.ok()
}
