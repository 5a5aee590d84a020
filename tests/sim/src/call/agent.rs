//! The guest agent: what a VM says of itself.

use std::net::Ipv4Addr;
use std::net::Ipv6Addr;

use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guest_spec;
use crate::schema::Properties;
use crate::world::World;

/// Seconds after a start until the agent answers.
const BOOTING: u64 = 10;

/// Answers the endpoints of the agent.
pub(super) fn dispatch(
    world: &World,
    endpoint: &str,
    request: Request<'_>,
) -> Option<Result<Answer, Died>> {
    let rest = endpoint.split_once("/agent")?.1;
    if endpoint == "GET /nodes/{node}/qemu/{vmid}/agent" {
        return Some(Ok(index()));
    }
    let command = match rest {
        "" => request.get("command")?,
        rest => rest.trim_start_matches('/'),
    };
    let said = said(world, request, command)?;
    Some(reach(world, request).map(|()| Answer::data(json!({"result": said}))))
}

fn index() -> Answer {
    let names = [
        "exec",
        "exec-status",
        "file-read",
        "file-write",
        "fsfreeze-freeze",
        "fsfreeze-status",
        "fsfreeze-thaw",
        "fstrim",
        "get-fsinfo",
        "get-host-name",
        "get-memory-block-info",
        "get-memory-blocks",
        "get-osinfo",
        "get-time",
        "get-timezone",
        "get-users",
        "get-vcpus",
        "info",
        "network-get-interfaces",
        "ping",
        "set-user-password",
        "shutdown",
        "suspend-disk",
        "suspend-hybrid",
        "suspend-ram",
    ];
    Answer::data(names.iter().map(|name| json!({"name": name})).collect())
}

/// The VM must exist, run, have an agent, and have had time to start it.
fn reach(world: &World, request: Request<'_>) -> Result<(), Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let agent = Properties::parse(guest.configuration.get("agent").unwrap_or_default());
    if agent.bare().or_else(|| agent.get("enabled")) != Some("1") {
        return Err(Died::new("No QEMU guest agent configured"));
    }
    let Some(running) = &guest.running else {
        return Err(Died::new(format!("VM {vmid} is not running")));
    };
    if world.now < running.since + BOOTING {
        return Err(Died::new("QEMU guest agent is not running"));
    }
    Ok(())
}

fn said(world: &World, request: Request<'_>, command: &str) -> Option<Value> {
    let guest = world.vm(request.node, request.vmid);
    let options = guest.map(|guest| guest.configuration.merged()).unwrap_or_default();
    let spec = guest_spec(world, request.node, request.vmid, &options);
    Some(match command {
        "ping" => json!({}),
        "get-host-name" => json!({"host-name": spec.hostname}),
        "get-osinfo" => json!({
            "kernel-release": "6.12.117+deb13-cloud-amd64",
            "kernel-version": "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-12)",
            "machine": "x86_64",
        }),
        "info" => json!({"version": "10.0.13", "supported_commands": []}),
        "network-get-interfaces" => {
            let loopback = interface(
                "lo",
                "00:00:00:00:00:00",
                &[(Ipv4Addr::LOCALHOST.to_string(), 8, "ipv4"), ("::1".to_owned(), 128, "ipv6")],
            );
            let mut interfaces = vec![loopback];
            if let Some(mac) = spec.mac.as_deref() {
                let prefix = spec.prefix.unwrap_or(24);
                let address = spec.address.map(|address| (address.to_string(), prefix, "ipv4"));
                let local = link_local(mac).map(|address| (address.to_string(), 64, "ipv6"));
                let addresses: Vec<(String, u8, &str)> = address.into_iter().chain(local).collect();
                interfaces.push(interface("eth0", &mac.to_lowercase(), &addresses));
            }
            json!(interfaces)
        }
        _ => return None,
    })
}

/// The address that a card gives itself.
fn link_local(mac: &str) -> Option<Ipv6Addr> {
    let parts: Result<Vec<u16>, _> =
        mac.split(':').map(|part| u16::from_str_radix(part, 16)).collect();
    let mut parts = parts.ok().filter(|parts| parts.len() == 6)?;
    // The bit that says that the address is a local one is turned over.
    parts[0] ^= 2;
    parts.splice(3..3, [0xff, 0xfe]);
    let pair = |index: usize| parts[index] << 8 | parts[index + 1];
    Some(Ipv6Addr::new(0xfe80, 0, 0, 0, pair(0), pair(2), pair(4), pair(6)))
}

fn interface(name: &str, mac: &str, addresses: &[(String, u8, &str)]) -> Value {
    let addresses: Vec<Value> = addresses
        .iter()
        .map(|(address, prefix, kind)| {
            json!({"ip-address": address, "ip-address-type": kind, "prefix": prefix})
        })
        .collect();
    let mut statistics = json!({});
    for kind in ["bytes", "dropped", "errs", "packets"] {
        for way in ["rx", "tx"] {
            statistics[format!("{way}-{kind}")] = json!(0);
        }
    }
    json!({
        "name": name, "hardware-address": mac, "ip-addresses": addresses,
        "statistics": statistics,
    })
}
