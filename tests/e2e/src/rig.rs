//! A simulated cluster with the server on it, and questions about what one install did.

use std::net::Ipv4Addr;

use anyhow::Context;
use pve_sim::Config;
use pve_sim::Sim;
use serde_json::Value;

use crate::client::Stream;
use crate::recorder::leaks;
use crate::server::Place;
use crate::server::Server;
use crate::sse::Message;

/// A simulated cluster and the server on it.
#[derive(Debug)]
pub struct Rig {
    /// The cluster.
    pub sim: Sim,
    /// Where the server keeps its things.
    pub place: Place,
    /// The server.
    pub server: Server,
}

impl Rig {
    /// Starts both with these settings of the server besides the usual ones.
    pub async fn start(config: Config, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let sim = Sim::start(config).await?;
        let mut place = Place::new(&sim)?;
        for (name, value) in settings {
            place.set(name, *value);
        }
        let server = place.serve().await?;
        Ok(Self { sim, place, server })
    }

    /// Kills the server, as a crash would, and starts it again.
    pub async fn restarted(self) -> anyhow::Result<Self> {
        let Self { sim, place, server } = self;
        server.kill().await?;
        let server = place.serve().await?;
        Ok(Self { sim, place, server })
    }

    /// The VMIDs of all VMs of the cluster.
    pub fn guests(&self) -> Vec<u32> {
        let nodes = std::fs::read_dir(self.sim.pve_directory().join("nodes"))
            .into_iter()
            .flatten()
            .flatten();
        let files = nodes.flat_map(|node| {
            std::fs::read_dir(node.path().join("qemu-server")).into_iter().flatten()
        });
        let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        let mut vmids: Vec<u32> =
            names.filter_map(|name| name.strip_suffix(".conf")?.parse().ok()).collect();
        vmids.sort_unstable();
        vmids
    }

    /// The command lines of the installs; reads that run in the background are left aside.
    pub fn foreground(&self) -> Vec<String> {
        let calls = self.sim.commands().into_iter().filter(|call| call.program != "pvesh");
        calls.map(|call| call.line()).collect()
    }

    /// Asks for a VM and reads the whole stream.
    pub async fn install(&self, request: &Value) -> anyhow::Result<Install> {
        Install::read(self.server.install(request).await?).await.with_context(|| self.place.log())
    }

    /// `text` with the names that differ from run to run replaced: directories, ports, the network, the job.
    pub fn neutral(&self, job: &str, text: &str) -> String {
        text.replace(&*self.place.directory().to_string_lossy(), "<place>")
            .replace(self.sim.mirror_url(), "http://mirror.example.org")
            .replace(&network(self.sim.gateway()), "192.0.2.")
            .replace(job, "<job>")
    }

    /// Everything that was handed to a command: the stand-ins' and ssh's arguments and environments.
    pub fn handed_over(&self) -> anyhow::Result<Vec<String>> {
        let mut texts = Vec::new();
        for call in self.sim.commands() {
            texts.push(format!("{} {}", call.program, call.arguments.join(" ")));
            texts.extend(call.environment.iter().map(|(name, value)| format!("{name}={value}")));
        }
        for call in self.place.recorder().calls()? {
            texts.push(call.arguments.join(" "));
            texts.extend(call.environment);
        }
        Ok(texts)
    }

    /// Everything that is written down or shown: the server's log, the job logs, a stream.
    pub fn written_down(&self, stream: &str) -> anyhow::Result<Vec<String>> {
        let mut texts = vec![self.place.log(), stream.to_owned()];
        let mut directories = vec![self.place.directory().join("state")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory)? {
                let path = entry?.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.is_file() {
                    texts.push(String::from_utf8_lossy(&std::fs::read(path)?).into_owned());
                }
            }
        }
        Ok(texts)
    }

    /// The places where one of `secrets` has come out.
    pub fn leaks(&self, stream: &str, secrets: &[&str]) -> anyhow::Result<Vec<String>> {
        let texts = [self.handed_over()?, self.written_down(stream)?].concat();
        Ok(leaks(texts.iter().map(String::as_str), secrets))
    }
}

/// The first three octets of an address, with their dots.
fn network(address: Ipv4Addr) -> String {
    let [first, second, third, _] = address.octets();
    format!("{first}.{second}.{third}.")
}

/// One install, read to its end.
#[derive(Debug)]
pub struct Install {
    /// The job's id.
    pub job: String,
    /// All messages, `close` included.
    pub messages: Vec<Message>,
    /// The stream as it was.
    pub raw: String,
}

impl Install {
    /// Reads a stream to its end.
    pub async fn read(stream: Stream) -> anyhow::Result<Self> {
        let job = stream.header("x-job-id").context("there is no X-Job-Id")?.to_owned();
        Self::read_job(stream, &job).await
    }

    /// Reads the stream of a job that was started before.
    pub async fn read_job(mut stream: Stream, job: &str) -> anyhow::Result<Self> {
        let job = job.to_owned();
        let messages = stream.rest().await?;
        Ok(Self { job, messages, raw: stream.text() })
    }

    /// The texts of the error events.
    pub fn errors(&self) -> Vec<String> {
        let told = self.messages.iter().filter_map(|message| message.told().ok());
        told.filter(|told| told.status == "error")
            .map(|told| format!("{}: {}", told.step, told.message))
            .collect()
    }

    /// Whether the VM is finished: no error, and a stream with its end.
    pub fn succeeded(&self) -> bool {
        self.errors().is_empty() && self.messages.last().is_some_and(Message::is_close)
    }
}
