//! The real virtual machine, as `cargo xtask e2e` runs it.

use std::path::PathBuf;

use clap::Parser;
use clap::Subcommand;

#[derive(Parser)]
#[command(about = "Provisions real virtual machines with the server and logs into them")]
struct Arguments {
    #[command(subcommand)]
    half: Option<Half>,
}

#[derive(Subcommand)]
enum Half {
    /// What this program calls itself for, in a network namespace.
    #[command(hide = true)]
    Inside { image: PathBuf, directory: PathBuf },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().half {
        None => pve_e2e::real::outside().await,
        Some(Half::Inside { image, directory }) => pve_e2e::real::inside(&image, &directory).await,
    }
}
