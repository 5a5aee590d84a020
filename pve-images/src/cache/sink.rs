//! Where the bytes go: a thread that looks at them, hashes and writes them while the next ones come.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::checksum::Algorithm;
use crate::checksum::Hasher;
use crate::checksum::Sum;
use crate::qcow2;

/// Pieces on their way. One is at most some hundred kilobytes; more of them would cost memory and win nothing.
const QUEUE: usize = 8;
/// How much of an existing file is read at once.
const BLOCK: usize = 256 << 10;

/// Why the bytes could not be taken.
#[derive(Debug)]
pub(super) enum Fault {
    Read(io::Error),
    Write(io::Error),
    NotAnImage(&'static str),
}

enum Piece {
    Bytes(Bytes),
    /// All that came so far is of no use; says when it is gone.
    Restart(oneshot::Sender<()>),
    /// That was all: flush it.
    Finish,
}

/// A file that grows at its end.
pub(super) struct Sink {
    sender: mpsc::Sender<Piece>,
    /// Ends with `None` when it is left without `Finish`.
    thread: JoinHandle<Result<Option<Sum>, Fault>>,
    done: u64,
}

impl Sink {
    /// Goes on after the first `keep` bytes of a file.
    pub(super) fn start(file: Arc<File>, keep: u64, algorithm: Algorithm) -> Self {
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let thread =
            tokio::task::spawn_blocking(move || take(&file, keep, algorithm, &mut receiver));
        Self { sender, thread, done: keep }
    }

    /// Bytes that were taken.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), Fault> {
        let length = bytes.len() as u64;
        self.send(Piece::Bytes(bytes)).await?;
        self.done += length;
        Ok(())
    }

    /// Forgets all that came so far; it is gone from the file when this returns.
    pub(super) async fn restart(&mut self) -> Result<(), Fault> {
        let (gone, when_gone) = oneshot::channel();
        self.send(Piece::Restart(gone)).await?;
        self.done = 0;
        match when_gone.await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.fault().await),
        }
    }

    /// Flushes the file to disk and gives its checksum.
    pub(super) async fn finish(mut self) -> Result<Sum, Fault> {
        self.send(Piece::Finish).await?;
        match self.thread.await {
            Ok(Ok(Some(sum))) => Ok(sum),
            Ok(Err(fault)) => Err(fault),
            Ok(Ok(None)) => Err(gone()),
            Err(error) => Err(Fault::Write(io::Error::other(error))),
        }
    }

    /// Ends without flushing, when what was taken is written.
    pub(super) async fn leave(self) {
        drop(self.sender);
        if !self.thread.is_finished() {
            let _ = self.thread.await;
        }
    }

    async fn send(&mut self, piece: Piece) -> Result<(), Fault> {
        if self.sender.send(piece).await.is_ok() {
            return Ok(());
        }
        Err(self.fault().await)
    }

    /// Why the thread has ended before us.
    async fn fault(&mut self) -> Fault {
        match (&mut self.thread).await {
            Ok(Err(fault)) => fault,
            Ok(Ok(_)) => gone(),
            Err(error) => Fault::Write(io::Error::other(error)),
        }
    }
}

fn gone() -> Fault {
    Fault::Write(io::Error::other("the writing thread has ended early"))
}

/// The checksum of the first `length` bytes of a file, which must be an image.
pub(super) fn digest(file: &File, length: u64, algorithm: Algorithm) -> Result<Sum, Fault> {
    let mut taken = Taken::new(algorithm);
    taken.existing(file, length)?;
    taken.end()
}

fn take(
    file: &File,
    keep: u64,
    algorithm: Algorithm,
    receiver: &mut mpsc::Receiver<Piece>,
) -> Result<Option<Sum>, Fault> {
    let mut taken = Taken::new(algorithm);
    taken.existing(file, keep)?;
    while let Some(piece) = receiver.blocking_recv() {
        match piece {
            Piece::Bytes(bytes) => {
                let at = taken.length;
                taken.add(&bytes)?;
                file.write_all_at(&bytes, at).map_err(Fault::Write)?;
            }
            Piece::Restart(gone) => {
                file.set_len(0).map_err(Fault::Write)?;
                taken = Taken::new(algorithm);
                // Nobody listens when the download was cancelled.
                let _ = gone.send(());
            }
            Piece::Finish => {
                file.sync_all().map_err(Fault::Write)?;
                return taken.end().map(Some);
            }
        }
    }
    Ok(None)
}

/// What is known of the bytes so far.
struct Taken {
    length: u64,
    hasher: Hasher,
    header: Vec<u8>,
}

impl Taken {
    fn new(algorithm: Algorithm) -> Self {
        Self { length: 0, hasher: Hasher::new(algorithm), header: Vec::new() }
    }

    /// Looks at the first bytes as soon as they are there: a web page need not be downloaded to its end.
    fn add(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let missing = qcow2::HEADER - self.header.len();
        if missing > 0 {
            self.header.extend_from_slice(&bytes[..missing.min(bytes.len())]);
            if self.header.len() == qcow2::HEADER {
                qcow2::check(&self.header).map_err(Fault::NotAnImage)?;
            }
        }
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn existing(&mut self, file: &File, length: u64) -> Result<(), Fault> {
        let mut block = vec![0; BLOCK];
        while self.length < length {
            let wanted = usize::try_from(length - self.length).unwrap_or(BLOCK).min(BLOCK);
            let read = match file.read_at(&mut block[..wanted], self.length) {
                Ok(0) => return Err(Fault::Read(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Fault::Read(error)),
            };
            self.add(&block[..read])?;
        }
        Ok(())
    }

    fn end(self) -> Result<Sum, Fault> {
        if self.header.len() < qcow2::HEADER {
            qcow2::check(&self.header).map_err(Fault::NotAnImage)?;
        }
        Ok(self.hasher.finish())
    }
}
