//! `POST /nodes/{node}/qemu`, which is `qm create`.

use std::collections::BTreeMap;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::drive;
use crate::call::drive::Drive;
use crate::call::keys::check_keys;
use crate::call::permit;
use crate::call::power;
use crate::call::update::tidy;
use crate::schema::Properties;
use crate::schema::Release;
use crate::world::Configuration;
use crate::world::Guest;
use crate::world::Kind;
use crate::world::World;
use crate::world::is_disk_slot;

/// Parameters that are not options of the configuration.
const NOT_OPTIONS: [&str; 13] = [
    "node",
    "vmid",
    "archive",
    "bwlimit",
    "force",
    "pool",
    "start",
    "storage",
    "unique",
    "live-restore",
    "import-working-storage",
    "ha-managed",
    "skiplock",
];

/// Creates a VM.
pub fn create(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    if !world.quorate() {
        return Err(Died::new("cluster not ready - no quorum?"));
    }
    let vmid = request.vmid;
    permit::create(world, request)?;
    let mut options = BTreeMap::new();
    let mut drives = Vec::new();
    for (key, value) in request.parameters {
        if NOT_OPTIONS.contains(&key.as_str()) {
            continue;
        }
        if is_disk_slot(key) {
            drives.push(drive::parse(world, request.caller, request.node, key, value)?);
        } else {
            // The older release keeps a new VM's tags as they are given.
            let raw = key == "tags" && world.release == Release::V8_4;
            let value = if raw { value.clone() } else { tidy(world, key, value) };
            options.insert(key.clone(), value);
        }
    }
    root_only(request)?;
    check_keys(request)?;
    permit::change(world, request, "")?;
    if let Some(archive) = request.get("archive") {
        return Err(Died::new(format!("volume '{archive}' does not exist")));
    }
    if let Some(guest) = world.guests.get(&vmid) {
        let kind = if guest.kind == Kind::Qemu { "VM" } else { "CT" };
        let text = format!("{kind} {vmid} already exists on node '{}'", guest.node);
        return Err(Died::new(format!("unable to create VM {vmid} - {text}")));
    }
    identify(world, &mut options);
    let mut configuration = Configuration::default();
    configuration.options.insert("lock".to_owned(), "create".to_owned());
    let node = request.node.to_owned();
    let guest = Guest { kind: Kind::Qemu, node: node.clone(), configuration, running: None };
    world.guests.insert(vmid, guest);
    let upid = world.begin_task(&node, "qmcreate", &request.id(), &request.caller.user);
    let after = After {
        ha: request.flag("ha-managed"),
        pool: request.get("pool").map(str::to_owned),
        start: request.flag("start").then(|| request.caller.user.clone()),
    };
    Ok(Answer::worker(worker(upid, &node, vmid, options, drives, after)))
}

/// Options that only root may set.
pub(super) fn root_only(request: Request<'_>) -> Result<(), Died> {
    if request.caller.is_root() {
        return Ok(());
    }
    for (key, value) in request.parameters {
        match key.as_str() {
            "args" | "hookscript" | "lock" | "ivshmem" | "affinity" | "arch" | "amd-sev"
            | "intel-tdx" => {
                return Err(Died::new(format!("only root can set '{key}' config")));
            }
            _ if key.starts_with("hostpci") && !value.contains("mapping=") => {
                let text = format!("only root can set '{key}' config for non-mapped devices");
                return Err(Died::new(text));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What every new VM gets.
fn identify(world: &mut World, options: &mut BTreeMap<String, String>) {
    let uuid = world.entropy.uuid();
    options
        .entry("smbios1".to_owned())
        .and_modify(|value| {
            if !value.contains("uuid=") {
                *value = format!("uuid={uuid},{value}");
            }
        })
        .or_insert_with(|| format!("uuid={uuid}"));
    if options.get("vmgenid").is_none_or(|value| value == "1") {
        options.insert("vmgenid".to_owned(), world.entropy.uuid());
    }
    let meta = format!("creation-qemu=10.2.2,ctime={}", world.now);
    options.insert("meta".to_owned(), meta);
}

/// What happens when the VM is there.
struct After {
    /// It is given to the HA manager.
    ha: bool,
    /// It comes into this pool.
    pool: Option<String>,
    /// It is started, by this user.
    start: Option<String>,
}

fn worker(
    upid: String,
    node: &str,
    vmid: u32,
    options: BTreeMap<String, String>,
    drives: Vec<Drive>,
    after: After,
) -> Worker {
    let mut worker = Worker::new(upid);
    for drive in drives {
        let node = node.to_owned();
        worker = worker.then(move |world, output| {
            let configuration = match world.vm(&node, vmid) {
                Some(guest) => guest.configuration.clone(),
                None => return Err(Died::no_configuration(&node, vmid)),
            };
            let value = drive::make(world, &node, vmid, &configuration, &drive, output)
                .map_err(|died| unable(vmid, died))?;
            if let Some(guest) = world.vm_mut(&node, vmid) {
                guest.configuration.options.insert(drive.slot.clone(), value);
            }
            Ok(())
        });
    }
    let owner = node.to_owned();
    worker
        .then(move |world, output| {
            let guest =
                world.vm_mut(&owner, vmid).ok_or_else(|| Died::no_configuration(&owner, vmid))?;
            let known = &mut guest.configuration.options;
            known.remove("lock");
            known.extend(options);
            known.entry("boot".to_owned()).or_insert_with(String::new);
            let boot = boot_order(known);
            known.entry("boot".to_owned()).and_modify(|value| {
                if value.is_empty() {
                    *value = boot;
                }
            });
            if after.ha {
                let options = [("state".to_owned(), "started".to_owned())].into();
                world.ha.insert(format!("vm:{vmid}"), options);
            }
            if let Some(pool) = after.pool.and_then(|pool| world.pools.get_mut(&pool)) {
                pool.guests.insert(vmid);
            }
            if let Some(user) = after.start {
                output.say("Execute autostart");
                let start = power::start_worker(world, &owner, vmid, &user, false);
                output.follow.push(start);
            }
            Ok(())
        })
        .undo({
            let node = node.to_owned();
            move |world, output| forget(world, &node, vmid, output)
        })
}

fn unable(vmid: u32, died: Died) -> Died {
    Died { text: format!("unable to create VM {vmid} - {}", died.text), ..died }
}

/// Removes what a failed create had made.
fn forget(world: &mut World, node: &str, vmid: u32, output: &mut Output) {
    let Some(guest) = world.guests.remove(&vmid) else { return };
    for (_, value) in guest.configuration.drives() {
        drive::free(world, node, vmid, value, output);
    }
}

/// The boot order of a VM that names none: its first disk, CD drive and network card.
fn boot_order(options: &BTreeMap<String, String>) -> String {
    let drive = |cdrom: bool| {
        ["ide", "scsi", "virtio", "sata"].iter().find_map(|bus| {
            (0..31).map(|index| format!("{bus}{index}")).find(|slot| {
                options.get(slot).is_some_and(|value| {
                    let media = Properties::parse(value).get("media") == Some("cdrom");
                    media == cdrom && !value.contains("-cloudinit")
                })
            })
        })
    };
    let net = (0..32).map(|index| format!("net{index}")).find(|slot| options.contains_key(slot));
    let order: Vec<String> = [drive(false), drive(true), net].into_iter().flatten().collect();
    if order.is_empty() { " ".to_owned() } else { format!("order={}", order.join(";")) }
}
