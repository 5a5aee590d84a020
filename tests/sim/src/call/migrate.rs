//! `POST /nodes/{node}/qemu/{vmid}/migrate`, which is `qm migrate`.

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::drive;
use crate::effect::DiskChange;
use crate::effect::Effect;
use crate::schema::Properties;
use crate::schema::Release;
use crate::schema::parse_volume_id;
use crate::world::Guest;
use crate::world::World;

/// Moves a VM to another node.
pub fn migrate(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node.to_owned(), request.vmid);
    let target = request.get("target").unwrap_or_default().to_owned();
    if target == node {
        return Err(Died::parameter("target", "target is local node."));
    }
    if !world.quorate() {
        return Err(Died::new("cluster not ready - no quorum?"));
    }
    if !world.nodes.contains_key(&target) {
        return Err(Died::new(format!("no such cluster node '{target}'")));
    }
    let guest = world.vm(&node, vmid).ok_or_else(|| Died::no_configuration(&node, vmid))?;
    if let Some(lock) = guest.configuration.lock() {
        return Err(Died::new(format!("VM is locked ({lock})")));
    }
    let online = request.flag("online");
    if guest.running.is_some() && !online {
        return Err(Died::new("can't migrate running VM without --online"));
    }
    let aimed = request.get("targetstorage").filter(|storage| *storage != "1").map(str::to_owned);
    match &aimed {
        Some(storage) => drop(drive::usable_storage(world, &target, storage)?),
        None => {
            for (storage, _) in volumes(guest) {
                drive::usable_storage(world, &target, &storage)?;
            }
        }
    }
    let with_disks = request.flag("with-local-disks");
    let upid = world.begin_task(&node, "qmigrate", &request.id(), &request.caller.user);
    let (from, to) = (node, target);
    let (owner, aim) = (from.clone(), to.clone());
    Ok(Answer::worker(
        Worker::new(upid)
            .then(move |world, output| {
                let clock = clock(world.now);
                let Some(there) = world.nodes.get(&to).filter(|there| there.online) else {
                    let text = "Can't connect to destination address using public key";
                    output.say(format!(
                        "{clock} ERROR: migration aborted (duration 00:00:00): {text}"
                    ));
                    return Err(Died::new("migration aborted"));
                };
                let address = there.address;
                output.say(format!(
                    "{clock} starting migration of VM {vmid} to node '{to}' ({address})"
                ));
                if let Some(guest) = world.guests.get_mut(&vmid) {
                    guest.configuration.options.insert("lock".to_owned(), "migrate".to_owned());
                }
                find_disks(world, &from, vmid, with_disks, output)
            })
            .then(move |world, output| {
                let clock = clock(world.now);
                move_disks(world, &owner, &aim, vmid, aimed.as_deref(), output);
                if let Some(guest) = world.guests.get_mut(&vmid) {
                    guest.node.clone_from(&aim);
                    guest.configuration.options.remove("lock");
                }
                output.say(format!("{clock} migration finished successfully (duration 00:00:01)"));
                Ok(())
            })
            .undo(move |world, _| {
                if let Some(guest) = world.guests.get_mut(&vmid) {
                    guest.configuration.options.remove("lock");
                }
            }),
    ))
}

/// `GET /nodes/{node}/qemu/{vmid}/migrate`: where a VM could go, and what holds it.
pub fn precheck(world: &World, request: Request<'_>) -> Result<Answer, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    let mut disks = Vec::new();
    for (slot, value) in &guest.configuration.options {
        let unused = slot.starts_with("unused");
        if !crate::world::is_disk_slot(slot) && !unused {
            continue;
        }
        let drive = Properties::parse(value);
        let Some((storage, name)) = drive.bare().and_then(parse_volume_id) else { continue };
        if world.storages.get(storage).is_some_and(crate::world::Storage::shared) {
            continue;
        }
        let size = drive.get("size").and_then(crate::world::parse_size);
        let size = size.or_else(|| world.volume(node, storage, name).map(|volume| volume.size));
        let cloud_init = name.contains("-cloudinit");
        let mut disk = json!({
            "cdrom": u8::from(drive.get("media") == Some("cdrom")), "drivename": slot,
            "is_attached": u8::from(!unused), "is_tpmstate": u8::from(slot == "tpmstate0"),
            "is_unused": u8::from(unused), "is_vmstate": 0, "replicate": 1, "shared": 0,
            "volid": format!("{storage}:{name}"),
        });
        if let Some(size) = size.filter(|_| !cloud_init) {
            disk["size"] = json!(size);
        }
        if world.release == Release::V9_2 {
            disk["is_cloudinit"] = json!(u8::from(cloud_init));
        }
        disks.push(disk);
    }
    let mut data = json!({
        "running": u8::from(guest.running.is_some()), "local_disks": disks,
        "local_resources": [], "mapped-resources": [], "mapped-resource-info": {},
    });
    let (mut allowed, mut refused) = (Vec::new(), Map::new());
    for (name, _) in world.nodes.iter().filter(|(name, other)| *name != node && other.online) {
        let missing: Vec<String> = volumes(guest)
            .into_iter()
            .filter(|(storage, _)| drive::usable_storage(world, name, storage).is_err())
            .map(|(storage, _)| storage)
            .collect();
        if missing.is_empty() {
            allowed.push(name);
            refused.insert(name.clone(), json!({}));
        } else {
            refused.insert(name.clone(), json!({"unavailable_storages": missing}));
        }
    }
    data["allowed_nodes"] = json!(allowed);
    data["not_allowed_nodes"] = Value::Object(refused);
    if world.release == Release::V9_2 {
        data["has-dbus-vmstate"] = json!(1);
    }
    Ok(Answer::data(data))
}

/// The volumes of a VM, unused ones included.
fn volumes(guest: &Guest) -> Vec<(String, String)> {
    guest
        .configuration
        .options
        .iter()
        .filter(|(key, _)| crate::world::is_disk_slot(key) || key.starts_with("unused"))
        .filter_map(|(_, value)| {
            let drive = Properties::parse(value);
            let (storage, name) = parse_volume_id(drive.bare()?)?;
            Some((storage.to_owned(), name.to_owned()))
        })
        .collect()
}

fn find_disks(
    world: &World,
    node: &str,
    vmid: u32,
    with_disks: bool,
    output: &mut Output,
) -> Result<(), Died> {
    let clock = clock(world.now);
    let guest = world.vm(node, vmid).ok_or_else(|| Died::no_configuration(node, vmid))?;
    for (storage, name) in local(world, guest) {
        output.say(format!("{clock} found local disk '{storage}:{name}' (attached)"));
        if guest.running.is_some() && !with_disks {
            let problem = "Problem found while scanning volumes - can't migrate VM - check log";
            output.say(format!(
                "{clock} can't migrate local disk '{storage}:{name}': can't live migrate attached \
                 local disks without with-local-disks option"
            ));
            output.say(format!("{clock} ERROR: {problem}"));
            output.say(format!("{clock} aborting phase 1 - cleanup resources"));
            output.say(format!("{clock} ERROR: migration aborted (duration 00:00:00): {problem}"));
            return Err(Died::new("migration aborted"));
        }
    }
    if guest.running.is_none() && !local(world, guest).is_empty() {
        output.say(format!("{clock} copying local disk images"));
    }
    Ok(())
}

fn local(world: &World, guest: &Guest) -> Vec<(String, String)> {
    let shared = |name: &str| world.storages.get(name).is_some_and(crate::world::Storage::shared);
    volumes(guest).into_iter().filter(|(storage, _)| !shared(storage)).collect()
}

fn move_disks(
    world: &mut World,
    from: &str,
    to: &str,
    vmid: u32,
    aimed: Option<&str>,
    output: &mut Output,
) {
    let clock = clock(world.now);
    let Some(guest) = world.vm(from, vmid) else { return };
    for (storage, name) in local(world, guest) {
        let Some(found) = world.storages.get(&storage) else { continue };
        let there = aimed.and_then(|aimed| world.storages.get(aimed)).unwrap_or(found);
        output.effect(Effect::Disk(DiskChange::Moved {
            from: world.file_of(from, found, &name),
            to: world.file_of(to, there, &name),
        }));
        if let Some(volume) = world.volume_mut(from, &storage, &name) {
            volume.node = Some(to.to_owned());
            let old = volume.id();
            if let Some(aimed) = aimed {
                aimed.clone_into(&mut volume.storage);
            }
            let id = volume.id();
            output.say(format!("{clock} successfully imported '{id}'"));
            output.say(format!("{clock} volume '{old}' is '{id}' on the target"));
            if let Some(guest) = world.guests.get_mut(&vmid) {
                for value in guest.configuration.options.values_mut() {
                    if value.split(',').next() == Some(&old) {
                        *value = value.replacen(&old, &id, 1);
                    }
                }
            }
        }
    }
}

/// A time as the migration's log writes it, in UTC.
pub(super) fn clock(now: u64) -> String {
    let (days, second) = (now / 86_400, now % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The civil date of a day since the epoch.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_is_that_of_the_recorded_log() {
        assert_eq!(super::clock(1_796_047_495), "2026-11-30 14:04:55");
    }
}
