//! `cargo xtask demo`: a simulated cluster, the server on it, and one VM being made.

#![expect(clippy::print_stdout, reason = "this is a program for a terminal")]

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use pve_e2e::programs::program;
use pve_e2e::server::Place;
use pve_e2e::server::Server;
use pve_e2e::wizard;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::guest::Behaviour;
use serde_json::json;

/// The server's port in the guides; another one when it is taken.
const PORT: u16 = 8080;
/// About what a `qm` command takes on a quiet node.
const COMMAND: Duration = Duration::from_millis(500);

#[derive(Parser)]
#[command(about = "A simulated cluster, the server on it, and one VM being made")]
struct Arguments {
    /// Leave after the install; the exit code tells how it went.
    #[arg(long)]
    once: bool,
    /// The cluster's API alone.
    #[arg(long, conflicts_with = "once")]
    api_only: bool,
    /// The wizard on a cluster that has what its defaults ask for.
    #[arg(long, conflicts_with_all = ["once", "api_only"])]
    tui: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.api_only {
        return api_only().await;
    }
    if arguments.tui {
        return tui().await;
    }
    let behaviour = Behaviour::unhurried();
    let sim = Sim::start(Config { latency: COMMAND, behaviour, ..Config::default() }).await?;
    let address = |port| SocketAddr::from((sim.gateway(), port));
    let place = Place::at(&sim, address(PORT)).or_else(|_| Place::at(&sim, address(0)))?;
    let server = place.serve().await?;

    println!(
        "A simulated cluster and pve-server on it are running; this is one request and its answer:\n"
    );
    println!("{}\n", line(&server, "demo"));
    let succeeded = install(&server).await.with_context(|| place.log())?;
    if arguments.once {
        return Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    println!(
        "\nNow it is your turn, in another terminal:\n\n{}\n\nCtrl-C ends it all.",
        line(&server, "mine")
    );
    tokio::signal::ctrl_c().await?;
    Ok(ExitCode::SUCCESS)
}

/// Two nodes and lines to play with; ends with Ctrl-C.
async fn api_only() -> anyhow::Result<ExitCode> {
    let nodes = vec!["pve1".to_owned(), "pve2".to_owned()];
    let config = Config { nodes, latency: COMMAND, ..Config::default() };
    let accounts = config.accounts.clone();
    let sim = Sim::start(config).await?;
    let url = sim.https_url().context("the simulated cluster does not serve its API")?;
    let authority = sim.authority().display();
    println!("A simulated Proxmox VE cluster is running.\n\n  URL          {url}");
    println!("  fingerprint  {}\n  authority    {authority}\n", sim.fingerprint());
    for account in &accounts {
        let second = account.totp.as_ref();
        let second = second.map_or_else(String::new, |secret| format!(", codes from {secret}"));
        println!("  {}, password `{}`{second}", account.user, account.password);
        for (name, secret, _) in &account.tokens {
            println!("  {}!{name}={secret}", account.user);
        }
    }
    let token = accounts.iter().find_map(|account| {
        let (name, secret, _) = account.tokens.first()?;
        Some(format!("{}!{name}={secret}", account.user))
    });
    let curl = format!(
        "curl --cacert {authority} -H 'Authorization: PVEAPIToken={}'",
        token.unwrap_or_default()
    );
    let create = "vmid=100&name=web&memory=512&scsi0=local:8&net0=virtio,bridge=vmbr0";
    println!("\nTry, in another terminal:\n");
    println!("{curl} {url}/api2/json/nodes");
    println!("{curl} {url}/api2/json/nodes/pve1/qemu -d '{create}'");
    println!("{curl} {url}/api2/json/nodes/pve1/tasks");
    println!("{curl} {url}/api2/json/nodes/pve1/qemu/100/config");
    println!("curl --cacert {authority} {url}/api2/json/access/ticket \\");
    println!("    -d 'username=careful@pve&password=simulated'\n\nCtrl-C ends it all.");
    tokio::signal::ctrl_c().await?;
    sim.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The wizard, in a home of its own; ends with it.
async fn tui() -> anyhow::Result<ExitCode> {
    let config = Config { latency: COMMAND, ..Config::default() };
    let accounts = config.accounts.clone();
    let sim = wizard::cluster(config).await?;
    let url = sim.https_url().context("the simulated cluster does not serve its API")?;
    println!("A simulated Proxmox VE cluster is running at {url}.\n");
    println!("Its certificate's fingerprint is\n  {}\n", sim.fingerprint());
    for account in accounts.iter().filter(|account| account.totp.is_none()) {
        println!("  {}, password `{}`", account.user, account.password);
    }
    println!("\nEnter opens the wizard; F1 is its help.");
    std::io::stdin().read_line(&mut String::new())?;
    let home = tempfile::tempdir()?;
    let status = tokio::process::Command::new(program("pve-tui")?)
        .args(["--server", &url])
        .env("HOME", home.path())
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .status()
        .await?;
    let made = sim.world(|world| world.guests.keys().map(u32::to_string).collect::<Vec<_>>());
    println!("VMs that the cluster has now: {}", made.join(", "));
    sim.stop().await;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes one VM with the raw stream on standard output; says whether it went well.
async fn install(server: &Server) -> anyhow::Result<bool> {
    let request = json!({"name": "demo", "os": "debian", "version": "12", "cpu": 2, "ram": 2048, "disk": "20G"});
    let mut stream = server.install(&request).await?;
    let mut output = std::io::stdout();
    while let Some(piece) = stream.piece().await? {
        output.write_all(&piece)?;
        output.flush()?;
    }
    let messages = stream.rest().await?;
    let failed = messages
        .iter()
        .filter_map(|message| message.told().ok())
        .any(|told| told.status == "error");
    Ok(!failed && messages.last().is_some_and(pve_e2e::sse::Message::is_close))
}

/// The line that sends the same request.
fn line(server: &Server, name: &str) -> String {
    let url = server.url("/api/vm/install");
    format!(
        "curl -N {url} -H 'Content-Type: application/json' \\\n    -d '{{\"name\":\"{name}\",\"os\":\"debian\",\"version\":\"12\",\"cpu\":2,\"ram\":2048,\"disk\":\"20G\"}}'"
    )
}
