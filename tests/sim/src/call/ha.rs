//! The HA manager's resources; the manager itself never gets past queueing.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::json;
use sha1::Digest;
use sha1::Sha1;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::cluster::items;
use crate::schema::Release;
use crate::world::World;

/// `vm:110` for `110` too.
fn sid(request: Request<'_>) -> String {
    let text = request.get("sid").unwrap_or_default();
    if text.contains(':') { text.to_owned() } else { format!("vm:{text}") }
}

fn digest(world: &World) -> String {
    hex::encode(Sha1::digest(format!("{:?}", world.ha).as_bytes()))
}

fn entry(world: &World, sid: &str, options: &BTreeMap<String, String>) -> Value {
    let kind = sid.split(':').next().unwrap_or_default();
    let mut entry = json!({"sid": sid, "type": kind, "digest": digest(world)});
    for (key, value) in options {
        entry[key] = match value.parse::<i64>() {
            Ok(number) if key.starts_with("max_") || key == "failback" => json!(number),
            _ => json!(value),
        };
    }
    entry
}

pub(super) fn list(world: &World, request: Request<'_>) -> Answer {
    let wanted = |sid: &str| request.get("type").is_none_or(|kind| sid.starts_with(kind));
    let entries = world.ha.iter().filter(|(sid, _)| wanted(sid));
    Answer::data(entries.map(|(sid, options)| entry(world, sid, options)).collect())
}

pub(super) fn get(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    let missing = || Died::new(format!("no such resource '{sid}'"));
    let options = world.ha.get(&sid).ok_or_else(missing)?;
    Ok(Answer::data(entry(world, &sid, options)))
}

fn set(options: &mut BTreeMap<String, String>, request: Request<'_>) {
    for (key, value) in request.parameters {
        if !matches!(key.as_str(), "sid" | "digest" | "delete" | "type") {
            options.insert(key.clone(), value.clone());
        }
    }
    for key in items(request.get("delete").unwrap_or_default()) {
        options.remove(key);
    }
}

pub(super) fn add(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    let vmid = sid.split_once(':').and_then(|(_, vmid)| vmid.parse::<u32>().ok());
    if !vmid.is_some_and(|vmid| world.guests.contains_key(&vmid)) {
        return Err(Died::new(format!("resource '{sid}' does not exist in cluster")));
    }
    if world.ha.contains_key(&sid) {
        let text = format!("resource ID '{sid}' already defined");
        return Err(Died::new(format!("create resource failed: {text}")));
    }
    set(world.ha.entry(sid).or_default(), request);
    Ok(Answer::data(Value::Null))
}

pub(super) fn change(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    let missing = || Died::new(format!("no such resource '{sid}'"));
    set(world.ha.get_mut(&sid).ok_or_else(missing)?, request);
    Ok(Answer::data(Value::Null))
}

pub(super) fn remove(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    if world.ha.remove(&sid).is_none() {
        return Err(Died::new(format!("cannot delete service '{sid}', not HA managed!")));
    }
    Ok(Answer::data(Value::Null))
}

pub(super) fn migrate(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    if !world.ha.contains_key(&sid) {
        return Err(Died::new(format!("resource '{sid}' is not HA managed")));
    }
    let node = request.get("node").unwrap_or_default();
    Ok(Answer::data(match world.release {
        Release::V9_2 => json!({"requested-node": node, "sid": sid}),
        Release::V8_4 => Value::Null,
    }))
}

pub(super) fn status(world: &World) -> Answer {
    let main = &world.main_node;
    let quorate = u8::from(world.quorate());
    let status = if world.quorate() { "OK" } else { "No quorum on node!" };
    let new = world.release == Release::V9_2;
    let mut entries = vec![json!({
        "id": "quorum", "node": main, "quorate": quorate, "status": status, "type": "quorum",
    })];
    if new {
        entries.push(json!({
            "id": "fencing", "node": main, "status": "standby (CRM watchdog standby)",
            "type": "fencing", "armed-state": "standby",
        }));
    }
    for (sid, options) in &world.ha {
        let vmid = sid.split_once(':').and_then(|(_, vmid)| vmid.parse::<u32>().ok());
        let guest = vmid.and_then(|vmid| world.guests.get(&vmid));
        let node = guest.map_or(main, |guest| &guest.node);
        let get = |key: &str, default: &str| {
            options.get(key).map_or_else(|| default.to_owned(), String::clone)
        };
        let number = |key: &str| get(key, "1").parse::<u32>().unwrap_or(1);
        let mut entry = json!({
            "id": format!("service:{sid}"), "sid": sid, "node": node, "type": "service",
            "state": "queued", "request_state": get("state", "started"),
            "status": format!("{sid} ({node}, queued)"),
            "max_relocate": number("max_relocate"), "max_restart": number("max_restart"),
        });
        if new {
            entry["failback"] = json!(number("failback"));
        }
        if let Some(comment) = options.get("comment") {
            entry["comment"] = json!(comment);
        }
        entries.push(entry);
    }
    Answer::data(Value::Array(entries))
}
