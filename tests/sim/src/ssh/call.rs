//! A command that has arrived: what was sent, what answers it, and the connection below.

use std::sync::Arc;

use bytes::Bytes;
use russh::ChannelWriteHalf;
use russh::Sig;
use russh::server::Handle;
use russh::server::Msg;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the extended data of a channel that carries standard error is called.
const STANDARD_ERROR: u32 = 1;

/// One command on one channel.
#[derive(Debug)]
pub struct Call {
    /// Who is logged in.
    pub user: String,
    /// What was sent, or nothing when a shell was asked for.
    pub text: Option<String>,
    /// The variables that the client sent along.
    pub environment: Vec<(String, String)>,
    /// What the client writes.
    pub stdin: Stdin,
    /// Where the answer goes.
    pub output: Output,
    /// The connection below.
    pub link: Link,
}

/// The bytes that a client writes to its command.
#[derive(Debug)]
pub struct Stdin(pub(super) mpsc::UnboundedReceiver<Bytes>);

impl Stdin {
    /// The next piece, or nothing once the client has closed its side.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }

    /// Everything until the client closes its side.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(piece) = self.0.recv().await {
            whole.extend_from_slice(&piece);
        }
        whole
    }
}

/// One of a command's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The way back to the client; writing into it after the client has left does nothing.
#[derive(Debug, Clone)]
pub struct Output {
    pub(super) writer: Arc<ChannelWriteHalf<Msg>>,
    pub(super) session: Handle,
    pub(super) closed: CancellationToken,
}

impl Output {
    /// Sends bytes, waiting while the client is slow.
    pub async fn write(&self, stream: Stream, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let sent = async {
            match stream {
                Stream::Out => self.writer.data_bytes(bytes).await,
                Stream::Err => self.writer.extended_data_bytes(STANDARD_ERROR, bytes).await,
            }
        };
        tokio::select! {
            () = self.closed.cancelled() => {}
            sent = sent => {
                if sent.is_err() {
                    self.closed.cancel();
                }
            }
        }
    }

    /// Waits until the client has everything that was written: it is asked for something that it
    /// refuses, and refuses only after it has read what came before.
    pub async fn arrived(&self) {
        tokio::select! {
            () = self.closed.cancelled() => {}
            _ = self.session.channel_open_session() => {}
        }
    }

    /// Resolves once the client has closed the channel or the connection.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    pub(super) async fn finish(&self, exit: Exit) {
        let finished = async {
            match exit {
                Exit::Code(code) => self.writer.exit_status(code).await?,
                Exit::OutputOpen(code) => {
                    self.writer.exit_status(code).await?;
                    std::future::pending::<()>().await;
                }
                Exit::Killed => {
                    let (message, language) = (String::new(), String::new());
                    // Refused only when the connection has ended, which the next line notices.
                    _ = self
                        .session
                        .exit_signal_request(self.writer.id(), Sig::TERM, false, message, language)
                        .await;
                }
                Exit::Nothing => {}
            }
            self.writer.eof().await?;
            self.writer.close().await
        };
        tokio::select! {
            () = self.closed.cancelled() => {}
            _ = finished => {}
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(u32),
    /// With this code, while something that it has left running keeps its output open.
    OutputOpen(u32),
    /// By the signal TERM.
    Killed,
    /// The channel just closes; no code is sent.
    Nothing,
}

/// What can be done to the connection below a command.
#[derive(Debug, Clone)]
pub struct Link(pub(super) Arc<watch::Sender<Line>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Up,
    Silent,
    Cut,
}

impl Link {
    /// Resets the connection.
    pub fn cut(&self) {
        self.0.send_replace(Line::Cut);
    }

    /// From here on nothing is read or written, and nobody is told: a pulled cable.
    pub fn silence(&self) {
        self.0.send_replace(Line::Silent);
    }
}
