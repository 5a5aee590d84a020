//! `DELETE /nodes/{node}/qemu/{vmid}`, which is `qm destroy`.

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::drive;
use crate::effect::Effect;
use crate::schema::Properties;
use crate::schema::parse_volume_id;
use crate::world::World;

/// Removes a stopped VM and its disks.
pub fn destroy(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let skiplock = request.skiplock()?;
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    if !world.quorate() {
        return Err(Died::new("cluster not ready - no quorum?"));
    }
    let guest = world.vm(&node, vmid).ok_or_else(|| Died::no_configuration(&node, vmid))?;
    if guest.configuration.get("protection") == Some("1") {
        return Err(Died::new(format!("can't remove VM {vmid} - protection mode enabled")));
    }
    let purge = request.flag("purge");
    if world.ha.contains_key(&format!("vm:{vmid}")) && !purge {
        let text = "used in HA resources and purge parameter not set.";
        return Err(Died::new(format!("unable to remove VM {vmid} - {text}")));
    }
    if guest.running.is_some() {
        return Err(Died::exit(format!("VM {vmid} is running - destroy failed"), 25));
    }
    let unreferenced = request.flag("destroy-unreferenced-disks");
    let upid = world.begin_task(&node, "qmdestroy", &request.id(), &request.caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        let guest = world.vm(&node, vmid).ok_or_else(|| Died::no_configuration(&node, vmid))?;
        if let Some(lock) = guest.configuration.lock()
            && !skiplock
        {
            return Err(Died::new(format!("VM is locked ({lock})")));
        }
        if guest.running.is_some() {
            return Err(Died::new(format!("VM {vmid} is running - destroy failed")));
        }
        remove(world, &node, vmid, unreferenced, output);
        if purge {
            output.say(format!("purging VM {vmid} from related configurations.."));
            if world.ha.remove(&format!("vm:{vmid}")).is_some() {
                output.say(format!("NOTE: removed VM {vmid} from HA resource configuration."));
            }
        }
        for pool in world.pools.values_mut() {
            pool.guests.remove(&vmid);
        }
        let path = format!("/vms/{vmid}");
        world.access.grants.retain(|grant| grant.path != path);
        output.effect(Effect::Destroyed { vmid });
        Ok(())
    })))
}

/// Says of a disk that it had gone before.
fn say_missing(world: &World, node: &str, vmid: u32, value: &str, output: &mut Output) {
    let drive = Properties::parse(value);
    let Some((storage, name)) = drive.bare().and_then(parse_volume_id) else { return };
    let Some(found) = world.storages.get(storage) else { return };
    let own = name.split_once('/').is_some_and(|(owner, _)| owner == vmid.to_string());
    if own && world.volume(node, storage, name).is_none() {
        let path = world.path_of(found, name);
        output.say(format!("disk image '{path}' does not exist"));
    }
}

fn remove(world: &mut World, node: &str, vmid: u32, unreferenced: bool, output: &mut Output) {
    let Some(guest) = world.guests.remove(&vmid) else { return };
    let configuration = guest.configuration;
    for (key, value) in configuration.options.iter().chain(&configuration.pending) {
        if crate::world::is_disk_slot(key) || key.starts_with("unused") {
            say_missing(world, node, vmid, value, output);
            drive::free(world, node, vmid, value, output);
        }
    }
    if unreferenced {
        let left: Vec<String> = world
            .volumes
            .iter()
            .filter(|volume| volume.vmid == Some(vmid) && volume.content == "images")
            .filter(|volume| volume.node.as_deref().is_none_or(|owner| owner == node))
            .map(crate::world::Volume::id)
            .collect();
        for id in left {
            drive::free(world, node, vmid, &id, output);
        }
    }
}
