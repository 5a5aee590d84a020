//! The files of a node that commands read: images to import, public keys.
//!
//! The one place where the core may look outside itself. A test gives the files as values; the
//! process lets them be those of the machine it runs on.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use sha2::Digest;
use sha2::Sha256;

/// What is known of a file that is to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// The format by its content.
    pub format: &'static str,
    /// The size that the image shows to a guest.
    pub virtual_size: u64,
}

/// What an address of the web answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Web {
    /// Bytes.
    pub size: u64,
    /// The type that the server names.
    pub mime: String,
    /// The status line of a failure, when there is nothing.
    pub missing: Option<String>,
    /// The SHA-256 of the content.
    pub sum: String,
    /// `qcow2` or `raw`, by the content.
    pub format: String,
    /// The file with the content, which says more than these values do.
    pub file: Option<PathBuf>,
}

impl Web {
    /// The SHA-256 of the content.
    pub fn sum(&self) -> String {
        let content = self.file.as_ref().and_then(|file| fs::read(file).ok());
        content.map_or_else(|| self.sum.clone(), |content| hex::encode(Sha256::digest(content)))
    }

    /// The first bytes of the content, if they are known.
    pub fn head(&self) -> Option<Vec<u8>> {
        head(self.file.as_ref()?)
    }
}

/// As much of a file as tells what it is.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    fs::File::open(path).ok()?.take(32).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Files by path; those that are not given here are looked up on this machine, if that is allowed.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// Files that are values: their first bytes and their length.
    pub files: BTreeMap<String, (Vec<u8>, u64)>,
    /// Whether this machine's files count too.
    pub machine: bool,
    /// Addresses that can be downloaded from.
    pub web: BTreeMap<String, Web>,
    /// The SHA-256 of downloaded files, by path.
    pub sums: BTreeMap<String, String>,
}

impl Host {
    /// Puts a file in.
    pub fn put(&mut self, path: &str, bytes: &[u8]) {
        self.files.insert(path.to_owned(), (bytes.to_vec(), bytes.len() as u64));
    }

    /// What an import needs to know; nothing when it is not a regular file.
    pub fn facts(&self, path: &str) -> Option<FileFacts> {
        if let Some((bytes, length)) = self.files.get(path) {
            return Some(facts(bytes, *length));
        }
        if !self.machine || !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return None;
        }
        let length = fs::metadata(path).ok()?.len();
        Some(facts(&head(Path::new(path))?, length))
    }

    /// What an address answers; nothing when nobody answers there.
    pub fn web(&self, url: &str) -> Option<Web> {
        let origin = |url: &str| url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        self.web.get(url).cloned().or_else(|| {
            let served = self.web.keys().any(|known| origin(known) == origin(url));
            let missing = Some("404 File not found".to_owned());
            served.then(|| Web { missing, ..Web::default() })
        })
    }

    /// A file's text.
    pub fn read(&self, path: &str) -> io::Result<String> {
        match self.files.get(path) {
            Some((bytes, _)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            None if self.machine => fs::read_to_string(Path::new(path)),
            None => Err(io::Error::from_raw_os_error(2)),
        }
    }
}

/// Reads a qcow2 header: magic at 0, the virtual size in bytes at 24, big endian.
fn facts(head: &[u8], length: u64) -> FileFacts {
    let size = head.get(24..32).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    match size {
        Some(size) if head.starts_with(b"QFI\xfb") => {
            FileFacts { format: "qcow2", virtual_size: u64::from_be_bytes(size) }
        }
        // A raw image ends at a whole sector.
        _ => FileFacts { format: "raw", virtual_size: length.div_ceil(512) * 512 },
    }
}
