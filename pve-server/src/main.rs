//! The server's process: settings, port, signals.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;
use pve_images::Cache;
use pve_images::Catalogue;
use pve_provision::install::Installer;
use pve_provision::jobs::Jobs;
use pve_server::App;
use pve_server::settings::Settings;
use pve_server::settings::Variables;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

/// The exit code that a restart does not mend.
const WRONG_SETTINGS: u8 = 2;

/// Makes virtual machines on Proxmox VE over HTTP.
///
/// Settings come from the environment and from the file `.env` in the working directory.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Looks at the settings and at the node, says what is wrong, and ends.
    #[arg(long)]
    check: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match run(&arguments).await {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let variables = Variables::load(Path::new(".env"), std::env::vars_os())?;
    let settings = match Settings::parse(variables, own_names()) {
        Ok(settings) => settings,
        Err(problems) if arguments.check => {
            tell("problem", &problems);
            return Ok(WRONG_SETTINGS.into());
        }
        Err(problems) => {
            for problem in problems {
                tracing::error!("{problem}");
            }
            return Ok(WRONG_SETTINGS.into());
        }
    };
    if arguments.check {
        return check(settings).await;
    }
    for notice in &settings.notices {
        tracing::warn!("{notice}");
    }
    let stop = signals()?;
    // The port first: who asks while the rest is opened waits instead of being refused.
    let listener = pve_server::bind(settings.listen).await?;
    let address = listener.local_addr()?;

    let jobs = Jobs::open(&settings.install.state_directory).context("cannot open STATE_DIR")?;
    let catalogue = Catalogue::load(settings.images_file.as_deref())?;
    let cache = Cache::new(settings.images)?;
    let installer =
        Installer::new(settings.install, catalogue, cache).context("cannot open STATE_DIR")?;
    let app = App::new(settings.access, jobs, installer);
    app.sweep();
    tracing::info!("listening on {address}");
    pve_server::serve(listener, app, stop).await?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at the node; 1 when an install would fail.
async fn check(settings: Settings) -> Result<ExitCode> {
    let directory = settings.images.directory.clone();
    let mut problems = Vec::new();
    let catalogue = Catalogue::load(settings.images_file.as_deref()).unwrap_or_else(|error| {
        problems.push(format!("IMAGES_FILE: {:#}", anyhow::Error::from(error)));
        Catalogue::builtin()
    });
    let cache = Cache::new(settings.images);
    let installer = cache.context("cannot open IMAGE_DIR").and_then(|cache| {
        Installer::new(settings.install, catalogue, cache).context("cannot open STATE_DIR")
    });
    let mut notices = settings.notices;
    match installer {
        Ok(installer) => {
            let findings = installer.check(&directory).await;
            problems.extend(findings.problems);
            notices.extend(findings.notices);
        }
        Err(error) => {
            problems.push(format!("{error:#}"));
            notices.push("the node itself was not looked at".to_owned());
        }
    }
    tell("notice", &notices);
    tell("problem", &problems);
    if problems.is_empty() {
        tell("result", &["nothing is in the way of an install"]);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

#[expect(clippy::print_stdout, reason = "a check is asked for its words")]
fn tell(what: &str, texts: &[impl Display]) {
    for text in texts {
        println!("{what}: {text}");
    }
}

/// The names of this machine; what cannot be read adds none.
fn own_names() -> BTreeSet<String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    pve_server::own_names(
        &read("/proc/sys/kernel/hostname"),
        &read("/etc/hosts"),
        &read("/etc/resolv.conf"),
    )
}

/// A message for every SIGTERM and every Ctrl-C.
fn signals() -> Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(1);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signal = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signal.recv().await.is_some() && sender.send(()).await.is_ok() {}
        });
    }
    Ok(receiver)
}
