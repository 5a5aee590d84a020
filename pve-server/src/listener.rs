//! Taking connections: those of addresses that may not call get an answer, and not much more.
//!
//! A connection that says nothing holds a descriptor. Who may call is trusted not to hold thousands;
//! all others together get a few connections, each for a short time.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::ready;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use axum::serve::Listener;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use crate::access::Access;

/// How many connections the addresses have together that may not call.
const STRANGERS: usize = 32;
/// How long such a connection lasts; its answer takes no time.
const VISIT: Duration = Duration::from_secs(10);

/// The port, with who may call.
pub(crate) struct Port {
    listener: TcpListener,
    access: Access,
    strangers: Arc<Semaphore>,
}

/// A connection.
pub(crate) struct Connection {
    stream: TcpStream,
    visit: Option<Visit>,
}

struct Visit {
    end: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

/// Whom a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Port {
    pub(crate) fn new(listener: TcpListener, access: Access) -> Self {
        Self { listener, access, strangers: Arc::new(Semaphore::new(STRANGERS)) }
    }

    /// The connection to be served; none when strangers have all of theirs already.
    fn admitted(&self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        // An event is worth a packet of its own.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        if !self.access.is_stranger(peer.ip()) {
            return Some(Connection { stream, visit: None });
        }
        let permit = Arc::clone(&self.strangers).try_acquire_owned().ok()?;
        let end = Box::pin(tokio::time::sleep(VISIT));
        Some(Connection { stream, visit: Some(Visit { end, _permit: permit }) })
    }
}

impl Listener for Port {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The one of axum goes on after errors such as a lack of descriptors.
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            if let Some(connection) = self.admitted(stream, peer) {
                return (connection, peer);
            }
            // Nobody's log is to be filled by them.
            tracing::debug!(%peer, "one connection too many of those who may not call");
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Port>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Port>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if let (Poll::Pending, Some(visit)) = (&read, &mut this.visit) {
            ready!(visit.end.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::access::Allowed;

    #[tokio::test(start_paused = true)]
    async fn those_who_may_not_call_get_a_few_connections_for_a_short_time() {
        let access = Access {
            allowed: Allowed::Only(vec!["127.0.0.2/32".parse().unwrap()]),
            trusted_proxies: Vec::new(),
            token: None,
            host_names: BTreeSet::new(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = Port::new(listener, access);
        let connection = async |host| {
            let client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = port.listener.accept().await.unwrap();
            port.admitted(stream, SocketAddr::from((host, 1))).map(|taken| (taken, client))
        };
        let (stranger, friend) = ([127, 0, 0, 3], [127, 0, 0, 2]);
        let mut taken = Vec::new();
        for _ in 0..STRANGERS {
            taken.push(connection(stranger).await.unwrap());
        }
        assert!(connection(stranger).await.is_none());
        let (mut theirs, _client) = taken.pop().unwrap();
        let (mut ours, _other) = connection(friend).await.unwrap();

        let begun = tokio::time::Instant::now();
        let error = theirs.read_u8().await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed() < VISIT * 2), (io::ErrorKind::TimedOut, true));
        assert!(tokio::time::timeout(VISIT * 10, ours.read_u8()).await.is_err());
        drop(theirs);
        assert!(connection(stranger).await.is_some());
    }
}
