//! What belongs to one node: networks, capabilities, clocks.

use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::call::list;
use crate::schema;
use crate::schema::Release;
use crate::world::World;

/// Answers the endpoints of a node.
pub(super) fn dispatch(
    world: &World,
    endpoint: &str,
    request: Request<'_>,
) -> Option<Result<Answer, Died>> {
    let new = world.release == Release::V9_2;
    Some(match endpoint {
        "GET /nodes/{node}/version" => Ok(list::version(world)),
        "GET /nodes/{node}/time" => Ok(Answer::data(json!({
            "localtime": world.now, "time": world.now, "timezone": "Etc/UTC",
        }))),
        "GET /nodes/{node}/dns" => {
            Ok(Answer::data(json!({"dns1": "127.0.0.1", "search": "test.local"})))
        }
        "GET /nodes/{node}/subscription" => Ok(Answer::data(json!({
            "message": "There is no subscription key", "serverid": null, "status": "notfound",
            "url": "https://www.proxmox.com/en/proxmox-virtual-environment/pricing",
        }))),
        "GET /nodes/{node}/network" => Ok(networks(world, request)),
        "GET /nodes/{node}/network/{iface}" => network(world, request),
        "GET /nodes/{node}/capabilities/qemu" => Ok(Answer::data(
            ["cpu", "machines", "cpu-flags", "migration"]
                .iter()
                .take(if new { 4 } else { 2 })
                .map(|name| json!({"name": name}))
                .collect(),
        )),
        "GET /nodes/{node}/capabilities/qemu/cpu" => Ok(processors()),
        "GET /nodes/{node}/capabilities/qemu/machines" => Ok(machines(world)),
        "GET /nodes/{node}/capabilities/qemu/migration" if new => {
            Ok(Answer::data(json!({"has-dbus-vmstate": true})))
        }
        _ => return None,
    })
}

/// The bridge and its port, as every simulated node has them.
fn interfaces(world: &World, node: &str) -> Vec<(&'static str, Value)> {
    let Some(node) = world.nodes.get(node) else { return Vec::new() };
    let [first, second, third, _] = node.address.octets();
    let bridge = json!({
        "active": 1, "address": node.address, "autostart": 1, "bridge_fd": "0",
        "bridge_ports": "eth0", "bridge_stp": "off", "cidr": format!("{}/24", node.address),
        "families": ["inet"], "gateway": format!("{first}.{second}.{third}.254"),
        "method": "static", "method6": "manual", "netmask": "24", "priority": 4,
        "type": "bridge",
    });
    let port = json!({
        "families": ["inet"], "method": "manual", "method6": "manual", "priority": 3,
        "type": "eth",
    });
    vec![("vmbr0", bridge), ("eth0", port)]
}

/// Bridges are shown to those who may use or look at them.
fn networks(world: &World, request: Request<'_>) -> Answer {
    let wanted = |kind: &str| match request.get("type") {
        None => true,
        Some("any_bridge" | "any_local_bridge" | "include_sdn") => kind == "bridge",
        Some(wanted) => wanted == kind,
    };
    let seen = |name: &str, kind: &str| {
        let path = format!("/sdn/zones/localnetwork/{name}");
        kind != "bridge"
            || ["SDN.Audit", "SDN.Use"]
                .iter()
                .any(|privilege| guard::has(world, request.caller, &path, privilege))
    };
    let entries = interfaces(world, request.node).into_iter().filter_map(|(name, mut entry)| {
        let kind = entry["type"].as_str().unwrap_or_default().to_owned();
        entry["iface"] = json!(name);
        (wanted(&kind) && seen(name, &kind)).then_some(entry)
    });
    Answer::data(entries.collect())
}

fn network(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let wanted = request.get("iface").unwrap_or_default();
    let found = interfaces(world, request.node).into_iter().find(|(name, _)| *name == wanted);
    let missing = || Died::parameter("iface", "interface does not exist");
    found.map(|(_, entry)| Answer::data(entry)).ok_or_else(missing)
}

fn processors() -> Answer {
    let entries = schema::cpu_models().map(|name| {
        let intel =
            ["Westmere", "Nehalem", "Penryn", "Conroe", "Knights", "core", "pentium", "486"];
        let intel = intel.iter().any(|start| name.starts_with(start))
            || ["well", "lake", "Bridge", "Rapids"].iter().any(|part| name.contains(part));
        let amd = ["EPYC", "Opteron", "athlon", "phenom"];
        let vendor = if intel {
            "GenuineIntel"
        } else if amd.iter().any(|start| name.starts_with(start)) {
            "AuthenticAMD"
        } else {
            "default"
        };
        json!({"name": name, "custom": 0, "vendor": vendor})
    });
    Answer::data(entries.collect())
}

fn machines(world: &World) -> Answer {
    let versions: &[&str] = match world.release {
        Release::V9_2 => &["10.2", "10.1", "10.0+pve1", "10.0", "9.2+pve1", "9.2", "9.0", "8.2"],
        Release::V8_4 => &["9.2+pve1", "9.2", "9.1", "9.0", "8.2", "8.1", "8.0"],
    };
    let entries = versions.iter().flat_map(|version| {
        [("i440fx", "pc-i440fx"), ("q35", "pc-q35")].map(|(kind, start)| {
            json!({"id": format!("{start}-{version}"), "type": kind, "version": version})
        })
    });
    Answer::data(entries.collect())
}
