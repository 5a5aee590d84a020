//! The wire: one HTTP client, several addresses, and an honest word about what was sent.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::header::CONTENT_LENGTH;
use http::header::CONTENT_TYPE;
use http::header::COOKIE;
use hyper::ext::ReasonPhrase;
use thiserror::Error;
use tokio::time::Instant;

use crate::error::Call;
use crate::error::Error;
use crate::error::Result;
use crate::error::classify;
use crate::error::find;
use crate::error::lost;
use crate::request::Request;
use crate::trust;
use crate::trust::Certificate;
use crate::trust::Trust;
use crate::trust::TrustError;

pub use address::Address;
pub use address::InvalidAddress;

mod address;

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection to one address, TLS included. It ends sooner where an answer must be there
    /// sooner, so that a node that cannot be reached is always told from one that does not answer.
    pub connect: Duration,
    /// For the answer to a call. The server itself gives up on another node after 30 s.
    pub answer: Duration,
    /// For the answer to a login. The server holds every refusal back for 3 s, and LDAP or PAM
    /// behind it are slower still.
    pub login: Duration,
    /// How long a ticket lives; it is renewed before half of that. Proxmox VE grants two hours.
    pub ticket_life: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(45),
            login: Duration::from_secs(30),
            ticket_life: Duration::from_hours(2),
        }
    }
}

/// How to reach a Proxmox VE node or cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// One node, or several of the same cluster: any of them serves the whole cluster. The next
    /// one is tried when a request could not be sent.
    pub addresses: Vec<Address>,
    /// Which certificate is accepted.
    pub trust: Trust,
    /// How long to wait.
    pub timeouts: Timeouts,
}

impl Settings {
    /// Settings for one address with the usual timeouts.
    pub fn new(address: Address, trust: Trust) -> Self {
        Self { addresses: vec![address], trust, timeouts: Timeouts::default() }
    }
}

/// Why a server cannot even be tried.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// There is no address.
    #[error("no server address is given")]
    NoAddress,
    /// The trust settings cannot be used.
    #[error("trust settings cannot be used")]
    Trust(#[from] TrustError),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Http(#[source] reqwest::Error),
}

/// The server closes an idle connection after a few seconds. A connection that is about to be
/// closed must not carry a write: whether the write was seen could not be told.
const IDLE: Duration = Duration::from_secs(3);

/// An answer with any status.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body of a success, or the error that the answer means.
    pub(crate) fn success(self, request: &Request) -> Result<Bytes> {
        if (200..300).contains(&self.status) {
            Ok(self.body)
        } else {
            let secrets: Vec<&str> = request.parameters.secrets().collect();
            Err(classify(request.call.clone(), self.status, &self.reason, &self.body, &secrets))
        }
    }
}

/// The headers that say who asks.
#[derive(Clone)]
pub(crate) enum Credential {
    Token(HeaderValue),
    Ticket { cookie: HeaderValue, csrf: HeaderValue },
}

/// Why the source of an upload could not be read.
#[derive(Debug, Error)]
#[error("cannot read what is to be sent")]
pub(crate) struct Unreadable(#[source] pub(crate) io::Error);

/// A body that is not a form: the parts of an upload.
pub(crate) struct Upload {
    pub(crate) content_type: String,
    pub(crate) length: u64,
    pub(crate) parts: Parts,
}

/// What can be read once only, by whichever connection is made.
#[derive(Clone)]
pub(crate) struct Parts(Arc<Mutex<Pin<Box<dyn Stream<Item = Part> + Send>>>>);

pub(crate) type Part = Result<Bytes, Unreadable>;

impl Parts {
    pub(crate) fn new(parts: impl Stream<Item = Part> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::pin(parts))))
    }
}

impl Stream for Parts {
    type Item = Part;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().poll_next(cx)
    }
}

/// Which address could not be reached.
#[derive(Debug, Error)]
#[error("cannot connect to {address}")]
struct Unreached {
    address: Address,
    source: reqwest::Error,
}

#[derive(Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    addresses: Vec<Address>,
    trust: Trust,
    /// The address that answered last.
    preferred: AtomicUsize,
    pub(crate) timeouts: Timeouts,
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        if settings.addresses.is_empty() {
            return Err(SettingsError::NoAddress);
        }
        let timeouts = &settings.timeouts;
        // A connection that is still being made when the time for the answer is over would leave
        // open whether the request was sent.
        let connect = timeouts.connect.min(timeouts.answer.min(timeouts.login) * 3 / 4);
        Ok(Self {
            http: http_client(trust::config(&settings.trust)?, connect)?,
            addresses: settings.addresses.clone(),
            trust: settings.trust.clone(),
            preferred: AtomicUsize::new(0),
            timeouts: settings.timeouts.clone(),
        })
    }

    /// Whether both speak to the same addresses and trust the same certificates.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.addresses == other.addresses && self.trust == other.trust
    }

    /// Sends a request and waits so long for its answer.
    pub(crate) async fn send(
        &self,
        request: &Request,
        credential: Option<&Credential>,
        limit: Duration,
    ) -> Result<Answer> {
        let builder = |address: &Address| self.builder(request, address, credential).timeout(limit);
        self.reach(request, builder).await
    }

    /// Sends a request whose body can be read only once; however long it takes.
    pub(crate) async fn upload(
        &self,
        request: &Request,
        credential: Option<&Credential>,
        upload: Upload,
    ) -> Result<Answer> {
        let builder = |address: &Address| {
            self.builder(request, address, credential)
                .header(CONTENT_TYPE, upload.content_type.as_str())
                .header(CONTENT_LENGTH, upload.length)
                .body(reqwest::Body::wrap_stream(upload.parts.clone()))
        };
        self.reach(request, builder).await
    }

    /// Sends a request to the address that answered last, and to the next ones for as long as no
    /// connection could be made: until then, nothing of it has been read or sent.
    async fn reach(
        &self,
        request: &Request,
        builder: impl Fn(&Address) -> reqwest::RequestBuilder,
    ) -> Result<Answer> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut attempt = 0;
        loop {
            let index = (first + attempt) % self.addresses.len();
            let address = &self.addresses[index];
            let result = self.exchange(request, address, builder(address)).await;
            attempt += 1;
            match result {
                Err(Error::NotSent { .. }) if attempt < self.addresses.len() => {
                    tracing::debug!(%address, "no connection, trying the next address");
                }
                Err(error) => return Err(error),
                Ok(answer) => {
                    self.preferred.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
            }
        }
    }

    fn builder(
        &self,
        request: &Request,
        address: &Address,
        credential: Option<&Credential>,
    ) -> reqwest::RequestBuilder {
        let url = format!("https://{address}{}", request.target());
        let mut builder = self.http.request(request.endpoint.method.clone(), url);
        match credential {
            Some(Credential::Token(token)) => builder = builder.header(AUTHORIZATION, token),
            Some(Credential::Ticket { cookie, csrf }) => {
                builder = builder.header(COOKIE, cookie);
                if !request.call.is_read() {
                    builder = builder.header("CSRFPreventionToken", csrf);
                }
            }
            None => {}
        }
        if request.has_body() && !request.parameters.is_empty() {
            // The whole body in one piece: it leaves in one write with the head. Servers have
            // been seen to drop a connection whose body came later.
            builder = builder
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(request.parameters.encode());
        }
        builder
    }

    async fn exchange(
        &self,
        request: &Request,
        address: &Address,
        builder: reqwest::RequestBuilder,
    ) -> Result<Answer> {
        let started = Instant::now();
        let call = &request.call;
        tracing::trace!(%call, "asking");
        let response = builder.send().await.map_err(|error| failed(call, address, error))?;
        let status = response.status();
        let reason = response
            .extensions()
            .get::<ReasonPhrase>()
            .map(|phrase| String::from_utf8_lossy(phrase.as_bytes()).into_owned())
            .or_else(|| status.canonical_reason().map(str::to_owned))
            .unwrap_or_default();
        // Also here an answer can be lost: a write has been carried out, its task is unknown.
        let body = response.bytes().await.map_err(|error| lost(call.clone(), cause(error)))?;
        let elapsed = started.elapsed();
        tracing::debug!(%call, status = status.as_u16(), ?elapsed, "answered");
        Ok(Answer { status: status.as_u16(), reason, body })
    }
}

/// What a request that got no answer means.
fn failed(call: &Call, address: &Address, error: reqwest::Error) -> Error {
    let call = call.clone();
    if let Some((certificate, reason)) = trust::refused(&error) {
        return Error::Untrusted { call, certificate: Box::new(certificate), reason };
    }
    if let Some(unreadable) = find::<Unreadable>(&error) {
        let source = io::Error::new(unreadable.0.kind(), unreadable.0.to_string());
        return Error::Source { call, source };
    }
    if error.is_connect() || error.is_builder() {
        let unreached = Unreached { address: address.clone(), source: error.without_url() };
        return Error::NotSent { call, source: Box::new(unreached) };
    }
    lost(call, cause(error))
}

/// The error without the URL, whose query holds parameters.
fn cause(error: reqwest::Error) -> Box<dyn StdError + Send + Sync> {
    Box::new(error.without_url())
}

fn http_client(
    tls: rustls::ClientConfig,
    connect: Duration,
) -> Result<reqwest::Client, SettingsError> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .connect_timeout(connect)
        .pool_idle_timeout(IDLE)
        .redirect(reqwest::redirect::Policy::none())
        // What may be repeated is decided here, not below.
        .retry(reqwest::retry::never())
        // A proxy from the environment would see the addresses of the management network.
        .no_proxy()
        .referer(false)
        .build()
        .map_err(SettingsError::Http)
}

/// Asks a server for its certificate and hangs up: nothing else is sent.
///
/// For trust on first use: show the person the fingerprint, and connect with
/// [`Trust::Fingerprints`] when they have agreed.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let address = "pve1.example.org".parse()?;
/// let certificate = pve_api::probe(&address, std::time::Duration::from_secs(5)).await?;
/// println!("{} of {}", certificate.fingerprint, certificate.subject);
/// # Ok(())
/// # }
/// ```
pub async fn probe(address: &Address, connect: Duration) -> Result<Certificate, ProbeError> {
    let tls = trust::probe_config().map_err(SettingsError::from)?;
    let http = http_client(tls, connect)?;
    match http.get(format!("https://{address}/")).send().await {
        // The TLS settings refuse every certificate.
        Ok(_) => Err(ProbeError::NoCertificate),
        Err(error) => match trust::refused(&error) {
            Some((certificate, _)) => Ok(certificate),
            None => Err(ProbeError::Connect { address: address.clone(), source: cause(error) }),
        },
    }
}

/// Why a server's certificate could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The client could not be set up.
    #[error("cannot set up the probe")]
    Settings(#[from] SettingsError),
    /// No TLS connection could be made.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: Address,
        /// Why.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server showed no certificate.
    #[error("the server showed no certificate")]
    NoCertificate,
}
