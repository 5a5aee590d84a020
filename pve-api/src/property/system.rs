//! Agent, display, machine, memory, start order, boot order.

use super::Format;
use super::properties;

properties! {
    /// How the server speaks to the agent inside the guest.
    Agent {
        /// Whether it does.
        "enabled" enabled: bool,
        /// Whether disks are trimmed after a clone.
        "fstrim_cloned_disks" trim_clones: bool,
        /// Whether file systems are frozen for a backup; the name since 9.1.
        "freeze-fs" freeze: bool,
        /// Whether file systems are frozen for a backup; the name that older servers know, too.
        "freeze-fs-on-backup" freeze_on_backup: bool,
        /// `virtio` or `isa`.
        "type" kind: String,
    }
}

impl Format for Agent {
    const DEFAULT_KEY: Option<&'static str> = Some("enabled");
}

properties! {
    /// The display of a guest.
    Vga {
        /// The kind, such as `std`, `virtio` or `serial0`.
        "type" kind: String,
        /// Its memory in MiB.
        "memory" memory: u32,
        /// `vnc`, to share the clipboard.
        "clipboard" clipboard: String,
    }
}

impl Format for Vga {
    const DEFAULT_KEY: Option<&'static str> = Some("type");
}

properties! {
    /// The machine that a guest sees.
    MachineType {
        /// The kind, such as `q35` or `pc-i440fx-9.2`; missing means the newest i440fx.
        "type" kind: String,
        /// The IOMMU, `intel` or `virtio`.
        "viommu" viommu: String,
        /// Whether it can sleep keeping its memory.
        "enable-s3" sleep: bool,
        /// Whether it can sleep on its disk.
        "enable-s4" hibernate: bool,
    }
}

impl Format for MachineType {
    const DEFAULT_KEY: Option<&'static str> = Some("type");
}

properties! {
    /// The memory of a guest.
    Memory {
        /// In MiB.
        "current" current: u64,
    }
}

impl Format for Memory {
    const DEFAULT_KEY: Option<&'static str> = Some("current");
}

properties! {
    /// When a guest is started and stopped with its node.
    Startup {
        /// The order; missing means any.
        "order" order: u32,
        /// Seconds to wait after starting it.
        "up" up: u32,
        /// Seconds that it has for shutting down.
        "down" down: u32,
    }
}

impl Format for Startup {
    const DEFAULT_KEY: Option<&'static str> = Some("order");
}

properties! {
    /// From what a guest boots.
    Boot {
        /// Devices in their order, parted by `;`.
        "order" order: String,
        /// The old form: letters for kinds of devices.
        "legacy" legacy: String,
    }
}

impl Format for Boot {
    const DEFAULT_KEY: Option<&'static str> = Some("legacy");
}

impl Boot {
    /// Boots from these devices in this order.
    pub fn from_devices<'a>(devices: impl IntoIterator<Item = &'a str>) -> Self {
        let devices: Vec<&str> = devices.into_iter().collect();
        Self { order: Some(devices.join(";")), ..Self::default() }
    }

    /// The devices in their order.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.order.as_deref().unwrap_or_default().split(';').filter(|device| !device.is_empty())
    }
}
