//! The table of fields: every answer that the wizard asks for, on which screen, under which key.
//!
//! Resolving, the summary, `--set`, templates and screens all walk this table; what it says about a
//! field is said nowhere else.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The screens in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Screen {
    /// Where the VM lives and what it is called.
    General,
    /// The medium from which it is installed, and what will run.
    Os,
    /// Firmware, machine, controllers.
    System,
    /// Its disks, none to many.
    Disks,
    /// Its processors.
    Cpu,
    /// Its memory.
    Memory,
    /// Its network card.
    Network,
    /// The last look before it is made.
    Confirm,
}

impl Screen {
    /// All screens in their order.
    pub const ALL: [Self; 8] = [
        Self::General,
        Self::Os,
        Self::System,
        Self::Disks,
        Self::Cpu,
        Self::Memory,
        Self::Network,
        Self::Confirm,
    ];

    /// What stands above the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::General => "General",
            Self::Os => "OS",
            Self::System => "System",
            Self::Disks => "Disks",
            Self::Cpu => "CPU",
            Self::Memory => "Memory",
            Self::Network => "Network",
            Self::Confirm => "Confirm",
        }
    }

    /// The fields of the screen in their order.
    pub fn fields(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |field| field.row().screen == self)
    }
}

/// How a field is answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input {
    /// A text, which may be left empty.
    Text,
    /// Yes or no.
    Flag,
    /// One of several, listed by the answer's choices.
    Choice,
    /// Texts, added one by one; the answer's choices are suggestions.
    List,
    /// A whole number within bounds.
    Number(u64, u64),
    /// A number with decimals within bounds.
    Decimal(f64, f64),
}

/// What the table says about a field.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The key, without the number of a disk: `general.name`, `disk.size`.
    pub key: &'static str,
    /// The screen on which it stands.
    pub screen: Screen,
    /// What stands before it.
    pub label: &'static str,
    /// How it is answered.
    pub input: Input,
    /// What an empty answer means.
    pub empty: &'static str,
    /// In what a number counts.
    pub unit: &'static str,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident = $key:literal, $screen:ident, $label:literal, $input:expr, $empty:literal, $unit:literal;)+) => {
        /// A field of the wizard.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field {
            $($(#[$doc])* $field,)+
        }

        impl Field {
            /// All fields, screen by screen.
            pub const ALL: &[Self] = &[$(Self::$field),+];

            /// What the table says about the field.
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$field => Row {
                        key: $key,
                        screen: Screen::$screen,
                        label: $label,
                        input: $input,
                        empty: $empty,
                        unit: $unit,
                    },)+
                }
            }
        }
    };
}

fields! {
    /// The node that gets the VM.
    Node = "general.node", General, "Node", Input::Choice, "", "";
    /// Its number.
    Vmid = "general.vmid", General, "VM ID", Input::Number(100, 999_999_999), "", "";
    /// Its name.
    Name = "general.name", General, "Name", Input::Text, "none", "";
    /// The pool into which it is put.
    Pool = "general.pool", General, "Resource pool", Input::Choice, "none", "";
    /// Its tags.
    Tags = "general.tags", General, "Tags", Input::List, "none", "";
    /// Whether it is put under HA.
    Ha = "general.ha", General, "High availability", Input::Flag, "", "";
    /// Whether it starts with its node.
    StartAtBoot = "general.start_at_boot", General, "Start at boot", Input::Flag, "", "";
    /// Its place in the order of starting and stopping.
    StartOrder = "general.start_order", General, "Start/shutdown order", Input::Number(0, 999_999), "any", "";
    /// How long the node waits after starting it.
    StartupDelay = "general.startup_delay", General, "Startup delay", Input::Number(0, 999_999), "default", "s";
    /// How long it has for shutting down.
    ShutdownTimeout = "general.shutdown_timeout", General, "Shutdown timeout", Input::Number(0, 999_999), "default", "s";

    /// What is in the CD drive.
    Media = "os.media", Os, "CD/DVD drive", Input::Choice, "", "";
    /// The storage with the ISO.
    IsoStorage = "os.storage", Os, "ISO storage", Input::Choice, "", "";
    /// The ISO.
    Iso = "os.iso", Os, "ISO image", Input::Choice, "", "";
    /// The family of the guest's system.
    OsType = "os.type", Os, "Guest type", Input::Choice, "", "";
    /// Its version.
    OsVersion = "os.version", Os, "Guest version", Input::Choice, "", "";

    /// The display.
    Display = "system.display", System, "Graphic card", Input::Choice, "", "";
    /// The chipset.
    Machine = "system.machine", System, "Machine", Input::Choice, "", "";
    /// The firmware.
    Bios = "system.bios", System, "Firmware (BIOS)", Input::Choice, "", "";
    /// Whether UEFI gets a disk for its settings.
    Efi = "system.efi", System, "Add EFI disk", Input::Flag, "", "";
    /// The storage of that disk.
    EfiStorage = "system.efi_storage", System, "EFI storage", Input::Choice, "", "";
    /// The format of that disk on the storage.
    EfiFormat = "system.efi_format", System, "EFI format", Input::Choice, "", "";
    /// Whether that disk comes with the usual keys for secure boot.
    EfiKeys = "system.efi_keys", System, "Pre-enroll keys", Input::Flag, "", "";
    /// The SCSI controller.
    Controller = "system.controller", System, "SCSI controller", Input::Choice, "", "";
    /// Whether the agent inside is spoken to.
    Agent = "system.agent", System, "QEMU agent", Input::Flag, "", "";
    /// Whether it has a TPM.
    Tpm = "system.tpm", System, "Add TPM", Input::Flag, "", "";
    /// The storage of the TPM's state.
    TpmStorage = "system.tpm_storage", System, "TPM storage", Input::Choice, "", "";
    /// The version of the TPM.
    TpmVersion = "system.tpm_version", System, "TPM version", Input::Choice, "", "";

    /// How many disks there are.
    Disks = "disks", Disks, "Disks", Input::Number(0, 54), "", "";
    /// The bus of a disk.
    DiskBus = "disk.bus", Disks, "Bus", Input::Choice, "", "";
    /// Its number on the bus.
    DiskDevice = "disk.device", Disks, "Device", Input::Number(0, 30), "", "";
    /// The storage that holds it.
    DiskStorage = "disk.storage", Disks, "Storage", Input::Choice, "", "";
    /// Its size.
    DiskSize = "disk.size", Disks, "Disk size", Input::Decimal(0.001, 131_072.0), "", "GiB";
    /// Its format on the storage.
    DiskFormat = "disk.format", Disks, "Format", Input::Choice, "", "";
    /// How the host caches it.
    DiskCache = "disk.cache", Disks, "Cache", Input::Choice, "", "";
    /// Whether freed blocks are given back.
    DiskDiscard = "disk.discard", Disks, "Discard", Input::Flag, "", "";
    /// Whether it has a thread of its own.
    DiskIoThread = "disk.io_thread", Disks, "IO thread", Input::Flag, "", "";
    /// Whether the guest sees an SSD.
    DiskSsd = "disk.ssd", Disks, "SSD emulation", Input::Flag, "", "";
    /// Whether backups include it.
    DiskBackup = "disk.backup", Disks, "Backup", Input::Flag, "", "";
    /// Whether replication leaves it out.
    DiskSkipReplication = "disk.skip_replication", Disks, "Skip replication", Input::Flag, "", "";
    /// How the host reads and writes it.
    DiskAio = "disk.aio", Disks, "Async IO", Input::Choice, "", "";

    /// Cores of each socket.
    Cores = "cpu.cores", Cpu, "Cores", Input::Number(1, 256), "", "";
    /// Sockets.
    Sockets = "cpu.sockets", Cpu, "Sockets", Input::Number(1, 256), "", "";
    /// The model of the processors.
    CpuType = "cpu.type", Cpu, "CPU type", Input::Choice, "", "";

    /// The memory.
    MemorySize = "memory.size", Memory, "Memory size", Input::Number(16, 4_178_944), "", "MiB";
    /// What it keeps when the node needs memory.
    MemoryMinimum = "memory.minimum", Memory, "Minimum memory", Input::Number(1, 4_178_944), "", "MiB";
    /// Whether memory can be taken back while it runs.
    Ballooning = "memory.ballooning", Memory, "Ballooning", Input::Flag, "", "";
    /// Whether its pages may be shared.
    Ksm = "memory.ksm", Memory, "Allow KSM", Input::Flag, "", "";

    /// Whether it has no network card.
    NoNetwork = "network.none", Network, "No network device", Input::Flag, "", "";
    /// The bridge into which the card is plugged.
    Bridge = "network.bridge", Network, "Bridge", Input::Choice, "", "";
    /// The VLAN of its packets.
    Vlan = "network.vlan", Network, "VLAN tag", Input::Number(1, 4094), "none", "";
    /// What the guest sees.
    Model = "network.model", Network, "Model", Input::Choice, "", "";
    /// The hardware address.
    Mac = "network.mac", Network, "MAC address", Input::Text, "auto", "";
    /// Whether the firewall watches it.
    Firewall = "network.firewall", Network, "Firewall", Input::Flag, "", "";
    /// Whether the cable is out.
    Disconnected = "network.disconnected", Network, "Disconnected", Input::Flag, "", "";
    /// The largest packet.
    Mtu = "network.mtu", Network, "MTU", Input::Number(1, 65_520), "same as bridge", "";
    /// How much it may carry.
    Rate = "network.rate", Network, "Rate limit", Input::Decimal(0.0, 10_240.0), "unlimited", "MB/s";
    /// The number of queues.
    Multiqueue = "network.multiqueue", Network, "Multiqueue", Input::Number(1, 64), "none", "";

    /// Whether it is started when everything is set.
    Start = "confirm.start", Confirm, "Start after creation", Input::Flag, "", "";
}

impl Field {
    /// Whether every disk has this field.
    pub fn is_of_disk(self) -> bool {
        self.row().key.starts_with("disk.")
    }

    /// Whether it names a storage.
    pub(super) fn is_storage(self) -> bool {
        matches!(self, Self::IsoStorage | Self::EfiStorage | Self::TpmStorage | Self::DiskStorage)
    }

    fn of_key(key: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.row().key == key)
    }
}

/// The place of an answer: a field, and for a field of a disk the disk's number.
///
/// Its text is the stable key: `general.name`, `disks.0.size`; `disk.size` means every disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The field.
    pub field: Field,
    /// The disk, counted from 0; `None` for all disks, or for a field that no disk has.
    pub disk: Option<usize>,
}

impl Key {
    /// A field of a disk.
    pub const fn disk(disk: usize, field: Field) -> Self {
        Self { field, disk: Some(disk) }
    }

    /// The key under which templates and said answers about all disks are kept.
    #[must_use]
    pub const fn of_each_disk(self) -> Self {
        Self { field: self.field, disk: None }
    }

    /// The label; that of a disk's field says which disk.
    pub fn label(self) -> String {
        match self.disk {
            Some(disk) => format!("Disk {disk}: {}", self.field.row().label),
            None => self.field.row().label.to_owned(),
        }
    }
}

impl From<Field> for Key {
    fn from(field: Field) -> Self {
        Self { field, disk: None }
    }
}

impl Ord for Key {
    /// Screen by screen; on the screen of the disks, disk by disk.
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |key: &Self| (key.field.row().screen, key.disk, key.field);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.field.row().key;
        match (self.disk, key.split_once('.')) {
            (Some(disk), Some((_, name))) => write!(f, "disks.{disk}.{name}"),
            _ => f.write_str(key),
        }
    }
}

/// A text that is not a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no '{key}'{}", hint(key))]
pub struct UnknownKey {
    key: String,
}

/// The keys that are nearest to what was written.
fn hint(key: &str) -> String {
    let (screen, name) = key.rsplit_once('.').unwrap_or(("", key));
    let near: Vec<&str> = Field::ALL
        .iter()
        .map(|field| field.row().key)
        .filter(|other| {
            other.rsplit_once('.').is_some_and(|(_, last)| last == name)
                || (!screen.is_empty() && other.starts_with(screen))
        })
        .collect();
    if near.is_empty() { String::new() } else { format!("; there are {}", near.join(", ")) }
}

impl FromStr for Key {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        let unknown = || UnknownKey { key: text.to_owned() };
        let Some(rest) = text.strip_prefix("disks.") else {
            return Field::of_key(text).map(Self::from).ok_or_else(unknown);
        };
        let (number, name) = rest.split_once('.').ok_or_else(unknown)?;
        let field = Field::of_key(&format!("disk.{name}")).ok_or_else(unknown)?;
        match number.parse() {
            Ok(disk) if disk < MAX_DISKS => Ok(Self::disk(disk, field)),
            _ => Err(unknown()),
        }
    }
}

/// All places on all buses, less the CD drive's.
pub const MAX_DISKS: usize = 4 + 6 + 31 + 16 - 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back_as_its_field() {
        for field in Field::ALL {
            let key = Key::from(*field);
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        let key: Key = "disks.3.io_thread".parse().unwrap();
        assert_eq!(key, Key::disk(3, Field::DiskIoThread));
        assert_eq!(key.to_string(), "disks.3.io_thread");
        for bad in ["", "general", "disks.0", "disks.x.size", "disks.99.size", "disks.0.name"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_ones_that_are_near() {
        let error = "cpu.core".parse::<Key>().unwrap_err();
        insta::assert_snapshot!(error, @"there is no 'cpu.core'; there are cpu.cores, cpu.sockets, cpu.type");
        let error = "storage".parse::<Key>().unwrap_err();
        insta::assert_snapshot!(error, @"there is no 'storage'; there are os.storage, disk.storage");
    }

    #[test]
    fn keys_are_ordered_as_they_are_asked_for() {
        let mut keys: Vec<Key> = Field::ALL.iter().copied().map(Key::from).collect();
        let table = keys.clone();
        keys.sort();
        assert_eq!(keys, table);
        assert!(Key::disk(0, Field::DiskAio) < Key::disk(1, Field::DiskBus));
        assert!(Key::disk(1, Field::DiskAio) < Field::Cores.into());
    }
}
