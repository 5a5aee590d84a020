//! A mirror of cloud images on loopback: small true qcow2 files under their publishers' paths, with
//! checksum lists, validators and ranges, and with faults that can be planted per path.

mod answer;
mod body;
mod catalogue;
pub(crate) mod date;
mod fault;
mod qcow2;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::SystemTime;

use axum::Router;
use axum::serve::ListenerExt;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub use self::catalogue::CloudImage;
pub use self::catalogue::Content;
pub use self::catalogue::cloud_images;
pub use self::fault::Fault;
pub use self::fault::Times;
pub use self::qcow2::Fill;
pub use self::qcow2::Qcow2;
pub use self::sums::Sums;

use self::fault::Faults;
use self::sums::Listed;

/// How much noise the images of the catalogue hold.
const NOISE: u64 = 1024 * 1024;

/// A running mirror; it ends with its last clone.
#[derive(Debug, Clone)]
pub struct Mirror {
    url: String,
    shared: Arc<Shared>,
    _server: Arc<Server>,
}

#[derive(Debug)]
struct Server(AbortHandle);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
struct Shared {
    /// Where the files stand that the mirror makes.
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<String, Entry>,
    images: Vec<CloudImage>,
    /// Checksum lists by their path.
    lists: BTreeMap<String, (Sums, BTreeMap<String, Listed>)>,
    /// Directories that are served whole, by the path that they stand under.
    directories: Vec<(String, PathBuf)>,
    faults: Faults,
    requests: Vec<Requested>,
}

/// Something that can be fetched.
#[derive(Debug, Clone)]
struct Entry {
    source: Source,
    length: u64,
    modified: SystemTime,
    etag: String,
    /// What a mistaken checksum list says instead.
    mistaken: Option<Bytes>,
}

#[derive(Debug, Clone)]
enum Source {
    Bytes(Bytes),
    File(PathBuf),
}

/// A request that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// `GET`, `HEAD`.
    pub method: String,
    /// What was asked for.
    pub path: String,
    /// The header `Range`.
    pub range: Option<String>,
    /// The header `If-Range`.
    pub if_range: Option<String>,
    /// When.
    pub at: SystemTime,
    /// What was answered; nothing as long as nothing is.
    pub status: Option<u16>,
    /// The bytes of the body that have been sent.
    pub sent: u64,
}

impl Mirror {
    /// Starts an empty mirror on a free port; `directory` is for the files that it makes.
    pub async fn start(address: IpAddr, directory: &Path) -> io::Result<Self> {
        Self::start_at(SocketAddr::new(address, 0), directory).await
    }

    /// Like [`Mirror::start`], on a port that others know beforehand.
    pub async fn start_at(address: SocketAddr, directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let listener = TcpListener::bind(address).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared { directory: directory.to_owned(), state: Mutex::default() });
        let router = Router::new().fallback(answer::answer).with_state(Arc::clone(&shared));
        let listener = listener.tap_io(|tcp| {
            if let Err(error) = tcp.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps its delay");
            }
        });
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, shared, _server: Arc::new(Server(server.abort_handle())) })
    }

    /// Starts a mirror that has every image of the product's catalogue.
    pub async fn with_catalogue(address: IpAddr, directory: &Path) -> io::Result<Self> {
        let mirror = Self::start(address, directory).await?;
        for image in cloud_images() {
            mirror.add(image, Content::Noise { bytes: NOISE, edition: 0 }).await?;
        }
        Ok(mirror)
    }

    /// `http://address:port`, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds an image, or replaces it: by operating system and version, and by path. The image gets new
    /// validators and stands in its checksum list.
    pub async fn add(&self, image: CloudImage, content: Content) -> io::Result<()> {
        let mirror = self.clone();
        let added = tokio::task::spawn_blocking(move || mirror.add_blocking(image, content)).await;
        added.map_err(io::Error::other)?
    }

    fn add_blocking(&self, image: CloudImage, content: Content) -> io::Result<()> {
        let mut hasher = DefaultHasher::new();
        image.path.hash(&mut hasher);
        let qcow2 = |allocated, fill| Qcow2 {
            virtual_size: image.virtual_size.max(allocated),
            allocated,
            fill,
        };
        let qcow2 = match content {
            Content::Noise { bytes, edition } => {
                edition.hash(&mut hasher);
                Some(qcow2(bytes, Fill::Noise(hasher.finish())))
            }
            Content::Holes(bytes) => Some(qcow2(bytes, Fill::Holes)),
            Content::File(_) => None,
        };
        let file = match (content, qcow2) {
            (Content::File(file), _) => file,
            (_, Some(qcow2)) => self.make(&qcow2)?,
            (Content::Noise { .. } | Content::Holes(_), None) => return Ok(()),
        };
        let listed = Listed { hash: image.sums.hash(&file)?, length: fs::metadata(&file)?.len() };
        let entry = Entry::of_file(file)?;
        let mut state = self.state();
        state.entries.insert(image.path.clone(), entry);
        state.list(&image, listed);
        state.images.retain(|other| (&other.os, &other.version) != (&image.os, &image.version));
        state.images.push(image);
        Ok(())
    }

    /// Writes an image into a file of its own: one that is being fetched stays as it is.
    fn make(&self, qcow2: &Qcow2) -> io::Result<PathBuf> {
        let file = tempfile::Builder::new()
            .prefix("image-")
            .suffix(".qcow2")
            .tempfile_in(&self.shared.directory)?;
        let (file, path) = file.keep()?;
        qcow2.write(file)?;
        Ok(path)
    }

    /// Serves all files of a directory under a path.
    pub fn serve(&self, path: &str, directory: &Path) {
        let path = format!("/{}/", path.trim_matches('/'));
        self.state().directories.push((path, directory.to_owned()));
    }

    /// The images that the mirror has, as a file that adds them to the product's catalogue.
    pub fn images_toml(&self) -> String {
        let mut toml = String::new();
        for image in &self.state().images {
            let CloudImage { os, version, path, user, .. } = image;
            let (url, sums) = (&self.url, image.sums_path());
            // Writing into a string cannot fail.
            _ = writeln!(
                toml,
                "[[image]]\nos = \"{os}\"\nversion = \"{version}\"\nurl = \"{url}{path}\""
            );
            _ = writeln!(toml, "sums = \"{url}{sums}\"\nuser = \"{user}\"");
            if let Some(cpu) = &image.cpu {
                _ = writeln!(toml, "cpu = \"{cpu}\"");
            }
            toml.push('\n');
        }
        toml
    }

    /// The images that the mirror has.
    pub fn images(&self) -> Vec<CloudImage> {
        self.state().images.clone()
    }

    /// The file that stands behind a path.
    pub fn file(&self, path: &str) -> Option<PathBuf> {
        match &self.state().entries.get(path)?.source {
            Source::File(file) => Some(file.clone()),
            Source::Bytes(_) => None,
        }
    }

    /// Lets something go wrong with every path that ends like this.
    pub fn plant(&self, path: &str, fault: Fault, times: Times) {
        self.state().faults.plant(path, fault, times);
    }

    /// Lets everything go right again.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Every request that has arrived, oldest first.
    pub fn requests(&self) -> Vec<Requested> {
        self.state().requests.clone()
    }

    /// How many times a path that ends like this was asked for by this method.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.state()
            .requests
            .iter()
            .filter(|request| request.method == method && request.path.ends_with(path))
            .count()
    }

    /// How many bytes of paths that end like this have been sent.
    pub fn bytes_sent(&self, path: &str) -> u64 {
        self.state()
            .requests
            .iter()
            .filter(|request| request.path.ends_with(path))
            .map(|request| request.sent)
            .sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn list(&mut self, image: &CloudImage, listed: Listed) {
        let path = image.sums_path();
        let (sums, files) =
            self.lists.entry(path.clone()).or_insert_with(|| (image.sums, BTreeMap::new()));
        files.insert(image.file_name().to_owned(), listed);
        let mut entry = Entry::of_bytes(sums.list(files, false).into());
        entry.mistaken = Some(sums.list(files, true).into());
        self.entries.insert(path, entry);
    }

    /// What stands under a path, decoded.
    fn find(&self, path: &str) -> Option<Entry> {
        if let Some(entry) = self.entries.get(path) {
            return Some(entry.clone());
        }
        self.directories.iter().find_map(|(prefix, directory)| {
            let rest = path.strip_prefix(prefix.as_str())?;
            let inside = Path::new(rest)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)));
            let file = directory.join(rest);
            (inside && file.is_file()).then(|| Entry::of_file(file).ok())?
        })
    }
}

impl Entry {
    fn of_file(file: PathBuf) -> io::Result<Self> {
        let told = fs::metadata(&file)?;
        Ok(Self::new(Source::File(file), told.len(), told.modified()?))
    }

    fn of_bytes(bytes: Bytes) -> Self {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self::new(Source::Bytes(bytes), length, SystemTime::now())
    }

    fn new(source: Source, length: u64, modified: SystemTime) -> Self {
        let age = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let etag = format!("\"{:x}-{length:x}\"", age.as_micros());
        Self { source, length, modified, etag, mistaken: None }
    }
}
