//! The server's side of SSH as guests and nodes need it: public keys only, and commands that are
//! handed to a host as text. Nothing that arrives is executed here.

mod call;
mod unwrap;
mod words;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use russh::Channel;
use russh::ChannelId;
use russh::ChannelMsg;
use russh::ChannelReadHalf;
use russh::MethodKind;
use russh::MethodSet;
use russh::Sig;
use russh::keys::Algorithm;
use russh::keys::PrivateKey;
use russh::keys::PublicKey;
use russh::server;
use russh::server::Auth;
use russh::server::ChannelOpenHandle;
use russh::server::Msg;
use russh::server::PublicKeyOffer;
use russh::server::Session;
use russh::server::VerifiedPublicKey;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::call::Call;
pub use self::call::Exit;
pub use self::call::Link;
pub use self::call::Output;
pub use self::call::Stdin;
pub use self::call::Stream;
pub(crate) use self::unwrap::Unwrapped;

use self::call::Line;

/// The bytes that may wait between the socket and the protocol.
const LINE_BUFFER: usize = 256 * 1024;

/// What speaks on the other side of a login.
pub(crate) trait Host: Send + Sync + 'static {
    /// The name by which the server introduces itself, `SSH-2.0-…`.
    fn server_id(&self) -> String;

    /// Whether this key may log in as this user now.
    fn admits(&self, user: &str, key: &PublicKey) -> bool;

    /// A login has succeeded.
    fn logged_in(&self, user: &str);

    /// A connection that had offered keys ended without a login.
    fn refused(&self, user: &str);

    /// Answers one command.
    fn exec(self: Arc<Self>, call: Call) -> impl Future<Output = Exit> + Send;
}

/// A new ed25519 key.
pub(crate) fn new_key() -> io::Result<PrivateKey> {
    PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519)
        .map_err(io::Error::other)
}

/// Speaks SSH on a connection until it ends.
pub(crate) async fn serve<H: Host>(host: Arc<H>, key: PrivateKey, tcp: TcpStream) {
    let (near, far) = tokio::io::duplex(LINE_BUFFER);
    let (sender, line) = watch::channel(Line::Up);
    let session = speak(host, key, near, Link(Arc::new(sender)));
    let carried = carry(tcp, far, line);
    tokio::join!(session, carried);
}

async fn speak<H: Host>(
    host: Arc<H>,
    key: PrivateKey,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    link: Link,
) {
    let config = server::Config {
        server_id: russh::SshId::Standard(host.server_id().into()),
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        auth_rejection_time: Duration::ZERO,
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys: vec![key],
        inactivity_timeout: None,
        ..server::Config::default()
    };
    let connection =
        Connection { host, link, user: String::new(), offered: false, admitted: false };
    let ended = match server::run_stream(Arc::new(config), stream, connection).await {
        Ok(session) => session.await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an ssh connection ended early");
    }
}

/// Carries bytes between the socket and the protocol for as long as the line is up.
async fn carry(
    mut tcp: TcpStream,
    mut protocol: impl AsyncRead + AsyncWrite + Unpin,
    mut line: watch::Receiver<Line>,
) {
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let state = tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut tcp, &mut protocol) => None,
        state = line.wait_for(|line| *line != Line::Up) => state.ok().map(|state| *state),
    };
    match state {
        Some(Line::Silent) => std::future::pending().await,
        Some(Line::Cut) => {
            reset(tcp);
        }
        Some(Line::Up) | None => {
            _ = tcp.shutdown().await;
        }
    }
}

/// Ends a connection with a reset instead of a farewell.
pub(crate) fn reset(tcp: TcpStream) {
    if let Err(error) = tcp.set_zero_linger() {
        tracing::debug!(%error, "a connection cannot be reset");
    }
    drop(tcp);
}

struct Connection<H: Host> {
    host: Arc<H>,
    link: Link,
    user: String,
    offered: bool,
    admitted: bool,
}

impl<H: Host> Connection<H> {
    fn decide(&mut self, user: &str, key: &PublicKey) -> Auth {
        user.clone_into(&mut self.user);
        self.offered = true;
        if self.host.admits(user, key) { Auth::Accept } else { Auth::reject() }
    }
}

impl<H: Host> Drop for Connection<H> {
    fn drop(&mut self) {
        if self.offered && !self.admitted {
            self.host.refused(&self.user);
        }
    }
}

impl<H: Host> server::Handler for Connection<H> {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, offer.public_key))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.decide(user, key.public_key))
    }

    async fn auth_succeeded(&mut self, _session: &mut Session) -> Result<(), Self::Error> {
        self.admitted = true;
        self.host.logged_in(&self.user);
        Ok(())
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        let (user, link) = (self.user.clone(), self.link.clone());
        tokio::spawn(serve_channel(Arc::clone(&self.host), user, link, channel, session.handle()));
        Ok(())
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(russh::Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn env_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        _value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn shell_request(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }
}

async fn serve_channel<H: Host>(
    host: Arc<H>,
    user: String,
    link: Link,
    channel: Channel<Msg>,
    session: server::Handle,
) {
    let (mut reader, writer) = channel.split();
    let mut environment = Vec::new();
    let text = loop {
        match reader.wait().await {
            Some(ChannelMsg::SetEnv { variable_name, variable_value, .. }) => {
                environment.push((variable_name, variable_value));
            }
            Some(ChannelMsg::Exec { command, .. }) => {
                break Some(String::from_utf8_lossy(&command).into_owned());
            }
            Some(ChannelMsg::RequestShell { .. }) => break None,
            Some(ChannelMsg::Close) | None => return,
            Some(_) => {}
        }
    };
    let closed = CancellationToken::new();
    let (sender, stdin) = mpsc::unbounded_channel();
    tokio::spawn(pump(reader, sender, closed.clone()));
    let output = Output { writer: Arc::new(writer), session, closed };
    let call = Call { user, text, environment, stdin: Stdin(stdin), output: output.clone(), link };
    let exit = host.exec(call).await;
    output.finish(exit).await;
}

/// Takes what the client sends, always at once: a channel that is not read holds up its siblings.
async fn pump(
    mut reader: ChannelReadHalf,
    stdin: mpsc::UnboundedSender<Bytes>,
    closed: CancellationToken,
) {
    let mut stdin = Some(stdin);
    loop {
        match reader.wait().await {
            Some(ChannelMsg::Data { data }) => {
                if let Some(stdin) = &stdin {
                    // A command that does not read its input loses it, as everywhere.
                    _ = stdin.send(data);
                }
            }
            Some(ChannelMsg::Eof) => stdin = None,
            Some(ChannelMsg::Close | ChannelMsg::Signal { signal: Sig::HUP }) | None => {
                closed.cancel();
                return;
            }
            Some(_) => {}
        }
    }
}
