//! What belongs to the whole cluster: its options, pools and the HA manager's resources.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::call::resources;
use crate::schema::Properties;
use crate::schema::Release;
use crate::world::World;

/// Answers the endpoints of the cluster.
pub(super) fn dispatch(
    world: &mut World,
    endpoint: &str,
    request: Request<'_>,
) -> Option<Result<Answer, Died>> {
    Some(match endpoint {
        "GET /cluster/options" => Ok(options(world, request)),
        "PUT /cluster/options" => set_options(world, request),
        "GET /cluster/config/nodes" => Ok(members(world)),
        "GET /pools" => pools(world, request),
        "POST /pools" => add_pool(world, request),
        "GET /pools/{poolid}" => pool(world, request),
        "PUT /pools" | "PUT /pools/{poolid}" => change_pool(world, request),
        "DELETE /pools" | "DELETE /pools/{poolid}" => remove_pool(world, request),
        "GET /cluster/ha/resources" => Ok(ha_list(world, request)),
        "POST /cluster/ha/resources" => ha_add(world, request),
        "GET /cluster/ha/resources/{sid}" => ha_get(world, request),
        "PUT /cluster/ha/resources/{sid}" => ha_change(world, request),
        "DELETE /cluster/ha/resources/{sid}" => ha_remove(world, request),
        "POST /cluster/ha/resources/{sid}/migrate" => ha_migrate(world, request),
        "GET /cluster/ha/status/current" => Ok(ha_status(world)),
        "GET /cluster/ha/groups" => match world.release {
            Release::V9_2 => {
                Err(Died::new("cannot index groups: ha groups have been migrated to rules"))
            }
            Release::V8_4 => Ok(Answer::data(json!([]))),
        },
        "GET /cluster/ha/rules" if world.release == Release::V9_2 => Ok(Answer::data(json!([]))),
        _ => return None,
    })
}

fn locked(world: &World, file: &str) -> Result<(), Died> {
    if world.quorate() {
        return Ok(());
    }
    Err(Died::new(format!("cfs-lock 'file-{file}' error: no quorum!")))
}

fn list(text: &str) -> Vec<&str> {
    text.split([';', ',', ' ']).filter(|item| !item.is_empty()).collect()
}

/// Tags that a caller may give to a guest, by the cluster's rules.
fn allowed_tags(world: &World, request: Request<'_>) -> Vec<String> {
    let access = Properties::parse(world.options.get("user-tag-access").map_or("", String::as_str));
    let mut tags: Vec<&str> = match access.get("user-allow").unwrap_or("free") {
        "list" => list(access.get("user-allow-list").unwrap_or_default()),
        "existing" | "free" => world
            .guests
            .values()
            .filter_map(|guest| guest.configuration.get("tags"))
            .flat_map(list)
            .collect(),
        _ => Vec::new(),
    };
    let registered = list(world.options.get("registered-tags").map_or("", String::as_str));
    if guard::has(world, request.caller, "/", "Sys.Modify") {
        tags.extend(&registered);
    } else {
        tags.retain(|tag| !registered.contains(tag));
    }
    tags.sort_unstable();
    tags.dedup();
    tags.into_iter().map(str::to_owned).collect()
}

/// Refuses tags that only an administrator may give or take.
pub(super) fn check_tags(world: &World, request: Request<'_>, old: &str) -> Result<(), Died> {
    let Some(new) = request.get("tags") else { return Ok(()) };
    if guard::has(world, request.caller, "/", "Sys.Modify") {
        return Ok(());
    }
    let registered = list(world.options.get("registered-tags").map_or("", String::as_str));
    let (old, new) = (list(old), list(new));
    let changed = old.iter().filter(|tag| !new.contains(tag));
    let changed = changed.chain(new.iter().filter(|tag| !old.contains(tag)));
    for tag in changed.filter(|tag| registered.contains(tag)) {
        return Err(guard::forbidden(&format!("/, Sys.Modify for modifying tag '{tag}'")));
    }
    Ok(())
}

fn options(world: &World, request: Request<'_>) -> Answer {
    let mut data = Map::new();
    let all = guard::has(world, request.caller, "/", "Sys.Audit");
    let mut stored = world.options.clone();
    if all {
        stored.entry("description".to_owned()).or_default();
        stored.entry("mac_prefix".to_owned()).or_insert_with(|| "BC:24:11".to_owned());
    }
    for (key, text) in stored {
        let shown = all || key == "tag-style";
        if shown {
            data.insert(key.clone(), option(&key, &text));
        }
    }
    data.insert("allowed-tags".to_owned(), json!(allowed_tags(world, request)));
    Answer::data(Value::Object(data))
}

/// An option as it is shown: some are taken apart.
fn option(key: &str, text: &str) -> Value {
    match key {
        "registered-tags" => json!(list(text)),
        "tag-style" | "user-tag-access" | "migration" | "next-id" | "ha" | "crs" => {
            let pairs = Properties::parse(text);
            let pairs = pairs.pairs().map(|(key, value)| {
                let value = match key {
                    "user-allow-list" => json!(list(value)),
                    _ => json!(value),
                };
                (key.to_owned(), value)
            });
            pairs.collect()
        }
        _ => json!(text),
    }
}

fn set_options(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "datacenter_cfg")?;
    for (key, value) in request.parameters.iter().filter(|(key, _)| *key != "delete") {
        world.options.insert(key.clone(), value.clone());
    }
    for key in list(request.get("delete").unwrap_or_default()) {
        world.options.remove(key);
    }
    Ok(Answer::data(Value::Null))
}

fn members(world: &World) -> Answer {
    if world.cluster.is_none() {
        return Answer::data(json!([]));
    }
    let entries = world.nodes.iter().map(|(name, node)| {
        json!({
            "name": name, "node": name, "nodeid": node.id.to_string(), "quorum_votes": "1",
            "ring0_addr": node.address,
        })
    });
    Answer::data(entries.collect())
}

/// The id in the path or, in newer calls, among the parameters.
fn pool_id<'a>(request: Request<'a>) -> &'a str {
    request.parameters.get("poolid").map_or("", String::as_str)
}

fn find<'a>(world: &'a World, id: &str) -> Result<&'a crate::world::Pool, Died> {
    world.pools.get(id).ok_or_else(|| Died::new(format!("pool '{id}' does not exist")))
}

fn described(world: &World, id: &str, with_members: bool) -> Result<Value, Died> {
    let pool = find(world, id)?;
    let mut entry = json!({"poolid": id});
    if let Some(comment) = &pool.comment {
        entry["comment"] = json!(comment);
    }
    if with_members {
        let guests = pool.guests.iter().filter_map(|vmid| {
            let mut entry = resources::vm(world, *vmid, world.guests.get(vmid)?);
            if let Some(entry) = entry.as_object_mut() {
                entry.retain(|key, _| !matches!(key.as_str(), "tags" | "hastate" | "lock"));
            }
            Some(entry)
        });
        let storages = pool.storages.iter().filter_map(|name| {
            Some(resources::storage(world.storages.get(name)?, &world.main_node))
        });
        entry["members"] = guests.chain(storages).collect();
    }
    Ok(entry)
}

fn pools(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    if !pool_id(request).is_empty() {
        let id = pool_id(request);
        guard::require(world, request.caller, &format!("/pool/{id}"), "Pool.Audit")?;
        return Ok(Answer::data(json!([described(world, id, true)?])));
    }
    let seen = world.pools.keys().filter(|id| {
        guard::has(world, request.caller, &format!("/pool/{id}"), "Pool.Audit")
    });
    let entries: Result<Vec<Value>, Died> = seen.map(|id| described(world, id, false)).collect();
    Ok(Answer::data(Value::Array(entries?)))
}

fn pool(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    described(world, pool_id(request), true).map(Answer::data)
}

fn add_pool(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "user_cfg")?;
    let id = pool_id(request);
    if world.pools.contains_key(id) {
        return Err(Died::new(format!("create pool failed: pool '{id}' already exists")));
    }
    let pool = world.pools.entry(id.to_owned()).or_default();
    pool.comment = request.get("comment").map(str::to_owned);
    Ok(Answer::data(Value::Null))
}

fn change_pool(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "user_cfg")?;
    let id = pool_id(request);
    find(world, id)?;
    let gone = request.flag("delete");
    let guests: Vec<u32> = list(request.get("vms").unwrap_or_default())
        .into_iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    for vmid in &guests {
        if !world.guests.contains_key(vmid) {
            return Err(Died::new(format!("update pool failed: VM {vmid} does not exist")));
        }
    }
    let storages = list(request.get("storage").unwrap_or_default());
    if let Some(pool) = world.pools.get_mut(id) {
        if let Some(comment) = request.get("comment") {
            pool.comment = Some(comment.to_owned());
        }
        for vmid in guests {
            if gone { pool.guests.remove(&vmid) } else { pool.guests.insert(vmid) };
        }
        for name in storages {
            if gone { pool.storages.remove(name) } else { pool.storages.insert(name.to_owned()) };
        }
    }
    Ok(Answer::data(Value::Null))
}

fn remove_pool(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "user_cfg")?;
    let id = pool_id(request);
    let pool = find(world, id)?;
    if !pool.guests.is_empty() || !pool.storages.is_empty() {
        return Err(Died::new(format!("delete pool failed: pool '{id}' is not empty")));
    }
    world.pools.remove(id);
    Ok(Answer::data(Value::Null))
}

/// `vm:110` for `110` too.
fn sid(request: Request<'_>) -> String {
    let text = request.get("sid").unwrap_or_default();
    if text.contains(':') { text.to_owned() } else { format!("vm:{text}") }
}

fn ha_digest(world: &World) -> String {
    use sha1::Digest;
    hex::encode(sha1::Sha1::digest(format!("{:?}", world.ha).as_bytes()))
}

fn ha_entry(world: &World, sid: &str, options: &BTreeMap<String, String>) -> Value {
    let kind = sid.split(':').next().unwrap_or_default();
    let mut entry = json!({"sid": sid, "type": kind, "digest": ha_digest(world)});
    for (key, value) in options {
        entry[key] = match value.parse::<i64>() {
            Ok(number) if key.starts_with("max_") || key == "failback" => json!(number),
            _ => json!(value),
        };
    }
    entry
}

fn ha_list(world: &World, request: Request<'_>) -> Answer {
    let wanted = |sid: &str| request.get("type").is_none_or(|kind| sid.starts_with(kind));
    let entries = world.ha.iter().filter(|(sid, _)| wanted(sid));
    Answer::data(entries.map(|(sid, options)| ha_entry(world, sid, options)).collect())
}

fn ha_get(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    let missing = || Died::new(format!("no such resource '{sid}'"));
    let options = world.ha.get(&sid).ok_or_else(missing)?;
    Ok(Answer::data(ha_entry(world, &sid, options)))
}

fn ha_set(options: &mut BTreeMap<String, String>, request: Request<'_>) {
    for (key, value) in request.parameters {
        if !matches!(key.as_str(), "sid" | "digest" | "delete" | "type") {
            options.insert(key.clone(), value.clone());
        }
    }
    for key in list(request.get("delete").unwrap_or_default()) {
        options.remove(key);
    }
}

fn ha_add(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    let vmid = sid.split_once(':').and_then(|(_, vmid)| vmid.parse::<u32>().ok());
    if !vmid.is_some_and(|vmid| world.guests.contains_key(&vmid)) {
        return Err(Died::new(format!("resource '{sid}' does not exist in cluster")));
    }
    if world.ha.contains_key(&sid) {
        let text = format!("resource ID '{sid}' already defined");
        return Err(Died::new(format!("create resource failed: {text}")));
    }
    ha_set(world.ha.entry(sid).or_default(), request);
    Ok(Answer::data(Value::Null))
}

fn ha_change(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    let missing = || Died::new(format!("no such resource '{sid}'"));
    ha_set(world.ha.get_mut(&sid).ok_or_else(missing)?, request);
    Ok(Answer::data(Value::Null))
}

fn ha_remove(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    if world.ha.remove(&sid).is_none() {
        return Err(Died::new(format!("cannot delete service '{sid}', not HA managed!")));
    }
    Ok(Answer::data(Value::Null))
}

fn ha_migrate(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let sid = sid(request);
    if !world.ha.contains_key(&sid) {
        return Err(Died::new(format!("cannot migrate service '{sid}', not HA managed!")));
    }
    let node = request.get("node").unwrap_or_default();
    Ok(Answer::data(match world.release {
        Release::V9_2 => json!({"requested-node": node, "sid": sid}),
        Release::V8_4 => Value::Null,
    }))
}

/// The manager never gets past queueing.
fn ha_status(world: &World) -> Answer {
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
