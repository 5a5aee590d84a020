//! `PUT /nodes/{node}/qemu/{vmid}/config`, which is `qm set`.

use sha_crypt::Algorithm;
use sha_crypt::Params;
use sha_crypt::PasswordHasher;
use sha_crypt::ShaCrypt;

use crate::call::Answer;
use crate::call::Died;
use crate::call::Output;
use crate::call::Request;
use crate::call::Worker;
use crate::call::create::root_only;
use crate::call::drive;
use crate::call::drive::Drive;
use crate::call::keys::check_keys;
use crate::call::permit;
use crate::schema;
use crate::schema::Properties;
use crate::world::Configuration;
use crate::world::World;
use crate::world::is_disk_slot;

/// Parameters that are not options of the configuration.
const NOT_OPTIONS: [&str; 7] = ["node", "vmid", "digest", "skiplock", "force", "delete", "revert"];

/// Options that a running VM takes over at once.
const FAST: [&str; 13] = [
    "name",
    "onboot",
    "startup",
    "tags",
    "description",
    "shares",
    "protection",
    "lock",
    "hookscript",
    "migrate_downtime",
    "migrate_speed",
    "boot",
    "bootdisk",
];

/// A change that may be made.
struct Plan {
    drives: Vec<Drive>,
    changes: Vec<(String, String)>,
    deletions: Vec<String>,
}

/// Changes a VM's options; synchronous.
pub fn update(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let plan = plan(world, request)?;
    let mut output = Output::default();
    output.say(announcement(request));
    let result = apply(world, request, plan, &mut output);
    let answer = Answer {
        lines: output.lines,
        effects: output.effects,
        ..Answer::data(serde_json::Value::Null)
    };
    match result {
        Ok(()) => Ok(answer),
        Err(died) => Ok(answer.failed(died)),
    }
}

/// `POST /nodes/{node}/qemu/{vmid}/config`: the same as a task.
pub fn update_later(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let plan = plan(world, request)?;
    let (caller, node) = (request.caller.clone(), request.node.to_owned());
    let (vmid, parameters) = (request.vmid, request.parameters.clone());
    let upid = world.begin_task(&node, "qmconfig", &request.id(), &caller.user);
    Ok(Answer::worker(Worker::new(upid).then(move |world, output| {
        let parameters = &parameters;
        let request = Request { caller: &caller, node: &node, vmid, parameters };
        output.say(announcement(request));
        apply(world, request, plan, output)
    })))
}

/// Everything that is refused before anything is done.
fn plan(world: &World, request: Request<'_>) -> Result<Plan, Died> {
    let (node, vmid) = (request.node, request.vmid);
    let skiplock = request.skiplock()?;
    let mut deletions = deletions(world, request)?;
    let mut drives = Vec::new();
    let mut changes = Vec::new();
    for (key, value) in request.parameters {
        if NOT_OPTIONS.contains(&key.as_str()) {
            continue;
        }
        if is_disk_slot(key) {
            drives.push(drive::parse(world, request.caller, node, key, value)?);
        } else {
            changes.push((key.clone(), value.clone()));
        }
    }
    // An empty description is none.
    changes.retain(|(key, value)| {
        let empty = key == "description" && value.is_empty();
        if empty {
            deletions.push(key.clone());
        }
        !empty
    });
    let reverts = request.get("revert").is_some();
    if drives.is_empty() && changes.is_empty() && deletions.is_empty() && !reverts {
        return Err(Died::new("no options specified"));
    }
    root_only(request)?;
    if let Some(key) = deletions.iter().find(|key| matches!(key.as_str(), "lock" | "args"))
        && !request.caller.is_root()
    {
        return Err(Died::new(format!("only root can set '{key}' config")));
    }
    check_keys(request)?;
    let found = world.vm(node, vmid);
    let tags = found.and_then(|guest| guest.configuration.get("tags")).unwrap_or_default();
    permit::change(world, request, tags)?;
    let guest = found.ok_or_else(|| Died::no_configuration(node, vmid))?;
    if let Some(digest) = request.get("digest")
        && digest != guest.configuration.digest()
    {
        return Err(Died::new("checksum mismatch (file change by other user?)"));
    }
    let unlocks = deletions.iter().any(|key| key == "lock");
    if let Some(lock) = guest.configuration.lock()
        && !skiplock
        && !(unlocks && request.caller.is_root())
    {
        return Err(Died::new(format!("VM is locked ({lock})")));
    }
    // Cloud-init drives come last, as they were seen to.
    drives.sort_by_key(Drive::is_cloud_init);
    Ok(Plan { drives, changes, deletions })
}

/// `qm unlink`: detaches, or with `force` removes.
pub fn unlink(world: &mut World, request: Request<'_>) -> Result<Answer, Died> {
    let mut parameters = request.parameters.clone();
    let list = parameters.remove("idlist").unwrap_or_default();
    parameters.insert("delete".to_owned(), list);
    update(world, Request { parameters: &parameters, ..request })
}

fn deletions(world: &World, request: Request<'_>) -> Result<Vec<String>, Died> {
    let list = request.get("delete").unwrap_or_default();
    let keys: Vec<String> = list
        .split([',', ';', ' ', '\0'])
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
        .collect();
    for key in &keys {
        if request.parameters.contains_key(key) {
            let text = format!("you can't use '-{key}' and -delete {key}' at the same time");
            return Err(Died::parameter("delete", text));
        }
        if !schema::is_option(world.release, key) {
            return Err(Died::parameter("delete", format!("unknown option '{key}'")));
        }
    }
    Ok(keys)
}

/// The line that says what is changed; a password is hidden.
fn announcement(request: Request<'_>) -> String {
    let mut text = format!("update VM {}:", request.vmid);
    for (key, value) in request.parameters {
        if matches!(key.as_str(), "node" | "vmid" | "digest") {
            continue;
        }
        let value = if key == "cipassword" { "<hidden>" } else { value };
        text.push_str(&[" -", key, " ", value].concat());
    }
    text
}

fn apply(
    world: &mut World,
    request: Request<'_>,
    plan: Plan,
    output: &mut Output,
) -> Result<(), Died> {
    let Plan { drives, changes, deletions } = plan;
    let (node, vmid) = (request.node, request.vmid);
    let missing = || Died::no_configuration(node, vmid);
    // What is made is pending before the rest is even looked at: a failure leaves it there.
    for drive in &drives {
        let configuration = world.vm(node, vmid).ok_or_else(missing)?.configuration.clone();
        let value = drive::make(world, node, vmid, &configuration, drive, output)?;
        let guest = world.vm_mut(node, vmid).ok_or_else(missing)?;
        guest.configuration.pending.insert(drive.slot.clone(), value);
    }
    let mut tidied = Vec::new();
    for (key, value) in changes {
        let value =
            if key == "cipassword" { hashed(world, &value) } else { tidy(world, &key, &value) };
        tidied.push((key, value));
    }
    let guest = world.vm(node, vmid).ok_or_else(missing)?;
    let mut next = guest.configuration.clone();
    let running = guest.running.is_some();
    for (key, value) in tidied {
        next.pending_delete.retain(|gone| *gone != key);
        next.pending.insert(key, value);
    }
    for key in request.get("revert").unwrap_or_default().split(',') {
        next.pending.remove(key);
        next.pending_delete.retain(|gone| gone != key);
    }
    check_boot(&next)?;
    for key in deletions {
        next.pending.remove(&key);
        next.pending_delete.push(key);
    }
    // An order takes the place of the older option.
    if next.pending.get("boot").is_some_and(|boot| boot.contains("order="))
        && next.options.contains_key("bootdisk")
    {
        next.pending_delete.push("bootdisk".to_owned());
    }
    take_over(world, node, vmid, &mut next, running, request.flag("force"), output);
    if drives.iter().any(Drive::is_cloud_init) {
        output.say("generating cloud-init ISO");
    }
    if let Some(guest) = world.vm_mut(node, vmid) {
        guest.configuration = next;
    }
    Ok(())
}

/// A boot order may name only what is there.
fn check_boot(configuration: &Configuration) -> Result<(), Died> {
    let Some(boot) = configuration.pending.get("boot") else { return Ok(()) };
    let boot = Properties::parse(boot);
    for device in boot.get("order").unwrap_or_default().split(';').filter(|text| !text.is_empty()) {
        if configuration.wanted(device).is_none() {
            return Err(Died::new(format!("invalid bootorder: device '{device}' does not exist'")));
        }
    }
    Ok(())
}

/// Lets pending values come into force: all of them on a stopped VM, on a running one those that
/// it can take.
fn take_over(
    world: &mut World,
    node: &str,
    vmid: u32,
    next: &mut Configuration,
    running: bool,
    force: bool,
    output: &mut Output,
) {
    let at_once = |key: &str| !running || is_hot(key);
    for key in std::mem::take(&mut next.pending_delete) {
        if !at_once(&key) {
            if next.options.contains_key(&key) {
                next.pending_delete.push(key);
            }
            continue;
        }
        let Some(value) = next.options.remove(&key) else { continue };
        if key.starts_with("unused") || value.contains("-cloudinit") || force {
            drive::free(world, node, vmid, &value, output);
        } else if is_disk_slot(&key) {
            keep_unused(next, &value);
        }
        drop_from_boot(next, &key);
    }
    for (key, value) in std::mem::take(&mut next.pending) {
        if !at_once(&key) {
            if next.get(&key) != Some(&value) {
                next.pending.insert(key, value);
            }
            continue;
        }
        if is_disk_slot(&key) {
            let volume = volume_of(&value);
            if let Some(old) = next.options.remove(&key)
                && volume_of(&old) != volume
            {
                keep_unused(next, &old);
            }
            next.options
                .retain(|slot, held| !(slot.starts_with("unused") && volume_of(held) == volume));
        }
        next.options.insert(key, value);
    }
}

fn volume_of(value: &str) -> String {
    Properties::parse(value).bare().unwrap_or_default().to_owned()
}

/// A disk that leaves its slot stays as `unusedN`; CDs and cloud-init drives do not.
fn keep_unused(next: &mut Configuration, value: &str) {
    let volume = volume_of(value);
    let disk = !value.contains("media=cdrom") && volume.contains(':');
    let known = next.options.values().any(|held| volume_of(held) == volume);
    if disk && !known {
        let slot = next.free_unused();
        next.options.insert(slot, volume);
    }
}

fn drop_from_boot(next: &mut Configuration, key: &str) {
    let Some(boot) = next.get("boot").and_then(|text| text.strip_prefix("order=")) else { return };
    let left: Vec<&str> = boot.split(';').filter(|device| *device != key).collect();
    let boot = if left.is_empty() { " ".to_owned() } else { format!("order={}", left.join(";")) };
    next.options.insert("boot".to_owned(), boot);
}

fn is_hot(key: &str) -> bool {
    let stem = key.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let indexed = stem.len() < key.len();
    FAST.contains(&key)
        || (indexed && matches!(stem, "net" | "scsi" | "virtio" | "usb" | "unused" | "ipconfig"))
        || matches!(
            key,
            "ciuser"
                | "cipassword"
                | "cicustom"
                | "citype"
                | "ciupgrade"
                | "sshkeys"
                | "nameserver"
                | "searchdomain"
                | "balloon"
        )
}

/// The form in which an option is kept.
pub(super) fn tidy(world: &mut World, key: &str, value: &str) -> String {
    if key == "tags" {
        return tags(value);
    }
    let stem = key.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if stem == "net" && stem.len() < key.len() {
        return network(world, value);
    }
    if matches!(key, "boot" | "tags") && value.is_empty() {
        return " ".to_owned();
    }
    value.to_owned()
}

/// Lower case, each once, in the order given.
fn tags(value: &str) -> String {
    let mut tags: Vec<String> = Vec::new();
    for tag in value.split([';', ',', ' ']).filter(|tag| !tag.is_empty()) {
        let tag = tag.to_lowercase();
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    if tags.is_empty() { " ".to_owned() } else { tags.join(";") }
}

/// The model and its address first, the rest by name; an address is given where there is none.
fn network(world: &mut World, value: &str) -> String {
    let mut given = Properties::parse(value);
    given.tidy_booleans();
    let model = ["", "model"].iter().find_map(|key| given.remove(key));
    let (model, mac) = if let Some(model) = model {
        let mac = given.remove("macaddr");
        (model, mac)
    } else {
        let first = given.pairs().next().map(|(key, mac)| (key.to_owned(), mac.to_owned()));
        let (model, mac) = first.unwrap_or_default();
        given.remove(&model);
        (model, Some(mac))
    };
    let mac = mac.map_or_else(|| world.entropy.mac(), |mac| mac.to_uppercase());
    let mut text = format!("{model}={mac}");
    for (key, value) in given.sorted().pairs() {
        text.push_str(&[",", key, "=", value].concat());
    }
    text
}

/// A password that is not a hash yet becomes one.
fn hashed(world: &mut World, password: &str) -> String {
    if ["$1$", "$5$", "$6$", "$2a$", "$2y$"].iter().any(|start| password.starts_with(start)) {
        return password.to_owned();
    }
    let salt = world.entropy.salt(6);
    let hasher = ShaCrypt::new(Algorithm::Sha256Crypt, Params::new(5000).unwrap_or_default());
    hasher
        .hash_password_with_salt(password.as_bytes(), salt.as_bytes())
        .map(|hash| hash.as_str().replace("rounds=5000$", ""))
        .unwrap_or_default()
}
