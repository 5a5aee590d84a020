//! The cache against real sockets, files and processes.

mod crash;
mod download;
mod faults;
mod head;
mod mirror;
mod reuse;
mod room;
mod together;
mod trust;
mod way;

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use self::mirror::Mirror;
use super::*;
use crate::checksum::Algorithm;
use crate::checksum::Hasher;

const NAME: &str = "small-1-amd64.qcow2";

/// A file that begins as a qcow2 image does; `seed` makes different ones.
fn content(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = b"QFI\xfb\x00\x00\x00\x03".to_vec();
    bytes.resize(104, 0);
    let mut state = u32::from(seed) + 1;
    bytes.extend((104..length).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }));
    bytes
}

fn sha(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().to_string().split_once(':').unwrap().1.to_owned()
}

/// A list as Debian gives it.
fn list(bytes: &[u8]) -> Vec<u8> {
    format!("{}  {NAME}\n", sha(Algorithm::Sha512, bytes)).into_bytes()
}

/// Limits that a test can wait for.
fn limits() -> Limits {
    Limits { pause: Duration::from_millis(1), ..Limits::default() }
}

/// A cache in a directory of its own.
struct Place {
    directory: TempDir,
    cache: Cache,
}

impl Place {
    fn new() -> Self {
        Self::with(Head::Required, true)
    }

    fn with(head: Head, verify: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cache = cache(directory.path(), head, verify);
        Self { directory, cache }
    }

    fn limited(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path(), Head::Required, true);
        let cache = Cache::with_limits(settings, limits).unwrap();
        Self { directory, cache }
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.directory.path().join(format!("{NAME}{ending}"))
    }

    /// The names in the directory, sorted, without the image's own.
    fn endings(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.strip_prefix(NAME).unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    fn note(&self, ending: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.path(ending)).unwrap()).unwrap()
    }

    /// Downloads and gives the file's bytes.
    async fn download(&self, image: &Image) -> Result<Vec<u8>, Error> {
        self.cache.download(image, None, |_| {}).await.map(|path| std::fs::read(path).unwrap())
    }

    /// Downloads and gives what was told.
    async fn heard(&self, image: &Image) -> (Result<PathBuf, Error>, Vec<String>) {
        let mut notices = Vec::new();
        let result = self.cache.download(image, None, |update| hear(&mut notices, update)).await;
        (result, notices)
    }

    /// Asks for a cached file and gives what was told.
    async fn cached(&self, image: &Image) -> (Option<PathBuf>, Vec<String>) {
        let remote = self.cache.head(image).await.ok();
        let mut notices = Vec::new();
        let result =
            self.cache.cached(image, remote.as_ref(), |update| hear(&mut notices, update)).await;
        (result.unwrap(), notices)
    }
}

fn hear(notices: &mut Vec<String>, update: Update) {
    if let Update::Notice(text) = update {
        notices.push(text);
    }
}

fn cache(directory: &Path, head: Head, verify: bool) -> Cache {
    Cache::with_limits(settings(directory, head, verify), limits()).unwrap()
}

fn settings(directory: &Path, head: Head, verify: bool) -> CacheSettings {
    CacheSettings { directory: directory.to_owned(), head, verify }
}

/// The image of a mirror, with Debian's kind of list.
fn image(mirror: &Mirror) -> Image {
    Image { sums: Some(mirror.url("SHA512SUMS")), ..unlisted(mirror) }
}

/// The image of a mirror that has no list.
fn unlisted(mirror: &Mirror) -> Image {
    Image { url: mirror.url(NAME), ..some_image() }
}

/// An image that lies nowhere.
fn some_image() -> Image {
    Image {
        os: "small".to_owned(),
        version: "1".to_owned(),
        url: format!("http://127.0.0.1:1/{NAME}").parse().unwrap(),
        sums: None,
        user: "small".to_owned(),
        cpu: None,
    }
}

/// An error and its causes, with the changing port of the mirror taken out.
fn text(error: &Error, mirror: &Mirror) -> String {
    with_causes(error).replace(&mirror.address(), "mirror")
}
