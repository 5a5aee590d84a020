//! `cargo xtask test`: everything that is checked without a virtual machine.

use xshell::Shell;
use xshell::cmd;

use crate::cargo::cargo;
use crate::packages;
use crate::tidy;

pub(crate) fn test(shell: &Shell) -> anyhow::Result<()> {
    packages::need(
        shell,
        &[
            packages::SSH,
            packages::CURL,
            packages::QEMU_UTILS,
            packages::IPROUTE2,
            packages::SHELLCHECK,
        ],
    )?;

    cargo(shell, "fmt --all --check").run()?;
    let scripts = tidy::scripts(shell)?;
    cmd!(shell, "shellcheck {scripts...}").run()?;
    tidy::links(shell)?;
    cargo(shell, "clippy --workspace --all-targets --locked -- -D warnings").run()?;

    // The tests start the programs themselves, which `cargo test` builds for some packages only.
    cargo(shell, "build --workspace --all-targets --locked").run()?;
    let references = tidy::SnapshotReferences::new(shell)?;
    cargo(shell, "test --workspace --locked")
        .env("INSTA_UPDATE", "no")
        .env("INSTA_SNAPSHOT_REFERENCES_FILE", references.path())
        .run()?;
    references.check(shell)?;

    cargo(shell, "doc --workspace --lib --no-deps --locked")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    println!("all is well");
    Ok(())
}
