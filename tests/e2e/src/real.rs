//! The real virtual machine: the unchanged server provisions QEMU guests from a cloud image.
//!
//! The outer half sees to packages, image and network namespace; the inner half is the same program
//! again, inside the namespace, and does everything else. When it has ended, whatever still lives in
//! the namespace is ended too and the namespace goes.

#![expect(clippy::print_stdout, reason = "the half of a program that talks to its user")]

mod command;
mod guest;
mod host;
mod image;
mod inside;
mod mirror;
mod network;
mod recipe;
mod repository;
mod scenario;

use std::env;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use anyhow::bail;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use self::network::Namespace;

/// Builds what is missing, makes a namespace and runs [`inside`] there.
pub async fn outside() -> anyhow::Result<()> {
    host::prepare()?;
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).context("the program is not in a target directory")?;
    let begun = Instant::now();
    let image = image::built(&target.join("e2e"), &network::server())?;
    println!("cloud image: {} ({:.1} s)", image.display(), begun.elapsed().as_secs_f32());

    // From here on an interrupt is an error that is cleaned up after; an image that is being built
    // has no name yet, and its remains go with the next one.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Goes after the namespace, when nobody is left who could write into it.
    let files = tempfile::Builder::new().prefix("pve-e2e-").tempdir()?;
    let namespace = Namespace::create()?;
    let mut inside = namespace.enter(&program);
    inside.env("TMPDIR", files.path()).arg("inside").arg(&image).arg(files.path());
    let mut child = inside.spawn()?;
    tokio::select! {
        status = child.wait() => match status?.code() {
            Some(0) => Ok(()),
            code => bail!("the run has failed (exit code {code:?})"),
        },
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

/// Runs the server and its machines; must be called inside the namespace.
pub async fn inside(image: &Path, directory: &Path) -> anyhow::Result<()> {
    inside::run(image, directory).await
}
