//! `PUT /nodes/{node}/qemu/{vmid}/resize`, which is `qm disk resize`.

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::effect::DiskChange;
use crate::effect::Effect;
use crate::schema::Properties;
use crate::schema::parse_volume_id;
use crate::world::World;
use crate::world::format_size;
use crate::world::parse_size;

/// Grows a disk; every run-time error is the task's, and a command line exits 0 all the same.
pub fn resize(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    let skiplock = request.skiplock()?;
    if world.vm(&node, vmid).is_none() {
        return Err(Died::no_configuration(&node, vmid));
    }
    let disk = request.get("disk").unwrap_or_default().to_owned();
    let size = request.get("size").unwrap_or_default().to_owned();
    let digest = request.get("digest").map(str::to_owned);
    let upid = world.begin_task(&node, "resize", &request.id(), &request.caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        let guest = world.vm(&node, vmid).ok_or_else(|| Died::no_configuration(&node, vmid))?;
        if digest.is_some_and(|digest| digest != guest.configuration.digest()) {
            return Err(Died::new("checksum mismatch (file change by other user?)"));
        }
        if let Some(lock) = guest.configuration.lock()
            && !skiplock
        {
            return Err(Died::new(format!("VM is locked ({lock})")));
        }
        grow(world, &node, vmid, &disk, &size, output)
    })))
}

fn grow(
    world: &mut World,
    node: &str,
    vmid: u32,
    disk: &str,
    size: &str,
    output: &mut Output,
) -> Result<(), Died> {
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let running = guest.running.is_some();
    let Some(value) = guest.configuration.get(disk) else {
        return Err(Died::new(format!("disk '{disk}' does not exist")));
    };
    let mut drive = Properties::parse(value);
    if drive.get("media") == Some("cdrom") {
        return Err(Died::new("you can't resize a cdrom"));
    }
    let id = drive.bare().unwrap_or_default().to_owned();
    let (storage, name) = parse_volume_id(&id)
        .ok_or_else(|| Died::new(format!("unable to parse volume ID '{id}'")))?;
    let old = world
        .volume(node, storage, name)
        .map(|volume| volume.size)
        .ok_or_else(|| Died::new(format!("volume '{id}' does not exist")))?;
    let wanted = match size.strip_prefix('+') {
        Some(more) => parse_size(more).and_then(|more| old.checked_add(more)),
        None => parse_size(size),
    };
    let new = wanted.ok_or_else(|| Died::new(format!("invalid size string '{size}'")))?;
    if new < old {
        return Err(Died::new("shrinking disks is not supported"));
    }
    if new == old {
        return Ok(());
    }
    if let Some(found) = world.storages.get(storage) {
        if found.keeps_files() && !running {
            output.say("Image resized.");
        }
        let format = world.volume(node, storage, name).map(|volume| volume.format.clone());
        output.effect(Effect::Disk(DiskChange::Resized {
            file: world.file_of(node, found, name),
            format: format.unwrap_or_default(),
            size: new,
        }));
    }
    if let Some(volume) = world.volume_mut(node, storage, name) {
        volume.size = new;
    }
    drive.set("size", &format_size(new));
    if let Some(guest) = world.vm_mut(node, vmid) {
        guest.configuration.options.insert(disk.to_owned(), drive.sorted().to_string());
    }
    Ok(())
}
