//! What a VM's cloud-init drive says.

use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::list::typed;
use crate::call::seed::seed;
use crate::world::World;

/// `GET /nodes/{node}/qemu/{vmid}/cloudinit`: what the cloud-init drive holds, and what it will.
pub fn get(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let configuration = &guest.configuration;
    let held = &configuration.options;
    let mut entries = Vec::new();
    for key in ["ciuser", "cipassword", "sshkeys", "searchdomain", "nameserver"] {
        let (held, wanted) = (held.get(key).map(String::as_str), configuration.wanted(key));
        let mut entry = json!({"key": key});
        match (held, wanted) {
            (None, None) => continue,
            (held, wanted) => {
                if let Some(held) = held {
                    entry["value"] = typed(key, held);
                }
                if let Some(wanted) = wanted.filter(|wanted| held != Some(wanted)) {
                    entry["pending"] = typed(key, wanted);
                }
            }
        }
        entries.push(entry);
    }
    Ok(Answer::data(Value::Array(entries)))
}

/// `GET /nodes/{node}/qemu/{vmid}/cloudinit/dump`.
pub fn dump(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let seed = seed(vmid, &guest.configuration.merged());
    Ok(Answer::data(json!(match request.get("type") {
        Some("network") => seed.network_config,
        Some("meta") => seed.meta_data,
        _ => seed.user_data,
    })))
}

/// `PUT /nodes/{node}/qemu/{vmid}/cloudinit`.
pub fn regenerate(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let text = "generating cloud-init ISO".to_owned();
    let line = crate::call::Line { stream: crate::call::Stream::Out, text };
    Ok(Answer { lines: vec![line], ..Answer::data(Value::Null) })
}
