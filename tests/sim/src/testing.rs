//! What the tests of this crate share: networks of their own and the real OpenSSH client.

use std::fs;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use russh::keys::ssh_key::LineEnding;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio::process::Command;

/// The port of every simulated SSH server in these tests.
const PORT: u16 = 2222;

/// The port at whose `.1` a network is claimed, by a whole simulator too.
const CLAIM: u16 = 8006;

/// How long a condition may take to come true.
const LIMIT: Duration = Duration::from_secs(20);

/// A /24 of loopback addresses that nobody else uses while this lives.
#[derive(Debug)]
pub(crate) struct Network {
    prefix: [u8; 3],
    _claim: Option<TcpListener>,
}

impl Network {
    /// Takes the first network whose `.1` is free.
    pub(crate) fn claim() -> Self {
        for second in 192..=255 {
            for third in 0..=255 {
                if let Ok(claim) = TcpListener::bind((Ipv4Addr::new(127, second, third, 1), CLAIM))
                {
                    return Self { prefix: [127, second, third], _claim: Some(claim) };
                }
            }
        }
        panic!("no loopback network is free");
    }

    /// This network, whoever else uses it.
    pub(crate) fn named(prefix: [u8; 3]) -> Self {
        Self { prefix, _claim: None }
    }

    pub(crate) fn address(&self, host: u32) -> Ipv4Addr {
        let [first, second, third] = self.prefix;
        Ipv4Addr::new(first, second, third, host.try_into().unwrap())
    }

    #[expect(clippy::unused_self, reason = "the port belongs to the network")]
    pub(crate) fn port(&self) -> u16 {
        PORT
    }
}

/// Polls until the condition holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let polled = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, polled).await.is_ok(), "did not come true: {what}");
}

/// What an ssh command has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Answer {
    pub(crate) fn out(&self) -> &str {
        str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn err(&self) -> &str {
        str::from_utf8(&self.stderr).unwrap()
    }
}

/// The OpenSSH client with a key and known hosts of its own, away from the user's files.
#[derive(Debug)]
pub(crate) struct Client {
    directory: TempDir,
    network: [u8; 3],
}

/// A connection that other commands share.
#[derive(Debug)]
pub(crate) struct Master {
    socket: PathBuf,
    child: Child,
}

impl Client {
    pub(crate) fn new(network: &Network) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = crate::ssh::new_key().unwrap();
        let file = directory.path().join("key");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(file).unwrap();
        std::io::Write::write_all(&mut file, key.to_openssh(LineEnding::LF).unwrap().as_bytes())
            .unwrap();
        let public = key.public_key().to_openssh().unwrap();
        fs::write(directory.path().join("key.pub"), public).unwrap();
        Self { directory, network: network.prefix }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn public_key(&self) -> String {
        fs::read_to_string(self.directory().join("key.pub")).unwrap()
    }

    fn ssh(&self) -> Command {
        let directory = self.directory().display();
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-p", &PORT.to_string()]);
        for option in [
            format!("IdentityFile={directory}/key"),
            format!("UserKnownHostsFile={directory}/known_hosts"),
            "IdentitiesOnly=yes".to_owned(),
            "StrictHostKeyChecking=accept-new".to_owned(),
            "BatchMode=yes".to_owned(),
            "ConnectTimeout=3".to_owned(),
            "ServerAliveInterval=1".to_owned(),
            "ServerAliveCountMax=2".to_owned(),
            "LogLevel=ERROR".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn destination(&self, user: &str, host: u32) -> String {
        let [first, second, third] = self.network;
        format!("{user}@{first}.{second}.{third}.{host}")
    }

    pub(crate) async fn run(&self, user: &str, host: u32, text: &str, stdin: &[u8]) -> Answer {
        let mut command = self.ssh();
        command.arg(self.destination(user, host)).arg(text);
        answer(command, stdin).await
    }

    pub(crate) fn spawn(&self, user: &str, host: u32, words: &[&str]) -> Child {
        self.ssh().arg(self.destination(user, host)).args(words).spawn().unwrap()
    }

    /// Opens a connection that other commands share.
    pub(crate) async fn master(&self, user: &str, host: u32) -> Master {
        let socket = self.directory().join("control");
        let mut command = self.ssh();
        command.arg("-M").arg("-S").arg(&socket).args(["-N", &self.destination(user, host)]);
        let child = command.spawn().unwrap();
        until("the master listens", || socket.exists()).await;
        Master { socket, child }
    }

    fn over(&self, master: &Master) -> Command {
        let mut command = self.ssh();
        command.arg("-S").arg(&master.socket).arg("anywhere");
        command
    }

    pub(crate) async fn run_over(&self, master: &Master, text: &str) -> Answer {
        let mut command = self.over(master);
        command.arg(text);
        answer(command, b"").await
    }

    pub(crate) fn spawn_over(&self, master: &Master, words: &[&str]) -> Child {
        self.over(master).args(words).spawn().unwrap()
    }

    /// Closes a shared connection.
    pub(crate) async fn leave(&self, mut master: Master) {
        let mut command = self.ssh();
        command.arg("-S").arg(&master.socket).args(["-O", "exit", "anywhere"]);
        assert_eq!(answer(command, b"").await.code, Some(0));
        master.child.wait().await.unwrap();
    }
}

async fn answer(mut command: Command, stdin: &[u8]) -> Answer {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // The client may be gone before it has read anything.
    _ = pipe.write_all(stdin).await;
    drop(pipe);
    let output =
        tokio::time::timeout(LIMIT, child.wait_with_output()).await.expect("ssh ends").unwrap();
    Answer { code: output.status.code(), stdout: output.stdout, stderr: output.stderr }
}
