//! The commands of a maintainer: `cargo xtask <command>`.
//!
//! Each one does all of its own set-up, so that a fresh clone needs nothing but Rust and a C linker.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for a terminal")]

mod cargo;
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
        /// `--once` leaves after the install, `--api-only` serves the cluster's API alone, `tui` shows the wizard.
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// A real virtual machine from a real cloud image, provisioned and logged into.
    E2e,
    /// Speed and memory against their goals, one line of JSON each.
    Bench,
    /// The release archive and its checksum, in `target/dist`.
    Dist,
    /// Writes the generated parts of `docs`.
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
        Command::Demo { arguments } => programs::demo(&shell, arguments),
        Command::E2e => programs::e2e(&shell),
        Command::Bench => programs::bench(&shell),
        Command::Dist => dist::dist(&shell),
        Command::Docs => programs::docs(&shell),
    }
}
