//! Where the workspace's own programs are.

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::bail;

/// The program of that name that was built with the running one.
///
/// A test lies one directory below the programs.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("the running program has no path")?;
    for directory in own.ancestors().skip(1).take(2) {
        let program = directory.join(name);
        if program.is_file() {
            return Ok(program);
        }
    }
    bail!("{name} is not built: run `cargo build --workspace --all-targets`")
}

/// The top directory of the repository that the running program was built from.
pub fn repository() -> &'static Path {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member.ancestors().nth(2).unwrap_or(member)
}

/// All Rust sources of the repository.
pub fn sources() -> io::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    let mut directories = vec![repository().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    Ok(sources)
}
