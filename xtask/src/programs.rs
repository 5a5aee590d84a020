//! The commands that build the programs under `tests/e2e` and become one of them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use xshell::Shell;
use xshell::cmd;

use crate::packages;
use crate::packages::Package;

pub(crate) fn demo(shell: &Shell, once: bool) -> anyhow::Result<()> {
    packages::need(shell, &[packages::SSH])?;
    build(shell)?;
    become_program(shell, "demo", once.then_some("--once").as_slice())
}

pub(crate) fn e2e(shell: &Shell) -> anyhow::Result<()> {
    packages::need(shell, REAL_VM)?;
    build(shell)?;
    become_program(shell, "real", &[])
}

pub(crate) fn docs(shell: &Shell) -> anyhow::Result<()> {
    build(shell)?;
    become_program(shell, "docs", &[])
}

/// What the real virtual machine and its cloud image need.
const REAL_VM: &[Package] = &[
    packages::SSH,
    Package { name: "e2fsprogs", proof: "mkfs.ext4" },
    Package { name: "fdisk", proof: "sfdisk" },
    Package { name: "grub-pc-bin", proof: "/usr/lib/grub/i386-pc/moddep.lst" },
    Package { name: "iproute2", proof: "ip" },
    Package { name: "mmdebstrap", proof: "mmdebstrap" },
    Package { name: "qemu-system-x86", proof: "qemu-system-x86_64" },
    Package { name: "qemu-utils", proof: "qemu-img" },
];

/// Builds all programs: the ones under `tests/e2e` start the others.
fn build(shell: &Shell) -> anyhow::Result<()> {
    cmd!(shell, "cargo build --workspace --bins --locked").run()?;
    Ok(())
}

/// Replaces this process, so that Ctrl-C reaches the program alone and its exit code is ours.
fn become_program(shell: &Shell, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let program = shell.current_dir().join("target/debug").join(name);
    let error = Command::new(&program).args(arguments).exec();
    Err(anyhow::Error::new(error).context(format!("cannot run {}", program.display())))
}
