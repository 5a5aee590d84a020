//! A checker for parameters over the table of what servers take: names, types, ranges.

use serde_json::Map;
use serde_json::Value;

use crate::indexed;

/// What servers take, one call a line.
pub(super) fn table() -> Vec<Fact> {
    let lines = include_str!("../../tests/facts.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct Fact {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) parameters: Map<String, Value>,
}

/// The last numbers of numbered keys, which the schema leaves out.
const LAST: [(&str, u8); 13] = [
    ("ide", 3),
    ("sata", 5),
    ("scsi", 30),
    ("virtio", 15),
    ("unused", 255),
    ("net", 31),
    ("ipconfig", 31),
    ("serial", 3),
    ("parallel", 2),
    ("usb", 13),
    ("hostpci", 15),
    ("numa", 7),
    ("virtiofs", 9),
];

/// Says what is wrong with the parameters of a call.
pub(super) fn check(fact: &Fact, parameters: &[(&str, &str)]) -> Result<(), String> {
    for (index, (name, value)) in parameters.iter().enumerate() {
        if parameters[..index].iter().any(|(other, _)| other == name) {
            return Err(format!("{name}: twice"));
        }
        let rule = rule(fact, name).ok_or_else(|| format!("{name}: unknown"))?;
        check_value(rule, value).map_err(|problem| format!("{name}: {problem}"))?;
        if let Some(needed) = rule["requires"].as_str()
            && !parameters.iter().any(|(other, _)| *other == needed)
        {
            return Err(format!("{name}: needs {needed}"));
        }
    }
    for (name, rule) in &fact.parameters {
        let in_path = fact.path.contains(&format!("{{{name}}}"));
        let there = in_path || parameters.iter().any(|(other, _)| other == name);
        if !there && rule["optional"] != true && !name.ends_with("[n]") {
            return Err(format!("{name}: missing"));
        }
    }
    Ok(())
}

fn rule<'a>(fact: &'a Fact, name: &str) -> Option<&'a Value> {
    if let Some(rule) = fact.parameters.get(name) {
        return Some(rule);
    }
    let (prefix, index) = indexed::split(name)?;
    let (_, last) = LAST.iter().find(|(name, _)| *name == prefix)?;
    if index > *last {
        return None;
    }
    fact.parameters.get(&format!("{prefix}[n]"))
}

fn check_value(rule: &Value, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("empty, which arrives as missing".to_owned());
    }
    match rule["type"].as_str() {
        Some("boolean") if !matches!(value, "0" | "1") => {
            return Err(format!("'{value}' no boolean"));
        }
        Some("integer") => {
            let number: i64 = value.parse().ok().ok_or_else(|| format!("'{value}' no integer"))?;
            range(rule, f64::from(i32::try_from(number).unwrap_or(i32::MAX)))?;
        }
        Some("number") => {
            let number = value.parse().ok().ok_or_else(|| format!("'{value}' no number"))?;
            range(rule, number)?;
        }
        _ => {}
    }
    if let Some(words) = rule["enum"].as_array()
        && !words.iter().any(|word| word == value)
    {
        return Err(format!("'{value}' not among the words"));
    }
    if rule["maxLength"].as_u64().is_some_and(|max| value.chars().count() as u64 > max) {
        return Err("too long".to_owned());
    }
    match &rule["format"] {
        Value::Object(keys) => check_property(keys, value),
        Value::String(name) => check_format(name, value),
        _ => Ok(()),
    }
}

fn range(rule: &Value, number: f64) -> Result<(), String> {
    let below = rule["minimum"].as_f64().is_some_and(|minimum| number < minimum);
    let above = rule["maximum"].as_f64().is_some_and(|maximum| number > maximum);
    if below || above { Err(format!("{number} out of range")) } else { Ok(()) }
}

fn check_property(keys: &Map<String, Value>, text: &str) -> Result<(), String> {
    let default = keys.iter().find(|(_, rule)| rule["default_key"] == true).map(|(key, _)| key);
    let mut seen: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let (key, value) = match part.split_once('=') {
            Some(pair) => pair,
            None => (default.ok_or("no default key")?.as_str(), part),
        };
        let rule = keys.get(key).ok_or_else(|| format!("unknown key '{key}'"))?;
        // An alias stands for another key, and `virtio=MAC` for two.
        let named = rule["alias"].as_str().unwrap_or(key);
        for key in [Some(named), rule["keyAlias"].as_str()].into_iter().flatten() {
            if seen.contains(&key) {
                return Err(format!("'{key}' twice"));
            }
            seen.push(key);
        }
        let value = match (value, keys[named]["type"].as_str()) {
            // Inside property strings booleans may be words.
            ("on" | "yes" | "true", Some("boolean")) => "1",
            ("off" | "no" | "false", Some("boolean")) => "0",
            (value, _) => value,
        };
        check_value(&keys[named], value).map_err(|problem| format!("{key}: {problem}"))?;
    }
    let missing = keys.iter().find(|(key, rule)| {
        rule.get("alias").is_none()
            && rule["optional"] != true
            && rule.get("default").is_none()
            && !seen.contains(&key.as_str())
    });
    missing.map_or(Ok(()), |(key, _)| Err(format!("'{key}' missing")))
}

fn check_format(name: &str, value: &str) -> Result<(), String> {
    let all = |ok: fn(&u8) -> bool| value.bytes().all(|byte| ok(&byte));
    let fits = match name {
        "pve-node" => value.parse::<crate::NodeName>().is_ok(),
        "pve-vmid" => value.parse::<crate::Vmid>().is_ok(),
        "pve-storage-id" => value.parse::<crate::StorageId>().is_ok(),
        "pve-poolid" => value.parse::<crate::PoolId>().is_ok(),
        "pve-realm" => value.parse::<crate::Realm>().is_ok(),
        "pve-volume-id" => value.parse::<crate::Volid>().is_ok(),
        "pve-tag-list" => value.split(';').all(|tag| tag.parse::<crate::Tag>().is_ok()),
        "mac-addr" => value.parse::<crate::MacAddr>().is_ok(),
        "dns-name" => all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte)),
        "urlencoded" => all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(byte)),
        "pve-configid-list" => all(|byte| byte.is_ascii_alphanumeric() || b"-_,".contains(byte)),
        "pve-qm-boot" => value.starts_with("order=") || all(|byte| b"acdn".contains(byte)),
        "pve-startup-order" => value.split(',').all(|part| {
            let (key, number) = part.split_once('=').unwrap_or(("order", part));
            ["order", "up", "down"].contains(&key) && number.parse::<u32>().is_ok()
        }),
        "pve-qm-ipconfig" => value.split(',').all(|part| {
            part.split_once('=').is_some_and(|(key, _)| ["ip", "gw", "ip6", "gw6"].contains(&key))
        }),
        "pve-vm-cpu-conf" => value.split(',').enumerate().all(|(index, part)| {
            let keys =
                ["cputype", "flags", "hidden", "hv-vendor-id", "phys-bits", "reported-model"];
            part.split_once('=').map_or(index == 0, |(key, _)| keys.contains(&key))
        }),
        "pve-ha-resource-or-vm-id" => {
            value.strip_prefix("vm:").unwrap_or(value).parse::<crate::Vmid>().is_ok()
        }
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!("'{value}' is no {name}")) }
}

#[test]
fn the_checker_refuses_what_servers_refused() {
    let table = table();
    let create = table.iter().find(|fact| fact.method == "POST" && fact.path.ends_with("/qemu"));
    let wrong = |parameters: &[(&str, &str)]| check(create.unwrap(), parameters).unwrap_err();
    assert_eq!(wrong(&[("vmid", "100"), ("bogus", "1")]), "bogus: unknown");
    assert_eq!(wrong(&[("vmid", "100"), ("cores", "0")]), "cores: 0 out of range");
    assert_eq!(wrong(&[("vmid", "100"), ("onboot", "true")]), "onboot: 'true' no boolean");
    assert_eq!(wrong(&[("vmid", "100"), ("scsi31", "local:1")]), "scsi31: unknown");
    assert_eq!(wrong(&[("vmid", "100"), ("vmid", "100")]), "vmid: twice");
    assert_eq!(wrong(&[("name", "a")]), "vmid: missing");
    assert_eq!(wrong(&[("vmid", "100"), ("net0", "bridge=vmbr0")]), "net0: 'model' missing");
    assert_eq!(
        wrong(&[("vmid", "100"), ("net0", "virtio,virtio=BC:24:11:00:00:01")]),
        "net0: 'model' twice"
    );
    assert_eq!(
        wrong(&[("vmid", "100"), ("virtio0", "local:1,ssd=1")]),
        "virtio0: unknown key 'ssd'"
    );
    assert_eq!(wrong(&[("vmid", "100"), ("memory", "8")]), "memory: current: 8 out of range");
    assert_eq!(wrong(&[("vmid", "100"), ("bios", "efi")]), "bios: 'efi' not among the words");
    assert_eq!(
        check(create.unwrap(), &[("vmid", "100"), ("scsi0", "local:1,iothread=on")]),
        Ok(())
    );
}

/// With the whole schema at hand, the carried table is compared with it.
#[test]
fn the_carried_table_is_part_of_the_schema() {
    let Some(path) = std::env::var_os("PVE_SCHEMA") else { return };
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let endpoints = schema["endpoints"].as_array().unwrap();
    for fact in table() {
        let whole = endpoints
            .iter()
            .find(|one| one["method"] == *fact.method && one["path"] == *fact.path)
            .unwrap_or_else(|| panic!("{} {} is not in the schema", fact.method, fact.path));
        assert_eq!(whole["parameters"], Value::Object(fact.parameters), "{}", fact.path);
    }
}
