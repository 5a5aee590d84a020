//! The configuration of a virtual machine, as it is read and as it is sent.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use super::CiPassword;
use super::Tags;
use super::send::Send;
use crate::indexed;
use crate::indexed::Indexed;
use crate::lenient;
use crate::property::Agent;
use crate::property::Boot;
use crate::property::Cpu;
use crate::property::Drive;
use crate::property::EfiDisk;
use crate::property::IpConfig;
use crate::property::MachineType;
use crate::property::Memory;
use crate::property::NetDevice;
use crate::property::Property;
use crate::property::Startup;
use crate::property::TpmState;
use crate::property::Vga;
use crate::record::words;
use crate::request::Parameters;
use crate::ssh_keys::SshKeys;

/// Declares the configuration: keys with one value, and numbered keys with their last number.
macro_rules! config {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$one_doc:meta])* $one_key:literal $one:ident: $one_type:ty,)*
        }
        numbered {
            $($(#[$many_doc:meta])* $many_key:literal $many:ident: $many_type:ty, $max:literal;)*
        }
        only read { $($read_only:literal)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $($(#[$one_doc])* pub $one: Option<$one_type>,)*
            $($(#[$many_doc])* pub $many: Indexed<$many_type, $max>,)*
            /// Keys that this version of the crate does not know, and values that it cannot read.
            /// They are sent as they are.
            pub extra: Map<String, Value>,
        }

        impl $name {
            /// The keys with one value.
            #[cfg(test)]
            pub(crate) const ONE: &'static [&'static str] = &[$($one_key,)*];
            /// The numbered keys and their last numbers.
            #[cfg(test)]
            pub(crate) const MANY: &'static [(&'static str, u8)] = &[$(($many_key, $max),)*];
            /// What the server tells but does not take.
            const READ_ONLY: &'static [&'static str] = &[$($read_only,)*];

            /// Takes a value that the server sent; gives it back if it cannot be read.
            fn take(&mut self, key: &str, value: Value) -> Result<(), Value> {
                match key {
                    $($one_key => {
                        let Ok(read) = lenient::value(&value) else { return Err(value) };
                        self.$one = read;
                        return Ok(());
                    })*
                    _ => {}
                }
                let Some((prefix, index)) = indexed::split(key) else { return Err(value) };
                match prefix {
                    $($many_key => {
                        let Ok(read) = lenient::value::<$many_type, _>(&value) else {
                            return Err(value);
                        };
                        self.$many.insert(index, read).map(drop).or(Err(value))
                    })*
                    _ => Err(value),
                }
            }

            /// Adds everything that the server takes to the parameters of a request. An empty
            /// value is given to `empty`, since the server would not see it.
            pub(crate) fn send(&self, parameters: &mut Parameters, mut empty: impl FnMut(&str)) {
                $(if let Some(value) = &self.$one && !Self::READ_ONLY.contains(&$one_key) {
                    value.send($one_key.to_owned(), parameters, &mut empty);
                })*
                $(for (index, value) in self.$many.iter() {
                    value.send(format!("{}{index}", $many_key), parameters, &mut empty);
                })*
                for (key, value) in &self.extra {
                    if !Self::READ_ONLY.contains(&key.as_str()) {
                        value.send(key.clone(), parameters, &mut empty);
                    }
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;

                let mut map = serializer.serialize_map(None)?;
                $(if let Some(value) = &self.$one {
                    map.serialize_entry($one_key, value)?;
                })*
                $(for (index, value) in self.$many.iter() {
                    map.serialize_entry(&format!("{}{index}", $many_key), value)?;
                })*
                for (key, value) in &self.extra {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    };
}

config! {
    /// The configuration of a virtual machine.
    ///
    /// The same struct is read from the server and sent to it; what is `None` is left out. Keys
    /// that are not named here are kept in `extra`.
    QemuConfig {
        /// Its name.
        "name" name: String,
        /// What people say about it.
        "description" description: String,
        /// Its tags.
        "tags" tags: Tags,
        /// Whether it is started with its node.
        "onboot" start_at_boot: bool,
        /// When it is started and stopped with its node.
        "startup" startup: Property<Startup>,
        /// The operating system inside, as far as it matters to the machine.
        "ostype" os: OsType,
        /// Whether it can be destroyed and its disks removed.
        "protection" protection: bool,
        /// Whether it is a template.
        "template" template: bool,
        /// The lock that it is under, such as `backup` or `create`.
        "lock" lock: String,
        /// How many sockets it has.
        "sockets" sockets: u32,
        /// How many cores each socket has.
        "cores" cores: u32,
        /// How many of its processors are plugged in.
        "vcpus" vcpus: u32,
        /// The model of its processors.
        "cpu" cpu: Property<Cpu>,
        /// How much processor time it may use; 0 for no limit.
        "cpulimit" cpu_limit: f64,
        /// Its share of the processors.
        "cpuunits" cpu_units: u32,
        /// Whether it sees how memory belongs to processors.
        "numa" numa_enabled: bool,
        /// Its memory in MiB.
        "memory" memory: Property<Memory>,
        /// The memory in MiB that it keeps when the node needs memory; 0 for no balloon.
        "balloon" balloon: u64,
        /// Its share of the memory that balloons give back.
        "shares" shares: u32,
        /// Whether its pages may be shared with other guests, since 9.1.
        "allow-ksm" allow_ksm: bool,
        /// The firmware.
        "bios" bios: Bios,
        /// The machine that it sees.
        "machine" machine: Property<MachineType>,
        /// Its SCSI controller.
        "scsihw" scsi_controller: ScsiController,
        /// Its display.
        "vga" vga: Property<Vga>,
        /// How the server speaks to the agent inside.
        "agent" agent: Property<Agent>,
        /// From what it boots.
        "boot" boot: Property<Boot>,
        /// The old way to name the disk from which it boots.
        "bootdisk" boot_disk: String,
        /// The storage for the settings of UEFI.
        "efidisk0" efi_disk: Property<EfiDisk>,
        /// The storage of its TPM.
        "tpmstate0" tpm: Property<TpmState>,
        /// What can be changed while it runs.
        "hotplug" hotplug: String,
        /// Whether the processor virtualises it; otherwise it is emulated.
        "kvm" kvm: bool,
        /// Whether it has ACPI.
        "acpi" acpi: bool,
        /// Whether its pointer is a tablet.
        "tablet" tablet: bool,
        /// Whether its clock shows local time.
        "localtime" local_time: bool,
        /// What the firmware says about the machine.
        "smbios1" smbios: String,
        /// The number of this generation of the machine.
        "vmgenid" generation: String,
        /// Its source of randomness.
        "rng0" rng: String,
        /// Its sound card.
        "audio0" audio: String,
        /// Its watchdog.
        "watchdog" watchdog: String,
        /// A script that the node runs at its turns.
        "hookscript" hook_script: String,
        /// Arguments for QEMU; only `root@pam` can set them.
        "args" args: String,
        /// The processors on which it runs; only `root@pam` can set them.
        "affinity" affinity: String,
        /// The architecture; only `root@pam` can set it.
        "arch" arch: String,
        /// The storage on which its memory is kept while it sleeps.
        "vmstatestorage" state_storage: String,
        /// The format of the data for cloud-init.
        "citype" ci_type: String,
        /// The user that cloud-init makes.
        "ciuser" ci_user: String,
        /// The password of that user.
        "cipassword" ci_password: CiPassword,
        /// Whether cloud-init upgrades packages at the first boot.
        "ciupgrade" ci_upgrade: bool,
        /// Files that replace the data for cloud-init.
        "cicustom" ci_custom: String,
        /// The keys with which that user can log in.
        "sshkeys" ssh_keys: SshKeys,
        /// The name servers, parted by blanks.
        "nameserver" name_server: String,
        /// The domain for short names.
        "searchdomain" search_domain: String,
        /// How it came into being; only read.
        "meta" meta: String,
        /// The digest of the configuration; only read.
        "digest" digest: String,
    }
    numbered {
        /// Drives on IDE.
        "ide" ide: Property<Drive>, 3;
        /// Drives on SATA.
        "sata" sata: Property<Drive>, 5;
        /// Drives on SCSI.
        "scsi" scsi: Property<Drive>, 30;
        /// Drives on `VirtIO`.
        "virtio" virtio: Property<Drive>, 15;
        /// Volumes that belong to it and are not plugged in.
        "unused" unused: String, 255;
        /// Network cards.
        "net" net: Property<NetDevice>, 31;
        /// What cloud-init is told about the addresses of the network cards.
        "ipconfig" ip_config: Property<IpConfig>, 31;
        /// Serial ports, such as `socket`.
        "serial" serial: String, 3;
        /// Parallel ports; only `root@pam` can set them.
        "parallel" parallel: String, 2;
        /// USB devices.
        "usb" usb: String, 13;
        /// PCI devices of the node.
        "hostpci" host_pci: String, 15;
        /// Which memory belongs to which processors.
        "numa" numa: String, 7;
        /// Directories of the node.
        "virtiofs" virtiofs: String, 9;
    }
    only read { "meta" "digest" "parent" "snaptime" "vmstate" "running-nets-host-mtu" }
}

impl QemuConfig {
    /// All drives with their keys, such as `scsi0`, in the order of buses and numbers.
    pub fn drives(&self) -> impl Iterator<Item = (String, &Property<Drive>)> {
        let bus =
            |name: &'static str| move |(index, drive): (u8, _)| (format!("{name}{index}"), drive);
        let ide = self.ide.iter().map(bus("ide"));
        let sata = self.sata.iter().map(bus("sata"));
        let scsi = self.scsi.iter().map(bus("scsi"));
        let virtio = self.virtio.iter().map(bus("virtio"));
        ide.chain(sata).chain(scsi).chain(virtio)
    }
}

impl<'de> Deserialize<'de> for QemuConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut config = Self::default();
        for (key, value) in Map::deserialize(deserializer)? {
            if value.is_null() {
                continue;
            }
            if let Err(value) = config.take(&key, value) {
                config.extra.insert(key, value);
            }
        }
        Ok(config)
    }
}

lenient::nested!(QemuConfig);

words! {
    /// The operating system inside, as far as it matters to the machine.
    OsType {
        /// Linux 2.6 or newer.
        Linux = "l26",
        /// Linux 2.4.
        Linux24 = "l24",
        /// Windows 11, 2022 or 2025.
        Windows11 = "win11",
        /// Windows 10, 2016 or 2019.
        Windows10 = "win10",
        /// Windows 8 or 2012.
        Windows8 = "win8",
        /// Windows 7 or 2008 R2.
        Windows7 = "win7",
        /// Windows Vista.
        WindowsVista = "wvista",
        /// Windows 2008.
        Windows2008 = "w2k8",
        /// Windows 2003.
        Windows2003 = "w2k3",
        /// Windows XP.
        WindowsXp = "wxp",
        /// Windows 2000.
        Windows2000 = "w2k",
        /// Solaris.
        Solaris = "solaris",
        /// Something else.
        Unspecified = "other",
    }
}

words! {
    /// The firmware.
    Bios {
        /// A BIOS.
        SeaBios = "seabios",
        /// UEFI.
        Ovmf = "ovmf",
    }
}

words! {
    /// The model of the SCSI controller.
    ScsiController {
        /// LSI 53C895A, the server's own default.
        Lsi = "lsi",
        /// LSI 53C810.
        Lsi53c810 = "lsi53c810",
        /// `VirtIO`, one for all disks.
        VirtioScsi = "virtio-scsi-pci",
        /// `VirtIO`, one for each disk; needed for threads of their own.
        VirtioScsiSingle = "virtio-scsi-single",
        /// `MegaRAID`.
        MegaSas = "megasas",
        /// By `VMware`.
        Pvscsi = "pvscsi",
    }
}
