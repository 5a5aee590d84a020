//! Calls that only read.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Caller;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::call::seed::boot_slot;
use crate::schema::Properties;
use crate::schema::Release;
use crate::world::Guest;
use crate::world::Kind;
use crate::world::Node;
use crate::world::World;
use crate::world::parse_size;

/// What stands where a password is.
const MASK: &str = "**********";

/// `GET /version`.
pub fn version(world: &World) -> Answer {
    Answer::data(match world.release {
        Release::V9_2 => {
            json!({"version": "9.2.11", "release": "9.2", "repoid": "14a22df35955d97d"})
        }
        Release::V8_4 => {
            json!({"version": "8.4.9", "release": "8.4", "repoid": "649acf70aab54798"})
        }
    })
}

/// `GET /nodes`: all of them, to anybody; figures to those who may look.
pub fn nodes(world: &World, request: Request<'_>) -> Answer {
    let nodes = world.nodes.iter().map(|(name, node)| {
        let mut entry = node_entry(world, request.caller, name, node);
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("ssl_fingerprint".to_owned(), json!(node.fingerprint));
        }
        entry
    });
    Answer::data(nodes.collect())
}

/// A node as listings show it.
pub(super) fn node_entry(world: &World, caller: &Caller, name: &str, node: &Node) -> Value {
    let status = if node.online { "online" } else { "offline" };
    let mut entry = json!({
        "id": format!("node/{name}"), "node": name, "type": "node", "level": "", "status": status,
    });
    if !guard::has(world, caller, &format!("/nodes/{name}"), "Sys.Audit") {
        return entry;
    }
    if let Some(entry) = entry.as_object_mut() {
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("maxcpu", json!(node.cpus));
        put("maxdisk", json!(270_553_174_016_u64));
        put("maxmem", json!(node.memory));
        if !node.online {
            return Value::Object(entry.clone());
        }
        put("cpu", json!(0.02));
        put("disk", json!(27_405_402_112_u64));
        put("mem", json!(2_405_281_792_u64));
        put("uptime", json!(world.now.saturating_sub(node.since)));
    }
    entry
}

/// `GET /nodes/{node}/status`.
pub fn node_status(world: &World, request: Request<'_>) -> Answer {
    let Some(node) = world.nodes.get(request.node) else { return Answer::data(Value::Null) };
    let version = match world.release {
        Release::V9_2 => "pve-manager/9.2.11/14a22df35955d97d",
        Release::V8_4 => "pve-manager/8.4.9/649acf70aab54798",
    };
    let total = node.memory;
    let mut status = json!({
        "boot-info": {"mode": "legacy-bios"},
        "cpu": 0.02,
        "cpuinfo": {
            "cores": node.cpus, "cpus": node.cpus, "family": "26", "flags": node.flags,
            "hvm": "", "mhz": "2596.122", "model": node.model, "sockets": 1, "user_hz": 100,
            "vendor": "AuthenticAMD",
        },
        "current-kernel": {
            "machine": "x86_64", "release": "6.18.44", "sysname": "Linux",
            "version": "#1 SMP PREEMPT_DYNAMIC @0",
        },
        "idle": 0,
        "ksm": {"shared": 0},
        "kversion": "Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0",
        "loadavg": ["0.10", "0.08", "0.05"],
        "memory": {
            "available": total - total / 10, "free": total / 2, "total": total, "used": total / 10,
        },
        "pveversion": version,
        "rootfs": {
            "avail": 70_227_513_344_u64, "free": 243_207_938_048_u64,
            "total": 270_553_174_016_u64, "used": 27_345_235_968_u64,
        },
        "swap": {"free": 0, "total": 0, "used": 0},
        "uptime": world.now.saturating_sub(node.since),
        "wait": 0,
    });
    if world.release == Release::V8_4 {
        // These came with the next release.
        for (part, key) in [("cpuinfo", "family"), ("cpuinfo", "vendor"), ("memory", "available")] {
            if let Some(part) = status[part].as_object_mut() {
                part.remove(key);
            }
        }
    }
    Answer::data(status)
}

/// `GET /cluster/status`.
pub fn cluster_status(world: &World) -> Answer {
    let mut entries = Vec::new();
    if let Some(cluster) = &world.cluster {
        entries.push(json!({
            "id": "cluster", "name": cluster.name, "nodes": world.nodes.len(),
            "quorate": u8::from(cluster.quorate), "type": "cluster", "version": 2,
        }));
    }
    for (name, node) in &world.nodes {
        let local = u8::from(*name == world.main_node);
        entries.push(json!({
            "id": format!("node/{name}"), "ip": node.address, "level": "", "local": local,
            "name": name, "nodeid": if world.cluster.is_some() { node.id } else { 0 }, "online": u8::from(node.online), "type": "node",
        }));
    }
    Answer::data(Value::Array(entries))
}

/// `GET /cluster/nextid`.
pub fn next_id(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let taken = |vmid: u32| world.guests.contains_key(&vmid);
    let vmid = match request.get("vmid") {
        Some(text) if taken(request.vmid) => {
            return Err(Died::parameter("vmid", format!("VM {text} already exists")));
        }
        Some(_) => request.vmid,
        None => (100..1_000_000_000).find(|vmid| !taken(*vmid)).unwrap_or_default(),
    };
    Ok(Answer::data(Value::from(vmid.to_string())))
}

/// What listings show of a VM.
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) cpus: u32,
    pub(super) memory: u64,
    pub(super) disk: u64,
    pub(super) status: &'static str,
    pub(super) uptime: u64,
}

pub(super) fn facts(world: &World, vmid: u32, guest: &Guest) -> Facts {
    let configuration = &guest.configuration;
    let number = |key: &str, default: u64| {
        configuration.get(key).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let disk = boot_slot(&configuration.options)
        .or_else(|| configuration.get("bootdisk").map(str::to_owned))
        .and_then(|slot| {
            Properties::parse(configuration.get(&slot)?).get("size").map(str::to_owned)
        })
        .and_then(|size| parse_size(&size));
    Facts {
        name: configuration.get("name").map_or_else(|| format!("VM {vmid}"), str::to_owned),
        cpus: u32::try_from(number("cores", 1) * number("sockets", 1)).unwrap_or(1),
        memory: number("memory", 512) << 20,
        disk: disk.unwrap_or_default(),
        status: if guest.running.is_some() { "running" } else { "stopped" },
        uptime: guest.running.as_ref().map_or(0, |running| world.now.saturating_sub(running.since)),
    }
}

fn pressure(entry: &mut Map<String, Value>) {
    for resource in ["cpu", "io", "memory"] {
        for kind in ["full", "some"] {
            entry.insert(format!("pressure{resource}{kind}"), json!(0));
        }
    }
}

/// `GET /nodes/{node}/qemu`.
pub fn vms(world: &World, request: Request<'_>) -> Answer {
    let vms = world
        .guests
        .iter()
        .filter(|(_, guest)| guest.kind == Kind::Qemu && guest.node == request.node)
        .filter(|(vmid, _)| guard::has(world, request.caller, &format!("/vms/{vmid}"), "VM.Audit"))
        .map(|(vmid, guest)| {
            let mut entry = common(world, *vmid, guest);
            if request.flag("full") {
                running_facts(*vmid, guest, &mut entry);
            }
            Value::Object(entry)
        });
    Answer::data(vms.collect())
}

/// What list and status have in common.
fn common(world: &World, vmid: u32, guest: &Guest) -> Map<String, Value> {
    let facts = facts(world, vmid, guest);
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("cpus", json!(facts.cpus));
    put("disk", json!(0));
    put("maxdisk", json!(facts.disk));
    put("maxmem", json!(facts.memory));
    put("mem", json!(0));
    put("name", json!(facts.name));
    put("netin", json!(0));
    put("netout", json!(0));
    put("status", json!(facts.status));
    put("uptime", json!(facts.uptime));
    put("vmid", json!(vmid));
    put("cpu", json!(0));
    match world.release {
        Release::V9_2 => put("memhost", json!(0)),
        Release::V8_4 => {
            put("diskread", json!(0));
            put("diskwrite", json!(0))
        }
    };
    for key in ["lock", "tags"] {
        if let Some(value) = guest.configuration.get(key).filter(|value| *value != " ") {
            put(key, json!(value));
        }
    }
    if guest.configuration.options.keys().any(|key| key.starts_with("serial")) {
        put("serial", json!(1));
    }
    if let Some(running) = &guest.running {
        put("pid", json!(running.pid));
        if world.release == Release::V9_2 {
            pressure(&mut entry);
        }
    }
    entry
}

/// What only the VM's process knows.
fn running_facts(vmid: u32, guest: &Guest, entry: &mut Map<String, Value>) {
    let status = match &guest.running {
        Some(running) if running.paused => "paused",
        Some(_) => "running",
        None => "stopped",
    };
    entry.insert("qmpstatus".to_owned(), json!(status));
    if guest.running.is_some() {
        let mut nics = Map::new();
        for key in guest.configuration.options.keys().filter(|key| key.starts_with("net")) {
            let name = format!("tap{vmid}i{}", key.trim_start_matches("net"));
            nics.insert(name, json!({"netin": 0, "netout": 0}));
        }
        entry.insert("nics".to_owned(), Value::Object(nics));
    }
}

/// `GET /nodes/{node}/qemu/{vmid}/status/current`.
pub fn status(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let mut entry = common(world, vmid, guest);
    running_facts(vmid, guest, &mut entry);
    let agent = Properties::parse(guest.configuration.get("agent").unwrap_or_default());
    if agent.bare().or_else(|| agent.get("enabled")) == Some("1") {
        entry.insert("agent".to_owned(), json!(1));
    }
    if guest.configuration.get("vga").is_some() {
        entry.insert("clipboard".to_owned(), Value::Null);
    }
    let managed = world.ha.get(&format!("vm:{vmid}"));
    let ha = match (managed, world.release) {
        (None, _) => json!({"managed": 0}),
        (Some(_), Release::V9_2) => json!({"managed": 1, "state": null}),
        (Some(options), Release::V8_4) => {
            json!({"managed": 1, "state": null, "group": options.get("group")})
        }
    };
    entry.insert("ha".to_owned(), ha);
    Ok(Answer::data(Value::Object(entry)))
}

/// An option's value as the API types it.
pub(super) fn typed(key: &str, value: &str) -> Value {
    if key == "cipassword" {
        return json!(MASK);
    }
    let number = matches!(
        key,
        "cores"
            | "sockets"
            | "onboot"
            | "numa"
            | "kvm"
            | "balloon"
            | "acpi"
            | "tablet"
            | "template"
            | "ciupgrade"
            | "protection"
            | "shares"
            | "vcpus"
            | "cpuunits"
    );
    match value.parse::<i64>() {
        Ok(parsed) if number => json!(parsed),
        _ => json!(value),
    }
}

/// `GET /nodes/{node}/qemu/{vmid}/config`: what will be, or with `current` what is.
pub fn configuration(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let options = if request.flag("current") {
        guest.configuration.options.clone()
    } else {
        guest.configuration.merged()
    };
    let mut entry: Map<String, Value> =
        options.iter().map(|(key, value)| (key.clone(), typed(key, value))).collect();
    entry.insert("digest".to_owned(), json!(guest.configuration.digest()));
    Ok(Answer::data(Value::Object(entry)))
}

/// `GET /nodes/{node}/qemu/{vmid}/pending`.
pub fn pending(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let configuration = &guest.configuration;
    let keys: std::collections::BTreeSet<&String> =
        configuration.options.keys().chain(configuration.pending.keys()).collect();
    let digest = json!({"key": "digest", "value": configuration.digest()});
    let entries = keys.into_iter().map(|key| {
        let mut entry = BTreeMap::from([("key", json!(key))]);
        if let Some(value) = configuration.get(key) {
            entry.insert("value", typed(key, value));
        }
        if let Some(value) = configuration.pending.get(key) {
            entry.insert("pending", typed(key, value));
        }
        if configuration.pending_delete.contains(key) {
            entry.insert("delete", json!(1));
        }
        json!(entry)
    });
    Ok(Answer::data(entries.chain([digest]).collect()))
}
