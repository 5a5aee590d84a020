//! Files in a directory that everybody may write to.
//!
//! The cache lies in `/tmp` unless an admin says otherwise.
//! There, any local user can put a file, a pipe or a link in our way; so nothing is opened before it was found to be
//! a plain file of our own, links are never followed, and new files are made only where nothing was.

use std::fs::File;
use std::fs::Metadata;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::OFlags;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::catalogue::Image;
use crate::error::Error;

/// Where the bytes lie that have come so far; whoever has locked this file works on the image.
const PART: &str = ".part";
/// What a `.part` is a part of.
const STATE: &str = ".part.json";
/// What is known of a whole file.
const SIDE: &str = ".json";
/// A side file before it is whole itself.
const NEW: &str = ".new";

/// Notes are some hundred bytes; more is not ours.
const NOTE: u64 = 64 << 10;

/// Another user may write.
const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whether a name can stand in the cache directory.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-+~".contains(&b);
    if name.is_empty() {
        return Err("does not end in a file name");
    }
    if name.len() > 200 {
        return Err("ends in a file name of more than 200 characters");
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.bytes().all(plain) {
        return Err(
            "ends in a file name with other characters than letters, digits, '.', '_', '-', '+', '~', \
                    or without a letter or digit first",
        );
    }
    if [PART, SIDE, NEW].iter().any(|ending| name.ends_with(ending)) {
        return Err("ends like the cache's own notes (.part, .json, .new)");
    }
    Ok(())
}

/// The files of one image.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) name: String,
}

impl Place {
    pub(crate) fn new(directory: &Path, image: &Image) -> Result<Self, Error> {
        let name = image.file_name();
        check_name(name).map_err(|reason| Error::Name { url: image.url.to_string(), reason })?;
        Ok(Self { directory: directory.to_owned(), name: name.to_owned() })
    }

    /// The name of the whole file.
    pub(crate) fn whole(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    pub(crate) fn part(&self) -> PathBuf {
        self.beside(PART)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.beside(STATE)
    }

    pub(crate) fn side(&self) -> PathBuf {
        self.beside(SIDE)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.directory.join(format!("{}{ending}", self.name))
    }

    /// The length of the partial file, for whoever waits for another's download.
    pub(crate) fn part_length(&self) -> Option<u64> {
        std::fs::symlink_metadata(self.part()).ok().filter(Metadata::is_file).map(|part| part.len())
    }

    /// Bytes that are free for us.
    pub(crate) fn free(&self) -> Result<u64, Error> {
        let room = rustix::fs::statvfs(&self.directory).map_err(|error| {
            Error::file("ask for the free room of", &self.directory)(error.into())
        })?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Refuses a download that cannot fit, with the figures.
    pub(crate) fn check_room(&self, needed: u64) -> Result<(), Error> {
        let available = self.free()?;
        if needed <= available {
            return Ok(());
        }
        Err(self.no_room(Some(needed), available))
    }

    pub(crate) fn no_room(&self, needed: Option<u64>, available: u64) -> Error {
        Error::NoRoom {
            directory: self.directory.clone(),
            name: self.name.clone(),
            needed,
            available,
        }
    }

    /// Makes names that were given or taken outlive a power cut.
    pub(crate) fn sync_directory(&self) -> Result<(), Error> {
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(Error::file("flush", &self.directory))
    }
}

/// Makes the directory if need be, and looks at who may change it.
pub(crate) fn prepare_directory(directory: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(directory).map_err(Error::file("create the directory", directory))?;
    let found = std::fs::metadata(directory).map_err(Error::file("look at", directory))?;
    if found.mode() & WRITABLE_BY_ALL != 0 && found.mode() & STICKY == 0 {
        return Err(refused(
            directory,
            "is a directory in which everybody may replace our files (writable by all, not sticky)",
        ));
    }
    Ok(())
}

/// Opens a file of our own; `None` when there is none.
pub(crate) fn open(path: &Path, write: bool) -> Result<Option<File>, Error> {
    let mut options = OpenOptions::new();
    // Without NONBLOCK, opening somebody's pipe would wait for its other end.
    options.read(true).write(write).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    match options.open(path) {
        Ok(file) => {
            let found = file.metadata().map_err(Error::file("look at", path))?;
            judge(path, &found)?;
            if write && found.nlink() > 1 {
                return Err(refused(path, "has a second name (a hard link)"));
            }
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            // A link or another user's file may have been what hindered us; that says more than the error's number.
            if let Ok(found) = std::fs::symlink_metadata(path) {
                judge(path, &found)?;
            }
            Err(Error::file("open", path)(error))
        }
    }
}

/// Makes a file where there is none; `None` when there is one.
///
/// Others cannot open it, so that they cannot lock it either.
pub(crate) fn create(path: &Path) -> Result<Option<File>, Error> {
    match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(Error::file("create", path)(error)),
    }
}

/// Whether a name still belongs to an open file: somebody may have renamed or removed it meanwhile.
pub(crate) fn is_at(file: &File, path: &Path) -> Result<bool, Error> {
    let ours = file.metadata().map_err(Error::file("look at", path))?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok(ours.dev() == there.dev() && ours.ino() == there.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::file("look at", path)(error)),
    }
}

/// Removes a file of our own; that there is none is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => judge(path, &found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("look at", path)(error)),
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Reads a note; one that cannot be read (cut by a crash, or of another version) is no note.
pub(crate) fn read_note<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let Some(file) = open(path, false)? else { return Ok(None) };
    let mut text = Vec::new();
    file.take(NOTE).read_to_end(&mut text).map_err(Error::file("read", path))?;
    Ok(serde_json::from_slice(&text).ok())
}

/// Writes a note so that it is there whole or not at all. Only the holder of the part's lock may do so.
pub(crate) fn write_note<T: Serialize>(path: &Path, note: &T) -> Result<(), Error> {
    // What may lie at the name and be replaced is ours.
    open(path, false)?;
    let new = path.with_added_extension(&NEW[1..]);
    let mut text = serde_json::to_vec_pretty(note)
        .map_err(|error| Error::file("write", path)(error.into()))?;
    text.push(b'\n');
    // One that a crash left is in the way of `create` and of no use.
    remove(&new)?;
    let mut file = create(&new)?.ok_or_else(|| refused(&new, "was put in our way just now"))?;
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    written.and_then(|()| std::fs::rename(&new, path)).map_err(|error| {
        let _ = remove(&new);
        Error::file("write", path)(error)
    })
}

fn judge(path: &Path, found: &Metadata) -> Result<(), Error> {
    let us = rustix::process::geteuid().as_raw();
    if found.is_symlink() {
        Err(refused(path, "is a symbolic link"))
    } else if !found.is_file() {
        Err(refused(path, "is not a plain file"))
    } else if found.uid() != us {
        Err(refused(path, &format!("belongs to user {}, not to us (user {us})", found.uid())))
    } else if found.mode() & WRITABLE_BY_ALL != 0 {
        Err(refused(path, "may be written to by everybody"))
    } else {
        Ok(())
    }
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::Refused { path: path.to_owned(), reason: reason.to_owned() }
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// When a file was written to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Modified {
    seconds: i64,
    nanoseconds: i64,
}

impl Modified {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { seconds: found.mtime(), nanoseconds: found.mtime_nsec() }
    }
}
