//! A cluster for tests, as facts.

use serde_json::Value as Json;
use serde_json::json;

use super::*;

/// Facts as a server would tell them, each as its JSON.
pub(crate) struct World {
    pub(crate) version: &'static str,
    pub(crate) cluster: bool,
    pub(crate) storages: Json,
    pub(crate) isos: Vec<&'static str>,
    pub(crate) bridges: Json,
    pub(crate) permissions: Json,
}

impl Default for World {
    /// A cluster that has all that the specification's defaults name.
    fn default() -> Self {
        Self {
            version: "9.1.4",
            cluster: true,
            storages: json!([
                storage("ceph-pool", "rbd", "images,rootdir", &["raw"]),
                storage("cephfs", "cephfs", "iso,vztmpl,backup", &[]),
                storage("local", "dir", "iso,vztmpl,images", &["qcow2", "raw", "vmdk"]),
            ]),
            isos: vec![
                "debian-13.1.0-amd64-netinst.iso",
                "nixos-minimal-24.11.719113.50ab793786d9-x86_64-linux.iso",
                "nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso",
            ],
            bridges: json!([
                { "iface": "vmbr0", "type": "bridge", "cidr": "192.0.2.11/24" },
                { "iface": "vmbr9", "type": "bridge" },
            ]),
            permissions: json!({ "/": all_privileges() }),
        }
    }
}

pub(crate) fn storage(id: &str, kind: &str, content: &str, formats: &[&str]) -> Json {
    let mut storage = json!({
        "storage": id, "type": kind, "content": content, "active": 1, "enabled": 1,
        "shared": u8::from(kind != "dir"), "avail": 500_u64 << 30,
    });
    if let Some(default) = formats.first() {
        storage["formats"] = json!({ "supported": formats, "default": default });
    }
    storage
}

pub(crate) fn all_privileges() -> Json {
    let names = [
        "VM.Allocate",
        "VM.Audit",
        "VM.Config.CPU",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.PowerMgmt",
        "Datastore.AllocateSpace",
        "Datastore.Audit",
        "Pool.Audit",
        "SDN.Use",
        "Sys.Console",
        "Sys.Modify",
    ];
    names
        .iter()
        .map(|name| ((*name).to_owned(), json!(1)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

impl World {
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts::new("root@pam");
        let release = self.version.rsplitn(2, '.').last().unwrap();
        let version = json!({ "version": self.version, "release": release });
        let cluster = if self.cluster {
            json!([{ "id": "cluster", "name": "lab", "type": "cluster", "quorate": 1 }])
        } else {
            json!([{ "id": "node/pve1", "name": "pve1", "type": "node" }])
        };
        let nodes = json!([
            { "node": "pve2", "status": "offline" },
            { "node": "pve1", "status": "online", "maxcpu": 16, "maxmem": 64_u64 << 30 },
        ]);
        let models = json!([
            { "name": "qemu64", "vendor": "default" }, { "name": "host", "vendor": "default" },
            { "name": "kvm64", "vendor": "default" }, { "name": "EPYC", "vendor": "AuthenticAMD" },
            { "name": "x86-64-v2-AES", "vendor": "default" },
        ]);
        let isos = self.isos.iter().map(|name| json!({ "volid": format!("cephfs:iso/{name}") }));
        let isos: Json = isos.collect::<Vec<_>>().into();
        let mut learn = |query, found| facts.learn(query, Ok(found));
        learn(Query::Version, Found::Version(read(&version)));
        learn(Query::Cluster, Found::Cluster(read(&cluster)));
        learn(Query::Nodes, Found::Nodes(read(&nodes)));
        learn(Query::NextId, Found::NextId("105".parse().unwrap()));
        learn(Query::Pools, Found::Pools(read(&json!([{ "poolid": "lab" }]))));
        learn(Query::Options, Found::Options(read(&json!({ "allowed-tags": ["nixos", "test"] }))));
        learn(Query::Permissions, Found::Permissions(read(&self.permissions)));
        learn(Query::Storages("pve1".parse().unwrap()), Found::Storages(read(&self.storages)));
        learn(Query::Bridges("pve1".parse().unwrap()), Found::Bridges(read(&self.bridges)));
        learn(Query::CpuModels("pve1".parse().unwrap()), Found::CpuModels(read(&models)));
        for storage in ["cephfs", "local"] {
            let found = if storage == "cephfs" { read(&isos) } else { Vec::new() };
            learn(
                Query::Isos("pve1".parse().unwrap(), storage.parse().unwrap()),
                Found::Isos(found),
            );
        }
        facts
    }
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(json: &Json) -> T {
    serde_json::from_value(json.clone()).unwrap()
}
