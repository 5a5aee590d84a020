//! Disks, CD drives, EFI and TPM storage.

use super::Format;
use super::Property;
use super::properties;
use crate::id::StorageId;
use crate::id::Volid;
use crate::record::words;

properties! {
    /// A disk or a CD drive of a guest, on any bus.
    Drive {
        /// The volume; or, to make one, `<storage>:<size in GiB>`; or `none` or `cdrom`.
        "file" file: String,
        /// Where the content of a new volume comes from; the size must then be 0.
        "import-from" import_from: String,
        /// `cdrom` or `disk`.
        "media" media: String,
        /// The format of a new volume, for storages that offer a choice.
        "format" format: String,
        /// How the host caches it.
        "cache" cache: CacheMode,
        /// What becomes of blocks that the guest has freed.
        "discard" discard: Discard,
        /// Whether it has a thread of its own; on `scsi` and `virtio` only.
        "iothread" iothread: bool,
        /// Whether the guest sees an SSD; not on `virtio`.
        "ssd" ssd: bool,
        /// Whether the guest cannot write; on `scsi` and `virtio` only.
        "ro" read_only: bool,
        /// Whether backups include it.
        "backup" backup: bool,
        /// Whether replication includes it.
        "replicate" replicate: bool,
        /// How the host reads and writes it.
        "aio" aio: String,
        /// Megabytes a second that may be read.
        "mbps_rd" read_limit: f64,
        /// Megabytes a second that may be written.
        "mbps_wr" write_limit: f64,
        /// Reads a second.
        "iops_rd" read_operations: u64,
        /// Writes a second.
        "iops_wr" write_operations: u64,
        /// Its serial number, percent-encoded.
        "serial" serial: String,
        /// Its size, such as `32G`; only read.
        "size" size: String,
    }
}

impl Format for Drive {
    const DEFAULT_KEY: Option<&'static str> = Some("file");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("volume", "file")];
}

impl Drive {
    /// The volume, if the drive is one and not a request to make one.
    pub fn volume(&self) -> Option<Volid> {
        self.file.as_deref()?.parse().ok()
    }

    /// Whether it is a CD drive.
    pub fn is_cd(&self) -> bool {
        self.media.as_deref() == Some("cdrom")
    }
}

words! {
    /// What becomes of blocks that the guest has freed.
    Discard {
        /// They are given back.
        On = "on",
        /// Nothing.
        Ignore = "ignore",
    }
}

words! {
    /// How the host caches a disk.
    CacheMode {
        /// Not at all; the default.
        None = "none",
        /// Reads only.
        WriteThrough = "writethrough",
        /// Reads and writes.
        WriteBack = "writeback",
        /// Reads and writes, and it lies about what is on the disk.
        Unsafe = "unsafe",
        /// Not at all, and every write is waited for.
        DirectSync = "directsync",
    }
}

properties! {
    /// The storage for the settings of UEFI.
    EfiDisk {
        /// The volume; or, to make one, `<storage>:1`.
        "file" file: String,
        /// Its format, for storages that offer a choice.
        "format" format: String,
        /// `4m` or the outdated `2m`.
        "efitype" kind: String,
        /// Whether it comes with the usual keys for secure boot.
        "pre-enrolled-keys" pre_enrolled_keys: bool,
        /// Which certificates of Microsoft it comes with, since 9.1.
        "ms-cert" ms_cert: String,
        /// Its size; only read.
        "size" size: String,
    }
}

impl Format for EfiDisk {
    const DEFAULT_KEY: Option<&'static str> = Some("file");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("volume", "file")];
}

properties! {
    /// The storage of a TPM.
    TpmState {
        /// The volume; or, to make one, `<storage>:1`.
        "file" file: String,
        /// `v2.0` or `v1.2`; it cannot be changed later.
        "version" version: String,
        /// Its format, since 9.1.
        "format" format: String,
        /// Its size; only read.
        "size" size: String,
    }
}

impl Format for TpmState {
    const DEFAULT_KEY: Option<&'static str> = Some("file");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("volume", "file")];
}

impl Property<Drive> {
    /// A request for a new disk of `gib` GiB on `storage`.
    pub fn create(storage: &StorageId, gib: u32) -> Self {
        // A storage's name holds no mark that would end the value.
        let text = format!("{storage}:{gib}");
        Self { value: Drive { file: Some(text.clone()), ..Drive::default() }, text }
    }
}
