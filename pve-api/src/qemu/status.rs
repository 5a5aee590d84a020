//! The state of machines.

use serde_json::Value;

use super::Qemu;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::Vmid;
use crate::list::List;
use crate::node::Node;
use crate::record::record;
use crate::record::words;
use crate::request::Request;

words! {
    /// Whether a machine runs.
    QemuState {
        /// It does, or is paused.
        Running = "running",
        /// It does not.
        Stopped = "stopped",
    }
}

record! {
    /// A machine as the list of its node shows it.
    QemuSummary {
        /// Its number.
        "vmid" vmid: Vmid,
    }
    optional {
        /// Its name; `VM 100` if it has none.
        "name" name: String,
        /// Whether it runs.
        "status" status: QemuState,
        /// Its tags, parted by `;`.
        "tags" tags: super::Tags,
        /// The lock that it is under.
        "lock" lock: String,
        /// Whether it is a template.
        "template" template: bool,
        /// How much of its processors is used, 1 for all.
        "cpu" cpu: f64,
        /// The number of its processors.
        "cpus" cpus: f64,
        /// The memory in use, in bytes.
        "mem" memory: u64,
        /// Its memory, in bytes.
        "maxmem" max_memory: u64,
        /// The memory that it costs the node, in bytes.
        "memhost" host_memory: u64,
        /// Always 0.
        "disk" disk: u64,
        /// The size of its first disk, in bytes.
        "maxdisk" max_disk: u64,
        /// What it has read, in bytes.
        "diskread" disk_read: u64,
        /// What it has written, in bytes.
        "diskwrite" disk_written: u64,
        /// What it has received, in bytes.
        "netin" net_in: u64,
        /// What it has sent, in bytes.
        "netout" net_out: u64,
        /// For how long it has been up, in seconds.
        "uptime" uptime: u64,
        /// Its process.
        "pid" pid: u64,
        /// Whether it has a serial port to connect to.
        "serial" serial: bool,
        /// What QEMU says about it.
        "qmpstatus" qmp_status: String,
        /// The part of time that something in it waited for a processor.
        "pressurecpusome" pressure_cpu_some: f64,
        /// The part of time that all of it waited for a processor.
        "pressurecpufull" pressure_cpu_full: f64,
        /// The part of time that something in it waited for a disk.
        "pressureiosome" pressure_io_some: f64,
        /// The part of time that all of it waited for a disk.
        "pressureiofull" pressure_io_full: f64,
        /// The part of time that something in it waited for memory.
        "pressurememorysome" pressure_memory_some: f64,
        /// The part of time that all of it waited for memory.
        "pressurememoryfull" pressure_memory_full: f64,
    }
}

record! {
    /// The state of a machine.
    QemuStatus {
        /// Its number.
        "vmid" vmid: Vmid,
        /// Whether it runs.
        "status" status: QemuState,
    }
    optional {
        /// What QEMU says about it, such as `running` or `paused`.
        "qmpstatus" qmp_status: String,
        /// Its name; `VM 100` if it has none.
        "name" name: String,
        /// Its tags, parted by `;`.
        "tags" tags: super::Tags,
        /// The lock that it is under.
        "lock" lock: String,
        /// Whether it is a template.
        "template" template: bool,
        /// Whether the server speaks to an agent inside it.
        "agent" agent: bool,
        /// Whether it has a serial port to connect to.
        "serial" serial: bool,
        /// Whether it has a SPICE display.
        "spice" spice: bool,
        /// How its clipboard is shared.
        "clipboard" clipboard: String,
        /// What HA does with it.
        "ha" ha: HaOfGuest,
        /// How much of its processors is used, 1 for all.
        "cpu" cpu: f64,
        /// The number of its processors.
        "cpus" cpus: f64,
        /// The memory in use, in bytes.
        "mem" memory: u64,
        /// Its memory, in bytes.
        "maxmem" max_memory: u64,
        /// The memory that it costs the node, in bytes.
        "memhost" host_memory: u64,
        /// Always 0.
        "disk" disk: u64,
        /// The size of its first disk, in bytes.
        "maxdisk" max_disk: u64,
        /// What it has read, in bytes.
        "diskread" disk_read: u64,
        /// What it has written, in bytes.
        "diskwrite" disk_written: u64,
        /// What it has received, in bytes.
        "netin" net_in: u64,
        /// What it has sent, in bytes.
        "netout" net_out: u64,
        /// For how long it has been up, in seconds.
        "uptime" uptime: u64,
        /// Its process.
        "pid" pid: u64,
        /// The version of QEMU that runs it.
        "running-qemu" running_qemu: String,
        /// The machine that it runs as.
        "running-machine" running_machine: String,
        /// Figures of its network cards.
        "nics" nics: Value,
        /// Figures of its disks.
        "blockstat" disks: Value,
        /// The size of its balloon, in bytes.
        "balloon" balloon: u64,
        /// Figures of its balloon.
        "ballooninfo" balloon_info: Value,
        /// The least memory that it keeps, in bytes.
        "balloon_min" balloon_min: u64,
        /// Its share of the memory that balloons give back.
        "shares" shares: u64,
        /// What its QEMU can do that others cannot.
        "proxmox-support" support: Value,
        /// The part of time that something in it waited for a processor.
        "pressurecpusome" pressure_cpu_some: f64,
        /// The part of time that all of it waited for a processor.
        "pressurecpufull" pressure_cpu_full: f64,
        /// The part of time that something in it waited for a disk.
        "pressureiosome" pressure_io_some: f64,
        /// The part of time that all of it waited for a disk.
        "pressureiofull" pressure_io_full: f64,
        /// The part of time that something in it waited for memory.
        "pressurememorysome" pressure_memory_some: f64,
        /// The part of time that all of it waited for memory.
        "pressurememoryfull" pressure_memory_full: f64,
    }
}

record! {
    /// What HA does with a guest.
    HaOfGuest {
        /// Whether HA cares for it.
        "managed" managed: bool,
    }
    optional {
        /// The state that HA sees.
        "state" state: String,
        /// The group to which it is bound, until 8.
        "group" group: String,
    }
}

record! {
    /// A key of a machine's configuration, with what it is and what it is to become.
    PendingValue {
        /// The key.
        "key" key: String,
    }
    optional {
        /// The value in effect.
        "value" value: String,
        /// The value after the next start.
        "pending" pending: String,
        /// 1 if it is to be removed, 2 if by force.
        "delete" delete: u8,
    }
}

impl Node<'_> {
    /// Lists the virtual machines of the node, with fresh figures.
    ///
    /// `GET /nodes/{node}/qemu`.
    pub async fn guests(&self) -> Result<List<QemuSummary>> {
        self.client.list(guests(self.name)).await
    }
}

fn guests(node: &NodeName) -> Request {
    Request::new(&endpoint::QEMU_LIST, &[node])
}

impl Qemu<'_> {
    /// Reads the state of the machine.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/status/current`.
    pub async fn status(&self) -> Result<QemuStatus> {
        self.client.get(self.request(&endpoint::QEMU_STATUS)).await
    }

    /// Lists the configuration with what is to change at the next start.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/pending`.
    pub async fn pending(&self) -> Result<List<PendingValue>> {
        self.client.list(self.request(&endpoint::QEMU_PENDING)).await
    }
}
