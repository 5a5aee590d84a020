//! The command line: screens, unless a command is named.

use std::io;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;
use pve_tui::connect::Secrets;
use pve_tui::headless;
use pve_tui::headless::Exit;
use pve_tui::headless::Options;
use pve_tui::profile::Files;
use pve_tui::prompt::Terminal;
use secrecy::SecretString;
use tracing_subscriber::EnvFilter;

/// Makes virtual machines on Proxmox VE: Create VM on screens, or without them.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    screens: pve_tui::Options,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::doc_markdown, reason = "these are the texts of --help")]
enum Command {
    /// Makes a virtual machine without a screen.
    ///
    /// The account is an API token in PVE_TOKEN (user@realm!name=secret) or --token-file, or a
    /// password in PVE_PASSWORD or --password-file, or else asked for.
    ///
    /// Exit codes: 0 made; 2 something in the input is wrong; 3 refused, not permitted or not
    /// reached, nothing was made; 4 made, but console, start or HA failed; 5 it could not be found
    /// out whether it was made.
    #[command(verbatim_doc_comment)]
    Create(Box<Options>),
}

// One thread is enough for a person, and sleeps when there is nothing to do.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let files = Files::from_environment(|name| std::env::var_os(name));
    match arguments.command {
        Some(Command::Create(options)) => create(*options, &files).await,
        None => Box::pin(show(arguments.screens, files)).await,
    }
}

/// A variable of the environment; an empty one is as good as none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

async fn show(mut options: pve_tui::Options, files: Files) -> ExitCode {
    if options.server.is_empty() {
        options.server.extend(variable("PVE_SERVER"));
    }
    match Box::pin(pve_tui::run(options, files)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!("{error:#}")),
    }
}

async fn create(mut options: Options, files: &Files) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let secret = |name| variable(name).map(SecretString::from);
    let secrets = Secrets { token: secret("PVE_TOKEN"), password: secret("PVE_PASSWORD") };
    let place = &mut options.place;
    place.server = place.server.take().or_else(|| variable("PVE_SERVER"));
    if let (None, Some(user)) = (&place.user, variable("PVE_USER")) {
        match user.parse() {
            Ok(user) => place.user = Some(user),
            Err(error) => return complain(&format!("PVE_USER: {error}")),
        }
    }
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let exit = headless::create(&options, secrets, files, &mut Terminal, &mut out, &mut err).await;
    ExitCode::from(exit.code())
}

fn complain(text: &str) -> ExitCode {
    // Where even this cannot be printed, the code alone has to do.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::from(Exit::Input.code())
}
