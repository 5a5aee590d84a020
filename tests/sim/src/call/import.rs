//! `qm disk import`: a command without a call behind it.

use crate::call::Answer;
use crate::call::Died;
use crate::call::Request;
use crate::call::Worker;
use crate::call::drive;
use crate::call::drive::Allocated;
use crate::call::drive::Source;
use crate::schema::Properties;
use crate::world::World;
use crate::world::is_disk_slot;

/// Copies an image to a new disk of a VM; `path` is where the file is that `source` names.
pub fn import(world: &mut World, request: Request<'_>, path: &str) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let text = request.get("source").unwrap_or_default();
    let source = drive::path_source(world, text, path);
    let Some(facts) = &source.facts else {
        return Err(Died::exit(format!("{text}: non-existent or non-regular file"), 2));
    };
    let size = facts.virtual_size;
    if drive::source_format(&source.path, facts) == "qcow2" && facts.format != "qcow2" {
        let text = format!("qemu-img: Could not open '{text}': Image is not in qcow2 format");
        return Err(Died::new(text));
    }
    if let Some(lock) = guest.configuration.lock() {
        return Err(Died::new(format!("VM is locked ({lock})")));
    }
    let storage = request.get("storage").unwrap_or_default().to_owned();
    drive::find_storage(world, &storage)?;
    let found = drive::usable_storage(world, node, &storage)?;
    drive::require_images_for_import(found)?;
    let format = request.get("format").unwrap_or("raw").to_owned();
    let slot = match request.get("target-disk") {
        Some(slot) if !is_disk_slot(slot) => {
            return Err(Died::parameter("target-disk", format!("invalid drive key: {slot}")));
        }
        slot => slot.map(str::to_owned),
    };
    Ok(Answer {
        worker: Some(worker(node, vmid, source, storage, format, size, slot)),
        ..Answer::data(serde_json::Value::Null)
    })
}

/// Allocation, one stage for each line of progress, and the entry in the configuration.
fn worker(
    node: &str,
    vmid: u32,
    source: Source,
    storage: String,
    format: String,
    size: u64,
    slot: Option<String>,
) -> Worker {
    let node = node.to_owned();
    let owner = node.clone();
    let made = std::sync::Arc::new(std::sync::OnceLock::<Allocated>::new());
    let kept = made.clone();
    let undone = made.clone();
    let mut worker = Worker::new(String::new()).then(move |world, output| {
        output.say(format!("importing disk '{}' to VM {vmid} ...", source.text));
        let wanted = (storage.as_str(), format.as_str(), size);
        let disk = drive::allocate(world, &node, vmid, wanted, Some(&source.path), output)?;
        drive::imported_effect(world, &node, &source, &disk, output);
        kept.get_or_init(|| disk);
        Ok(())
    });
    for line in drive::progress(size) {
        worker = worker.then(move |_, output| {
            output.say(line);
            Ok(())
        });
    }
    let forget = owner.clone();
    worker
        .then(move |world, output| {
            let id = made.get().map(Allocated::id).unwrap_or_default();
            let missing = || Died::no_configuration(&owner, vmid);
            let guest = world.vm_mut(&owner, vmid).ok_or_else(missing)?;
            let slot = slot.unwrap_or_else(|| guest.configuration.free_unused());
            guest.configuration.options.insert(slot.clone(), id.clone());
            output.say(format!("{slot}: successfully imported disk '{id}'"));
            Ok(())
        })
        .undo(move |world, output| {
            if let Some(disk) = undone.get() {
                drive::free(world, &forget, vmid, &disk.id(), output);
            }
        })
}

/// `qm disk rescan`: sizes that the configuration lacks or has wrong.
pub fn rescan(world: &mut World, request: Request<'_>) -> Answer {
    let mut answer = Answer::data(serde_json::Value::Null);
    let say = |text: String| crate::call::Line { stream: crate::call::Stream::Out, text };
    answer.lines.push(say("rescan volumes...".to_owned()));
    let wanted = request.get("vmid").is_some();
    let mut changes = Vec::new();
    for (vmid, guest) in &world.guests {
        if (wanted && *vmid != request.vmid) || guest.node != request.node {
            continue;
        }
        for (slot, value) in guest.configuration.drives() {
            let drive = Properties::parse(value);
            let Some((storage, name)) = drive.bare().and_then(crate::schema::parse_volume_id)
            else {
                continue;
            };
            let Some(volume) = world.volume(request.node, storage, name) else { continue };
            let old = drive.get("size").unwrap_or("0T").to_owned();
            let new = crate::world::format_size(volume.size);
            if drive.get("media") != Some("cdrom") && old != new {
                let id = volume.id();
                answer.lines.push(say(format!(
                    "VM {vmid} ({slot}): size of disk '{id}' updated from {old} to {new}"
                )));
                let mut drive = drive.clone();
                drive.set("size", &new);
                changes.push((*vmid, slot.to_owned(), drive.sorted().to_string()));
            }
        }
    }
    for (vmid, slot, value) in changes {
        if let Some(guest) = world.guests.get_mut(&vmid) {
            guest.configuration.options.insert(slot, value);
        }
    }
    answer
}

/// `qm unlock`: removes any lock.
pub fn unlock(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm_mut(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    guest.configuration.options.remove("lock");
    Ok(Answer::data(serde_json::Value::Null))
}
