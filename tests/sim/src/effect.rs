//! What a call does outside the world: guests that boot, disks that are written.
//!
//! The core changes values only. Everything else it asks for by an [`Effect`], in order; whoever
//! drives the call applies each before the next stage runs, and tells a failure by the text that
//! Proxmox VE would print. In acted mode the disk effects do nothing.

use std::net::Ipv4Addr;
use std::path::PathBuf;

/// One thing to be done outside the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The VM is started with this hardware and this cloud-init data.
    Started(Box<GuestSpec>),
    /// The VM's power is cut, at once.
    Stopped {
        /// The VM.
        vmid: u32,
    },
    /// The guest is asked to power off and given `timeout` seconds; a guest that stays up is an
    /// error, `VM quit/powerdown failed - got timeout`, unless `force`: then its power is cut.
    ShutDown {
        /// The VM.
        vmid: u32,
        /// Seconds that the guest gets.
        timeout: u64,
        /// Whether power is cut when the time is over.
        force: bool,
    },
    /// Like [`Effect::ShutDown`] without force, then started again with this specification.
    Rebooted {
        /// What the VM is when it comes back.
        guest: Box<GuestSpec>,
        /// Seconds that the guest gets to power off.
        timeout: u64,
    },
    /// The VM is gone; whatever is kept for it can go too.
    Destroyed {
        /// The VM.
        vmid: u32,
    },
    /// A disk file is written; nothing happens in acted mode.
    Disk(DiskChange),
}

/// A change of a disk file, with the file that stands for the volume (see
/// `World::file_of`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskChange {
    /// An empty image of `size` bytes.
    Created {
        /// The file to be made.
        file: PathBuf,
        /// `raw`, `qcow2` or `vmdk`.
        format: String,
        /// Bytes.
        size: u64,
    },
    /// A copy of an image, converted.
    Imported {
        /// The image that is read, as the caller named it, made absolute.
        source: PathBuf,
        /// The format the source is read as: by its name's extension, else probed.
        source_format: String,
        /// The file to be made.
        file: PathBuf,
        /// `raw`, `qcow2` or `vmdk`.
        format: String,
    },
    /// An image grown to `size` bytes.
    Resized {
        /// The file to be grown.
        file: PathBuf,
        /// `raw`, `qcow2` or `vmdk`.
        format: String,
        /// Bytes.
        size: u64,
    },
    /// An image moved, by a migration.
    Moved {
        /// The file as it was called.
        from: PathBuf,
        /// The file as it is called from now on.
        to: PathBuf,
    },
    /// An image that nobody needs any more.
    Removed {
        /// The file to be removed.
        file: PathBuf,
    },
}

/// A VM as it is started: what the guest and its hypervisor need to know of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuestSpec {
    /// The VM.
    pub vmid: u32,
    /// The node that it runs on.
    pub node: String,
    /// The host name: the VM's name up to the first dot, or `VM<vmid>`.
    pub hostname: String,
    /// The VM's whole name, or `VM<vmid>`.
    pub name: String,
    /// `ciuser`; without it the image's own default user is meant.
    pub user: Option<String>,
    /// `sshkeys`, decoded, one line each.
    pub keys: Vec<String>,
    /// `cipassword` as stored: a hash, or plain text where it came by `create`.
    pub password: Option<String>,
    /// The static address of `ipconfig0`.
    pub address: Option<Ipv4Addr>,
    /// The prefix length of `ipconfig0`.
    pub prefix: Option<u8>,
    /// The gateway of `ipconfig0`.
    pub gateway: Option<Ipv4Addr>,
    /// `nameserver`, as stored.
    pub nameserver: Option<String>,
    /// `searchdomain`, as stored.
    pub searchdomain: Option<String>,
    /// Whether cloud-init upgrades packages (`ciupgrade`, on by default).
    pub upgrade: bool,
    /// The address of `net0`, upper case.
    pub mac: Option<String>,
    /// The bridge of `net0`.
    pub bridge: Option<String>,
    /// `cpu`, as stored.
    pub cpu: Option<String>,
    /// Virtual processors: sockets times cores.
    pub cores: u32,
    /// MiB.
    pub memory: u64,
    /// Whether the guest agent's channel exists.
    pub agent: bool,
    /// Whether `serial0` is a socket.
    pub serial: bool,
    /// `scsihw`, as stored.
    pub scsihw: Option<String>,
    /// `tags`, as stored: the installer puts the operating system's name there.
    pub tags: Option<String>,
    /// The first hard disk of the boot order.
    pub disk: Option<DiskFile>,
    /// The cloud-init drive, if there is one: without it a guest learns nothing of the above.
    pub cloud_init: Option<DiskFile>,
    /// The cloud-init documents as Proxmox VE generates them.
    pub seed: Seed,
}

/// A volume that is attached to a VM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskFile {
    /// `scsi0`, `ide2` ….
    pub slot: String,
    /// The volume id.
    pub volid: String,
    /// The file that stands for the volume; exists in real mode only.
    pub file: PathBuf,
    /// `raw`, `qcow2` or `vmdk`.
    pub format: String,
    /// Bytes.
    pub size: u64,
    /// The file that the volume was imported from, which an acted guest may look at.
    pub imported_from: Option<String>,
}

/// The three documents of the `NoCloud` disk, labelled `cidata`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seed {
    /// `/user-data`.
    pub user_data: String,
    /// `/network-config`.
    pub network_config: String,
    /// `/meta-data`.
    pub meta_data: String,
}
