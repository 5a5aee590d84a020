//! What a server would tell, answered query by query.

use std::collections::BTreeMap;

use pve_api::Domain;
use pve_provision::create::Found;
use pve_provision::create::Query;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_json::json;

/// A cluster as the screens see it; what is missing here stays unanswered.
#[derive(Clone)]
pub(super) struct World {
    pub(super) nodes: Json,
    pub(super) storages: Json,
    pub(super) isos: Vec<String>,
    pub(super) bridges: Json,
    pub(super) pools: Json,
    pub(super) cpu_models: Json,
    pub(super) permissions: Json,
    /// The lowest free number; those above it are free, too.
    pub(super) next_id: u32,
    /// Queries that fail, by the first word of their debug text, with the reason.
    pub(super) failing: BTreeMap<&'static str, &'static str>,
    /// Queries that are never answered.
    pub(super) silent: Vec<&'static str>,
}

const PRIVILEGES: [&str; 14] = [
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
    "SDN.Use",
    "Sys.Console",
    "Sys.Modify",
];

pub(super) fn granted(but: &[&str]) -> Json {
    let kept = PRIVILEGES.iter().filter(|name| !but.contains(name));
    json!({ "/": kept.map(|name| ((*name).to_owned(), json!(1))).collect::<serde_json::Map<_, _>>() })
}

fn storage(id: &str, kind: &str, content: &str, formats: &[&str]) -> Json {
    let mut storage = json!({
        "storage": id, "type": kind, "content": content, "active": 1, "enabled": 1,
        "shared": u8::from(kind != "dir"), "avail": 500_u64 << 30,
    });
    if let Some(default) = formats.first() {
        storage["formats"] = json!({ "supported": formats, "default": default });
    }
    storage
}

impl Default for World {
    /// A cluster that has all that the specification's defaults name.
    fn default() -> Self {
        Self {
            nodes: json!([
                { "node": "pve2", "status": "offline" },
                { "node": "pve1", "status": "online", "maxcpu": 16, "maxmem": 64_u64 << 30 },
            ]),
            storages: json!([
                storage("ceph-pool", "rbd", "images,rootdir", &["raw"]),
                storage("cephfs", "cephfs", "iso,vztmpl,backup", &[]),
                storage("local", "dir", "iso,vztmpl,images", &["qcow2", "raw", "vmdk"]),
            ]),
            isos: vec![
                "debian-13.1.0-amd64-netinst.iso".to_owned(),
                "nixos-minimal-24.11.719113.50ab793786d9-x86_64-linux.iso".to_owned(),
                "nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso".to_owned(),
            ],
            bridges: json!([
                { "iface": "vmbr0", "type": "bridge", "cidr": "192.0.2.11/24" },
                { "iface": "vmbr9", "type": "bridge", "comments": "guests" },
            ]),
            pools: json!([{ "poolid": "lab", "comment": "for trying things" }]),
            cpu_models: json!([
                { "name": "qemu64", "vendor": "default" },
                { "name": "host", "vendor": "default" },
                { "name": "EPYC", "vendor": "AuthenticAMD" },
                { "name": "x86-64-v2-AES", "vendor": "default" },
            ]),
            permissions: granted(&[]),
            next_id: 105,
            failing: BTreeMap::new(),
            silent: Vec::new(),
        }
    }
}

impl World {
    /// A world that has nothing of what the defaults ask for.
    pub(super) fn bare() -> Self {
        Self {
            storages: json!([]),
            isos: Vec::new(),
            bridges: json!([]),
            pools: json!([]),
            ..Self::default()
        }
    }

    /// A world in which nothing is answered any more.
    pub(super) fn silent(names: &[&'static str]) -> Self {
        Self { silent: names.to_vec(), ..Self::default() }
    }

    /// A world in which these questions fail.
    pub(super) fn failing(names: &[&'static str]) -> Self {
        let reason = "GET /nodes/pve1: node unreachable: no route to host";
        Self { failing: names.iter().map(|name| (*name, reason)).collect(), ..Self::default() }
    }

    /// The answer to a query; none if it is not answered.
    pub(super) fn answer(&self, query: &Query) -> Option<Result<Found, String>> {
        let debug = format!("{query:?}");
        let name = debug.split('(').next().unwrap_or_default();
        if self.silent.contains(&name) {
            return None;
        }
        if let Some(reason) = self.failing.get(name) {
            return Some(Err((*reason).to_owned()));
        }
        Some(Ok(match query {
            Query::Version => {
                Found::Version(read(&json!({ "version": "9.2.3", "release": "9.2" })))
            }
            Query::Cluster => Found::Cluster(read(
                &json!([{ "id": "cluster", "name": "lab", "type": "cluster", "quorate": 1 }]),
            )),
            Query::Nodes => Found::Nodes(read(&self.nodes)),
            Query::NextId => Found::NextId(self.next_id.try_into().unwrap()),
            Query::IsFree(vmid) => Found::IsFree(vmid.get() >= self.next_id),
            Query::Pools => Found::Pools(read(&self.pools)),
            Query::Options => {
                Found::Options(read(&json!({ "allowed-tags": ["nixos", "production", "test"] })))
            }
            Query::Permissions => Found::Permissions(read(&self.permissions)),
            Query::Storages(_) => Found::Storages(read(&self.storages)),
            Query::Isos(_, storage) => {
                let isos = self.isos.iter().filter(|_| storage.as_str() == "cephfs");
                let isos = isos.map(|name| json!({ "volid": format!("{storage}:iso/{name}") }));
                Found::Isos(read(&isos.collect::<Vec<_>>().into()))
            }
            Query::Bridges(_) => Found::Bridges(read(&self.bridges)),
            Query::CpuModels(_) => Found::CpuModels(read(&self.cpu_models)),
        }))
    }
}

/// The realms of a server that has one of each kind.
pub(super) fn realms() -> Vec<Domain> {
    read(&json!([
        { "realm": "corp", "type": "ldap", "comment": "the company's accounts" },
        { "realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication" },
        { "realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server" },
        { "realm": "sso", "type": "openid", "default": 1 },
    ]))
}

pub(super) fn read<T: DeserializeOwned>(json: &Json) -> T {
    T::deserialize(json).unwrap()
}
