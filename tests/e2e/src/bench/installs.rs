//! Installs on a simulated cluster whose free addresses are silent, as a real network's are.
//!
//! That takes a network namespace, in which this program runs itself again.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use anyhow::Context;
use anyhow::ensure;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::guest::Behaviour;
use pve_sim::guest::Boot;
use pve_sim::guest::CloudInit;
use pve_sim::guest::CloudInitEnd;
use pve_sim::guest::End;
use pve_sim::guest::Script;
use pve_sim::guest::When;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use super::Figure;
use super::memory_mib;
use crate::server::Place;
use crate::server::Server;
use crate::sse::Message;

const BRIDGE: &str = "vmbr0";
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// About what a `qm` command takes on a node with something to do.
const COMMAND: Duration = Duration::from_millis(800);
/// create, importdisk, set, resize, set, start, reboot and `pvesm status`.
const COMMANDS: u32 = 8;
const FIFTY: usize = 50;
/// Installs of which each gives two moments of readiness, and how many of them run at a time.
const MOMENTS: usize = 30;
const MOMENTS_AT_ONCE: usize = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often a figure of one install is measured; the median counts.
const RUNS: usize = 3;

/// Runs the role within a namespace, and relays its figures.
pub fn measure(own: &Path) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let output =
        command.arg(own).arg("installs").stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the installs have failed, {}", output.status);
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// The role within the namespace.
pub async fn within(mut tell: impl FnMut(Figure)) -> anyhow::Result<()> {
    network()?;
    let bench = Bench::start(Config { behaviour: at_once(), ..config() }, 4).await?;
    // The image is downloaded and the node's key is made, as on a node that is used.
    bench.install().await?;
    let (bench, bare) = bench.median().await?;
    tell(Figure { name: "install_bare_s", value: bare, unit: "s", goal: "<= 1.4" });

    bench.sim.set_latency(COMMAND);
    let before = bench.commands();
    let (bench, alone) = bench.median().await?;
    let commands = (bench.commands() - before) / RUNS;
    ensure!(commands <= 8, "an install ran {commands} commands");
    let ideal = (COMMAND * COMMANDS).as_secs_f64();
    tell(Figure {
        name: "install_overhead",
        value: alone / ideal,
        unit: "of 8 commands",
        goal: "<= 1.1",
    });
    drop(bench);

    let boot = Boot {
        port: When::Between(Duration::from_millis(300), Duration::from_secs(4)),
        ..Boot::READY
    };
    let behaviour = Behaviour { first: boot.clone(), again: boot, ..at_once() };
    let bench = Bench::start(Config { behaviour, ..config() }, MOMENTS_AT_ONCE).await?;
    let mut latencies = latencies(bench).await?;
    latencies.sort_by(f64::total_cmp);
    let p95 = latencies[latencies.len() * 95 / 100];
    tell(Figure { name: "ready_latency_p95_s", value: p95, unit: "s", goal: "<= 0.3" });

    let config = Config { behaviour: at_once(), latency: COMMAND, ..config() };
    let bench = Bench::start(config, FIFTY).await?;
    let all = fifty(&bench).await?;
    tell(Figure {
        name: "fifty_installs_ratio",
        value: all / alone,
        unit: "of one alone",
        goal: "<= 3",
    });
    let rss = memory_mib(bench.server.process().context("the server has ended")?, "VmHWM")?;
    tell(Figure { name: "fifty_installs_rss_mib", value: rss, unit: "MiB", goal: "<= 40" });
    Ok(())
}

/// Loopback, and the bridge of a node with something behind it.
fn network() -> anyhow::Result<()> {
    let lines = [
        "link set lo up",
        "link add vmbr0 type bridge stp_state 0 forward_delay 0",
        "link add port0 type veth peer name port1",
        "link set port0 master vmbr0",
        "address add 192.0.2.1/24 dev vmbr0",
        "address add 192.0.2.11/24 dev vmbr0",
        "link set port0 up",
        "link set port1 up",
        "link set vmbr0 up",
    ];
    for line in lines {
        let status = Command::new("ip").args(line.split(' ')).status()?;
        ensure!(status.success(), "ip {line}: {status}");
    }
    Ok(())
}

fn config() -> Config {
    let place = pve_sim::sim::Place::Interface { gateway: GATEWAY, interface: BRIDGE.to_owned() };
    Config { place, ..Config::default() }
}

/// A guest that takes no time for anything.
fn at_once() -> Behaviour {
    Behaviour {
        first: Boot::READY,
        again: Boot::READY,
        cloud_init: CloudInit { takes: Duration::ZERO, end: CloudInitEnd::Done },
        script: Script { lines: Vec::new(), end: End::Code(0) },
        powers_off: When::NOW,
        ..Behaviour::default()
    }
}

/// A cluster and the server on it.
struct Bench {
    sim: Sim,
    place: Place,
    server: Server,
}

impl Bench {
    async fn start(config: Config, at_once: usize) -> anyhow::Result<Self> {
        let sim = Sim::start(config).await?;
        let mut place = Place::at(&sim, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        place.set("INSTALLS_AT_ONCE", at_once.to_string());
        let server = place.serve().await?;
        Ok(Self { sim, place, server })
    }

    /// Commands without the reads of the background.
    fn commands(&self) -> usize {
        self.sim.commands().iter().filter(|call| call.program != "pvesh").count()
    }

    /// Seconds of an install by a server that knows nothing yet of the addresses: the median of some.
    async fn median(mut self) -> anyhow::Result<(Self, f64)> {
        let mut seconds = Vec::new();
        for _ in 0..RUNS {
            self = self.restarted().await?;
            seconds.push(self.install().await?);
        }
        seconds.sort_by(f64::total_cmp);
        Ok((self, seconds[RUNS / 2]))
    }

    /// The same with a new server that has asked the node for its CPU type.
    async fn restarted(self) -> anyhow::Result<Self> {
        let Self { sim, place, server } = self;
        server.kill().await?;
        let surveys = || {
            sim.commands()
                .iter()
                .filter(|call| call.program == "pvesh" && call.exit.is_some())
                .count()
        };
        let before = surveys();
        let server = place.serve().await?;
        while surveys() == before {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(Self { sim, place, server })
    }

    async fn install(&self) -> anyhow::Result<f64> {
        let begun = Instant::now();
        finished(self.server.install(&request()).await?.rest().await?)?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

fn request() -> Value {
    json!({"os": "debian", "version": "12"})
}

/// The messages, when they are those of a success.
fn finished(messages: Vec<Message>) -> anyhow::Result<Vec<Message>> {
    for told in messages.iter().filter_map(|message| message.told().ok()) {
        ensure!(told.status != "error", "{}: {}", told.step, told.message);
    }
    ensure!(messages.last().is_some_and(Message::is_close), "the stream has no end");
    Ok(messages)
}

/// How long after a login became possible each of two readiness events of each install came.
async fn latencies(bench: Bench) -> anyhow::Result<Vec<f64>> {
    let bench = std::sync::Arc::new(bench);
    let mut running = JoinSet::new();
    let mut latencies = Vec::new();
    for _ in 0..MOMENTS {
        if running.len() == MOMENTS_AT_ONCE {
            latencies.extend(running.join_next().await.context("nothing runs")???);
        }
        let bench = std::sync::Arc::clone(&bench);
        running.spawn(async move { latencies_of_one(&bench).await });
    }
    while let Some(ended) = running.join_next().await {
        latencies.extend(ended??);
    }
    Ok(latencies)
}

async fn latencies_of_one(bench: &Bench) -> anyhow::Result<Vec<f64>> {
    let mut stream = bench.server.install(&request()).await?;
    let mut ready = Vec::new();
    let mut vmid = None;
    while let Some(message) = stream.next().await? {
        let now = SystemTime::now();
        let Ok(told) = message.told() else { continue };
        ensure!(told.status != "error", "{}: {}", told.step, told.message);
        if told.message.starts_with("[+] logged in") {
            ready.push(now);
        }
        if let Some(number) = told.message.strip_prefix("[*] VMID: ") {
            vmid = Some(number.parse()?);
        }
    }
    let boots = bench.sim.guests().seen(vmid.context("there is no VMID")?).boots;
    ensure!(boots.len() == 2 && ready.len() == 2, "{} boots, {} events", boots.len(), ready.len());
    let possible = boots.iter().map(|boot| boot.login_possible.context("no login was possible"));
    let pairs = ready.iter().zip(possible);
    pairs
        .map(|(at, possible)| Ok(at.duration_since(possible?).unwrap_or_default().as_secs_f64()))
        .collect()
}

/// Seconds until all of fifty are finished.
async fn fifty(bench: &Bench) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..FIFTY {
        let mut stream = bench.server.install(&request()).await?;
        running.spawn(async move { finished(stream.rest().await?) });
    }
    let mut addresses = std::collections::BTreeSet::new();
    while let Some(ended) = running.join_next().await {
        let messages = ended??;
        let told = messages.iter().filter_map(|message| message.told().ok());
        addresses.extend(told.map(|told| told.message).filter(|text| text.starts_with("[*] IP: ")));
    }
    ensure!(addresses.len() == FIFTY, "{} different addresses", addresses.len());
    Ok(begun.elapsed().as_secs_f64())
}
