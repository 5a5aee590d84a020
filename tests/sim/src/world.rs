//! The state of the simulated cluster.
//!
//! Plain values, changed by calls only. The clock is set by whoever drives the calls and chance
//! comes from a seed, so that the same calls give the same world.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::schema::Release;

pub mod access;
mod configuration;
mod entropy;
mod etc;
mod host;
mod storage;
mod task;

pub use access::Access;
pub use configuration::Configuration;
pub use configuration::is_disk_slot;
pub use entropy::Entropy;
pub use host::FileFacts;
pub use host::Host;
pub use host::Web;
pub use storage::Storage;
pub use storage::Volume;
pub use storage::format_size;
pub use storage::parse_size;
pub use task::Task;

/// A cluster, or a single node.
#[derive(Debug)]
pub struct World {
    /// Seconds since the epoch, set before each call.
    pub now: u64,
    /// Which release answers.
    pub release: Release,
    /// The node whose `/etc/pve` is written and whose commands are run when none is named.
    pub main_node: String,
    /// Absent on a stand-alone node.
    pub cluster: Option<Cluster>,
    /// By name.
    pub nodes: BTreeMap<String, Node>,
    /// By id.
    pub storages: BTreeMap<String, Storage>,
    /// Everything that lies on the storages.
    pub volumes: Vec<Volume>,
    /// VMs and containers by number.
    pub guests: BTreeMap<u32, Guest>,
    /// Newest last.
    pub tasks: Vec<Task>,
    /// The HA manager's resources: `vm:100` and its options as they were given.
    pub ha: BTreeMap<String, BTreeMap<String, String>>,
    /// Who may do what.
    pub access: Access,
    /// By id.
    pub pools: BTreeMap<String, Pool>,
    /// `datacenter.cfg`: options as they were given.
    pub options: BTreeMap<String, String>,
    /// The files of the nodes.
    pub host: Host,
    /// Where the file of a volume lies.
    pub disks: Disks,
    /// Chance.
    pub entropy: Entropy,
}

/// What makes nodes a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Whether a majority of the nodes is there.
    pub quorate: bool,
}

/// Guests and storages that belong together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// What it is for.
    pub comment: Option<String>,
    /// Its guests.
    pub guests: BTreeSet<u32>,
    /// Its storages.
    pub storages: BTreeSet<String>,
}

/// A node of the cluster.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its number in the cluster.
    pub id: u32,
    /// Its address, as `.members` names it.
    pub address: Ipv4Addr,
    /// Whether it is up, as the cluster sees it.
    pub online: bool,
    /// How others reach its API; a node that is not online is not reached at all.
    pub link: Link,
    /// Flags as `/proc/cpuinfo` spells them, separated by blanks.
    pub flags: String,
    /// The processor's model name.
    pub model: String,
    /// Hardware threads.
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// When it was started.
    pub since: u64,
    /// The SHA-256 of its certificate, in pairs of digits with colons.
    pub fingerprint: String,
}

/// What a call that is handed on to a node meets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// It is answered.
    #[default]
    Up,
    /// The node is there, its API is not.
    Refused,
    /// Nobody is there, which the cluster may not know yet.
    Gone,
}

/// VM or container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A virtual machine.
    Qemu,
    /// A container; it exists in listings only.
    Lxc,
}

/// A guest.
#[derive(Debug, Clone)]
pub struct Guest {
    /// VM or container.
    pub kind: Kind,
    /// Where its configuration file lies.
    pub node: String,
    /// Its configuration.
    pub configuration: Configuration,
    /// Set while it runs.
    pub running: Option<Running>,
}

/// A VM's process.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its process id.
    pub pid: u32,
    /// When it was started.
    pub since: u64,
    /// Whether its processors stand still.
    pub paused: bool,
}

/// Whether volumes are files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Disks {
    /// Volumes are entries of the world and nothing else.
    #[default]
    Acted,
    /// Volumes are files below this directory, and the effects write them.
    Real(PathBuf),
}

/// A node's processor as the recorded node had it: everything up to `x86-64-v4`.
pub const FLAGS: &str = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 \
    clflush mmx fxsr sse sse2 ht syscall nx mmxext fxsr_opt pdpe1gb rdtscp lm constant_tsc \
    rep_good nopl xtopology nonstop_tsc cpuid extd_apicid tsc_known_freq pni pclmulqdq ssse3 fma \
    cx16 pcid sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave avx f16c rdrand \
    hypervisor lahf_lm cmp_legacy cr8_legacy abm sse4a misalignsse 3dnowprefetch osvw topoext \
    vmmcall fsgsbase tsc_adjust bmi1 avx2 smep bmi2 erms invpcid avx512f avx512dq adx smap \
    avx512ifma clflushopt clwb avx512cd sha_ni avx512bw avx512vl xsaveopt xsavec xgetbv1 xsaves \
    avx_vnni avx512_bf16 clzero xsaveerptr arat avx512vbmi umip avx512_vbmi2 gfni vaes vpclmulqdq \
    avx512_vnni avx512_bitalg avx512_vpopcntdq rdpid fsrm avx512_vp2intersect";

impl Node {
    /// A node that is up, with two processors and 23.5 GiB.
    pub fn new(id: u32, address: Ipv4Addr) -> Self {
        Self {
            id,
            address,
            online: true,
            link: Link::Up,
            flags: FLAGS.to_owned(),
            model: "AMD EPYC".to_owned(),
            cpus: 2,
            memory: 25_276_059_648,
            since: 0,
            fingerprint: String::new(),
        }
    }
}

impl World {
    /// A world of these nodes, the first being the main node; two or more are a cluster.
    pub fn new(nodes: &[(&str, Ipv4Addr)], now: u64) -> Self {
        let named: BTreeMap<String, Node> = (1..)
            .zip(nodes)
            .map(|(id, (name, address))| {
                let node = Node { since: now.saturating_sub(1645), ..Node::new(id, *address) };
                ((*name).to_owned(), node)
            })
            .collect();
        let cluster =
            (nodes.len() > 1).then(|| Cluster { name: "testcl".to_owned(), quorate: true });
        Self {
            now,
            release: Release::default(),
            main_node: nodes.first().map_or("pve1", |(name, _)| name).to_owned(),
            cluster,
            nodes: named,
            storages: BTreeMap::new(),
            volumes: Vec::new(),
            guests: BTreeMap::new(),
            tasks: Vec::new(),
            ha: BTreeMap::new(),
            access: Access::default(),
            pools: BTreeMap::new(),
            options: BTreeMap::new(),
            host: Host::default(),
            disks: Disks::default(),
            entropy: Entropy::new(0x5eed),
        }
    }

    /// Whether changes are allowed: a stand-alone node always is.
    pub fn quorate(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.quorate)
    }

    /// The VM of this number if its configuration lies on this node.
    pub fn vm(&self, node: &str, vmid: u32) -> Option<&Guest> {
        self.guests.get(&vmid).filter(|guest| guest.kind == Kind::Qemu && guest.node == node)
    }

    /// Like [`World::vm`], to be changed.
    pub fn vm_mut(&mut self, node: &str, vmid: u32) -> Option<&mut Guest> {
        self.guests.get_mut(&vmid).filter(|guest| guest.kind == Kind::Qemu && guest.node == node)
    }

    /// The pool that a guest is in.
    pub fn pool_of(&self, vmid: u32) -> Option<&str> {
        let found = self.pools.iter().find(|(_, pool)| pool.guests.contains(&vmid));
        found.map(|(name, _)| name.as_str())
    }

    /// A guest that powered itself off: the world hears of it here.
    pub fn powered_off(&mut self, vmid: u32) {
        if let Some(guest) = self.guests.get_mut(&vmid) {
            guest.running = None;
        }
    }
}
