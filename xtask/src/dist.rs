//! `cargo xtask dist`: the release archive, the same bytes from the same sources.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use xshell::Shell;
use xshell::cmd;

use crate::cargo::cargo;

const PROGRAMS: [&str; 2] = ["pve-server", "pve-tui"];
const FILES: [&str; 4] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "pve-server/systemd/pve-server.env",
    "pve-server/systemd/pve-server.service",
];

pub(crate) fn dist(shell: &Shell) -> anyhow::Result<()> {
    let packages = PROGRAMS.map(|program| format!("--package {program}")).join(" ");
    // Panic messages hold the paths of sources, which differ from machine to machine.
    let flags = format!("--remap-path-prefix={}=cargo", cargo_home()?.display());
    cargo(shell, &format!("build --release --locked {packages}")).env("RUSTFLAGS", flags).run()?;

    let out = shell.current_dir().join("target/dist");
    let name = format!("pve-server-{}-{}-linux", env!("CARGO_PKG_VERSION"), env::consts::ARCH);
    shell.remove_path(&out)?;
    shell.create_dir(out.join(&name))?;
    for program in PROGRAMS {
        shell.copy_file(format!("target/release/{program}"), out.join(&name))?;
    }
    for file in FILES {
        shell.copy_file(file, out.join(&name))?;
    }
    let _in_out = shell.push_dir(&out);
    let archive = format!("{name}.tar.gz");
    let same = [
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
        "--mode=u=rwX,go=rX",
    ];
    cmd!(shell, "tar {same...} --use-compress-program 'gzip -9n' -cf {archive} {name}").run()?;
    let sums = cmd!(shell, "sha256sum {archive}").read()?;
    shell.write_file("SHA256SUMS", format!("{sums}\n"))?;
    shell.remove_path(&name)?;
    println!("{}\n{sums}", out.join(archive).display());
    Ok(())
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")
}
