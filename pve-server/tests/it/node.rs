//! A node without a hypervisor: directories, stand-ins, and the server as a process on it.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::process::Command;

use crate::LIMIT;

/// A node with the VM 120.
pub(crate) struct Node {
    directory: TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        let node = Self { directory: tempfile::tempdir().unwrap() };
        for directory in ["bin", "images", "pve/nodes/pve1/qemu-server"] {
            fs::create_dir_all(node.path(directory)).unwrap();
        }
        fs::write(node.path("pve/.members"), r#"{"nodename": "pve1", "version": 1}"#).unwrap();
        fs::write(node.path("pve/nodes/pve1/qemu-server/120.conf"), "name: web\n").unwrap();
        node.settings(&node.right_settings());
        node
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn right_settings(&self) -> String {
        let at = |path| self.path(path).display().to_string();
        format!(
            "LISTEN=127.0.0.1:0\nMAIN_NODE=pve1\nGATEWAY=127.0.0.1\nASSIGN_STORAGE=local\nSTATE_DIR={}\nPVE_DIR={}\nIMAGE_DIR={}\n",
            at("state"),
            at("pve"),
            at("images")
        )
    }

    pub(crate) fn settings(&self, text: &str) {
        fs::write(self.path(".env"), text).unwrap();
    }

    /// Written by a process of its own: a file that this one has open for writing, in whichever fork, cannot be run.
    pub(crate) fn stand_in(&self, name: &str, script: &str) {
        let write = "printf '#!/bin/sh\n%s' \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", write]).arg(self.path("bin").join(name)).arg(script);
        assert!(shell.status().unwrap().success());
    }

    /// Makes the gate at which a stand-in waits.
    pub(crate) fn gate(&self) {
        let made = std::process::Command::new("mkfifo").arg(self.path("gate")).status().unwrap();
        assert!(made.success());
    }

    pub(crate) async fn open_gate(&self) {
        tokio::time::timeout(LIMIT, tokio::fs::write(self.path("gate"), "go\n"))
            .await
            .unwrap()
            .unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pve-server"));
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.directory.path())
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// The exit code of a server that ends by itself, and what it told.
    pub(crate) async fn run_to_its_end(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let ended = self.command().args(arguments).output();
        let output = tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(told).unwrap())
    }

    pub(crate) async fn start(&self) -> Server {
        let mut child = self.command().spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, address)) = line.split_once("listening on ") {
                    return address.to_owned();
                }
            }
            panic!("the server does not start");
        };
        let address = tokio::time::timeout(LIMIT, address).await.unwrap();
        // What else it says must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Server { child, address }
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Sends a request without a body and reads the answer to its end.
    pub(crate) fn ask(&self, method: &str, path: &str) -> impl Future<Output = String> + use<> {
        let request = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let address = self.address.clone();
        async move {
            let answer = async {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            };
            tokio::time::timeout(LIMIT, answer).await.unwrap()
        }
    }

    /// Asks until the answer has `text`.
    pub(crate) async fn wait_for(&self, method: &str, path: &str, text: &str) -> String {
        let asking = async {
            loop {
                let answer = self.ask(method, path).await;
                if answer.contains(text) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, asking).await.unwrap()
    }

    pub(crate) async fn wait_for_job(&self) {
        self.wait_for("GET", "/api/jobs", "\"count\":1").await;
    }

    pub(crate) fn terminate(&self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    }

    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) async fn end(&mut self) -> Option<i32> {
        tokio::time::timeout(LIMIT, self.child.wait()).await.unwrap().unwrap().code()
    }
}
