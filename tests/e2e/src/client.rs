//! A plain HTTP client for the server under test.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use reqwest::Response;
use serde_json::Value;

use crate::sse::Message;
use crate::sse::Parser;

/// How long the server may be silent; it says something every 15 s.
const SILENCE: Duration = Duration::from_mins(1);

/// A client that never leaves loopback, so that no proxy and no TLS is of use.
pub fn client() -> anyhow::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .read_timeout(SILENCE)
        .build()?;
    Ok(client)
}

/// A stream of server-sent events that is being read.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    parser: Parser,
    ready: std::collections::VecDeque<Message>,
    raw: Vec<u8>,
}

impl Stream {
    /// Takes a response whose body has not been read.
    pub fn new(response: Response) -> Self {
        Self {
            response,
            parser: Parser::default(),
            ready: std::collections::VecDeque::new(),
            raw: Vec::new(),
        }
    }

    /// The response's header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next piece of the body as it arrived, or `None` at its end.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let piece = self.response.chunk().await.context("the stream broke off")?;
        if let Some(piece) = &piece {
            self.raw.extend_from_slice(piece);
            self.ready.extend(self.parser.feed(piece));
        }
        Ok(piece.map(|piece| piece.to_vec()))
    }

    /// The next message, or `None` at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if self.piece().await?.is_none() {
                return Ok(None);
            }
        }
    }

    /// Reads until `wanted` says yes, and gives all messages up to and with that one.
    pub async fn until(
        &mut self,
        wanted: impl Fn(&Message) -> bool,
    ) -> anyhow::Result<Vec<Message>> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await? {
            let found = wanted(&message);
            messages.push(message);
            if found {
                return Ok(messages);
            }
        }
        anyhow::bail!("the stream ended before what was waited for:\n{}", self.text())
    }

    /// All messages that are left.
    pub async fn rest(&mut self) -> anyhow::Result<Vec<Message>> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await? {
            messages.push(message);
        }
        Ok(messages)
    }

    /// Everything that has arrived, as it was.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }
}

/// Sends JSON and gives the stream that answers.
pub async fn post_stream(
    client: &reqwest::Client,
    url: &str,
    body: &Value,
) -> anyhow::Result<Stream> {
    let response = client.post(url).json(body).send().await?;
    let status = response.status();
    if !status.is_success() {
        anyhow::bail!("{url} answered {status}: {}", response.text().await?);
    }
    Ok(Stream::new(response))
}
