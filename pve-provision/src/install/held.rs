//! What a command holds while it runs, so that it can be told after a crash which ones still do.
//!
//! Each run of the server locks an empty file of its own and gives it to commands as their standard
//! input. The lock goes when the last process that has the file open ends.

use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::ssh::create_private_directory;

/// The file of this run of the server.
#[derive(Debug)]
pub(crate) struct Held {
    directory: PathBuf,
    name: OsString,
    /// What a command gets as its standard input.
    pub(crate) file: File,
}

impl Held {
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        create_private_directory(directory)?;
        let name = OsString::from(uuid::Uuid::now_v7().to_string());
        let path = directory.join(&name);
        let open = || {
            fs::write(&path, "")?;
            let file = File::open(&path)?;
            file.lock_shared()?;
            Ok(file)
        };
        let file = open().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("cannot lock {}: {error}", path.display()))
        })?;
        Ok(Self { directory: directory.to_owned(), name, file })
    }

    /// Whether a command of an earlier run is still at work; files that nobody holds are removed.
    pub(crate) fn left_over(&self) -> bool {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let others = entries.filter(|entry| entry.file_name() != self.name);
        // Every one is looked at, for those that nobody holds are to go.
        others.filter(|entry| is_held(&entry.path())).count() > 0
    }
}

/// Whether a process has the file locked; it is removed when none has.
fn is_held(path: &Path) -> bool {
    // Over NFS only a file that is open for writing can be locked alone.
    match File::options().read(true).write(true).open(path).map(|file| file.try_lock()) {
        Ok(Err(TryLockError::WouldBlock)) => true,
        Ok(Ok(())) => {
            let _ = fs::remove_file(path);
            false
        }
        Ok(Err(TryLockError::Error(error))) | Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot tell whether a command is still at work");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the command that is held")]
    fn a_command_of_an_earlier_run_is_seen_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let earlier = Held::new(directory.path()).unwrap();
        let stdin = Stdio::from(earlier.file.try_clone().unwrap());
        let mut command =
            std::process::Command::new("sleep").arg("1000").stdin(stdin).spawn().unwrap();
        drop(earlier);

        let held = Held::new(directory.path()).unwrap();
        assert!(held.left_over());
        assert!(held.left_over());
        command.kill().unwrap();
        command.wait().unwrap();
        assert!(!held.left_over());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
