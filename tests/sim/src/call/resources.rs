//! `GET /cluster/resources` and what pools show of their members.

use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Caller;
use crate::call::Request;
use crate::call::guard;
use crate::call::list::facts;
use crate::call::list::node_entry;
use crate::schema::Release;
use crate::world::Guest;
use crate::world::Kind;
use crate::world::Storage;
use crate::world::World;

/// `GET /cluster/resources`; the ten seconds that a real cluster lags behind are not played.
pub fn resources(world: &World, request: Request<'_>) -> Answer {
    let kind = request.get("type");
    let wanted = |name: &str| kind.is_none_or(|kind| kind == name);
    let caller = request.caller;
    let mut entries = Vec::new();
    if kind.is_none() {
        entries.extend(pools(world, caller));
    }
    if wanted("vm") {
        for (vmid, guest) in world.guests.iter().filter(|(_, guest)| guest.kind == Kind::Qemu) {
            if guard::has(world, caller, &format!("/vms/{vmid}"), "VM.Audit") {
                let mut entry = vm(world, *vmid, guest);
                if let Some(pool) = world.pool_of(*vmid) {
                    entry["pool"] = json!(pool);
                }
                entries.push(entry);
            }
        }
    }
    if wanted("node") {
        for (name, node) in &world.nodes {
            let mut entry = node_entry(world, caller, name, node);
            entry["cgroup-mode"] = json!(2);
            entries.push(entry);
        }
    }
    if wanted("storage") {
        // Those of a node that has gone are shown for a while, and this while never ends.
        for name in world.nodes.keys() {
            let here = world.storages.values().filter(|one| !one.disabled && one.on(name));
            let seen = here.filter(|one| may_see(world, caller, one));
            entries.extend(seen.map(|one| storage(one, name)));
        }
    }
    if wanted("sdn") || kind == Some("network") {
        entries.extend(networks(world, caller, kind));
    }
    Answer::data(Value::Array(entries))
}

fn pools(world: &World, caller: &Caller) -> Vec<Value> {
    let seen = world
        .pools
        .keys()
        .filter(|name| guard::has(world, caller, &format!("/pool/{name}"), "Pool.Audit"));
    seen.map(|name| json!({"id": format!("/pool/{name}"), "pool": name, "type": "pool"})).collect()
}

/// Whether a storage is shown to a caller.
pub(super) fn may_see(world: &World, caller: &Caller, storage: &Storage) -> bool {
    let path = format!("/storage/{}", storage.name);
    ["Datastore.Audit", "Datastore.AllocateSpace"]
        .iter()
        .any(|privilege| guard::has(world, caller, &path, privilege))
}

/// A storage on a node.
pub(super) fn storage(storage: &Storage, node: &str) -> Value {
    json!({
        "content": storage.content.join(","), "disk": storage.used * 1024,
        "id": format!("storage/{node}/{}", storage.name), "maxdisk": storage.total * 1024,
        "node": node, "plugintype": storage.kind, "shared": u8::from(storage.shared()),
        "status": if storage.reachable { "available" } else { "unknown" },
        "storage": storage.name, "type": "storage",
    })
}

/// The network that every node has; it changed its name with release 9.
fn networks(world: &World, caller: &Caller, kind: Option<&str>) -> Vec<Value> {
    let old = world.release == Release::V8_4;
    if (!old && kind == Some("sdn"))
        || !guard::has(world, caller, "/sdn/zones/localnetwork", "SDN.Audit")
    {
        return Vec::new();
    }
    let names = world.nodes.keys();
    names
        .map(|name| {
            if old {
                json!({
                    "id": format!("sdn/{name}/localnetwork"), "node": name,
                    "sdn": "localnetwork", "status": "ok", "type": "sdn",
                })
            } else {
                json!({
                    "id": format!("network/{name}/zone/localnetwork"), "node": name,
                    "network": "localnetwork", "network-type": "zone", "status": "ok",
                    "type": "network",
                })
            }
        })
        .collect()
}

/// A VM as the cluster shows it.
pub(super) fn vm(world: &World, vmid: u32, guest: &Guest) -> Value {
    let facts = facts(world, vmid, guest);
    let mut entry = json!({
        "cpu": 0, "disk": 0, "diskread": 0, "diskwrite": 0, "id": format!("qemu/{vmid}"),
        "maxcpu": facts.cpus, "maxdisk": facts.disk, "maxmem": facts.memory, "mem": 0,
        "name": facts.name, "netin": 0, "netout": 0, "node": guest.node, "status": facts.status,
        "template": u8::from(guest.configuration.get("template") == Some("1")),
        "type": "qemu", "uptime": facts.uptime, "vmid": vmid,
    });
    if let Some(entry) = entry.as_object_mut() {
        if world.release == Release::V9_2 {
            entry.insert("memhost".to_owned(), json!(0));
        }
        for key in ["lock", "tags"] {
            if let Some(value) = guest.configuration.get(key).filter(|value| *value != " ") {
                entry.insert(key.to_owned(), json!(value));
            }
        }
        if let Some(state) = world.ha.get(&format!("vm:{vmid}")).and_then(|ha| ha.get("state")) {
            entry.insert("hastate".to_owned(), json!(state));
        }
    }
    entry
}
