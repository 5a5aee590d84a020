//! HTTP: the one place where a client is built, and the questions that are asked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use reqwest::RequestBuilder;
use reqwest::Response;
use reqwest::StatusCode;
use reqwest::header;
use reqwest::redirect::Action;
use reqwest::redirect::Attempt;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls_platform_verifier::BuilderVerifierExt;
use url::Host;
use url::Url;

use crate::error::Error;

/// Redirects that are followed before a server is taken to send us round in circles.
const REDIRECTS: usize = 10;
/// A list of checksums is some kilobytes; more is something else.
const LIST: usize = 4 << 20;

/// How long is waited for what.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// For the answer to `HEAD`, redirects and the second question included.
    pub(crate) head: Duration,
    /// For a connection.
    pub(crate) connect: Duration,
    /// For the next bytes of a transfer: a server that is silent for so long will not speak again.
    pub(crate) read: Duration,
    /// For a list of checksums.
    pub(crate) list: Duration,
    /// Before a transfer that broke off goes on; doubled each time.
    pub(crate) pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(15),
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            list: Duration::from_mins(1),
            pause: Duration::from_millis(500),
        }
    }
}

/// What the publisher says of an image without sending it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remote {
    /// Bytes of the image.
    pub length: Option<u64>,
    /// The mark of this state of it.
    pub etag: Option<String>,
    /// When it was changed last, in the server's words.
    pub last_modified: Option<String>,
}

impl Remote {
    /// Reads the headers of an answer that carries the whole file.
    pub(crate) fn of(response: &Response) -> Self {
        Self {
            // Not `content_length()`: that is the length of the body, which `HEAD` has not.
            length: text(response, &header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            etag: text(response, &header::ETAG),
            last_modified: text(response, &header::LAST_MODIFIED),
        }
    }

    /// What `If-Range` may be asked with: never a weak mark, which does not promise equal bytes.
    pub(crate) fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|etag| etag.starts_with('"'));
        strong.or(self.last_modified.as_deref())
    }
}

/// A header as text.
pub(crate) fn text(response: &Response, name: &header::HeaderName) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// The place of a `206` within the file: `bytes 100-199/200` is `(100, Some(200))`.
pub(crate) fn content_range(response: &Response) -> Option<(u64, Option<u64>)> {
    let text = text(response, &header::CONTENT_RANGE)?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

/// Asks publishers.
pub(crate) struct Client {
    /// For addresses of this machine, which no proxy can reach.
    direct: reqwest::Client,
    /// For all others, through the environment's proxies.
    outward: reqwest::Client,
    trust: Result<(), rustls::Error>,
    limits: Limits,
}

impl Client {
    pub(crate) fn new(limits: Limits) -> Result<Self, Error> {
        let (tls, trust) = tls().map_err(|error| Error::Setup(error.into()))?;
        let build = |direct: bool| {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .http1_only()
                .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::custom(follow))
                .connect_timeout(limits.connect)
                .read_timeout(limits.read);
            let builder = if direct { builder.no_proxy() } else { builder };
            builder.build().map_err(|error| Error::Setup(error.into()))
        };
        Ok(Self { direct: build(true)?, outward: build(false)?, trust, limits })
    }

    /// Asks for an image's length and marks.
    ///
    /// `HEAD`, and once more by a ranged `GET` when the server refuses the method.
    pub(crate) async fn head(&self, url: &Url) -> Result<Remote, Error> {
        let limit = self.limits.head;
        tokio::time::timeout(limit, self.ask_head(url))
            .await
            .unwrap_or_else(|_| Err(Error::Late { method: "HEAD", url: url.to_string(), limit }))
    }

    async fn ask_head(&self, url: &Url) -> Result<Remote, Error> {
        let response = self.send("HEAD", url, self.request(Method::HEAD, url)?).await?;
        match response.status() {
            StatusCode::OK => Ok(Remote::of(&response)),
            StatusCode::FORBIDDEN
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_IMPLEMENTED => self.first_byte(url).await,
            status => Err(Error::Status { method: "HEAD", url: url.to_string(), status }),
        }
    }

    async fn first_byte(&self, url: &Url) -> Result<Remote, Error> {
        let request = self.request(Method::GET, url)?.header(header::RANGE, "bytes=0-0");
        let response = self.send("GET", url, request).await?;
        let remote = Remote::of(&response);
        match response.status() {
            StatusCode::OK => Ok(remote),
            StatusCode::PARTIAL_CONTENT => {
                let length = content_range(&response).and_then(|(_, total)| total);
                Ok(Remote { length, ..remote })
            }
            status => Err(Error::Status { method: "GET", url: url.to_string(), status }),
        }
    }

    /// Fetches a list of checksums.
    pub(crate) async fn list(&self, url: &Url, anew: bool) -> Result<String, Error> {
        let limit = self.limits.list;
        tokio::time::timeout(limit, self.ask_list(url, anew))
            .await
            .unwrap_or_else(|_| Err(Error::Late { method: "GET", url: url.to_string(), limit }))
    }

    async fn ask_list(&self, url: &Url, anew: bool) -> Result<String, Error> {
        let mut response = self.send("GET", url, self.get(url, anew)?).await?;
        if response.status() != StatusCode::OK {
            return Err(Error::Status {
                method: "GET",
                url: url.to_string(),
                status: response.status(),
            });
        }
        let mut list = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(unreachable("GET", url))? {
            list.extend_from_slice(&bytes);
            if list.len() > LIST {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&list).into_owned())
    }

    /// A request for a whole file; `anew` asks caches on the way to ask the publisher.
    pub(crate) fn get(&self, url: &Url, anew: bool) -> Result<RequestBuilder, Error> {
        let request = self.request(Method::GET, url)?;
        Ok(if anew { request.header(header::CACHE_CONTROL, "no-cache") } else { request })
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Error> {
        if url.scheme() == "https"
            && let Err(source) = &self.trust
        {
            return Err(Error::Trust { url: url.to_string(), source: source.clone() });
        }
        let client = if is_this_machine(url) { &self.direct } else { &self.outward };
        // A body that is packed on the way would have another length than the file.
        Ok(client.request(method, url.clone()).header(header::ACCEPT_ENCODING, "identity"))
    }

    /// Sends a request; any status is an answer.
    pub(crate) async fn send(
        &self,
        method: &'static str,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, Error> {
        request.send().await.map_err(unreachable(method, url))
    }
}

/// The error for a request that got no whole answer.
fn unreachable(method: &'static str, url: &Url) -> impl FnOnce(reqwest::Error) -> Error {
    let url = url.to_string();
    move |source| Error::Unreachable { method, url, source: source.into() }
}

/// The TLS settings, and whether the machine has certificates to trust; without them only `http` works.
fn tls() -> Result<(ClientConfig, Result<(), rustls::Error>), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = || {
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
    };
    match builder()?.with_platform_verifier() {
        Ok(builder) => Ok((builder.with_no_client_auth(), Ok(()))),
        Err(error) => {
            let nobody = builder()?.with_root_certificates(RootCertStore::empty());
            Ok((nobody.with_no_client_auth(), Err(error)))
        }
    }
}

/// Follows redirects, but never from `https` to `http`, where anybody on the way could answer.
fn follow(attempt: Attempt<'_>) -> Action {
    let from_https = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if from_https && attempt.url().scheme() != "https" {
        return attempt.error("the server sends us from https to http, which is not followed");
    }
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("the server sends us round in circles");
    }
    attempt.follow()
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}
