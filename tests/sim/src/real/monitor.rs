//! The two sockets of a QEMU process: its monitor, and the channel of the guest's agent.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::bail;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::io::Lines;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::timeout;

/// QEMU answers at once unless the machine is overloaded.
const ANSWER: Duration = Duration::from_secs(10);

/// Lets QEMU execute a command without arguments.
pub(super) async fn execute(socket: &Path, command: &str) -> anyhow::Result<()> {
    let talk = async {
        let mut channel = Channel::open(socket).await?;
        channel.read().await?;
        channel.ask(&json!({"execute": "qmp_capabilities"})).await?;
        channel.ask(&json!({"execute": command})).await
    };
    timeout(ANSWER, talk).await.with_context(|| format!("no answer to {command}"))?.map(drop)
}

/// Whether the guest's agent answers.
pub(super) async fn ping(socket: &Path, limit: Duration) -> anyhow::Result<()> {
    let talk = async {
        let mut channel = Channel::open(socket).await?;
        channel.synchronise().await?;
        channel.ask(&json!({"execute": "guest-ping"})).await
    };
    timeout(limit, talk).await.context("QEMU guest agent is not running")?.map(drop)
}

/// Asks the guest's agent to power the guest down; a success has no answer.
pub(super) async fn shut_down(socket: &Path, limit: Duration) -> anyhow::Result<()> {
    let talk = async {
        let mut channel = Channel::open(socket).await?;
        channel.synchronise().await?;
        channel
            .write(&json!({"execute": "guest-shutdown", "arguments": {"mode": "powerdown"}}))
            .await
    };
    timeout(limit, talk).await.context("QEMU guest agent does not take guest-shutdown")?
}

/// Lines of JSON in both directions.
struct Channel {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Channel {
    async fn open(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).await;
        let stream = stream.with_context(|| format!("cannot connect to {}", socket.display()))?;
        let (reader, writer) = stream.into_split();
        Ok(Self { lines: BufReader::new(reader).lines(), writer })
    }

    async fn write(&mut self, message: &Value) -> anyhow::Result<()> {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.context("cannot write")
    }

    async fn read(&mut self) -> anyhow::Result<Value> {
        let line = self.lines.next_line().await?.context("closed by QEMU")?;
        // The agent marks the start of an answer with a byte that JSON does not know.
        serde_json::from_str(line.trim_start_matches('\u{fffd}')).context("not JSON")
    }

    /// Sends a command and skips events until its answer.
    async fn ask(&mut self, command: &Value) -> anyhow::Result<Value> {
        self.write(command).await?;
        loop {
            let answer = self.read().await?;
            if let Some(error) = answer.get("error") {
                bail!("{command}: {error}");
            }
            if let Some(result) = answer.get("return") {
                return Ok(result.clone());
            }
        }
    }

    /// Skips answers that an earlier client of the agent did not wait for.
    async fn synchronise(&mut self) -> anyhow::Result<()> {
        let id = std::process::id();
        let mut answer =
            self.ask(&json!({"execute": "guest-sync", "arguments": {"id": id}})).await?;
        while answer != json!(id) {
            answer = self.read().await?.get("return").cloned().unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;
    use tokio::io::AsyncBufReadExt;
    use tokio::io::AsyncWriteExt;
    use tokio::io::BufReader;
    use tokio::net::UnixListener;

    use super::ping;

    #[tokio::test]
    async fn an_answer_that_nobody_waited_for_is_not_taken_for_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let agent = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = stream.into_split();
            let mut lines = BufReader::new(reader).lines();
            let sync: Value =
                serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            let old = "{\"return\": 1}\n{\"return\": {}}\n";
            let answer = format!("{old}{{\"return\": {}}}\n", sync["arguments"]["id"]);
            writer.write_all(answer.as_bytes()).await.unwrap();
            let ping = lines.next_line().await.unwrap().unwrap();
            writer.write_all(b"{\"error\": {\"desc\": \"no\"}}\n").await.unwrap();
            ping
        });
        let answer = ping(&socket, Duration::from_secs(10)).await.unwrap_err().to_string();
        assert_eq!(agent.await.unwrap(), r#"{"execute":"guest-ping"}"#);
        assert!(answer.contains(r#"{"desc":"no"}"#), "{answer}");
    }
}
