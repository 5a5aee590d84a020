//! Nodes: their state, networks, and what their QEMU can do.

use serde_json::Value;

use crate::client::Client;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::StorageId;
use crate::id::Vmid;
use crate::list::List;
use crate::qemu::Qemu;
use crate::record::record;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;
use crate::storage::Storage;
use crate::trust::Fingerprint;

/// The calls below `/nodes/{node}`.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    pub(crate) client: &'a Client,
    pub(crate) name: &'a NodeName,
}

impl Client {
    /// Lists all nodes of the cluster.
    ///
    /// `GET /nodes`. A node name for any other call comes from here.
    pub async fn nodes(&self) -> Result<List<NodeSummary>> {
        self.list(Request::new(&endpoint::NODES, &[])).await
    }

    /// The calls about one node.
    pub fn node<'a>(&'a self, name: &'a NodeName) -> Node<'a> {
        Node { client: self, name }
    }
}

record! {
    /// A node as the list shows it; the figures need `Sys.Audit`.
    NodeSummary {
        /// Its name.
        "node" name: NodeName,
    }
    optional {
        /// Whether it is there.
        "status" status: NodeState,
        /// How much of the processors is used, 1 for all.
        "cpu" cpu: f64,
        /// The number of processors.
        "maxcpu" max_cpu: u64,
        /// The memory in use, in bytes.
        "mem" memory: u64,
        /// The memory, in bytes.
        "maxmem" max_memory: u64,
        /// The space in use on the root file system, in bytes.
        "disk" disk: u64,
        /// The space on the root file system, in bytes.
        "maxdisk" max_disk: u64,
        /// For how long it has been up, in seconds.
        "uptime" uptime: u64,
        /// The fingerprint of its certificate.
        "ssl_fingerprint" fingerprint: Fingerprint,
        /// The level of its subscription.
        "level" level: String,
        /// Such as `node/pve1`.
        "id" id: String,
        /// Always `node`.
        "type" kind: String,
    }
}

words! {
    /// Whether a node is there.
    NodeState {
        /// It is.
        Online = "online",
        /// It is not.
        Offline = "offline",
        /// The server does not know.
        Unknown = "unknown",
    }
}

record! {
    /// The state of a node.
    NodeStatus {}
    optional {
        /// The version of the management software.
        "pveversion" pve_version: String,
        /// How much of the processors is used, 1 for all.
        "cpu" cpu: f64,
        /// The part of time that processes waited for the disk.
        "wait" wait: f64,
        /// The part of time that nothing was to do.
        "idle" idle: f64,
        /// The load of 1, 5 and 15 minutes.
        "loadavg" load: Vec<String>,
        /// The processors.
        "cpuinfo" cpu_info: CpuInfo,
        /// The memory.
        "memory" memory: Usage,
        /// The swap space.
        "swap" swap: Usage,
        /// The root file system.
        "rootfs" root: Usage,
        /// The pages that guests share.
        "ksm" ksm: Value,
        /// For how long it has been up, in seconds.
        "uptime" uptime: u64,
        /// The kernel, as a sentence.
        "kversion" kernel_version: String,
        /// The kernel, in parts.
        "current-kernel" kernel: Value,
        /// How it was booted.
        "boot-info" boot: Value,
    }
}

record! {
    /// The processors of a node.
    CpuInfo {}
    optional {
        /// How many threads there are; a guest cannot start with more.
        "cpus" threads: u32,
        /// How many cores there are.
        "cores" cores: u32,
        /// How many sockets there are.
        "sockets" sockets: u32,
        /// The model.
        "model" model: String,
        /// The maker.
        "vendor" vendor: String,
        /// The number of the family.
        "family" family: String,
        /// What they can do, parted by blanks.
        "flags" flags: String,
        /// Their speed.
        "mhz" mhz: String,
        /// Whether they can virtualise.
        "hvm" hvm: String,
        /// The kernel's clock.
        "user_hz" user_hz: u64,
    }
}

record! {
    /// How much of something is used, in bytes.
    Usage {}
    optional {
        /// All of it.
        "total" total: u64,
        /// What is used.
        "used" used: u64,
        /// What is not used.
        "free" free: u64,
        /// What can still be used.
        "avail" available: u64,
        /// What can still be used, as it is called for memory.
        "available" available_memory: u64,
    }
}

record! {
    /// A network interface of a node.
    Network {
        /// Its name.
        "iface" name: String,
    }
    optional {
        /// What it is.
        "type" kind: NetworkKind,
        /// Whether it is up.
        "active" active: bool,
        /// Whether it comes up with the node.
        "autostart" autostart: bool,
        /// Its address with the network's length.
        "cidr" cidr: String,
        /// Its address.
        "address" address: String,
        /// The length of the network.
        "netmask" netmask: String,
        /// The way out.
        "gateway" gateway: String,
        /// Its IPv6 address with the network's length.
        "cidr6" cidr6: String,
        /// Its IPv6 address.
        "address6" address6: String,
        /// The length of the IPv6 network.
        "netmask6" netmask6: u64,
        /// The way out for IPv6.
        "gateway6" gateway6: String,
        /// How it gets its address.
        "method" method: String,
        /// How it gets its IPv6 address.
        "method6" method6: String,
        /// The families of addresses that it has.
        "families" families: Vec<String>,
        /// The largest packet.
        "mtu" mtu: u64,
        /// Of a bridge: what it joins.
        "bridge_ports" bridge_ports: String,
        /// Of a bridge: whether it looks for loops.
        "bridge_stp" bridge_stp: String,
        /// Of a bridge: how long it learns before it forwards.
        "bridge_fd" bridge_fd: String,
        /// Of a bridge: whether it passes VLAN tags on.
        "bridge_vlan_aware" vlan_aware: bool,
        /// What people say about it.
        "comments" comments: String,
        /// Of an SDN vnet: what it is called.
        "alias" alias: String,
        /// The order in the file.
        "priority" priority: u64,
    }
}

words! {
    /// What a network interface is.
    NetworkKind {
        /// A Linux bridge.
        Bridge = "bridge",
        /// An Open vSwitch bridge.
        OvsBridge = "OVSBridge",
        /// A virtual network of SDN.
        Vnet = "vnet",
        /// A card.
        Ethernet = "eth",
        /// Several cards as one.
        Bond = "bond",
        /// A VLAN.
        Vlan = "vlan",
        /// Another name for an interface.
        Alias = "alias",
    }
}

words! {
    /// Which network interfaces to list.
    NetworkFilter {
        /// All that a guest can be plugged into, vnets included.
        AnyBridge = "any_bridge",
        /// The same without vnets.
        AnyLocalBridge = "any_local_bridge",
        /// Linux bridges.
        Bridge = "bridge",
        /// Cards.
        Ethernet = "eth",
    }
}

record! {
    /// A model of CPU that a guest can have.
    CpuModel {
        /// Its name, which goes into a guest's `cpu`.
        "name" name: String,
    }
    optional {
        /// Whether the administrator made it.
        "custom" custom: bool,
        /// Whose processors it copies; `default` for QEMU's own.
        "vendor" vendor: String,
        /// Whether it stands for a level and not for a processor, since 9.1.
        "abstract" is_abstract: bool,
    }
}

record! {
    /// A feature of a CPU that can be switched for a guest.
    CpuFlag {
        /// Its name.
        "name" name: String,
    }
    optional {
        /// What it does.
        "description" description: String,
        /// The nodes that can do it.
        "supported-on" supported_on: Vec<String>,
    }
}

record! {
    /// A version of a machine that a guest can have.
    Machine {
        /// Its name, which goes into a guest's `machine`.
        "id" id: String,
    }
    optional {
        /// `q35` or `i440fx`.
        "type" kind: String,
        /// The version.
        "version" version: String,
        /// What is new in it.
        "changes" changes: String,
    }
}

record! {
    /// What a URL leads to, as the node sees it.
    UrlMetadata {}
    optional {
        /// The name of the file; may be percent-encoded.
        "filename" file_name: String,
        /// Its length in bytes.
        "size" size: u64,
        /// Its type, as its server says.
        "mimetype" mime_type: String,
    }
}

impl<'a> Node<'a> {
    /// The node's name.
    pub fn name(&self) -> &'a NodeName {
        self.name
    }

    /// Reads the state of the node.
    ///
    /// `GET /nodes/{node}/status`.
    pub async fn status(&self) -> Result<NodeStatus> {
        self.client.get(Request::new(&endpoint::NODE_STATUS, &[self.name])).await
    }

    /// Lists the network interfaces of the node.
    ///
    /// `GET /nodes/{node}/network`.
    pub async fn network(&self, filter: Option<&NetworkFilter>) -> Result<List<Network>> {
        self.client.list(network(self.name, filter)).await
    }

    /// Lists the models of CPU that guests can have.
    ///
    /// `GET /nodes/{node}/capabilities/qemu/cpu`. The node that was asked answers, whichever is
    /// named.
    pub async fn cpu_models(&self) -> Result<List<CpuModel>> {
        self.client.list(Request::new(&endpoint::CPU_MODELS, &[self.name])).await
    }

    /// Lists the features of CPUs that can be switched; a server before 9 answers
    /// [`Error::NotOffered`](crate::Error::NotOffered).
    ///
    /// `GET /nodes/{node}/capabilities/qemu/cpu-flags`.
    pub async fn cpu_flags(&self) -> Result<List<CpuFlag>> {
        self.client.list(Request::new(&endpoint::CPU_FLAGS, &[self.name])).await
    }

    /// Lists the versions of machines that guests can have.
    ///
    /// `GET /nodes/{node}/capabilities/qemu/machines`.
    pub async fn machines(&self) -> Result<List<Machine>> {
        self.client.list(Request::new(&endpoint::MACHINES, &[self.name])).await
    }

    /// Asks the node what a URL leads to.
    ///
    /// `GET /nodes/{node}/query-url-metadata`.
    pub async fn url_metadata(&self, url: &str, verify: bool) -> Result<UrlMetadata> {
        self.client.get(url_metadata(self.name, url, verify)).await
    }

    /// The calls about a storage on the node.
    pub fn storage(&self, id: &'a StorageId) -> Storage<'a> {
        Storage { client: self.client, node: self.name, id }
    }

    /// The calls about a virtual machine on the node.
    pub fn qemu(&self, vmid: Vmid) -> Qemu<'a> {
        Qemu { client: self.client, node: self.name, vmid }
    }
}

pub(crate) fn network(node: &NodeName, filter: Option<&NetworkFilter>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("type", filter);
    Request::new(&endpoint::NETWORK, &[node]).with(parameters)
}

pub(crate) fn url_metadata(node: &NodeName, url: &str, verify: bool) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("url", url);
    parameters.flag("verify-certificates", (!verify).then_some(false));
    Request::new(&endpoint::URL_METADATA, &[node]).with(parameters)
}
