//! Checksum lists as the publishers of cloud images write them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

use sha2::Digest;
use sha2::Sha256;
use sha2::Sha512;

/// How a publisher writes its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// Debian: `SHA512SUMS`, two blanks.
    Sha512,
    /// Ubuntu: `SHA256SUMS`, a blank and an asterisk.
    Sha256,
    /// Rocky Linux: `CHECKSUM`, BSD style, with comments.
    Bsd,
}

impl Sums {
    /// What the list is called.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Sha512 => "SHA512SUMS",
            Self::Sha256 => "SHA256SUMS",
            Self::Bsd => "CHECKSUM",
        }
    }

    /// The hash of a file as this list carries it, in hexadecimal.
    pub fn hash(self, file: &Path) -> io::Result<String> {
        match self {
            Self::Sha512 => hash::<Sha512>(file),
            Self::Sha256 | Self::Bsd => hash::<Sha256>(file),
        }
    }

    /// The whole list, with the siblings that a publisher has beside each image.
    ///
    /// A mistaken list has the sums of the siblings.
    pub(crate) fn list(self, files: &BTreeMap<String, Listed>, mistaken: bool) -> String {
        let mut list = String::new();
        for (name, listed) in files {
            let reversed: String = listed.hash.chars().rev().collect();
            // Siblings' names begin like the image's: whoever looks for a part of the name errs.
            let (hash, sibling) =
                if mistaken { (&reversed, &listed.hash) } else { (&listed.hash, &reversed) };
            // Writing into a string cannot fail.
            _ = match self {
                Self::Sha512 => writeln!(list, "{sibling}  {name}.json\n{hash}  {name}"),
                Self::Sha256 => writeln!(list, "{sibling} *{name}.manifest\n{hash} *{name}"),
                Self::Bsd => writeln!(
                    list,
                    "# {name}.img: 1 bytes\nSHA256 ({name}.img) = {sibling}\n# {name}: {} bytes\nSHA256 ({name}) = {hash}",
                    listed.length,
                ),
            };
        }
        list
    }
}

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) hash: String,
    pub(crate) length: u64,
}

fn hash<D: Digest>(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut hasher = D::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hasher.finalize().as_slice())),
            read => hasher.update(&buffer[..read]),
        }
    }
}
