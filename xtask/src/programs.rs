//! The commands that build the programs under `tests/e2e` and become one of them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use xshell::Shell;

use crate::cargo::cargo;
use crate::packages;

pub(crate) fn demo(shell: &Shell, arguments: &[String]) -> anyhow::Result<()> {
    packages::need(shell, &[packages::SSH])?;
    build(shell)?;
    become_program(shell, "debug/demo", arguments)
}

pub(crate) fn e2e(shell: &Shell) -> anyhow::Result<()> {
    // It sees to its own packages before it does anything else: which ones depends on the machine.
    build(shell)?;
    become_program(shell, "debug/real", &[])
}

pub(crate) fn bench(shell: &Shell) -> anyhow::Result<()> {
    packages::need(shell, &[packages::SSH, packages::CURL, packages::IPROUTE2])?;
    cargo(shell, "build --release --workspace --bins --locked").run()?;
    become_program(shell, "release/bench", &[])
}

pub(crate) fn docs(shell: &Shell) -> anyhow::Result<()> {
    build(shell)?;
    become_program(shell, "debug/docs", &[])
}

/// Builds all programs: the ones under `tests/e2e` start the others.
fn build(shell: &Shell) -> anyhow::Result<()> {
    cargo(shell, "build --workspace --bins --locked").run()?;
    Ok(())
}

/// Replaces this process, so that Ctrl-C reaches the program alone and its exit code is ours.
fn become_program(shell: &Shell, name: &str, arguments: &[String]) -> anyhow::Result<()> {
    let program = shell.current_dir().join("target").join(name);
    let error = Command::new(&program).args(arguments).exec();
    Err(anyhow::Error::new(error).context(format!("cannot run {}", program.display())))
}
