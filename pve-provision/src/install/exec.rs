//! Running commands: here, or by ssh on the node that has the VM.
//!
//! Every command is driven to its end by a task of its own: whoever waits for it may go away, the
//! command does not notice. None is ever killed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pve_api::NodeName;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;
use tokio::io::BufReader;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use tokio::sync::mpsc;

use super::commands::CommandLine;
use super::commands::shell_words;
use super::held::Held;
use super::problem::CommandError;
use super::ssh::HostKey;
use super::ssh::Lines;
use super::ssh::LoginError;
use super::ssh::Ssh;
use super::ssh::Target;
use crate::event::Stream;

/// How many lines may wait for their reader before a command's output pauses.
const BACKLOG: usize = 256;
/// What a shell adds to a signal's number to make an exit code of it.
const SIGNAL: i32 = 128;
/// The longest line that is relayed as one.
const LONGEST_LINE: u64 = 4 << 20;
/// How the usage line ends that follows a refused option.
const USAGE: &str = "[OPTIONS]";
/// How long a command's output may be silent before it is asked whether the command has ended.
const SILENCE: Duration = Duration::from_secs(2);
/// How long the answer to that is waited for.
const ANSWER: Duration = Duration::from_millis(10);
/// How many last lines of a failed command are told.
const LAST_WORDS: usize = 8;

/// What a command printed.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs commands with a clean environment.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    path: String,
    home: PathBuf,
    ssh: Arc<Ssh>,
    held: Arc<Held>,
}

/// How another node is reached.
#[derive(Debug, Clone)]
pub(crate) struct NodeAddress {
    pub(crate) node: NodeName,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) known_hosts: PathBuf,
}

impl Exec {
    /// Prepares for commands that hold a file below `directory` while they run.
    pub(crate) fn new(
        path: &str,
        home: &Path,
        directory: &Path,
        ssh: Arc<Ssh>,
    ) -> io::Result<Self> {
        let held = Arc::new(Held::new(&directory.join("commands"))?);
        Ok(Self { path: path.to_owned(), home: home.to_owned(), ssh, held })
    }

    /// Whether a command that a server before this one has begun is still at work here.
    pub(crate) fn left_over(&self) -> bool {
        self.held.left_over()
    }

    /// Runs a command on this node to its end; `on_line` sees each line as it comes.
    pub(crate) async fn here(
        &self,
        line: CommandLine,
        lines: Option<Lines>,
    ) -> Result<Output, CommandError> {
        let exec = self.clone();
        driven(line, lines, move |line, lines| async move { exec.run_here(&line, &lines).await })
            .await
    }

    /// Runs a command on another node.
    pub(crate) async fn there(
        &self,
        line: CommandLine,
        node: NodeAddress,
        lines: Option<Lines>,
    ) -> Result<Output, CommandError> {
        let exec = self.clone();
        driven(
            line,
            lines,
            move |line, lines| async move { exec.run_there(&line, &node, &lines).await },
        )
        .await
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where commands are begun")]
    async fn run_here(&self, line: &CommandLine, lines: &Lines) -> Result<i32, CommandError> {
        let not_run = |source| CommandError::NotRun { title: line.title(), source };
        let mut command = Command::new(line.program);
        command
            .args(&line.arguments)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .env("LC_ALL", "C");
        let stdin = if line.changes_a_vm() {
            Stdio::from(self.held.file.try_clone().map_err(not_run)?)
        } else {
            Stdio::null()
        };
        let ((stdout, to_stdout), (stderr, to_stderr)) =
            pipe().and_then(|stdout| Ok((stdout, pipe()?))).map_err(not_run)?;
        command.stdin(stdin).stdout(to_stdout).stderr(to_stderr);
        // A signal to the server's process group is not meant for a command that changes the cluster.
        command.process_group(0);
        let mut child = command.spawn().map_err(not_run)?;
        // It holds the ends of the pipes that the command writes to.
        drop(command);
        let relay = Relay::new(lines);
        let output = relay.all(Some(stdout), Stream::Stdout);
        let errors = relay.all(Some(stderr), Stream::Stderr);
        let relayed = async { tokio::join!(output, errors) };
        let unknown = |why: String| CommandError::Unknown { title: line.title(), why };
        let status = relay.until_ended(relayed, child.wait(), SILENCE).await;
        let status = status.map_err(|error| unknown(error.to_string()))?;
        // A process that was waited for has ended, however it did.
        Ok(status
            .code()
            .or_else(|| status.signal().map(|signal| SIGNAL + signal))
            .unwrap_or(SIGNAL))
    }

    async fn run_there(
        &self,
        line: &CommandLine,
        node: &NodeAddress,
        lines: &Lines,
    ) -> Result<i32, CommandError> {
        let target = Target {
            host: node.host.clone(),
            port: node.port,
            user: "root".to_owned(),
            identities: default_identities(&self.home),
            host_key: HostKey::Known {
                file: node.known_hosts.clone(),
                alias: Some(node.node.to_string()),
            },
        };
        let unreachable = |source: LoginError| CommandError::NoNode {
            title: line.title(),
            node: node.node.clone(),
            source,
        };
        let connection = self.ssh.open(&target).await.map_err(unreachable)?;
        let words: Vec<String> =
            shell_words(line).into_iter().map(|word| quoted(&word.to_string_lossy())).collect();
        connection
            .run(&words.join(" "), None, lines)
            .await
            .map_err(|error| CommandError::Unknown { title: line.title(), why: error.to_string() })
    }
}

/// A pipe, and the end of it for a command.
///
/// The command gets it open for reading, too: should this server die, the pipe still has a reader, and
/// the command goes on instead of dying at its next line. There is room for what a command says.
fn pipe() -> io::Result<(Receiver, Stdio)> {
    const ROOM: usize = 1 << 20;
    let (reader, writer) = io::pipe()?;
    // More room than usual may not be had.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, ROOM);
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let end = match File::options().read(true).write(true).open(path) {
        Ok(both) => Stdio::from(both),
        Err(_) => Stdio::from(writer),
    };
    Ok((Receiver::from_owned_fd(reader.into())?, end))
}

/// Root's own keys, those that exist.
fn default_identities(home: &Path) -> Vec<PathBuf> {
    let names = ["id_rsa", "id_ed25519", "id_ecdsa"];
    names
        .map(|name| home.join(".ssh").join(name))
        .into_iter()
        .filter(|path| path.exists())
        .collect()
}

/// One word of a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Drives a command in a task of its own and collects what it prints.
async fn driven<F, R>(
    line: CommandLine,
    relay: Option<Lines>,
    run: F,
) -> Result<Output, CommandError>
where
    F: FnOnce(CommandLine, Lines) -> R + Send + 'static,
    R: Future<Output = Result<i32, CommandError>> + Send + 'static,
{
    let (title, limit, secret) = (line.title(), line.limit, line.secret.clone());
    let (sender, mut receiver) = mpsc::channel(BACKLOG);
    let running = tokio::spawn(run(line, sender));
    let collect = async {
        let mut output = Output::default();
        while let Some((stream, text)) = receiver.recv().await {
            let kept = match stream {
                Stream::Stdout => &mut output.stdout,
                Stream::Stderr => &mut output.stderr,
            };
            kept.push_str(&text);
            kept.push('\n');
            if let Some(relay) = &relay {
                // A reader that has gone away does not stop the command.
                let _ = relay.send((stream, text)).await;
            }
        }
        output
    };
    let whole = async { tokio::join!(running, collect) };
    let Ok((code, output)) = tokio::time::timeout(limit, whole).await else {
        return Err(CommandError::StillRunning { title, limit });
    };
    match code {
        Ok(Ok(0)) => Ok(output),
        Ok(Ok(code)) => {
            let text = secret
                .iter()
                .fold(last_words(&output), |text, secret| text.replace(secret, "********"));
            Err(CommandError::Failed { title, code, text })
        }
        Ok(Err(error)) => Err(error),
        Err(error) => Err(CommandError::Unknown { title, why: error.to_string() }),
    }
}

/// What a failed command says of itself: its standard error, or else its output.
fn last_words(output: &Output) -> String {
    let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.ends_with(USAGE))
        .collect();
    if lines.is_empty() {
        return "it said nothing".to_owned();
    }
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("; ")
}

/// What a command prints, on its way to whoever listens.
pub(super) struct Relay<'a> {
    lines: &'a Lines,
    read: AtomicUsize,
    sent: AtomicUsize,
}

impl<'a> Relay<'a> {
    pub(super) fn new(lines: &'a Lines) -> Self {
        Self { lines, read: AtomicUsize::new(0), sent: AtomicUsize::new(0) }
    }

    /// Sends every line of `pipe`, whatever its bytes, until it ends.
    pub(super) async fn all(&self, pipe: Option<impl AsyncRead + Unpin>, stream: Stream) {
        let Some(pipe) = pipe else { return };
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => self.read.fetch_add(1, Ordering::Relaxed),
            };
            while matches!(bytes.last(), Some(b'\n' | b'\r')) {
                bytes.pop();
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // Nobody listens any more: the pipe is still read, so that the command can go on.
            let _ = self.lines.send((stream, text)).await;
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for the end of a command and of its output.
    ///
    /// What it has left running may keep the output open for ever: where nothing came for `silence`
    /// and nobody is behind with reading, the end of the command itself is enough. `ended` is not
    /// asked before, for over ssh the output is lost that has not been read when it answers.
    pub(super) async fn until_ended<T>(
        &self,
        relayed: impl Future,
        ended: impl Future<Output = T>,
        silence: Duration,
    ) -> T {
        let (mut relayed, mut ended) = (pin!(relayed), pin!(ended));
        loop {
            let before = self.read.load(Ordering::Relaxed);
            if tokio::time::timeout(silence, &mut relayed).await.is_ok() {
                return ended.await;
            }
            let silent = self.read.load(Ordering::Relaxed) == before
                && self.sent.load(Ordering::Relaxed) == before;
            if silent && let Ok(status) = tokio::time::timeout(ANSWER, &mut ended).await {
                return status;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// How long what is left running is talkative, and how many lines of it are told.
    async fn left_running(receiver_takes: Duration) -> (usize, Duration) {
        let (sender, mut receiver) = mpsc::channel(1);
        let (mut writer, reader) = tokio::io::duplex(64);
        let begun = tokio::time::Instant::now();
        let command = async move {
            let relay = Relay::new(&sender);
            let relayed = relay.all(Some(reader), Stream::Stdout);
            relay.until_ended(relayed, async { 7 }, SILENCE).await
        };
        let talk = async {
            for _ in 0..5 {
                tokio::time::sleep(SILENCE / 2).await;
                writer.write_all(b"late\n").await.unwrap();
            }
            writer
        };
        let listen = async {
            let mut told = 0;
            while receiver.recv().await.is_some() {
                tokio::time::sleep(receiver_takes).await;
                told += 1;
            }
            told
        };
        let (status, _open, told) = tokio::join!(command, talk, listen);
        assert_eq!(status, 7);
        (told, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_command_leaves_running_is_not_waited_for_when_it_is_silent() {
        let (told, taken) = left_running(Duration::ZERO).await;
        assert_eq!(told, 5);
        assert!(taken < SILENCE * 6, "{taken:?}");
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the command that goes on")]
    async fn a_command_goes_on_when_nobody_reads_it_any_more() {
        let (reader, end) = pipe().unwrap();
        let script = "read line; echo one; echo two && exit 7";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(end);
        let mut child = command.spawn().unwrap();
        drop((reader, command));
        child.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_is_told_however_slow_its_reader_is() {
        let (told, _) = left_running(SILENCE * 3).await;
        assert_eq!(told, 5);
    }
}
