//! `cargo xtask demo`: a simulated cluster to watch and to play with.

#![expect(clippy::print_stdout, reason = "this is a program for a terminal")]

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use clap::ValueEnum;
use pve_e2e::programs::program;
use pve_e2e::server::Place;
use pve_e2e::server::Server;
use pve_e2e::sse::Message;
use pve_e2e::wizard;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::guest::Behaviour;
use serde_json::json;
use tokio::process::Command;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

/// The server's port in the guides; another one when it is taken.
const PORT: u16 = 8080;
/// About what a `qm` command takes on a quiet node.
const COMMAND: Duration = Duration::from_millis(500);

#[derive(Parser)]
#[command(about = "A simulated cluster to watch and to play with")]
struct Arguments {
    /// What is shown on the cluster.
    #[arg(value_enum, default_value = "server")]
    what: What,
    /// Leave after the install; the exit code tells how it went.
    #[arg(long)]
    once: bool,
    /// The API of the cluster, and nothing on it.
    #[arg(long, conflicts_with = "once")]
    api_only: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// The server, making one VM.
    Server,
    /// The wizard in the terminal.
    Tui,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    // What is dropped takes its processes and directories along, also in the middle of an install.
    tokio::select! {
        biased;
        shown = show(&arguments) => shown,
        _ = interrupted.recv() => Ok(ExitCode::from(130)),
        _ = terminated.recv() => Ok(ExitCode::from(143)),
    }
}

async fn show(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.api_only {
        return api_only().await;
    }
    match arguments.what {
        What::Server => server(arguments.once).await,
        What::Tui => tui().await,
    }
}

/// One install with its raw stream; then it stays for more.
async fn server(once: bool) -> anyhow::Result<ExitCode> {
    let behaviour = Behaviour::unhurried();
    let sim = Sim::start(Config { latency: COMMAND, behaviour, ..Config::default() }).await?;
    let address = |port| SocketAddr::from((sim.gateway(), port));
    let place = Place::at(&sim, address(PORT)).or_else(|_| Place::at(&sim, address(0)))?;
    let server = place.serve().await?;

    println!(
        "A simulated cluster and pve-server on it are running; this is one request and its answer:\n\n{}\n",
        line(&server, "demo")
    );
    let succeeded = install(&server).await.with_context(|| place.log())?;
    if once {
        return Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    println!(
        "\nNow it is your turn, in another terminal:\n\n{}\n\nCtrl-C ends it all.",
        line(&server, "mine")
    );
    tokio::signal::ctrl_c().await?;
    Ok(ExitCode::SUCCESS)
}

/// Makes one VM with the raw stream on standard output; says whether it went well.
async fn install(server: &Server) -> anyhow::Result<bool> {
    let request = json!({
        "name": "demo", "os": "debian", "version": "12", "cpu": 2, "ram": 2048, "disk": "20G",
    });
    let mut stream = server.install(&request).await?;
    let mut output = std::io::stdout();
    while let Some(piece) = stream.piece().await? {
        output.write_all(&piece)?;
        output.flush()?;
    }
    let messages = stream.rest().await?;
    let mut told = messages.iter().filter_map(|message| message.told().ok());
    let failed = told.any(|told| told.status == "error");
    Ok(!failed && messages.last().is_some_and(Message::is_close))
}

/// The line that sends the same request.
fn line(server: &Server, name: &str) -> String {
    let url = server.url("/api/vm/install");
    let body = format!(
        r#"{{"name":"{name}","os":"debian","version":"12","cpu":2,"ram":2048,"disk":"20G"}}"#
    );
    format!("curl -N {url} -H 'Content-Type: application/json' \\\n    -d '{body}'")
}

/// Two nodes, so that there is something to choose.
fn cluster() -> Config {
    let nodes = vec!["pve1".to_owned(), "pve2".to_owned()];
    Config { nodes, latency: COMMAND, ..Config::default() }
}

/// Two nodes and lines to play with; ends with Ctrl-C.
async fn api_only() -> anyhow::Result<ExitCode> {
    let config = cluster();
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

/// The wizard in this terminal, with a home directory of its own.
async fn tui() -> anyhow::Result<ExitCode> {
    let sim = wizard::cluster(cluster()).await?;
    let url = sim.https_url().context("the simulated cluster does not serve its API")?;
    let home = tempfile::Builder::new().prefix("pve-demo-").tempdir()?;
    println!("A simulated Proxmox VE cluster is running. Its certificate's fingerprint is\n");
    println!("  {}\n\nLog in as root with the password simulated.", sim.fingerprint());
    println!("Enter opens the wizard, F1 is its help.");
    std::io::stdin().read_line(&mut String::new())?;
    let mut command = Command::new(program("pve-tui")?);
    command.args(["--server", &url]).env("HOME", home.path());
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        command.env_remove(variable);
    }
    let status = command.status().await?;
    let made = sim.world(|world| world.guests.keys().map(u32::to_string).collect::<Vec<_>>());
    println!("VMs that the cluster has now: {}", made.join(", "));
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
