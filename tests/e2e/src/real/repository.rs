//! A flat package repository: some packages, and the indexes that apt asks for.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use sha2::Digest;
use sha2::Sha256;

use super::command::Command;
use super::recipe::REPOSITORY;

/// Makes a package of nothing but its name and version, `<name>.deb` in `directory`.
pub(super) fn make_package(name: &str, version: &str, directory: &Path) -> anyhow::Result<PathBuf> {
    let tree = tempfile::tempdir()?;
    let control = tree.path().join("DEBIAN");
    fs::create_dir(&control)?;
    let text = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: all\n\
         Maintainer: Nobody <nobody@example.org>\nDescription: shows whether packages are upgraded\n"
    );
    fs::write(control.join("control"), text)?;
    let package = directory.join(format!("{name}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(tree.path()).arg(&package).run()?;
    Ok(package)
}

/// Writes `Packages` and `Release` for all packages in `directory`, and names each file by its
/// package: a version may hold characters that have a meaning in an address.
pub(super) fn index(directory: &Path) -> anyhow::Result<()> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(directory)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            packages.push(entry_of(&file, directory)?);
        }
    }
    packages.sort();
    let packages = packages.join("\n");
    fs::write(directory.join("Packages"), &packages)?;
    let sum = hex::encode(Sha256::digest(&packages));
    let date = Command::new("date").args(["--utc", "--rfc-email"]).read()?;
    let release = format!(
        "Suite: {REPOSITORY}/\nDate: {}\nArchitectures: amd64\nSHA256:\n {sum} {} Packages\n",
        date.trim().replace("+0000", "UTC"),
        packages.len()
    );
    Ok(fs::write(directory.join("Release"), release)?)
}

fn entry_of(file: &Path, directory: &Path) -> anyhow::Result<String> {
    let control = Command::new("dpkg-deb").arg("--field").arg(file).read()?;
    let name = control.lines().find_map(|line| line.strip_prefix("Package: "));
    let name = format!("{}.deb", name.context("a package has a name")?.trim());
    fs::rename(file, directory.join(&name))?;
    let content = fs::read(directory.join(&name))?;
    let (size, sum) = (content.len(), hex::encode(Sha256::digest(&content)));
    Ok(format!(
        "{}\nFilename: {REPOSITORY}/{name}\nSize: {size}\nSHA256: {sum}\n",
        control.trim_end()
    ))
}
