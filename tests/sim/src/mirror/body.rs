//! Sends the pieces of a body, as the faults let it.

use std::io;
use std::io::SeekFrom;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncSeekExt;
use tokio::sync::mpsc;

use crate::mirror::Shared;
use crate::mirror::Source;
use crate::mirror::fault::Met;

/// The bytes of one piece.
const PIECE: u64 = 256 * 1024;
/// How often a second a body that is slowed down sends something.
const TICKS: u64 = 20;
/// What came before a cut gets this long to reach the socket.
const BEFORE_CUT: Duration = Duration::from_millis(20);

pub(crate) struct Pump {
    pub(crate) shared: Arc<Shared>,
    /// Which request this answers.
    pub(crate) number: usize,
    pub(crate) met: Met,
    pub(crate) source: Source,
    pub(crate) range: Range<u64>,
    pub(crate) sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Pump {
    pub(crate) async fn run(mut self) {
        let sent = self.send().await;
        match sent {
            Err(error) => _ = self.sender.send(Err(error)).await,
            Ok(()) if self.met.cut.is_some() => {
                tokio::time::sleep(BEFORE_CUT).await;
                _ = self.sender.send(Err(io::ErrorKind::ConnectionAborted.into())).await;
            }
            Ok(()) if self.met.stall.is_some() => self.sender.closed().await,
            Ok(()) => {}
        }
    }

    /// Sends until it has all been sent, or as much as shall be, or nobody wants more.
    async fn send(&mut self) -> io::Result<()> {
        let total = self.range.end - self.range.start;
        let mut left =
            self.met.cut.or(self.met.stall).map_or(total, |percent| total * percent / 100);
        let piece = self.met.rate.map_or(PIECE, |rate| (rate / TICKS).clamp(1, PIECE));
        let mut reader = Reader::open(&self.source, self.range.start).await?;
        while left > 0 {
            let bytes = reader.read(piece.min(left)).await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let length = bytes.len() as u64;
            left = left.saturating_sub(length);
            let bytes = if self.met.corrupt { corrupt(&bytes) } else { bytes };
            if self.sender.send(Ok(bytes)).await.is_err() {
                return Ok(());
            }
            if let Some(request) = self.shared.state().requests.get_mut(self.number) {
                request.sent += length;
            }
            if let Some(rate) = self.met.rate {
                let nanoseconds = length.saturating_mul(1_000_000_000) / rate.max(1);
                tokio::time::sleep(Duration::from_nanos(nanoseconds)).await;
            }
        }
        Ok(())
    }
}

/// The same with its last bit turned.
fn corrupt(bytes: &Bytes) -> Bytes {
    let mut bytes = BytesMut::from(&bytes[..]);
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes.freeze()
}

enum Reader {
    Bytes(Bytes),
    File(File),
}

impl Reader {
    async fn open(source: &Source, start: u64) -> io::Result<Self> {
        match source {
            Source::Bytes(bytes) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Self::Bytes(bytes.slice(start..)))
            }
            Source::File(path) => {
                let mut file = File::open(path).await?;
                file.seek(SeekFrom::Start(start)).await?;
                Ok(Self::File(file))
            }
        }
    }

    /// Not more than `most` bytes; none at the end.
    async fn read(&mut self, most: u64) -> io::Result<Bytes> {
        let size = usize::try_from(most).unwrap_or(usize::MAX);
        match self {
            Self::Bytes(bytes) => Ok(bytes.split_to(size.min(bytes.len()))),
            Self::File(file) => {
                let mut buffer = BytesMut::with_capacity(size);
                file.take(most).read_buf(&mut buffer).await?;
                Ok(buffer.freeze())
            }
        }
    }
}
