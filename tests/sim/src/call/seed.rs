//! A VM as it is started: its hardware and the cloud-init documents made from its options.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use percent_encoding::percent_decode_str;
use sha1::Digest;
use sha1::Sha1;

use crate::effect::DiskFile;
use crate::effect::GuestSpec;
use crate::effect::Seed;
use crate::schema::Properties;
use crate::schema::parse_volume_id;
use crate::world::World;
use crate::world::is_disk_slot;

type Options = BTreeMap<String, String>;

/// The specification of a VM with these options.
pub fn guest_spec(world: &World, node: &str, vmid: u32, options: &Options) -> GuestSpec {
    let get = |key: &str| options.get(key).cloned();
    let number = |key: &str, default: u32| {
        options.get(key).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let name = get("name").unwrap_or_else(|| format!("VM{vmid}"));
    let ip = Properties::parse(options.get("ipconfig0").map_or("", String::as_str));
    let (address, prefix) = match ip.get("ip").and_then(|text| text.split_once('/')) {
        Some((address, prefix)) => (address.parse().ok(), prefix.parse().ok()),
        None => (None, None),
    };
    let net = Properties::parse(options.get("net0").map_or("", String::as_str));
    let agent = Properties::parse(options.get("agent").map_or("", String::as_str));
    GuestSpec {
        vmid,
        node: node.to_owned(),
        hostname: name.split('.').next().unwrap_or_default().to_owned(),
        name,
        user: get("ciuser"),
        keys: keys(options),
        password: get("cipassword"),
        address,
        prefix,
        gateway: ip.get("gw").and_then(|text| text.parse::<Ipv4Addr>().ok()),
        nameserver: get("nameserver"),
        searchdomain: get("searchdomain"),
        upgrade: options.get("ciupgrade").is_none_or(|value| value != "0"),
        mac: net.pairs().next().map(|(_, value)| value.to_owned()),
        bridge: net.get("bridge").map(str::to_owned),
        cpu: get("cpu"),
        cores: number("cores", 1) * number("sockets", 1),
        memory: u64::from(number("memory", 512)),
        agent: agent.bare().or_else(|| agent.get("enabled")) == Some("1"),
        serial: options.get("serial0").is_some_and(|value| value == "socket"),
        scsihw: get("scsihw"),
        tags: get("tags"),
        disk: boot_slot(options).and_then(|slot| disk_file(world, node, options, &slot)),
        cloud_init: options
            .iter()
            .find(|(slot, value)| is_disk_slot(slot) && value.contains("-cloudinit"))
            .and_then(|(slot, _)| disk_file(world, node, options, slot)),
        seed: seed(vmid, options),
    }
}

/// The first hard disk of the boot order.
pub(super) fn boot_slot(options: &Options) -> Option<String> {
    let order = options.get("boot").map(|text| Properties::parse(text))?;
    order
        .get("order")?
        .split(';')
        .find(|slot| {
            is_disk_slot(slot)
                && options.get(*slot).is_some_and(|value| !value.contains("media=cdrom"))
        })
        .map(str::to_owned)
}

fn disk_file(world: &World, node: &str, options: &Options, slot: &str) -> Option<DiskFile> {
    let drive = Properties::parse(options.get(slot)?);
    let volid = drive.bare().or_else(|| drive.get("file"))?.to_owned();
    let (storage, name) = parse_volume_id(&volid)?;
    let storage = world.storages.get(storage)?;
    let volume = world.volume(node, &storage.name, name)?;
    Some(DiskFile {
        slot: slot.to_owned(),
        file: world.file_of(node, storage, name),
        format: volume.format.clone(),
        size: volume.size,
        imported_from: volume.imported_from.clone(),
        volid,
    })
}

fn keys(options: &Options) -> Vec<String> {
    let Some(encoded) = options.get("sshkeys") else { return Vec::new() };
    percent_decode_str(encoded)
        .decode_utf8_lossy()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The three documents of the cloud-init drive.
pub(super) fn seed(vmid: u32, options: &Options) -> Seed {
    let user_data = user_data(vmid, options);
    let network_config = network_config(options);
    let instance = hex::encode(Sha1::digest(format!("{user_data}{network_config}").as_bytes()));
    Seed { meta_data: format!("instance-id: {instance}\n"), user_data, network_config }
}

fn user_data(vmid: u32, options: &Options) -> String {
    let get = |key: &str| options.get(key).map(String::as_str);
    let name = options.get("name").cloned().unwrap_or_else(|| format!("VM{vmid}"));
    let hostname = name.split('.').next().unwrap_or_default();
    let domain = get("searchdomain").and_then(|text| text.split(' ').next());
    let full = match domain {
        Some(domain) if !name.contains('.') => format!("{name}.{domain}"),
        _ => name.clone(),
    };
    let mut lines = vec![
        "#cloud-config".to_owned(),
        format!("hostname: {hostname}"),
        "manage_etc_hosts: true".to_owned(),
        format!("fqdn: {full}"),
    ];
    let user = get("ciuser");
    if let Some(user) = user {
        lines.push(format!("user: {user}"));
        if user == "root" {
            lines.push("disable_root: False".to_owned());
        }
    }
    if let Some(password) = get("cipassword") {
        lines.push(format!("password: {password}"));
    }
    let keys = keys(options);
    if !keys.is_empty() {
        lines.push("ssh_authorized_keys:".to_owned());
        lines.extend(keys.iter().map(|key| format!("  - {key}")));
    }
    lines.extend(["chpasswd:", "  expire: False"].map(str::to_owned));
    if user != Some("root") {
        lines.extend(["users:", "  - default"].map(str::to_owned));
    }
    if get("ciupgrade") != Some("0") {
        lines.push("package_upgrade: true".to_owned());
    }
    lines.join("\n") + "\n"
}

fn network_config(options: &Options) -> String {
    let mut text = "version: 1\nconfig:\n".to_owned();
    for index in 0..32 {
        let (Some(net), Some(config)) =
            (options.get(&format!("net{index}")), options.get(&format!("ipconfig{index}")))
        else {
            continue;
        };
        text.push_str(&interface(index, net, config));
    }
    let list = |key: &str| -> Option<String> {
        let items = options.get(key)?.split([' ', ',', ';']);
        Some(items.fold(String::new(), |text, item| text + "      - '" + item + "'\n"))
    };
    if let Some(servers) = list("nameserver") {
        text.push_str("    - type: nameserver\n      address:\n");
        text.push_str(&servers);
        if let Some(domains) = list("searchdomain") {
            text.push_str("      search:\n");
            text.push_str(&domains);
        }
    }
    text
}

fn interface(index: u32, net: &str, config: &str) -> String {
    let mac = Properties::parse(net).pairs().next().map(|(_, mac)| mac.to_lowercase());
    let mac = mac.unwrap_or_default();
    let config = Properties::parse(config);
    let mut text = format!(
        "    - type: physical\n      name: eth{index}\n      mac_address: '{mac}'\n      subnets:\n"
    );
    match config.get("ip") {
        Some("dhcp") => text.push_str("      - type: dhcp4\n"),
        Some(address) => {
            let (address, prefix) = address.split_once('/').unwrap_or((address, "32"));
            let bits = prefix.parse::<u32>().unwrap_or(32).min(32);
            let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0));
            let lines = [
                "      - type: static".to_owned(),
                format!("        address: '{address}'"),
                format!("        netmask: '{mask}'"),
            ];
            text.push_str(&(lines.join("\n") + "\n"));
            if let Some(gateway) = config.get("gw") {
                text.push_str(&["        gateway: '", gateway, "'\n"].concat());
            }
        }
        None => {}
    }
    match config.get("ip6") {
        Some("dhcp") => text.push_str("      - type: dhcp6\n"),
        Some("auto") => text.push_str("      - type: ipv6_slaac\n"),
        Some(address) => {
            text.push_str(&["      - type: static6\n        address: '", address, "'\n"].concat());
            if let Some(gateway) = config.get("gw6") {
                text.push_str(&["        gateway: '", gateway, "'\n"].concat());
            }
        }
        None => {}
    }
    text
}
