//! The cluster as a whole.

use serde_json::Value;

use crate::client::Client;
use crate::endpoint;
use crate::error::Error;
use crate::error::Result;
use crate::ha::Ha;
use crate::id::NodeName;
use crate::id::PoolId;
use crate::id::StorageId;
use crate::id::Vmid;
use crate::list::List;
use crate::record::record;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;

/// The calls below `/cluster`.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    client: &'a Client,
}

impl Client {
    /// The calls below `/cluster`.
    pub fn cluster(&self) -> Cluster<'_> {
        Cluster { client: self }
    }
}

record! {
    /// The cluster itself, or one of its nodes; a stand-alone node is alone in the list.
    ClusterEntry {
        /// Such as `cluster` or `node/pve1`.
        "id" id: String,
        /// The cluster's or the node's name.
        "name" name: String,
        /// Which of the two it is.
        "type" kind: ClusterEntryKind,
    }
    optional {
        /// Of a cluster: whether it has quorum.
        "quorate" quorate: bool,
        /// Of a cluster: how many nodes it has.
        "nodes" nodes: u64,
        /// Of a cluster: the version of its configuration.
        "version" version: u64,
        /// Of a node: its address within the cluster.
        "ip" ip: String,
        /// Of a node: whether it is there.
        "online" online: bool,
        /// Of a node: whether it is the one that was asked.
        "local" local: bool,
        /// Of a node: its number.
        "nodeid" number: u64,
        /// Of a node: the level of its subscription.
        "level" level: String,
    }
}

words! {
    /// What an entry of the cluster's status is.
    ClusterEntryKind {
        /// The cluster.
        Cluster = "cluster",
        /// A node.
        Node = "node",
    }
}

record! {
    /// Something in the cluster: a guest, a node, a storage, a pool, a network.
    ///
    /// Figures and names are up to ten seconds old, and a new guest has none yet. For the state of
    /// one guest ask [`Qemu::status`](crate::Qemu::status).
    Resource {
        /// Such as `qemu/100`.
        "id" id: String,
        /// What it is.
        "type" kind: ResourceKind,
    }
    optional {
        /// The node on which it is.
        "node" node: NodeName,
        /// Its state, such as `running`, `online` or `available`; `unknown` if it is too new.
        "status" status: String,
        /// A guest's number.
        "vmid" vmid: Vmid,
        /// A guest's name.
        "name" name: String,
        /// The pool, or the pool in which a guest is.
        "pool" pool: PoolId,
        /// A guest's tags, parted by `;`.
        "tags" tags: String,
        /// Whether a guest is a template.
        "template" template: bool,
        /// The lock that a guest is under.
        "lock" lock: String,
        /// A guest's state in HA.
        "hastate" ha_state: String,
        /// How much of the processors is used, 1 for all.
        "cpu" cpu: f64,
        /// The number of processors.
        "maxcpu" max_cpu: f64,
        /// The memory in use, in bytes.
        "mem" memory: u64,
        /// The memory, in bytes.
        "maxmem" max_memory: u64,
        /// The memory that a guest costs its node, in bytes.
        "memhost" host_memory: u64,
        /// The disk space in use, in bytes.
        "disk" disk: u64,
        /// The disk space, in bytes.
        "maxdisk" max_disk: u64,
        /// What a guest has read, in bytes.
        "diskread" disk_read: u64,
        /// What a guest has written, in bytes.
        "diskwrite" disk_written: u64,
        /// What a guest has received, in bytes.
        "netin" net_in: u64,
        /// What a guest has sent, in bytes.
        "netout" net_out: u64,
        /// For how long it has been up, in seconds.
        "uptime" uptime: u64,
        /// A storage's name.
        "storage" storage: StorageId,
        /// What a storage may hold, parted by commas.
        "content" content: String,
        /// A storage's type, such as `dir`.
        "plugintype" storage_type: String,
        /// Whether a storage is the same on all nodes.
        "shared" shared: bool,
        /// A network's name.
        "network" network: String,
        /// What a network is.
        "network-type" network_kind: String,
        /// The name of an SDN zone, as servers up to 8 list it.
        "sdn" sdn: String,
        /// The level of a node's subscription.
        "level" level: String,
        /// The version of a node's control groups.
        "cgroup-mode" cgroup_mode: u64,
    }
}

words! {
    /// What a resource is.
    ResourceKind {
        /// A virtual machine.
        Qemu = "qemu",
        /// A container.
        Lxc = "lxc",
        /// A node.
        Node = "node",
        /// A storage on a node.
        Storage = "storage",
        /// A pool.
        Pool = "pool",
        /// A network, since 9.
        Network = "network",
        /// An SDN zone, until 8.
        Sdn = "sdn",
    }
}

words! {
    /// Which resources to list.
    ResourceFilter {
        /// Virtual machines and containers.
        Guests = "vm",
        /// Storages.
        Storages = "storage",
        /// Nodes.
        Nodes = "node",
        /// SDN zones.
        Sdn = "sdn",
    }
}

record! {
    /// The datacenter's options; an account without `Sys.Audit` on `/` sees a few of them only.
    ClusterOptions {}
    optional {
        /// The tags that the account may set.
        "allowed-tags" allowed_tags: Vec<String>,
        /// The tags that only an administrator may set.
        "registered-tags" registered_tags: Vec<String>,
        /// How tags are shown and ordered.
        "tag-style" tag_style: Value,
        /// Who may set which tags.
        "user-tag-access" user_tag_access: Value,
        /// The range from which numbers for guests are taken.
        "next-id" next_id: Value,
        /// The first bytes of hardware addresses that the server makes up.
        "mac_prefix" mac_prefix: String,
        /// The console that is preferred.
        "console" console: String,
        /// What people say about the datacenter.
        "description" description: String,
        /// The language of the keyboard.
        "keyboard" keyboard: String,
        /// The language of the web UI.
        "language" language: String,
        /// How guests are migrated.
        "migration" migration: Value,
        /// How HA is set up.
        "ha" ha: Value,
        /// How the cluster chooses nodes.
        "crs" scheduling: Value,
    }
}

impl<'a> Cluster<'a> {
    /// Lists the cluster and its nodes.
    ///
    /// `GET /cluster/status`.
    pub async fn status(&self) -> Result<List<ClusterEntry>> {
        self.client.list(Request::new(&endpoint::CLUSTER_STATUS, &[])).await
    }

    /// Lists what is in the cluster, as far as the account may see it.
    ///
    /// `GET /cluster/resources`.
    pub async fn resources(&self, filter: Option<&ResourceFilter>) -> Result<List<Resource>> {
        self.client.list(resources(filter)).await
    }

    /// Asks for the lowest number that no guest has. That reserves nothing: only the creation
    /// itself does, and it may find the number taken.
    ///
    /// `GET /cluster/nextid`.
    pub async fn next_id(&self) -> Result<Vmid> {
        self.client.get::<Number>(next_id(None)).await.map(|number| number.0)
    }

    /// Asks whether no guest of the cluster, virtual machine or container, has this number.
    ///
    /// `GET /cluster/nextid?vmid=…`.
    pub async fn is_free(&self, vmid: Vmid) -> Result<bool> {
        match self.client.get::<Number>(next_id(Some(vmid))).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads the datacenter's options.
    ///
    /// `GET /cluster/options`.
    pub async fn options(&self) -> Result<ClusterOptions> {
        self.client.get(Request::new(&endpoint::CLUSTER_OPTIONS, &[])).await
    }

    /// The calls about high availability.
    pub fn ha(&self) -> Ha<'a> {
        Ha { client: self.client }
    }
}

#[derive(serde::Deserialize)]
pub(crate) struct Number(#[serde(deserialize_with = "crate::lenient::value")] pub(crate) Vmid);

pub(crate) fn resources(filter: Option<&ResourceFilter>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("type", filter);
    Request::new(&endpoint::CLUSTER_RESOURCES, &[]).with(parameters)
}

pub(crate) fn next_id(vmid: Option<Vmid>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("vmid", vmid);
    Request::new(&endpoint::NEXT_ID, &[]).with(parameters)
}
