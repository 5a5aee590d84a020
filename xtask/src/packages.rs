//! Debian packages that a command needs, installed when they are missing.

use std::env;
use std::path::Path;

use anyhow::bail;
use xshell::Shell;
use xshell::cmd;

/// A Debian package and the file that proves that it is installed.
pub(crate) struct Package {
    name: &'static str,
    /// A program on `PATH`, or an absolute path.
    proof: &'static str,
}

/// ssh and ssh-keygen, which the server itself runs.
pub(crate) const SSH: Package = Package { name: "openssh-client", proof: "ssh" };
pub(crate) const CURL: Package = Package { name: "curl", proof: "curl" };
/// qemu-img, which judges the simulator's images.
pub(crate) const QEMU_UTILS: Package = Package { name: "qemu-utils", proof: "qemu-img" };
/// ip, for tests in a network namespace of their own.
pub(crate) const IPROUTE2: Package = Package { name: "iproute2", proof: "ip" };
pub(crate) const SHELLCHECK: Package = Package { name: "shellcheck", proof: "shellcheck" };

/// Sees to it that all of `packages` are there, or fails before anything has run.
///
/// Root gets them by apt; anybody else is told the line that does it.
pub(crate) fn need(shell: &Shell, packages: &[Package]) -> anyhow::Result<()> {
    let missing: Vec<&str> =
        packages.iter().filter(|package| !is_there(package.proof)).map(|p| p.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install --yes --no-install-recommends {}", missing.join(" "));
    if cmd!(shell, "id -u").quiet().read()? != "0" || !is_there("apt-get") {
        bail!("missing packages; as root on Debian run: apt-get update && {line}");
    }
    println!("installing {}", missing.join(", "));
    if !has_lists() {
        apt(shell, &["update"])?;
    } else if install(shell, &missing).is_err() {
        // Old lists name packages that are gone.
        apt(shell, &["update"])?;
    } else {
        return Ok(());
    }
    install(shell, &missing)
}

/// Whether apt has ever been told which packages there are; a fresh root has not.
fn has_lists() -> bool {
    let files = std::fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    files.map(|file| file.file_name()).any(|name| name.to_string_lossy().contains("_Packages"))
}

fn install(shell: &Shell, packages: &[&str]) -> anyhow::Result<()> {
    apt(shell, &[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

fn apt(shell: &Shell, arguments: &[&str]) -> anyhow::Result<()> {
    cmd!(shell, "apt-get --quiet -o DPkg::Lock::Timeout=300 {arguments...}")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()?;
    Ok(())
}

fn is_there(proof: &str) -> bool {
    // Not every account that may use them has the directories of the system programs in its PATH.
    let system = ["/usr/sbin", "/sbin"].map(Path::new);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = env::split_paths(&path).collect::<Vec<_>>();
    directories.extend(system.map(Path::to_path_buf));
    // Joining an absolute path gives that path.
    directories.iter().any(|directory| directory.join(proof).exists())
}
