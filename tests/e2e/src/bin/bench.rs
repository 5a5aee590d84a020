//! `cargo xtask bench`: one line of JSON for each figure.

#![expect(clippy::print_stdout, reason = "this is a program for a terminal")]

use std::env;
use std::path::PathBuf;

use clap::Parser;
use clap::Subcommand;
use pve_e2e::bench::api;
use pve_e2e::bench::download;
use pve_e2e::bench::fanout;
use pve_e2e::bench::installs;
use pve_e2e::bench::start;
use pve_e2e::bench::tui;

#[derive(Parser)]
#[command(about = "Measures the figures that the project promises")]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
}

/// What this program does when it is started by itself.
#[derive(Subcommand)]
enum Role {
    /// Serves a large file.
    Mirror,
    /// Downloads it.
    Fetch { base: String, directory: PathBuf },
    /// Installs, within a network namespace.
    Installs,
    /// Serves the API of a cluster.
    Api,
    /// Makes calls to it in a row.
    Gets { cluster: String },
    /// Makes slow calls to it at once.
    SlowCalls { first: u32, cluster: String },
    /// Measures the wizard alone.
    Tui,
    /// Serves one job.
    OneJob { directory: PathBuf },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().role {
        None => measure().await,
        Some(Role::Mirror) => download::mirror(|address| println!("{address}")).await,
        Some(Role::Fetch { base, directory }) => {
            let (seconds, memory) = download::fetch(&base, &directory).await?;
            println!("{seconds} {memory}");
            Ok(())
        }
        Some(Role::Api) => api::serve(|line| println!("{line}")).await,
        Some(Role::Gets { cluster }) => api::gets(&cluster).await,
        Some(Role::SlowCalls { first, cluster }) => {
            println!("{}", api::slow_at_once(first, &cluster).await?);
            Ok(())
        }
        Some(Role::Installs) => installs::within(|figure| println!("{}", figure.line())).await,
        Some(Role::Tui) => {
            tui::measure().await?.iter().for_each(|figure| println!("{}", figure.line()));
            Ok(())
        }
        Some(Role::OneJob { directory }) => {
            fanout::one_job(&directory, |line| println!("{line}")).await
        }
    }
}

async fn measure() -> anyhow::Result<()> {
    let own = env::current_exe()?;
    for line in installs::measure(&own)? {
        println!("{line}");
    }
    let figures = [
        start::measure()?,
        download::measure(&own)?,
        api::measure(&own)?,
        fanout::measure(&own).await?,
        tui::measure().await?,
    ];
    for figure in figures.concat() {
        println!("{}", figure.line());
    }
    Ok(())
}
