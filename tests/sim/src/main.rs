//! A simulated Proxmox VE cluster as a process, and the programs that stand in for its commands.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::face;
use pve_sim::schema::Release;
use pve_sim::sim::Fault;
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

/// Plays a Proxmox VE cluster until it is told to stop.
///
/// Prints one line of JSON when it is ready: where `qm`, `pvesm` and `pvesh` are, the directory
/// that stands for `/etc/pve`, the gateway of its network, the port of its guests' SSH servers,
/// the file that makes its images known,
/// and where the API is, with the SHA-256 of its certificate and the authority that signed it.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// A node; the first is the main node, two or more are a cluster.
    #[arg(long = "node", value_name = "NAME", default_value = "pve1")]
    nodes: Vec<String>,
    /// How long each command takes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency: u64,
    /// Answers as Proxmox VE 8.4 does.
    #[arg(long)]
    old: bool,
    /// A fault, as JSON: pattern, times, delay, answer.
    #[arg(long = "fault", value_name = "JSON")]
    faults: Vec<String>,
    /// The directory for all state, instead of a new one in the system's temporary directory.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(name) = face::name() {
        return match face::run(&name) {
            Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(255)),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "{name}: pve-sim: {error}");
                ExitCode::from(255)
            }
        };
    }
    match play(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "pve-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn play(arguments: Arguments) -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut terminated = signal(SignalKind::terminate()).context("no signal handler")?;
    let faults: Result<Vec<Fault>, _> =
        arguments.faults.iter().map(|text| serde_json::from_str(text)).collect();
    let config = Config {
        nodes: arguments.nodes,
        latency: Duration::from_millis(arguments.latency),
        release: if arguments.old { Release::V8_4 } else { Release::V9_2 },
        faults: faults.context("a fault is not readable")?,
        directory: arguments.directory,
        ..Config::default()
    };
    let sim = Sim::start(config).await.context("the simulator does not start")?;
    let ready = json!({
        "directory": sim.directory(),
        "bin": sim.bin_directory(),
        "pve": sim.pve_directory(),
        "gateway": sim.gateway(),
        "ssh_port": sim.ssh_port(),
        "mirror": sim.mirror_url(),
        "images": sim.images_file(),
        "https": sim.https_url(),
        "fingerprint": sim.fingerprint(),
        "authority": sim.authority(),
    });
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ready}")?;
    out.flush()?;
    drop(out);
    tokio::select! {
        _ = terminated.recv() => {}
        result = tokio::signal::ctrl_c() => result?,
    }
    sim.stop().await;
    Ok(())
}
