//! The socket that the faces speak to.

use std::io;
use std::path::Path;

use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Commands;
use crate::cli::Invocation;
use crate::face::SOCKET;
use crate::face::Told;

/// Serves the faces until the task is aborted.
pub(super) fn serve(bin: &Path, commands: Commands) -> io::Result<JoinHandle<()>> {
    let listener = UnixListener::bind(bin.join(SOCKET))?;
    Ok(tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let commands = commands.clone();
                    tokio::spawn(async move {
                        if let Err(error) = speak(stream, commands).await {
                            tracing::debug!(%error, "a face has gone");
                        }
                    });
                }
                Err(error) => {
                    tracing::error!(%error, "the socket takes no more faces");
                    return;
                }
            }
        }
    }))
}

/// One command. When its process goes away the command is carried out all the same.
async fn speak(stream: UnixStream, commands: Commands) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    let told: Told = serde_json::from_str(&line)?;
    let invocation = Invocation {
        node: commands.main_node(),
        program: told.program,
        arguments: told.arguments,
        directory: told.directory,
    };
    let (sink, mut frames) = mpsc::unbounded_channel();
    tokio::spawn(async move { commands.run(invocation, told.environment, sink).await });
    // A face says nothing more: its end of the socket tells when its process has gone.
    let mut rest = Vec::new();
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            _ = reader.read_until(b'\n', &mut rest) => None,
        };
        let Some(frame) = frame else { return Ok(()) };
        let mut line = serde_json::to_vec(&frame)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
    }
}
