//! Which image belongs to which operating system.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use crate::files;

/// A cloud image and what has to be known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The operating system: `debian`.
    pub os: String,
    /// Its version: `12`.
    pub version: String,
    /// Where the image lies.
    pub url: Url,
    /// Where the publisher's list of checksums lies.
    pub sums: Option<Url>,
    /// The user that the image brings.
    pub user: String,
    /// The least CPU level that its programs need, in the words of a VM's CPU type; `None` for any.
    pub cpu: Option<String>,
}

impl Image {
    /// The name in the cache: the last part of the address.
    pub fn file_name(&self) -> &str {
        self.url.path().rsplit('/').next().unwrap_or_default()
    }
}

/// The images there are.
#[derive(Debug, Clone)]
pub struct Catalogue {
    images: Vec<Image>,
}

/// Why a file with further images cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The file cannot be read.
    #[error("cannot read the images file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML, or has other keys than `[[image]]` with `os`, `version`, `url`, `sums`, `user`, `cpu`.
    #[error("cannot understand the images file {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why, with the place.
        source: Box<toml::de::Error>,
    },
    /// An entry says something that cannot be.
    #[error("images file {}, image {number} ({image}): {field} '{value}' {reason}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// Which entry, counted from 1.
        number: usize,
        /// Its operating system and version.
        image: String,
        /// The key.
        field: &'static str,
        /// What stands there.
        value: String,
        /// Why it cannot be, and what would be right.
        reason: String,
    },
}

impl Catalogue {
    /// The images of Debian, Ubuntu and Rocky Linux.
    pub fn builtin() -> Self {
        Self { images: BUILTIN.iter().filter_map(Row::image).collect() }
    }

    /// The built-in images and those of a file, which replace a built-in one of the same `os` and `version`.
    ///
    /// ```toml
    /// [[image]]
    /// os = "debian"
    /// version = "12"
    /// url = "https://mirror.example.org/debian-12-generic-amd64.qcow2"
    /// sums = "https://mirror.example.org/SHA512SUMS"
    /// user = "debian"
    /// ```
    pub fn load(extra: Option<&Path>) -> Result<Self, CatalogueError> {
        let mut catalogue = Self::builtin();
        let Some(path) = extra else { return Ok(catalogue) };
        let text = std::fs::read_to_string(path)
            .map_err(|source| CatalogueError::Read { path: path.to_owned(), source })?;
        let file: File = toml::from_str(&text).map_err(|source| CatalogueError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        for (index, entry) in file.image.iter().enumerate() {
            let Fault { field, value, reason } = match catalogue.add(entry) {
                Ok(()) => continue,
                Err(fault) => fault,
            };
            let image = format!("{} {}", entry.os, entry.version);
            let (path, number) = (path.to_owned(), index + 1);
            return Err(CatalogueError::Entry { path, number, image, field, value, reason });
        }
        Ok(catalogue)
    }

    /// The image of a version of an operating system.
    pub fn find(&self, os: &str, version: &str) -> Option<&Image> {
        self.images.iter().find(|image| image.os == os && image.version == version)
    }

    /// All images, in the order of the table; added ones last.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    fn add(&mut self, entry: &Entry) -> Result<(), Fault> {
        let image = entry.image()?;
        let same = |other: &Image| other.os == image.os && other.version == image.version;
        if let Some(other) = self.images.iter().find(|other| {
            !same(other) && other.file_name() == image.file_name() && other.url != image.url
        }) {
            let reason = format!(
                "ends in the same file name as the image of {} {}, {}: both would lie at one place in the cache",
                other.os, other.version, other.url
            );
            return Err(Fault { field: "url", value: image.url.into(), reason });
        }
        match self.images.iter_mut().find(|other| same(other)) {
            Some(other) => *other = image,
            None => self.images.push(image),
        }
        Ok(())
    }
}

/// One line of the built-in table.
struct Row {
    os: &'static str,
    version: &'static str,
    directory: &'static str,
    file: &'static str,
    sums: &'static str,
    user: &'static str,
    cpu: Option<&'static str>,
}

impl Row {
    /// `None` only if the table itself were wrong, which a test looks at.
    fn image(&self) -> Option<Image> {
        let directory = Url::parse(self.directory).ok()?;
        Some(Image {
            os: self.os.to_owned(),
            version: self.version.to_owned(),
            url: directory.join(self.file).ok()?,
            sums: Some(directory.join(self.sums).ok()?),
            user: self.user.to_owned(),
            cpu: self.cpu.map(str::to_owned),
        })
    }
}

const fn debian(version: &'static str, directory: &'static str, file: &'static str) -> Row {
    Row { os: "debian", version, directory, file, sums: "SHA512SUMS", user: "debian", cpu: None }
}

const fn ubuntu(version: &'static str, directory: &'static str, file: &'static str) -> Row {
    Row { os: "ubuntu", version, directory, file, sums: "SHA256SUMS", user: "ubuntu", cpu: None }
}

const fn rocky(
    version: &'static str,
    directory: &'static str,
    file: &'static str,
    cpu: Option<&'static str>,
) -> Row {
    Row { os: "rockylinux", version, directory, file, sums: "CHECKSUM", user: "rocky", cpu }
}

const BUILTIN: &[Row] = &[
    debian(
        "11",
        "https://cloud.debian.org/images/cloud/bullseye/latest/",
        "debian-11-generic-amd64.qcow2",
    ),
    debian(
        "12",
        "https://cloud.debian.org/images/cloud/bookworm/latest/",
        "debian-12-generic-amd64.qcow2",
    ),
    debian(
        "13",
        "https://cloud.debian.org/images/cloud/trixie/latest/",
        "debian-13-generic-amd64.qcow2",
    ),
    ubuntu(
        "20.04",
        "https://cloud-images.ubuntu.com/releases/20.04/release/",
        "ubuntu-20.04-server-cloudimg-amd64.img",
    ),
    ubuntu(
        "22.04",
        "https://cloud-images.ubuntu.com/releases/22.04/release/",
        "ubuntu-22.04-server-cloudimg-amd64.img",
    ),
    ubuntu(
        "24.04",
        "https://cloud-images.ubuntu.com/releases/24.04/release/",
        "ubuntu-24.04-server-cloudimg-amd64.img",
    ),
    rocky(
        "8",
        "https://dl.rockylinux.org/pub/rocky/8/images/x86_64/",
        "Rocky-8-GenericCloud-Base.latest.x86_64.qcow2",
        None,
    ),
    rocky(
        "9",
        "https://dl.rockylinux.org/pub/rocky/9/images/x86_64/",
        "Rocky-9-GenericCloud-Base.latest.x86_64.qcow2",
        Some("x86-64-v2"),
    ),
    rocky(
        "10",
        "https://dl.rockylinux.org/pub/rocky/10/images/x86_64/",
        "Rocky-10-GenericCloud-Base.latest.x86_64.qcow2",
        Some("x86-64-v3"),
    ),
];

/// The levels that an entry may ask for.
const LEVELS: [&str; 4] = ["x86-64-v2", "x86-64-v2-AES", "x86-64-v3", "x86-64-v4"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    image: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    os: String,
    version: String,
    url: String,
    sums: Option<String>,
    user: String,
    cpu: Option<String>,
}

/// What is wrong with one key of an entry.
struct Fault {
    field: &'static str,
    value: String,
    reason: String,
}

impl Fault {
    fn new(field: &'static str, value: &str, reason: &str) -> Self {
        Self { field, value: value.to_owned(), reason: reason.to_owned() }
    }
}

impl Entry {
    fn image(&self) -> Result<Image, Fault> {
        for (field, value) in [("os", &self.os), ("version", &self.version)] {
            if !is_word(value) {
                let reason = "is not a word of letters, digits, '.', '-' and '_' that begins with a letter or digit";
                return Err(Fault::new(field, value, reason));
            }
        }
        if !is_user(&self.user) {
            let reason =
                "is not a user name: at most 32 of a-z, 0-9, '-' and '_', a letter or '_' first";
            return Err(Fault::new("user", &self.user, reason));
        }
        if let Some(level) = &self.cpu
            && !LEVELS.contains(&level.as_str())
        {
            let reason = format!("is not one of {}", LEVELS.join(", "));
            return Err(Fault { field: "cpu", value: level.clone(), reason });
        }
        let image = Image {
            os: self.os.clone(),
            version: self.version.clone(),
            url: address("url", &self.url)?,
            sums: self.sums.as_deref().map(|sums| address("sums", sums)).transpose()?,
            user: self.user.clone(),
            cpu: self.cpu.clone(),
        };
        files::check_name(image.file_name())
            .map_err(|reason| Fault::new("url", image.url.as_str(), reason))?;
        Ok(image)
    }
}

/// An address without a secret in it: addresses are shown in events and errors.
fn address(field: &'static str, text: &str) -> Result<Url, Fault> {
    let url = Url::parse(text).map_err(|error| Fault {
        field,
        value: text.to_owned(),
        reason: format!("is not an address: {error}"),
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(Fault::new(field, text, "begins with neither http:// nor https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let shown = format!("{}://…@{}", url.scheme(), url.host_str().unwrap_or_default());
        return Err(Fault::new(
            field,
            &shown,
            "carries a user name or password, which would be shown in events",
        ));
    }
    Ok(url)
}

fn is_word(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn is_user(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

#[cfg(test)]
mod tests;
