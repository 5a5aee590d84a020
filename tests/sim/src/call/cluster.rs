//! What belongs to the whole cluster: its options and pools.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::guard;
use crate::call::ha;
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
        "GET /cluster/ha/resources" => Ok(ha::list(world, request)),
        "POST /cluster/ha/resources" => ha::add(world, request),
        "GET /cluster/ha/resources/{sid}" => ha::get(world, request),
        "PUT /cluster/ha/resources/{sid}" => ha::change(world, request),
        "DELETE /cluster/ha/resources/{sid}" => ha::remove(world, request),
        "POST /cluster/ha/resources/{sid}/migrate" => ha::migrate(world, request),
        "GET /cluster/ha/status/current" => Ok(ha::status(world)),
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

/// A file of the cluster is changed only with quorum.
fn locked(world: &World, doing: &str, file: &str) -> Result<(), Died> {
    if world.quorate() {
        return Ok(());
    }
    Err(Died::new(format!("{doing}cfs-lock 'file-{file}' error: no quorum!")))
}

/// The items of a list.
pub(super) fn items(text: &str) -> Vec<&str> {
    text.split([';', ',', ' ']).filter(|item| !item.is_empty()).collect()
}

/// Tags that a caller may give to a guest, by the cluster's rules.
fn allowed_tags(world: &World, request: Request<'_>) -> Vec<String> {
    let access = Properties::parse(world.options.get("user-tag-access").map_or("", String::as_str));
    let mode = access.get("user-allow").unwrap_or("free");
    let privileged = guard::has(world, request.caller, "/", "Sys.Modify");
    let mut tags = items(access.get("user-allow-list").unwrap_or_default());
    if privileged || matches!(mode, "existing" | "free") {
        let seen = world.guests.iter().filter(|(vmid, _)| {
            guard::has(world, request.caller, &format!("/vms/{vmid}"), "VM.Audit")
        });
        tags.extend(seen.filter_map(|(_, guest)| guest.configuration.get("tags")).flat_map(items));
    }
    let registered = items(world.options.get("registered-tags").map_or("", String::as_str));
    if privileged {
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
    let registered = items(world.options.get("registered-tags").map_or("", String::as_str));
    let (old, new) = (items(old), items(new));
    let changed = old.iter().filter(|tag| !new.contains(tag));
    let mut changed = changed.chain(new.iter().filter(|tag| !old.contains(tag)));
    match changed.find(|tag| registered.contains(tag)) {
        Some(tag) => Err(guard::forbidden(&format!("/, Sys.Modify for modifying tag '{tag}'"))),
        None => Ok(()),
    }
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
        "registered-tags" => json!(items(text)),
        "tag-style" | "user-tag-access" | "migration" | "next-id" | "ha" | "crs" => {
            let pairs = Properties::parse(text);
            let pairs = pairs.pairs().map(|(key, value)| {
                let value = match key {
                    "user-allow-list" => json!(items(value)),
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
    locked(world, "", "datacenter_cfg")?;
    for (key, value) in request.parameters.iter().filter(|(key, _)| *key != "delete") {
        world.options.insert(key.clone(), value.clone());
    }
    for key in items(request.get("delete").unwrap_or_default()) {
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
fn pool_id(request: Request<'_>) -> &str {
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
    let seen = world
        .pools
        .keys()
        .filter(|id| guard::has(world, request.caller, &format!("/pool/{id}"), "Pool.Audit"));
    let entries: Result<Vec<Value>, Died> = seen.map(|id| described(world, id, false)).collect();
    Ok(Answer::data(Value::Array(entries?)))
}

fn pool(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    described(world, pool_id(request), true).map(Answer::data)
}

fn add_pool(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "create pool failed: ", "user_cfg")?;
    let id = pool_id(request);
    if world.pools.contains_key(id) {
        return Err(Died::new(format!("create pool failed: pool '{id}' already exists")));
    }
    let pool = world.pools.entry(id.to_owned()).or_default();
    pool.comment = request.get("comment").map(str::to_owned);
    Ok(Answer::data(Value::Null))
}

fn change_pool(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "update pools failed: ", "user_cfg")?;
    let id = pool_id(request);
    find(world, id)?;
    let gone = request.flag("delete");
    let guests: Vec<u32> = items(request.get("vms").unwrap_or_default())
        .into_iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    for vmid in &guests {
        if !world.guests.contains_key(vmid) {
            return Err(Died::new(format!("update pool failed: VM {vmid} does not exist")));
        }
    }
    let storages = items(request.get("storage").unwrap_or_default());
    if let Some(pool) = world.pools.get_mut(id) {
        if let Some(comment) = request.get("comment") {
            pool.comment = Some(comment.to_owned());
        }
        for vmid in guests {
            if gone {
                pool.guests.remove(&vmid)
            } else {
                pool.guests.insert(vmid)
            };
        }
        for name in storages {
            if gone {
                pool.storages.remove(name)
            } else {
                pool.storages.insert(name.to_owned())
            };
        }
    }
    Ok(Answer::data(Value::Null))
}

fn remove_pool(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    locked(world, "delete pool failed: ", "user_cfg")?;
    let id = pool_id(request);
    let pool = find(world, id)?;
    if !pool.guests.is_empty() || !pool.storages.is_empty() {
        return Err(Died::new(format!("delete pool failed: pool '{id}' is not empty")));
    }
    world.pools.remove(id);
    Ok(Answer::data(Value::Null))
}
