//! The program `pve-tui`: the wizard in the terminal.

use clap::Parser;
use pve_tui::Options;

/// Proxmox VE's Create VM wizard in a terminal.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The server: host, host:port, or the address of the web UI.
    #[arg(long)]
    server: Option<String>,
}

// One thread is enough for a person, and sleeps when there is nothing to do.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    pve_tui::run(Options { server: arguments.server, ..Options::default() }).await
}
