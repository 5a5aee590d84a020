//! `/etc/pve`, read: who is in the cluster, which guests there are and how they are configured.
//!
//! Reading a file there takes no time where a `qm` call takes half a second. Nothing is written.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::path::PathBuf;

use pve_api::NodeName;
use pve_api::Vmid;
use serde::Deserialize;

/// The directory, `PVE_DIR` in the settings.
#[derive(Debug, Clone)]
pub(crate) struct PveDirectory(PathBuf);

impl PveDirectory {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The cluster's nodes, from `.members`.
    pub(crate) fn members(&self) -> io::Result<Members> {
        let path = self.0.join(".members");
        let text = std::fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
        Members::parse(&text).map_err(|error| at(&path, &io::Error::other(error)))
    }

    /// The numbers of all guests of the cluster, VMs and containers.
    pub(crate) fn guests(&self) -> io::Result<BTreeSet<u32>> {
        let mut guests = BTreeSet::new();
        for node in self.node_directories()? {
            for kind in ["qemu-server", "lxc"] {
                let directory = node.join(kind);
                let entries = match std::fs::read_dir(&directory) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    other => other.map_err(|error| at(&directory, &error))?,
                };
                for entry in entries {
                    let name = entry?.file_name();
                    let number = name.to_str().and_then(|name| name.strip_suffix(".conf"));
                    guests.extend(number.and_then(|number| number.parse::<u32>().ok()));
                }
            }
        }
        Ok(guests)
    }

    /// The configuration of a VM on `node`; `None` when it has no such VM.
    pub(crate) fn config(&self, node: &NodeName, vmid: Vmid) -> io::Result<Option<VmConfig>> {
        let path = self.0.join(format!("nodes/{node}/qemu-server/{vmid}.conf"));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(VmConfig::parse(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path, &error)),
        }
    }

    /// The VM of that number and the node that has it now.
    pub(crate) fn find(&self, vmid: Vmid) -> io::Result<Option<(NodeName, VmConfig)>> {
        for node in self.node_names()? {
            if let Some(config) = self.config(&node, vmid)? {
                return Ok(Some((node, config)));
            }
        }
        Ok(None)
    }

    /// What a guest of that number is and where: `VM 'db' on pve2`; for messages.
    pub(crate) fn describe_guest(&self, vmid: Vmid) -> Option<String> {
        if let Ok(Some((node, config))) = self.find(vmid) {
            let name = config.get("name").map(|name| format!(" '{name}'")).unwrap_or_default();
            return Some(format!("VM{name} on {node}"));
        }
        let container =
            |node: &NodeName| self.0.join(format!("nodes/{node}/lxc/{vmid}.conf")).exists();
        let node = self.node_names().ok()?.into_iter().find(container)?;
        Some(format!("a container on {node}"))
    }

    /// All VMs of the cluster with their nodes.
    pub(crate) fn vms(&self) -> io::Result<Vec<(NodeName, Vmid, VmConfig)>> {
        let mut vms = Vec::new();
        for node in self.node_names()? {
            let directory = self.0.join(format!("nodes/{node}/qemu-server"));
            let Ok(entries) = std::fs::read_dir(directory) else { continue };
            for entry in entries {
                let name = entry?.file_name();
                let vmid =
                    name.to_str().and_then(|name| name.strip_suffix(".conf")).map(str::parse);
                let Some(Ok(vmid)) = vmid else { continue };
                // A VM may be destroyed between the listing and the reading.
                if let Some(config) = self.config(&node, vmid)? {
                    vms.push((node.clone(), vmid, config));
                }
            }
        }
        Ok(vms)
    }

    /// The section of a storage in `storage.cfg`, if it has one.
    pub(crate) fn storage(&self, name: &str) -> io::Result<Option<StorageConfig>> {
        let path = self.0.join("storage.cfg");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(StorageConfig::find(&text, name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path, &error)),
        }
    }

    /// Whether the HA manager looks after a VM; what is asked of such a VM is done later, by it.
    pub(crate) fn is_ha_managed(&self, vmid: Vmid) -> io::Result<bool> {
        let path = self.0.join("ha/resources.cfg");
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(|error| at(&path, &error))?,
        };
        let number = vmid.to_string();
        Ok(text.lines().any(|line| line.strip_prefix("vm:").map(str::trim) == Some(&number)))
    }

    /// The file in which a node's SSH host key is known to the cluster.
    pub(crate) fn known_hosts(&self, node: &NodeName) -> PathBuf {
        let own = self.0.join(format!("nodes/{node}/ssh_known_hosts"));
        if own.exists() { own } else { self.0.join("priv/known_hosts") }
    }

    fn node_directories(&self) -> io::Result<Vec<PathBuf>> {
        let nodes = self.0.join("nodes");
        let entries = std::fs::read_dir(&nodes).map_err(|error| at(&nodes, &error))?;
        entries.map(|entry| Ok(entry?.path())).collect()
    }

    fn node_names(&self) -> io::Result<Vec<NodeName>> {
        let mut names: Vec<NodeName> = self
            .node_directories()?
            .iter()
            .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
            .collect();
        names.sort();
        Ok(names)
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The nodes of the cluster as `.members` tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) own_name: String,
    /// Whether changes are possible: a stand-alone node always can.
    pub(crate) quorate: bool,
    nodes: BTreeMap<String, Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    online: bool,
    address: Option<IpAddr>,
}

#[derive(Deserialize)]
struct MembersFile {
    nodename: String,
    cluster: Option<ClusterPart>,
    #[serde(default)]
    nodelist: BTreeMap<String, NodePart>,
}

#[derive(Deserialize)]
struct ClusterPart {
    quorate: u8,
}

#[derive(Deserialize)]
struct NodePart {
    #[serde(default)]
    online: u8,
    ip: Option<String>,
}

impl Members {
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let file: MembersFile = serde_json::from_str(text)?;
        let alone = file.cluster.is_none();
        let mut nodes: BTreeMap<String, Member> = file
            .nodelist
            .into_iter()
            .map(|(name, node)| {
                let address = node.ip.and_then(|ip| ip.parse().ok());
                (name, Member { online: alone || node.online == 1, address })
            })
            .collect();
        nodes.entry(file.nodename.clone()).or_insert(Member { online: true, address: None });
        let quorate = file.cluster.is_none_or(|cluster| cluster.quorate == 1);
        Ok(Self { own_name: file.nodename, quorate, nodes })
    }

    /// Whether the node is online; `None` when there is no such node.
    pub(crate) fn online(&self, node: &str) -> Option<bool> {
        self.nodes.get(node).map(|member| member.online)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.nodes.keys().map(String::as_str).collect()
    }

    pub(crate) fn online_names(&self) -> BTreeSet<String> {
        self.nodes
            .iter()
            .filter(|(_, member)| member.online)
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(crate) fn address(&self, node: &str) -> Option<IpAddr> {
        self.nodes.get(node)?.address
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.nodes.values().filter_map(|member| match member.address {
            Some(IpAddr::V4(address)) => Some(address),
            _ => None,
        })
    }
}

/// The top section of a VM's configuration file: what is true now, without pending changes and snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VmConfig {
    options: BTreeMap<String, String>,
    description: String,
}

impl VmConfig {
    fn parse(text: &str) -> Self {
        let mut config = Self::default();
        for line in text.lines().take_while(|line| !line.starts_with('[')) {
            if let Some(comment) = line.strip_prefix('#') {
                config.description.push_str(&percent_decoded(comment));
                config.description.push('\n');
            } else if let Some((key, value)) = line.split_once(':') {
                config.options.insert(key.to_owned(), value.trim().to_owned());
            }
        }
        config
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// The size of a disk in bytes, from `size=` of its property string.
    pub(crate) fn disk_bytes(&self, disk: &str) -> Option<u64> {
        let size = self.get(disk)?.split(',').find_map(|part| part.strip_prefix("size="))?;
        let (digits, factor) = match size.as_bytes().last()? {
            b'K' => (&size[..size.len() - 1], 1 << 10),
            b'M' => (&size[..size.len() - 1], 1 << 20),
            b'G' => (&size[..size.len() - 1], 1 << 30),
            b'T' => (&size[..size.len() - 1], 1_u64 << 40),
            _ => (size, 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(factor)
    }

    /// The id of the job that made this VM, when it carries our mark.
    pub(crate) fn job(&self) -> Option<&str> {
        self.description.lines().find_map(|line| line.trim().strip_prefix(MARK))
    }
}

/// What a VM's description begins with when one of our jobs made it; the job's id follows.
pub(crate) const MARK: &str = "made by pve-server job ";

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'%')
            .then(|| tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One section of `storage.cfg`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StorageConfig {
    options: BTreeMap<String, String>,
}

impl StorageConfig {
    pub(crate) fn find(text: &str, name: &str) -> Option<Self> {
        let mut found = None;
        for line in text.lines() {
            if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
                if found.is_some() {
                    break;
                }
                let is_it = line.split_once(':').is_some_and(|(_, id)| id.trim() == name);
                found = is_it.then(Self::default);
            } else if let (Some(storage), line) = (&mut found, line.trim())
                && !line.is_empty()
                && !line.starts_with('#')
            {
                let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                storage.options.insert(key.to_owned(), value.trim().to_owned());
            }
        }
        found
    }

    /// What may be stored there; `None` when the file does not say, which means disks among others.
    pub(crate) fn content(&self) -> Option<&str> {
        self.options.get("content").map(String::as_str)
    }

    /// The nodes that have it; `None` for all.
    pub(crate) fn nodes(&self) -> Option<&str> {
        self.options.get("nodes").map(String::as_str)
    }
}

/// Whether a comma-separated list of Proxmox VE has the word.
pub(crate) fn lists(list: &str, word: &str) -> bool {
    list.split([',', ';', ' ']).any(|item| item == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_cluster_is_online_and_quorate() {
        let members = Members::parse(r#"{"nodename":"pve1","version":3}"#).unwrap();
        assert_eq!(
            (members.quorate, members.online("pve1"), members.online("pve2")),
            (true, Some(true), None)
        );
    }

    #[test]
    fn only_the_top_section_of_a_config_counts() {
        let text = "#made by pve-server job 0198-a%3A\n#second line\nboot: order=scsi0\n\
                    scsi0: local:300/vm-300-disk-0.raw,discard=on,size=50M\n\n[PENDING]\nscsi0: none\n";
        let config = VmConfig::parse(text);
        assert_eq!(config.get("boot"), Some("order=scsi0"));
        assert_eq!(config.disk_bytes("scsi0"), Some(50 << 20));
        assert_eq!(config.job(), Some("0198-a:"));
        assert_eq!(VmConfig::parse("name: x\n#nothing of ours").job(), None);
    }

    #[test]
    fn storage_sections_are_told_apart() {
        let text = "dir: local\n\tpath /var/lib/vz\n\tcontent iso,backup\n\nzfspool: local-zfs\n\tpool rpool\n\
                    \tnodes pve1,pve2\n\nnfs: off\n\tdisable\n\tcontent images\n";
        assert_eq!(StorageConfig::find(text, "local").unwrap().content(), Some("iso,backup"));
        let zfs = StorageConfig::find(text, "local-zfs").unwrap();
        assert_eq!((zfs.content(), zfs.nodes()), (None, Some("pve1,pve2")));
        assert!(StorageConfig::find(text, "rpool").is_none());
        assert!(lists("iso,images", "images") && !lists("iso,images2", "images"));
    }
}
