//! What no compiler looks at: scripts, links between documents, snapshots that no test uses.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::bail;
use xshell::Shell;

/// All shell scripts of the repository.
pub(crate) fn scripts(shell: &Shell) -> anyhow::Result<Vec<PathBuf>> {
    let mut scripts = vec![shell.current_dir().join(".ci/run")];
    scripts.extend(files(shell, "sh")?);
    Ok(scripts)
}

/// Fails when a document links to a file that does not exist.
pub(crate) fn links(shell: &Shell) -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for document in files(shell, "md")? {
        let text = shell.read_file(&document)?;
        let directory = document.parent().context("a document lies in a directory")?;
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            // An absolute path is a quotation: the specification names pictures of its own site.
            let elsewhere = file.is_empty()
                || file.starts_with('/')
                || file.contains("://")
                || file.contains(' ');
            if !elsewhere && !directory.join(file).exists() {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    if !broken.is_empty() {
        bail!("links that lead nowhere:\n{}", broken.join("\n"));
    }
    Ok(())
}

/// The list that insta keeps, during a test run, of the snapshot files that it looks at.
pub(crate) struct SnapshotReferences(PathBuf);

impl SnapshotReferences {
    pub(crate) fn new(shell: &Shell) -> anyhow::Result<Self> {
        let list = shell.current_dir().join("target/snapshot-references");
        shell.remove_path(&list)?;
        Ok(Self(list))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Fails when there is a snapshot file that no test has looked at.
    pub(crate) fn check(&self, shell: &Shell) -> anyhow::Result<()> {
        // No list at all: all snapshots are inline.
        let list = fs::read_to_string(&self.0).unwrap_or_default();
        let used: BTreeSet<PathBuf> =
            list.lines().filter_map(|line| Path::new(line).canonicalize().ok()).collect();
        let unused: Vec<String> = files(shell, "snap")?
            .into_iter()
            .filter(|file| file.canonicalize().is_ok_and(|file| !used.contains(&file)))
            .map(|file| file.display().to_string())
            .collect();
        if !unused.is_empty() {
            bail!("snapshots that no test uses; remove them:\n{}", unused.join("\n"));
        }
        Ok(())
    }
}

/// All files of the repository with that extension, sorted.
fn files(shell: &Shell, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![shell.current_dir()];
    while let Some(directory) = directories.pop() {
        for path in shell.read_dir(&directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name == "target" || name == ".git" {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else if path.extension() == Some(OsStr::new(extension)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
