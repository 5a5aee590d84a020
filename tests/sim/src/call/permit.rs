//! What a caller must be allowed to make or change a VM, option by option.

use crate::call::Died;
use crate::call::Request;
use crate::call::cluster::check_tags;
use crate::call::guard;
use crate::schema::Properties;
use crate::schema::Release;
use crate::world::World;
use crate::world::is_disk_slot;

/// May a VM of this number be made at all?
pub(super) fn create(world: &World, request: Request<'_>) -> Result<(), Died> {
    let pool = request.get("pool");
    if let Some(pool) = pool
        && !world.pools.contains_key(pool)
    {
        return Err(guard::forbidden(&format!("pool '{pool}' does not exist")));
    }
    let own = format!("/vms/{}", request.vmid);
    let pooled = pool.map(|pool| format!("/pool/{pool}"));
    let may = |path: &str| guard::has(world, request.caller, path, "VM.Allocate");
    if may(&own) || pooled.as_deref().is_some_and(may) {
        return Ok(());
    }
    Err(guard::forbidden(""))
}

/// May the options of a request be set or removed?
pub(super) fn change(world: &World, request: Request<'_>, old_tags: &str) -> Result<(), Died> {
    if request.caller.is_root() {
        return Ok(());
    }
    let own = format!("/vms/{}", request.vmid);
    let pooled = request.get("pool").map(|pool| format!("/pool/{pool}"));
    let removed = request.get("delete").unwrap_or_default().split([',', ';', ' ']);
    let keys = request.parameters.keys().map(String::as_str).chain(removed);
    for key in keys {
        let value = request.get(key).unwrap_or_default();
        let Some(privilege) = privilege(key, value) else { continue };
        let in_pool = |path: &String| guard::has(world, request.caller, path, privilege);
        if !pooled.as_ref().is_some_and(in_pool) {
            guard::require(world, request.caller, &own, privilege)?;
        }
    }
    for (_, value) in request.parameters.iter().filter(|(key, _)| is_network(key)) {
        bridge(world, request, value)?;
    }
    check_tags(world, request, old_tags)
}

fn is_network(key: &str) -> bool {
    key.strip_prefix("net").is_some_and(|digits| digits.parse::<u32>().is_ok())
}

fn bridge(world: &World, request: Request<'_>, value: &str) -> Result<(), Died> {
    let value = Properties::parse(value);
    let Some(bridge) = value.get("bridge") else {
        return match world.release {
            Release::V9_2 => Ok(()),
            Release::V8_4 => Err(Died::new("no sdn vnet ID specified")),
        };
    };
    let path = match value.get("tag") {
        Some(tag) => format!("/sdn/zones/localnetwork/{bridge}/{tag}"),
        None => format!("/sdn/zones/localnetwork/{bridge}"),
    };
    guard::require(world, request.caller, &path, "SDN.Use")
}

/// The privilege that an option needs; none for what is no option, or is checked elsewhere.
fn privilege(key: &str, value: &str) -> Option<&'static str> {
    let stem = key.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let indexed = stem.len() < key.len();
    if is_disk_slot(key) {
        let cdrom = value.contains("media=cdrom") || value.contains(":cloudinit");
        return Some(if cdrom { "VM.Config.CDROM" } else { "VM.Config.Disk" });
    }
    Some(match key {
        ""
        | "node"
        | "vmid"
        | "digest"
        | "delete"
        | "revert"
        | "force"
        | "skiplock"
        | "pool"
        | "start"
        | "archive"
        | "storage"
        | "unique"
        | "bwlimit"
        | "live-restore"
        | "tags"
        | "import-working-storage"
        | "ha-managed"
        | "background_delay"
        | "lock" => return None,
        "cores" | "sockets" | "cpu" | "numa" | "cpulimit" | "cpuunits" | "vcpus" | "smp"
        | "affinity" => "VM.Config.CPU",
        "memory" | "balloon" | "shares" | "allow-ksm" => "VM.Config.Memory",
        "cicustom" | "cipassword" | "citype" | "ciuser" | "ciupgrade" | "nameserver"
        | "searchdomain" | "sshkeys" => "VM.Config.Cloudinit",
        "acpi" | "hotplug" | "kvm" | "machine" | "scsihw" | "smbios1" | "tablet" | "vga"
        | "watchdog" | "audio0" => "VM.Config.HWType",
        _ if indexed && matches!(stem, "net" | "ipconfig") => "VM.Config.Network",
        _ if indexed && stem == "unused" => "VM.Config.Disk",
        _ if indexed && matches!(stem, "serial" | "usb" | "hostpci" | "parallel") => {
            "VM.Config.HWType"
        }
        _ => "VM.Config.Options",
    })
}
