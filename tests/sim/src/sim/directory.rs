//! The directory on disk: `/etc/pve` and the programs.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;

use super::locked;
use crate::face;
use crate::world::World;

/// What has been written to `/etc/pve`.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    written: Mutex<BTreeMap<PathBuf, String>>,
}

impl Directory {
    /// Makes the directories and the links of the main node.
    pub(super) fn create(root: &Path, world: &World) -> io::Result<Self> {
        let path = root.join("pve");
        for directory in world.etc_pve_directories() {
            fs::create_dir_all(path.join(directory))?;
        }
        let own = PathBuf::from("nodes").join(&world.main_node);
        for (link, target) in [
            ("local", own.clone()),
            ("qemu-server", own.join("qemu-server")),
            ("lxc", own.join("lxc")),
        ] {
            symlink(target, path.join(link))?;
        }
        Ok(Self { path, written: Mutex::default() })
    }

    /// Writes what has changed; a file appears whole, a new one before an old one goes.
    pub(super) fn publish(&self, world: &World) -> io::Result<()> {
        let files = world.etc_pve();
        let mut written = locked(&self.written);
        for (path, text) in &files {
            if written.get(path) != Some(text) {
                let target = self.path.join(path);
                let new = target.with_extension("tmp");
                fs::write(&new, text)?;
                fs::rename(&new, &target)?;
            }
        }
        for path in written.keys().filter(|path| !files.contains_key(*path)) {
            fs::remove_file(self.path.join(path))?;
        }
        *written = files;
        Ok(())
    }
}

/// Puts the program where the commands are looked for, under their names.
pub(super) fn place_faces(root: &Path, program: Option<&Path>) -> io::Result<()> {
    let bin = root.join("bin");
    fs::create_dir_all(&bin)?;
    let program = match program {
        Some(program) => program.to_owned(),
        None => find_program()?,
    };
    // A link within one file system, else one copy for all names.
    let mut source = program;
    for name in face::NAMES {
        let face = bin.join(name);
        if fs::hard_link(&source, &face).is_err() {
            fs::copy(&source, &face)?;
            source = face;
        }
    }
    Ok(())
}

/// Looks for `pve-sim` beside the running program and above it: a test lies in `deps` below it.
fn find_program() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    own.ancestors()
        .skip(1)
        .take(3)
        .map(|directory| directory.join("pve-sim"))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let text =
                "the program `pve-sim` is not beside this one; `cargo build --workspace` makes it";
            io::Error::new(io::ErrorKind::NotFound, text)
        })
}
