//! SSH by the system's `ssh`: one connection, many commands over it.
//!
//! The master process is started here, not by the `openssh` crate, so that it gets a clean
//! environment and its last words can be read; the commands then go over its control socket.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openssh::Session;
use thiserror::Error;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Child;
use tokio::process::Command;
use tokio::sync::mpsc::Sender;

use super::exec::Relay;
use crate::event::Stream;

/// A connection attempt may take this long before ssh itself gives it up.
const CONNECT: Duration = Duration::from_secs(10);
/// A whole login, key exchange on a booting machine included.
const LOGIN: Duration = Duration::from_secs(30);
/// How long a remote command may be silent before it is asked whether it has ended; an answer on its
/// way over a bad line takes seconds.
const SILENCE: Duration = Duration::from_secs(10);
/// How often the control socket is looked for; it appears when the login has succeeded.
const LOOK: Duration = Duration::from_millis(10);

/// Whom to connect to, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// Private key files, tried in this order.
    pub(crate) identities: Vec<PathBuf>,
    pub(crate) host_key: HostKey,
}

/// What is known of the host key.
#[derive(Debug, Clone)]
pub(crate) enum HostKey {
    /// Nothing yet: it is written into this file, which begins empty.
    Learn(PathBuf),
    /// It is in this file, perhaps under another name than the address.
    Known { file: PathBuf, alias: Option<String> },
}

/// Why there is no login.
#[derive(Debug, Error)]
pub(crate) enum LoginError {
    /// Nobody answers at that address.
    #[error("no route: {0}")]
    NoRoute(String),
    /// The address answers, the port does not.
    #[error("port closed: {0}")]
    PortClosed(String),
    /// The connection broke off.
    #[error("connection reset: {0}")]
    Reset(String),
    /// The port is open and says nothing.
    #[error("no banner: {0}")]
    NoBanner(String),
    /// User or key are not accepted.
    #[error("login refused: {0}")]
    Refused(String),
    /// It is not the machine that it was.
    #[error("the host key has changed: {0}")]
    HostKeyChanged(String),
    /// Something else, in ssh's own words.
    #[error("{0}")]
    Other(String),
    /// `ssh` could not be run.
    #[error("cannot run ssh")]
    NotRun(#[source] io::Error),
}

/// Where and with what environment `ssh` runs.
#[derive(Debug)]
pub(crate) struct Ssh {
    path: String,
    home: PathBuf,
    /// Control sockets; the path has to be short, for a socket's name ends after 107 bytes.
    directory: PathBuf,
    next: AtomicU64,
}

/// An open connection. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    session: Session,
    control: PathBuf,
    // Killed when dropped.
    _master: Child,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Best effort: a killed master leaves its socket behind.
        let _ = std::fs::remove_file(&self.control);
    }
}

impl Ssh {
    /// Prepares a directory for control sockets below `directory`, or a short one when that is too long.
    pub(crate) fn new(path: &str, home: &Path, directory: &Path) -> io::Result<Self> {
        const LONGEST: usize = 61;
        let mut own = directory.join("ssh");
        if own.as_os_str().len() > LONGEST {
            own = std::env::temp_dir().join(format!("pve-ssh-{}", std::process::id()));
        }
        create_private_directory(&own)?;
        check_private(&own)?;
        Ok(Self {
            path: path.to_owned(),
            home: home.to_owned(),
            directory: own,
            next: AtomicU64::new(0),
        })
    }

    /// Ends the connections that a server before this one has left: one that was killed ended none.
    pub(crate) async fn end_left_over(&self) {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let own = format!("{}-", std::process::id());
        let left_over =
            entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with(&own));
        for control in left_over.map(|entry| entry.path()) {
            let mut command = self.command();
            command.arg("-S").arg(&control).args(["-O", "exit", "--", "left-over"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            // A master that is gone, or does not answer, cannot be asked.
            let _ = tokio::time::timeout(CONNECT, command.status()).await;
            let _ = std::fs::remove_file(&control);
        }
    }

    /// `ssh` with a clean environment, and without any configuration of the operator's.
    #[expect(clippy::disallowed_methods, reason = "the one place where ssh is begun")]
    fn command(&self) -> Command {
        let mut command = Command::new("ssh");
        command.env_clear().env("PATH", &self.path).env("HOME", &self.home).env("LC_ALL", "C");
        // A Ctrl-C at the server's terminal is not meant for a connection that a job needs.
        command.stdin(Stdio::null()).kill_on_drop(true).process_group(0);
        command.args(["-F", "/dev/null"]);
        command
    }

    /// Logs in once.
    pub(crate) async fn open(&self, target: &Target) -> Result<Link, LoginError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let control = self.directory.join(format!("{}-{number}", std::process::id()));
        // What a server of the same process id has left would pass for a login.
        let _ = std::fs::remove_file(&control);
        let mut master = self.master(target, &control).spawn().map_err(LoginError::NotRun)?;
        let stderr = master.stderr.take();
        let words = tokio::spawn(async move {
            let mut text = Vec::new();
            if let Some(stderr) = stderr {
                // The connection may last for hours: no more than its first words are kept.
                let _ = stderr.take(1 << 16).read_to_end(&mut text).await;
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        let appeared = async {
            loop {
                tokio::select! {
                    ended = master.wait() => return ended.map(|_| false),
                    () = tokio::time::sleep(LOOK) => if control.exists() { return Ok(true) },
                }
            }
        };
        match tokio::time::timeout(LOGIN, appeared).await {
            Ok(Ok(true)) => {
                let session = Session::resume_mux(control.clone().into(), None);
                Ok(Link { session, control, _master: master })
            }
            Ok(Ok(false)) => Err(classify(words.await.unwrap_or_default().trim())),
            Ok(Err(error)) => Err(LoginError::NotRun(error)),
            Err(_) => Err(LoginError::NoBanner(format!("no login within {} s", LOGIN.as_secs()))),
        }
    }

    fn master(&self, target: &Target, control: &Path) -> Command {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.args(["-N", "-T", "-M"]);
        command.arg("-S").arg(control);
        let mut option = |name: &str, value: &OsStr| {
            let mut text = std::ffi::OsString::from(name);
            text.push("=");
            text.push(value);
            command.arg("-o").arg(text);
        };
        let connect = CONNECT.as_secs().to_string();
        for (name, value) in [
            ("BatchMode", "yes"),
            ("ControlPersist", "no"),
            ("IdentitiesOnly", "yes"),
            ("UpdateHostKeys", "no"),
            ("GlobalKnownHostsFile", "/dev/null"),
            ("ConnectTimeout", &connect),
            ("ServerAliveInterval", "10"),
            ("ServerAliveCountMax", "3"),
        ] {
            option(name, OsStr::new(value));
        }
        let (file, checking, alias) = match &target.host_key {
            HostKey::Learn(file) => (file, "accept-new", None),
            HostKey::Known { file, alias } => (file, "yes", alias.as_deref()),
        };
        option("UserKnownHostsFile", file.as_os_str());
        option("StrictHostKeyChecking", OsStr::new(checking));
        if let Some(alias) = alias {
            option("HostKeyAlias", OsStr::new(alias));
        }
        for identity in &target.identities {
            command.arg("-i").arg(identity);
        }
        command.arg("-p").arg(target.port.to_string()).arg("-l").arg(&target.user);
        command.arg("--").arg(&target.host);
        command
    }
}

/// Makes a directory that only its owner may look into.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Refuses a directory that somebody else made: who can swap a control socket reads what goes over it.
fn check_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    if found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} is not a directory that only this server can write to",
        path.display()
    )))
}

/// Puts ssh's last words into a class.
fn classify(words: &str) -> LoginError {
    let last = words.lines().last().unwrap_or("ssh ended without a word").trim().to_owned();
    let has = |part: &str| words.contains(part);
    if has("IDENTIFICATION HAS CHANGED") {
        LoginError::HostKeyChanged("the key is not the one that is known".to_owned())
    } else if has("Host key verification failed") {
        LoginError::Other("the host key is not known".to_owned())
    } else if has("Permission denied") || has("Too many authentication failures") {
        LoginError::Refused(last)
    } else if has("Connection refused") {
        LoginError::PortClosed(last)
    } else if has("during banner exchange") {
        LoginError::NoBanner(last)
    } else if has("No route to host") || has("Network is unreachable") || has("timed out") {
        LoginError::NoRoute(last)
    } else if has("reset by")
        || has("closed by")
        || has("kex_exchange_identification")
        || has("Broken pipe")
    {
        LoginError::Reset(last)
    } else {
        LoginError::Other(last)
    }
}

/// What a remote command has to say, line by line.
pub(crate) type Lines = Sender<(Stream, String)>;

impl Link {
    /// Runs a command line of the remote shell to its end.
    ///
    /// # Errors
    ///
    /// The link was lost or the command was killed: how it ended is not known.
    pub(crate) async fn run(
        &self,
        command: &str,
        input: Option<Vec<u8>>,
        lines: &Lines,
    ) -> io::Result<i32> {
        let mut remote = self.session.raw_command(command);
        remote
            .stdin(if input.is_some() { openssh::Stdio::piped() } else { openssh::Stdio::null() })
            .stdout(openssh::Stdio::piped())
            .stderr(openssh::Stdio::piped());
        let mut child = remote.spawn().await.map_err(io::Error::other)?;
        let (stdin, stdout, stderr) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A script that ends before its input is read closes the pipe: its exit code tells.
                let _ = stdin.write_all(&input).await;
            }
        };
        let relay = Relay::new(lines);
        let output = relay.all(stdout, Stream::Stdout);
        let errors = relay.all(stderr, Stream::Stderr);
        // Boxed, for they are large.
        let relayed = Box::pin(async { tokio::join!(feed, output, errors) });
        match relay.until_ended(relayed, Box::pin(child.wait()), SILENCE).await {
            Ok(status) => {
                status.code().ok_or_else(|| io::Error::other("it was killed by a signal"))
            }
            // The crate tells a shell's "command not found" by this error.
            Err(openssh::Error::Remote(error)) if error.kind() == io::ErrorKind::NotFound => {
                Ok(127)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Runs a command line and gives what it printed on standard output.
    pub(crate) async fn read(&self, command: &str) -> io::Result<(i32, String)> {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<(Stream, String)>(64);
        let collect = async {
            let mut text = String::new();
            while let Some((stream, line)) = receiver.recv().await {
                if stream == Stream::Stdout {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            text
        };
        let run = async {
            let code = self.run(command, None, &sender).await;
            drop(sender);
            code
        };
        let (code, text) = tokio::join!(run, collect);
        Ok((code?, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ssh_name_a_state() {
        let states = [
            "ssh: connect to host 192.0.2.1 port 22: No route to host",
            "ssh: connect to host 192.0.2.1 port 22: Connection timed out",
            "ssh: connect to host 192.0.2.1 port 22: Connection refused",
            "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 192.0.2.1 port 22",
            "Connection timed out during banner exchange\r\nConnection to 192.0.2.1 port 22 timed out",
            "Warning: Permanently added\r\ndebian@192.0.2.1: Permission denied (publickey).",
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification failed.",
            "No ED25519 host key is known for pve2 and you have requested strict checking.\r\nHost key verification failed.",
            "",
        ]
        .map(|words| classify(words).to_string());
        insta::assert_snapshot!(states.join("\n"), @"
        no route: ssh: connect to host 192.0.2.1 port 22: No route to host
        no route: ssh: connect to host 192.0.2.1 port 22: Connection timed out
        port closed: ssh: connect to host 192.0.2.1 port 22: Connection refused
        connection reset: Connection reset by 192.0.2.1 port 22
        no banner: Connection to 192.0.2.1 port 22 timed out
        login refused: debian@192.0.2.1: Permission denied (publickey).
        the host key has changed: the key is not the one that is known
        the host key is not known
        ssh ended without a word
        ");
    }
}
