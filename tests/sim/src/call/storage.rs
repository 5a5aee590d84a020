//! Storages and what lies on them.

use serde_json::Value;
use serde_json::json;
use sha1::Digest;
use sha1::Sha1;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::drive;
use crate::call::guard;
use crate::call::resources;
use crate::schema::Release;
use crate::schema::parse_volume_id;
use crate::world::Storage;
use crate::world::Volume;
use crate::world::World;
use crate::world::parse_size;

/// `GET /nodes/{node}/storage`, which is `pvesm status`.
pub fn list(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    if let Some(name) = request.get("storage")
        && !world.storages.contains_key(name)
    {
        return Err(Died::parameter("storage", "No such storage."));
    }
    let wanted = |storage: &&Storage| {
        request.get("storage").is_none_or(|name| name == storage.name)
            && request.get("content").is_none_or(|list| {
                !storage.disabled
                    && storage.on(request.node)
                    && list.split([',', ' ']).any(|content| storage.holds(content))
            })
            && (!request.flag("enabled") || !storage.disabled)
            && resources::may_see(world, request.caller, storage)
    };
    let entries = world.storages.values().filter(wanted).map(|storage| {
        let mut entry = entry(storage, request.node);
        let on = !storage.disabled && storage.on(request.node);
        if request.flag("format") && (on || world.release == Release::V9_2) {
            formats(world.release, storage, &mut entry);
        }
        Value::Object(entry)
    });
    Ok(Answer::data(entries.collect()))
}

fn entry(storage: &Storage, node: &str) -> serde_json::Map<String, Value> {
    let enabled = !storage.disabled && storage.on(node);
    let active = enabled && storage.reachable;
    let figure = |kibibytes: u64| if active { kibibytes * 1024 } else { 0 };
    let mut entry = serde_json::Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("storage", json!(storage.name));
    put("type", json!(storage.kind));
    put("content", json!(storage.content.join(",")));
    put("enabled", json!(u8::from(enabled)));
    put("active", json!(u8::from(active)));
    put("shared", json!(u8::from(storage.shared())));
    put("total", json!(figure(storage.total)));
    put("used", json!(figure(storage.used)));
    // A file system keeps some room for root: available is less than total minus used.
    put("avail", json!(figure((storage.total - storage.used) * 29 / 100)));
    if active {
        #[expect(clippy::cast_precision_loss, reason = "a fraction")]
        let fraction = storage.used as f64 / storage.total.max(1) as f64;
        put("used_fraction", json!(fraction));
    }
    entry
}

/// The formats of disks that a storage can hold.
fn formats(release: Release, storage: &Storage, entry: &mut serde_json::Map<String, Value>) {
    let supported: &[&str] = match (storage.keeps_files(), storage.kind.as_str()) {
        (_, "btrfs" | "zfspool") => &["raw", "subvol"],
        (true, _) => &["qcow2", "raw", "subvol", "vmdk"],
        (false, _) => &["raw"],
    };
    let map: serde_json::Map<String, Value> =
        supported.iter().map(|name| ((*name).to_owned(), json!(1))).collect();
    entry.insert("format".to_owned(), json!([map, "raw"]));
    if release == Release::V9_2 {
        let formats = json!({"default": "raw", "supported": supported});
        entry.insert("formats".to_owned(), formats);
    }
}

/// A storage as `storage.cfg` defines it.
fn defined(world: &World, storage: &Storage) -> Value {
    let mut entry = json!({
        "storage": storage.name, "type": storage.kind, "content": storage.content.join(","),
    });
    if let Some(path) = &storage.path {
        entry["path"] = json!(path);
    }
    if storage.disabled {
        entry["disable"] = json!(1);
    }
    if let Some(nodes) = &storage.nodes {
        entry["nodes"] = json!(nodes.join(","));
    }
    for (key, value) in &storage.options {
        entry[key] = json!(value);
    }
    let digest = Sha1::digest(format!("{:?}", world.storages).as_bytes());
    entry["digest"] = json!(hex::encode(digest));
    entry
}

/// `GET /storage`.
pub fn definitions(world: &World, request: Request<'_>) -> Answer {
    let wanted = |storage: &&Storage| {
        request.get("type").is_none_or(|kind| kind == storage.kind)
            && resources::may_see(world, request.caller, storage)
    };
    let storages = world.storages.values().filter(wanted);
    Answer::data(storages.map(|storage| defined(world, storage)).collect())
}

/// `GET /storage/{storage}`.
pub fn definition(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let storage = drive::find_storage(world, request.get("storage").unwrap_or_default())?;
    Ok(Answer::data(defined(world, storage)))
}

/// `GET /nodes/{node}/storage/{storage}/status`.
pub fn status(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("storage").unwrap_or_default();
    let storage =
        world.storages.get(name).ok_or_else(|| Died::parameter("storage", "No such storage."))?;
    let mut entry = entry(storage, request.node);
    entry.remove("storage");
    entry.remove("used_fraction");
    Ok(Answer::data(Value::Object(entry)))
}

/// `GET /nodes/{node}/storage/{storage}/content`, which is `pvesm list`.
pub fn content(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("storage").unwrap_or_default();
    drive::usable_storage(world, request.node, name)?;
    let vmid = request.get("vmid").map(|_| request.vmid);
    let volumes = world
        .volumes
        .iter()
        .filter(|volume| volume.storage == name)
        .filter(|volume| volume.node.as_deref().is_none_or(|owner| owner == request.node))
        .filter(|volume| request.get("content").is_none_or(|content| content == volume.content))
        .filter(|volume| vmid.is_none() || listed_for(volume, vmid));
    let entries = volumes.map(|volume| {
        let mut entry = json!({
            "content": volume.content, "ctime": world.now, "format": volume.format,
            "size": volume.size, "volid": volume.id(),
        });
        if let (Some(entry), Some(vmid)) = (entry.as_object_mut(), volume.vmid) {
            entry.insert("vmid".to_owned(), json!(vmid));
            entry.insert("used".to_owned(), json!(volume.size / 4));
            entry.insert("parent".to_owned(), Value::Null);
        }
        entry
    });
    Ok(Answer::data(entries.collect()))
}

/// The volume in a path, whole or without its storage.
fn named(request: Request<'_>) -> (String, String) {
    let storage = request.get("storage").unwrap_or_default();
    let volume = request.get("volume").unwrap_or_default();
    match parse_volume_id(volume) {
        Some((storage, name)) => (storage.to_owned(), name.to_owned()),
        None => (storage.to_owned(), volume.to_owned()),
    }
}

/// `GET /nodes/{node}/storage/{storage}/content/{volume}`.
pub fn volume(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (storage, name) = named(request);
    let found = drive::usable_storage(world, request.node, &storage)?;
    drive::parse_volume_name(found, &name)?;
    let path = format!("/storage/{storage}");
    let privileges = ["Datastore.Audit", "Datastore.AllocateSpace"];
    guard::require_any(world, request.caller, &path, &privileges)?;
    let missing =
        || Died::new(format!("volume_size_info on '{storage}:{name}' failed - no format"));
    let volume = world.volume(request.node, &storage, &name).ok_or_else(missing)?;
    Ok(Answer::data(json!({
        "format": volume.format, "path": world.path_of(found, &name), "size": volume.size,
        "used": volume.size / 4,
    })))
}

/// `DELETE /nodes/{node}/storage/{storage}/content/{volume}`, whoever still uses it.
pub fn delete(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let (storage, name) = named(request);
    let found = drive::usable_storage(world, request.node, &storage)?;
    drive::parse_volume_name(found, &name)?;
    let path = format!("/storage/{storage}");
    guard::require(world, request.caller, &path, "Datastore.AllocateSpace")?;
    let owner = name.split_once('/').and_then(|(owner, _)| owner.parse::<u32>().ok());
    let id = owner.map_or_else(|| storage.clone(), |vmid| format!("{vmid}@{storage}"));
    let node = request.node.to_owned();
    let upid = world.begin_task(&node, "imgdel", &id, &request.caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        if world.take_volume(&node, &storage, &name).is_none()
            && let Some(found) = world.storages.get(&storage)
        {
            let path = world.path_of(found, &name);
            output.say(format!("disk image '{path}' does not exist"));
        }
        output.say(format!("Removed volume '{storage}:{name}'"));
        Ok(())
    })))
}

/// What a listing for one guest keeps: its own volumes, and of what has no owner all but
/// installation media and container templates.
fn listed_for(volume: &Volume, vmid: Option<u32>) -> bool {
    match volume.vmid {
        Some(_) => volume.vmid == vmid,
        None => !matches!(volume.content.as_str(), "iso" | "vztmpl"),
    }
}

/// `POST /nodes/{node}/storage/{storage}/content`, which is `pvesm alloc`.
pub fn allocate(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("storage").unwrap_or_default();
    let storage = drive::usable_storage(world, request.node, name)?.clone();
    let file = request.get("filename").unwrap_or_default();
    let format = request
        .get("format")
        .or_else(|| file.rsplit_once('.').map(|(_, end)| end))
        .unwrap_or("raw")
        .to_owned();
    let volume_name = match (file, storage.keeps_files()) {
        ("", _) => world.free_disk_name(request.node, &storage, request.vmid, &format),
        (file, true) => format!("{}/{file}", request.vmid),
        (file, false) => file.to_owned(),
    };
    let path = world.path_of(&storage, &volume_name);
    if world.volume(request.node, name, &volume_name).is_some() {
        return Err(Died::new(format!("disk image '{path}' already exists")));
    }
    // A number alone is KiB here.
    let text = request.get("size").unwrap_or_default();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let size = parse_size(&if plain { format!("{text}K") } else { text.to_owned() });
    let size = size.unwrap_or_default();
    let mut output = Output::default();
    drive::say_formatting(&storage, &path, &format, size, &mut output);
    let volume = Volume {
        storage: storage.name,
        node: None,
        name: volume_name,
        content: "images".to_owned(),
        format,
        size,
        vmid: Some(request.vmid),
        imported_from: None,
    };
    let id = volume.id();
    world.put_volume(request.node, volume);
    Ok(Answer { lines: output.lines, ..Answer::data(Value::from(id)) })
}

/// `pvesm free`.
pub fn free(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("volume").unwrap_or_default().to_owned();
    let (storage_name, name) = parse_volume_id(&id)
        .ok_or_else(|| Died::new(format!("unable to parse volume ID '{id}'")))?;
    let storage = drive::usable_storage(world, request.node, storage_name)?.clone();
    drive::parse_volume_name(&storage, name)?;
    let mut output = Output::default();
    if world.take_volume(request.node, storage_name, name).is_none() {
        let path = world.path_of(&storage, name);
        output.say(format!("disk image '{path}' does not exist"));
    }
    output.say(format!("Removed volume '{id}'"));
    Ok(Answer { lines: output.lines, ..Answer::data(Value::Null) })
}

/// `pvesm path`.
pub fn path(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let id = request.get("volume").unwrap_or_default();
    let (storage, name) = parse_volume_id(id)
        .ok_or_else(|| Died::new(format!("unable to parse volume ID '{id}'")))?;
    let storage = drive::find_storage(world, storage)?;
    drive::parse_volume_name(storage, name)?;
    Ok(Answer::data(Value::from(world.path_of(storage, name))))
}

/// `POST /storage`, which is `pvesm add`.
pub fn add(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("storage").unwrap_or_default();
    if world.storages.contains_key(name) {
        let text = format!("storage ID '{name}' already defined");
        return Err(Died::new(format!("create storage failed: {text}")));
    }
    let kind = request.get("type").unwrap_or("dir");
    let mut storage = Storage::new(name, kind, request.get("content").unwrap_or("images"));
    storage.path = request.get("path").map(str::to_owned).or(storage.path);
    set(&mut storage, request);
    world.storages.insert(name.to_owned(), storage);
    Ok(Answer::data(Value::Null))
}

/// `PUT /storage/{storage}`, which is `pvesm set`.
pub fn change(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("storage").unwrap_or_default();
    let missing = || Died::new(format!("update storage failed: storage '{name}' does not exist"));
    let storage = world.storages.get_mut(name).ok_or_else(missing)?;
    set(storage, request);
    for key in request.get("delete").unwrap_or_default().split(',') {
        match key {
            "disable" => storage.disabled = false,
            "nodes" => storage.nodes = None,
            _ => storage.options.retain(|(known, _)| known != key),
        }
    }
    Ok(Answer::data(Value::Null))
}

fn set(storage: &mut Storage, request: Request<'_>) {
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    if let Some(value) = request.get("disable") {
        storage.disabled = value == "1";
    }
    if let Some(content) = request.get("content") {
        storage.content = list(content);
    }
    if let Some(nodes) = request.get("nodes") {
        storage.nodes = Some(list(nodes));
    }
    for key in ["shared", "format", "pool", "vgname", "thinpool", "server", "export"] {
        if let Some(value) = request.get(key) {
            storage.options.retain(|(known, _)| known != key);
            storage.options.push((key.to_owned(), value.to_owned()));
        }
    }
}

/// `DELETE /storage/{storage}`, which is `pvesm remove`.
pub fn remove(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let name = request.get("storage").unwrap_or_default();
    if world.storages.remove(name).is_none() {
        let text = format!("delete storage failed: storage '{name}' does not exist");
        return Err(Died::new(text));
    }
    Ok(Answer::data(Value::Null))
}
