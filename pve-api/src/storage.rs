//! Storages on a node, and what lies on them.

use serde_json::Value;

use crate::client::Client;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::StorageId;
use crate::id::Upid;
use crate::id::Vmid;
use crate::id::Volid;
use crate::lenient;
use crate::list::List;
use crate::node::Node;
use crate::record::record;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;

/// The calls below `/nodes/{node}/storage/{storage}`.
#[derive(Debug, Clone, Copy)]
pub struct Storage<'a> {
    pub(crate) client: &'a Client,
    pub(crate) node: &'a NodeName,
    pub(crate) id: &'a StorageId,
}

record! {
    /// A storage as a node sees it.
    StorageSummary {
        /// Its name.
        "storage" id: StorageId,
    }
    optional {
        /// Its type, such as `dir` or `lvmthin`.
        "type" kind: String,
        /// What it may hold, parted by commas; see [`StorageSummary::holds`].
        "content" content: String,
        /// Whether it works on this node right now.
        "active" active: bool,
        /// Whether the administrator lets it be used on this node.
        "enabled" enabled: bool,
        /// Whether it is the same on all nodes.
        "shared" shared: bool,
        /// Its size in bytes.
        "total" total: u64,
        /// What is used, in bytes.
        "used" used: u64,
        /// What is left, in bytes.
        "avail" available: u64,
        /// What is used, 1 for all.
        "used_fraction" used_fraction: f64,
        /// The formats of disk images, since 9.1 and only if asked for.
        "formats" formats: Formats,
        /// The same in the form that older servers know; see [`StorageSummary::image_formats`].
        "format" format: Value,
        /// Whether only volumes that are there already can be used.
        "select_existing" select_existing: bool,
    }
}

record! {
    /// The formats that disk images on a storage may have.
    Formats {
        /// All of them.
        "supported" supported: Vec<String>,
        /// The one that is taken if none is named.
        "default" default: String,
    }
    optional {}
}

impl StorageSummary {
    /// Whether it may hold this kind of content.
    pub fn holds(&self, content: &Content) -> bool {
        let word = content.as_str();
        self.content.as_deref().is_some_and(|all| all.split(',').any(|one| one.trim() == word))
    }

    /// The formats that a virtual machine's disk may have here, and the one taken if none is
    /// named; from either of the two shapes in which servers say it.
    pub fn image_formats(&self) -> Option<(Vec<String>, String)> {
        let (all, default) = match (&self.formats, &self.format) {
            (Some(formats), _) => (formats.supported.clone(), formats.default.clone()),
            (None, Some(Value::Array(pair))) => match pair.as_slice() {
                [Value::Object(all), Value::String(default)] => {
                    let there = all
                        .iter()
                        .filter(|(_, value)| lenient::value::<bool, _>(*value).unwrap_or(false));
                    (there.map(|(name, _)| name.clone()).collect(), default.clone())
                }
                _ => return None,
            },
            _ => return None,
        };
        // `subvol` is for containers.
        let mut all: Vec<String> = all.into_iter().filter(|format| format != "subvol").collect();
        all.sort();
        Some((all, default))
    }
}

words! {
    /// What a storage may hold, and what a volume is.
    Content {
        /// Disks of virtual machines.
        Images = "images",
        /// Disks of containers.
        RootDir = "rootdir",
        /// CD images.
        Iso = "iso",
        /// Images to make disks from.
        Import = "import",
        /// Templates of containers.
        ContainerTemplate = "vztmpl",
        /// Backups.
        Backup = "backup",
        /// Hook scripts and cloud-init data.
        Snippets = "snippets",
    }
}

record! {
    /// A volume on a storage.
    Volume {
        /// Its id, which goes into a guest's configuration.
        "volid" id: Volid,
    }
    optional {
        /// What it is.
        "content" content: Content,
        /// Its format.
        "format" format: String,
        /// Its size in bytes, as a guest sees it.
        "size" size: u64,
        /// What it takes on the storage, in bytes.
        "used" used: u64,
        /// When it was made, in seconds since 1970.
        "ctime" created: u64,
        /// The guest to which it belongs.
        "vmid" vmid: Vmid,
        /// The volume on which it builds.
        "parent" parent: String,
        /// What people say about it.
        "notes" notes: String,
        /// Whether it must not be removed.
        "protected" protected: bool,
        /// Of a backup: with which key it is encrypted.
        "encrypted" encrypted: String,
        /// Of a backup: whether it was verified.
        "verification" verification: Value,
        /// Of a backup: what it is of.
        "subtype" subtype: String,
    }
}

record! {
    /// A volume by itself.
    VolumeDetail {}
    optional {
        /// Where it is on the node.
        "path" path: String,
        /// Its format.
        "format" format: String,
        /// Its size in bytes, as a guest sees it.
        "size" size: u64,
        /// What it takes on the storage, in bytes.
        "used" used: u64,
        /// What people say about it.
        "notes" notes: String,
        /// Whether it must not be removed.
        "protected" protected: bool,
    }
}

/// A checksum to compare a file with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// How it is made.
    pub algorithm: ChecksumAlgorithm,
    /// The sum, in hexadecimal digits.
    pub sum: String,
}

words! {
    /// How a checksum is made.
    ChecksumAlgorithm {
        /// MD5, broken.
        Md5 = "md5",
        /// SHA-1, broken.
        Sha1 = "sha1",
        /// SHA-2 of 224 bits.
        Sha224 = "sha224",
        /// SHA-2 of 256 bits.
        Sha256 = "sha256",
        /// SHA-2 of 384 bits.
        Sha384 = "sha384",
        /// SHA-2 of 512 bits.
        Sha512 = "sha512",
    }
}

/// What a node is to download onto a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Where from.
    pub url: String,
    /// What it is: [`Content::Iso`], [`Content::Import`] or [`Content::ContainerTemplate`].
    pub content: Content,
    /// The name that it gets. For `import` it must end in `.qcow2`, `.raw`, `.vmdk` or `.ova`
    /// and fit what the file is; the `.img` of some publishers is refused.
    pub file_name: String,
    /// What the file must agree with. If a file of this name is there already and agrees, nothing
    /// is downloaded.
    pub checksum: Option<Checksum>,
    /// Whether the certificate of the server that has the file is checked.
    pub verify_certificates: bool,
}

impl Node<'_> {
    /// Lists the storages of the node, those that do not work included.
    ///
    /// `GET /nodes/{node}/storage?format=1`. With `content`, storages that the administrator has
    /// switched off are left out. Can take minutes when a storage hangs.
    pub async fn storages(&self, content: Option<&Content>) -> Result<List<StorageSummary>> {
        self.client.list(storages(self.name, content)).await
    }
}

impl<'a> Storage<'a> {
    /// The storage's name.
    pub fn id(&self) -> &'a StorageId {
        self.id
    }

    /// Reads the state of the storage.
    ///
    /// `GET /nodes/{node}/storage/{storage}/status`.
    pub async fn status(&self) -> Result<StorageStatus> {
        self.client.get(Request::new(&endpoint::STORAGE_STATUS, &[self.node, self.id])).await
    }

    /// Lists what lies on the storage, as far as the account may see it.
    ///
    /// `GET /nodes/{node}/storage/{storage}/content`.
    pub async fn content(
        &self,
        content: Option<&Content>,
        vmid: Option<Vmid>,
    ) -> Result<List<Volume>> {
        self.client.list(content_of(self.node, self.id, content, vmid)).await
    }

    /// Reads about one volume.
    ///
    /// `GET /nodes/{node}/storage/{storage}/content/{volume}`.
    pub async fn volume(&self, volume: &Volid) -> Result<VolumeDetail> {
        self.client.get(Request::new(&endpoint::VOLUME, &[self.node, self.id, volume])).await
    }

    /// Removes a volume. The server does it even when a guest uses the volume, and is content
    /// when it is not there.
    ///
    /// `DELETE /nodes/{node}/storage/{storage}/content/{volume}`. The answer is a task, or nothing
    /// if that was quick.
    pub async fn delete(&self, volume: &Volid) -> Result<Option<Upid>> {
        self.client.get(Request::new(&endpoint::DELETE_VOLUME, &[self.node, self.id, volume])).await
    }

    /// Lets the node download a file onto the storage.
    ///
    /// `POST /nodes/{node}/storage/{storage}/download-url`. The answer is a task.
    pub async fn download(&self, download: &Download) -> Result<Upid> {
        self.client.get(download_url(self.node, self.id, download)).await
    }
}

record! {
    /// The state of a storage on a node.
    StorageStatus {}
    optional {
        /// Its type.
        "type" kind: String,
        /// What it may hold, parted by commas.
        "content" content: String,
        /// Whether it works on this node right now.
        "active" active: bool,
        /// Whether the administrator lets it be used on this node.
        "enabled" enabled: bool,
        /// Whether it is the same on all nodes.
        "shared" shared: bool,
        /// Its size in bytes.
        "total" total: u64,
        /// What is used, in bytes.
        "used" used: u64,
        /// What is left, in bytes.
        "avail" available: u64,
    }
}

pub(crate) fn storages(node: &NodeName, content: Option<&Content>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("content", content);
    parameters.switch("format", true);
    Request::new(&endpoint::STORAGES, &[node]).with(parameters)
}

pub(crate) fn content_of(
    node: &NodeName,
    storage: &StorageId,
    content: Option<&Content>,
    vmid: Option<Vmid>,
) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("content", content);
    parameters.maybe("vmid", vmid);
    Request::new(&endpoint::CONTENT, &[node, storage]).with(parameters)
}

pub(crate) fn download_url(node: &NodeName, storage: &StorageId, download: &Download) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("content", &download.content);
    parameters.set("filename", &download.file_name);
    parameters.set("url", &download.url);
    if let Some(checksum) = &download.checksum {
        parameters.set("checksum", &checksum.sum);
        parameters.set("checksum-algorithm", &checksum.algorithm);
    }
    parameters.flag("verify-certificates", (!download.verify_certificates).then_some(false));
    Request::new(&endpoint::DOWNLOAD_URL, &[node, storage]).with(parameters)
}
