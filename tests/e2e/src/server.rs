//! The server as a child process, with nothing of the machine in its environment.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::bail;
use pve_sim::Sim;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::process::Command;
use tokio_util::task::AbortOnDropHandle;

use crate::client;
use crate::client::Stream;
use crate::programs;
use crate::recorder::Recorder;

mod within;

/// A debug build on a busy machine needs a moment to answer first.
const START_LIMIT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Everything that a server keeps when it is stopped: its directories, settings and records.
#[derive(Debug)]
pub struct Place {
    directory: TempDir,
    environment: BTreeMap<String, OsString>,
    address: SocketAddr,
    recorder: Recorder,
}

impl Place {
    /// A place for a server on the simulated cluster; the home directory is empty, there is no key.
    pub fn new(sim: &Sim) -> anyhow::Result<Self> {
        Self::at(sim, SocketAddr::from((sim.gateway(), 0)))
    }

    /// The same, listening on `address`; port 0 is any free one.
    pub fn at(sim: &Sim, address: SocketAddr) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("pve-e2e-").tempdir()?;
        let below = |name: &str| directory.path().join(name);
        for name in ["home", "state", "images"] {
            fs::create_dir(below(name))?;
        }
        let recorder = Recorder::new(directory.path())?;
        let address = free_port(address)?;
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [recorder.programs().to_owned(), sim.bin_directory()]
            .into_iter()
            .chain(env::split_paths(&path));
        let path = env::join_paths(path)?;
        let mut place = Self { recorder, environment: BTreeMap::new(), address, directory };
        place.set("PATH", path);
        place.set("HOME", below_path(&place, "home"));
        place.set("STATE_DIR", below_path(&place, "state"));
        place.set("IMAGE_DIR", below_path(&place, "images"));
        place.set("IMAGES_FILE", sim.images_file());
        place.set("PVE_DIR", sim.pve_directory());
        place.set("MAIN_NODE", "pve1");
        place.set("GATEWAY", sim.gateway().to_string());
        place.set("ASSIGN_STORAGE", "local");
        place.set("VM_SSH_PORT", sim.ssh_port().to_string());
        place.set("LISTEN", address.ip().to_string());
        place.set("PORT", address.port().to_string());
        Ok(place)
    }

    /// Sets or replaces a variable of the server's environment.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// The directory below which everything of this place lies.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The program that a command of the server would run.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let path = self.environment.get("PATH")?;
        env::split_paths(path).map(|directory| directory.join(program)).find(|file| file.is_file())
    }

    /// What the server hands to its commands.
    pub fn commands_environment(&self) -> BTreeMap<String, OsString> {
        let handed = ["PATH", "HOME"].into_iter();
        handed
            .filter_map(|name| Some((name.to_owned(), self.environment.get(name)?.clone())))
            .collect()
    }

    /// Where ssh and ssh-keygen are recorded.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What the servers of this place have logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Starts a server here and waits until it answers.
    pub async fn serve(&self) -> anyhow::Result<Server> {
        let running = Running::Process(Box::new(self.spawn()?));
        let mut server = Server { running, address: self.address, client: client::client()? };
        let deadline = Instant::now() + START_LIMIT;
        while !server.answers().await {
            if let Running::Process(child) = &mut server.running
                && let Some(status) = child.try_wait()?
            {
                // A server that was killed in the middle of starting a command leaves its port to that for a moment.
                if !self.log().trim_end().ends_with("Address already in use (os error 98)") {
                    bail!("pve-server ended, {status}:\n{}", self.log());
                }
                **child = self.spawn()?;
            }
            if Instant::now() > deadline {
                bail!("pve-server does not answer:\n{}", self.log());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(server)
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join("log"))?;
        Command::new(programs::program("pve-server")?)
            .env_clear()
            .envs(&self.environment)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start pve-server")
    }
}

/// How a server runs.
#[derive(Debug)]
enum Running {
    Process(Box<Child>),
    /// Within this process.
    Task(#[expect(dead_code, reason = "held: it ends with the server")] AbortOnDropHandle<()>),
}

fn below_path(place: &Place, name: &str) -> PathBuf {
    place.directory.path().join(name)
}

/// The address with a port that is free now; a simulated cluster has its addresses for itself.
fn free_port(address: SocketAddr) -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(address)
        .with_context(|| format!("{address} is not free"))?
        .local_addr()?)
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    running: Running,
    address: SocketAddr,
    client: reqwest::Client,
}

impl Server {
    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The client that the tests use.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// The server's process, when it has one of its own.
    pub fn process(&self) -> Option<u32> {
        match &self.running {
            Running::Process(child) => child.id(),
            Running::Task(_) => None,
        }
    }

    /// Whether it answers, be it that the caller is not let in.
    async fn answers(&self) -> bool {
        self.client.get(self.url("/api/health")).send().await.is_ok()
    }

    /// Asks for a VM and gives the stream of its making.
    pub async fn install(&self, request: &Value) -> anyhow::Result<Stream> {
        client::post_stream(&self.client, &self.url("/api/vm/install"), request).await
    }

    /// Reads a job's events, all or those after `last`.
    pub async fn events(&self, job: &str, last: Option<&str>) -> anyhow::Result<Stream> {
        let mut request = self.client.get(self.url(&format!("/api/jobs/{job}/events")));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        Ok(Stream::new(request.send().await?.error_for_status()?))
    }

    /// Kills the server, as a crash would.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        if let Running::Process(child) = &mut self.running {
            child.kill().await?;
        }
        Ok(())
    }

    /// Asks the server to stop (`SIGTERM`).
    pub fn terminate(&self) -> anyhow::Result<()> {
        let pid = self.process().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        rustix::process::kill_process(pid.context("the server has ended")?, Signal::TERM)?;
        Ok(())
    }

    /// Waits until the server has ended.
    pub async fn ended(&mut self) -> anyhow::Result<std::process::ExitStatus> {
        match &mut self.running {
            Running::Process(child) => Ok(child.wait().await?),
            Running::Task(_) => bail!("the server is no process"),
        }
    }
}
