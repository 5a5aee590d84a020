//! The commands of a maintainer: `cargo xtask <command>`.
//!
//! Each one does all of its own set-up, so that a fresh clone needs nothing but Rust and a C linker.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for a terminal")]

mod dist;
mod packages;
mod programs;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use clap::Subcommand;
use xshell::Shell;

#[derive(Parser)]
#[command(about = "The commands of a maintainer")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Formatting, lints, tests, documentation, scripts.
    Test,
    /// A simulated cluster and the server on it: watch one VM being made, then try it yourself.
    Demo {
        /// Leave after the install; the exit code tells how it went.
        #[arg(long)]
        once: bool,
        /// The cluster's API alone, to play with by `curl` or the wizard.
        #[arg(long, conflicts_with = "once")]
        api_only: bool,
        /// `tui`: the wizard on a cluster that has what its defaults ask for.
        #[arg(value_parser = ["tui"], conflicts_with_all = ["once", "api_only"])]
        what: Option<String>,
    },
    /// A real virtual machine from a real cloud image, provisioned and logged into.
    E2e,
    /// Speed and memory against their goals, one line of JSON each.
    Bench,
    /// The release archive and its checksum, in `target/dist`.
    Dist,
    /// Writes the generated parts of `docs/reference`.
    Docs,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    let shell = Shell::new()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    shell.change_dir(root);
    match command {
        Command::Test => test::test(&shell),
        Command::Demo { once, api_only, what } => {
            let argument = match (api_only, once, what) {
                (true, ..) => Some("--api-only"),
                (_, true, _) => Some("--once"),
                (.., Some(_)) => Some("--tui"),
                _ => None,
            };
            programs::demo(&shell, argument)
        }
        Command::E2e => programs::e2e(&shell),
        Command::Bench => programs::bench(&shell),
        Command::Dist => dist::dist(&shell),
        Command::Docs => programs::docs(&shell),
    }
}
