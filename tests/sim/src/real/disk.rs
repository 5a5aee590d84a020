//! Disks as files, written by QEMU's own tools.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use anyhow::ensure;
use tokio::process::Command;

use crate::effect::DiskChange;
use crate::effect::Seed;

pub(super) async fn apply(change: &DiskChange) -> anyhow::Result<()> {
    match change {
        DiskChange::Created { file, format, size } => {
            make_directory_of(file).await?;
            run(command("qemu-img", &["create", "-q", "-f", format])
                .arg(file)
                .arg(size.to_string()))
            .await
        }
        DiskChange::Imported { source, source_format, file, format } => {
            make_directory_of(file).await?;
            let convert = ["convert", "-f", source_format, "-O", format];
            run(command("qemu-img", &convert).arg(source).arg(file)).await
        }
        DiskChange::Resized { file, format, size } => {
            run(command("qemu-img", &["resize", "-q", "-f", format])
                .arg(file)
                .arg(size.to_string()))
            .await
        }
        DiskChange::Moved { from, to } => {
            make_directory_of(to).await?;
            tokio::fs::rename(from, to)
                .await
                .with_context(|| format!("cannot move {}", from.display()))
        }
        DiskChange::Removed { file } => match tokio::fs::remove_file(file).await {
            // A cloud-init drive is made at each start, among the machine's own files.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| format!("cannot remove {}", file.display())),
        },
    }
}

/// Writes a cloud-init drive to `image`, with `directory` for its files.
pub(super) async fn write_seed(seed: &Seed, directory: &Path, image: &Path) -> anyhow::Result<()> {
    tokio::fs::create_dir_all(directory).await?;
    let files = [
        ("user-data", seed.user_data.as_str()),
        ("network-config", &seed.network_config),
        ("meta-data", &seed.meta_data),
        ("vendor-data", ""),
    ];
    for (name, text) in files {
        tokio::fs::write(directory.join(name), text).await?;
    }
    let options = ["-quiet", "-iso-level", "3", "-J", "-R", "-V", "cidata", "-o"];
    run(command("genisoimage", &options).arg(image).arg(directory)).await
}

/// A command without an input of its own.
pub(super) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(std::process::Stdio::null());
    command
}

/// Runs a command that prints only when something is wrong.
pub(super) async fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.output().await.with_context(|| format!("cannot run {program}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}: {}", output.status, error.trim());
    Ok(())
}

async fn make_directory_of(file: &Path) -> anyhow::Result<()> {
    let directory = file.parent().context("a volume has a directory")?;
    Ok(tokio::fs::create_dir_all(directory).await?)
}
