//! What this machine must have before anything runs: root, and some Debian packages.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::bail;

use super::command::Command;

/// A Debian package and the file that proves that it is installed.
struct Package {
    name: &'static str,
    /// A program, or an absolute path.
    proof: &'static str,
}

const PACKAGES: [Package; 9] = [
    Package { name: "e2fsprogs", proof: "mke2fs" },
    Package { name: "fdisk", proof: "sfdisk" },
    Package { name: "genisoimage", proof: "genisoimage" },
    Package { name: "grub-pc-bin", proof: "/usr/lib/grub/i386-pc/boot.img" },
    Package { name: "iproute2", proof: "ip" },
    Package { name: "mmdebstrap", proof: "mmdebstrap" },
    Package { name: "openssh-client", proof: "ssh" },
    Package { name: "qemu-system-x86", proof: "qemu-system-x86_64" },
    Package { name: "qemu-utils", proof: "qemu-img" },
];

/// All of QEMU that has to be of one version.
const QEMU: [&str; 5] =
    ["qemu-system-x86", "qemu-system-common", "qemu-system-data", "qemu-utils", "seabios"];

/// `PATH` with the directories of the system programs, which not every account has in it.
pub(super) fn path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

/// Installs what is missing; fails with the reason, or the line that helps, before anything runs.
pub(super) fn prepare() -> anyhow::Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|package| !is_there(package.proof))
        .map(|package| package.name)
        .collect();
    let line = format!("apt-get update && apt-get install --no-remove {}", missing.join(" "));
    let advice =
        if missing.is_empty() { String::new() } else { format!("; it also needs: {line}") };
    if Command::new("id").arg("-u").read()?.trim() != "0" {
        bail!("run this as root: it makes a network namespace with a bridge{advice}");
    }
    if !Path::new("/dev/net/tun").exists() {
        bail!("/dev/net/tun is missing (modprobe tun, or let the container have it){advice}");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !is_there("apt-get") {
        bail!("missing packages, on Debian: {line}");
    }
    println!("installing {}", missing.join(", "));
    install(&missing).with_context(|| format!("cannot install what is missing: {line}"))
}

fn is_there(proof: &str) -> bool {
    // Joining an absolute path gives that path.
    env::split_paths(&path()).any(|directory| directory.join(proof).exists())
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    // A fresh machine has no package lists, an old one has lists whose packages are gone.
    let plain = apt_install(&[], packages).or_else(|_| {
        apt(&["update"])?;
        apt_install(&[], packages)
    });
    if plain.is_ok() || !has_backported_qemu() {
        return plain;
    }
    install_backported(packages)
}

/// Without `--no-remove`, apt would take away a QEMU tool of another version.
fn apt_install(options: &[&str], packages: &[&str]) -> anyhow::Result<()> {
    let install = ["install", "--yes", "--no-install-recommends", "--no-remove"];
    apt(&[options, &install, packages].concat())
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["--quiet", "-o", "DPkg::Lock::Timeout=300"]).args(arguments);
    command.environment("DEBIAN_FRONTEND", "noninteractive").run()
}

fn has_backported_qemu() -> bool {
    let version = Command::new("dpkg-query").args(["-W", "-f", "${Version}", "qemu-utils"]).read();
    version.is_ok_and(|version| version.contains("~bpo"))
}

/// Takes QEMU from backports, where its tools are from already; apt's own sources stay as they are.
fn install_backported(packages: &[&str]) -> anyhow::Result<()> {
    let sources = tempfile::tempdir()?;
    let (parts, lists) = (sources.path().join("parts"), sources.path().join("lists"));
    fs::create_dir_all(lists.join("partial"))?;
    copy_directory(Path::new("/etc/apt/sources.list.d"), &parts)?;
    let mirror = super::mirror::base()?;
    let suite = format!("{}-backports", super::mirror::SUITE);
    fs::write(parts.join("backports.list"), format!("deb {mirror} {suite} main\n"))?;
    let parts = format!("Dir::Etc::sourceparts={}", parts.display());
    let lists = format!("Dir::State::lists={}", lists.display());
    let options = ["-o", &parts, "-o", &lists];
    apt(&[&options[..], &["update"]].concat())?;
    let from = [&options[..], &["--target-release", &suite]].concat();
    let others = packages.iter().copied().filter(|package| !QEMU.contains(package));
    apt_install(&from, &QEMU.into_iter().chain(others).collect::<Vec<_>>())
}

fn copy_directory(from: &Path, to: &PathBuf) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
