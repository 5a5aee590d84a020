//! `/etc/pve` as files: what root on the main node reads instead of asking a command.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use super::Kind;
use super::World;

impl World {
    /// The files below `/etc/pve`, by path relative to it.
    pub fn etc_pve(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        for (vmid, guest) in &self.guests {
            let folder = match guest.kind {
                Kind::Qemu => "qemu-server",
                Kind::Lxc => "lxc",
            };
            let path = format!("nodes/{}/{folder}/{vmid}.conf", guest.node);
            files.insert(PathBuf::from(path), guest.configuration.file());
        }
        files.insert(".members".into(), self.members());
        files.insert(".vmlist".into(), self.guest_list());
        files.insert("storage.cfg".into(), self.storage_file());
        files
    }

    /// The directories that exist even when they are empty.
    pub fn etc_pve_directories(&self) -> Vec<PathBuf> {
        self.nodes
            .keys()
            .flat_map(|node| {
                ["qemu-server", "lxc"].map(|folder| PathBuf::from(format!("nodes/{node}/{folder}")))
            })
            .collect()
    }

    /// A stand-alone node has a name and nothing more.
    fn members(&self) -> String {
        let Some(cluster) = &self.cluster else {
            return format!("{{\n\"nodename\": \"{}\",\n\"version\": 0\n}}\n", self.main_node);
        };
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|(name, node)| {
                let online = u8::from(node.online);
                let address = node.address;
                let id = node.id;
                format!(
                    "  \"{name}\": {{ \"id\": {id}, \"online\": {online}, \"ip\": \"{address}\"}}"
                )
            })
            .collect();
        format!(
            "{{\n\"nodename\": \"{}\",\n\"version\": 4,\n\"cluster\": {{ \"name\": \"{}\", \
             \"version\": 2, \"nodes\": {}, \"quorate\": {} }},\n\"nodelist\": {{\n{}\n  }}\n}}\n",
            self.main_node,
            cluster.name,
            self.nodes.len(),
            u8::from(cluster.quorate),
            nodes.join(",\n"),
        )
    }

    fn guest_list(&self) -> String {
        let ids: serde_json::Map<String, serde_json::Value> = self
            .guests
            .iter()
            .map(|(vmid, guest)| {
                let kind = match guest.kind {
                    Kind::Qemu => "qemu",
                    Kind::Lxc => "lxc",
                };
                (vmid.to_string(), json!({"node": guest.node, "type": kind, "version": 1}))
            })
            .collect();
        format!("{}\n", json!({"version": 1, "ids": ids}))
    }

    fn storage_file(&self) -> String {
        let mut text = String::new();
        for storage in self.storages.values() {
            text.push_str(&storage.section());
            text.push('\n');
        }
        text
    }
}
