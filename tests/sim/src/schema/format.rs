//! The named formats.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::sync::LazyLock;

use super::Definition;
use super::Format;
use super::Release;
use super::property;

/// Takes a volume id apart: storage and volume name.
pub fn parse_volume_id(text: &str) -> Option<(&str, &str)> {
    let (storage, name) = text.split_once(':')?;
    (is_storage_id(storage) && !name.is_empty()).then_some((storage, name))
}

fn is_storage_id(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.ends_with(|letter: char| letter.is_ascii_alphanumeric())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

fn is_dns_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.split('.').all(is_label)
}

fn is_configuration_id(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

fn is_unicast_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let bytes: Vec<u8> =
        parts.iter().filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
    parts.len() == 6
        && bytes.len() == 6
        && parts.iter().all(|part| part.len() == 2)
        && bytes[0] & 1 == 0
}

fn is_vmid(text: &str) -> bool {
    (3..=9).contains(&text.len())
        && !text.starts_with('0')
        && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, prefix)| {
        address.parse::<Ipv4Addr>().is_ok()
            && prefix.parse::<u8>().is_ok_and(|bits| (8..=32).contains(&bits))
    })
}

fn is_cidr6(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, prefix)| {
        address.parse::<std::net::Ipv6Addr>().is_ok()
            && prefix.parse::<u8>().is_ok_and(|bits| (8..=128).contains(&bits))
    })
}

fn is_tag(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphanumeric() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_-+.".contains(letter))
}

fn is_url_encoded(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-%_.!~*'()".contains(letter))
}

fn is_disk_size(text: &str) -> bool {
    let number = text.strip_suffix(['K', 'M', 'G', 'T']).unwrap_or(text);
    number.parse::<f64>().is_ok() && number.starts_with(|first: char| first.is_ascii_digit())
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', ';', '\0']).filter(|item| !item.is_empty())
}

/// Checks a value against a format that has a name; the error is the whole text.
pub(super) fn check(release: Release, name: &str, path: &str, value: &str) -> Result<(), String> {
    if let Some(table) = STRINGS.get(name) {
        return property::check(release, path, table, value);
    }
    let all = |test: fn(&str) -> bool| items(value).all(test);
    let (fits, text) = match name {
        "pve-vmid" => (is_vmid(value), "value does not look like a valid VM ID".to_owned()),
        "pve-vmid-list" => (all(is_vmid), "value does not look like a valid VM ID".to_owned()),
        "pve-node" => (is_label(value), "value does not look like a valid node name".to_owned()),
        "dns-name" => (is_dns_name(value), "value does not look like a valid DNS name".to_owned()),
        "mac-addr" => {
            let text = "value does not look like a valid unicast MAC address";
            (is_unicast_mac(value), text.to_owned())
        }
        "address-list" => {
            let text = "value does not look like a valid IP address";
            (all(|item| item.parse::<IpAddr>().is_ok()), text.to_owned())
        }
        "ipv4" => {
            let text = "value does not look like a valid ipv4 address";
            (value.parse::<Ipv4Addr>().is_ok(), text.to_owned())
        }
        "pve-ipv4-config" => {
            let text = "value does not look like a valid ipv4 network configuration";
            (value == "dhcp" || is_cidr(value), text.to_owned())
        }
        "pve-ipv6-config" => {
            let text = "value does not look like a valid ipv6 network configuration";
            (matches!(value, "dhcp" | "auto") || is_cidr6(value), text.to_owned())
        }
        "disk-size" => {
            (is_disk_size(value), format!("value does not look like a valid disk size: {value}"))
        }
        "pve-configid" => {
            (is_configuration_id(value), format!("invalid configuration ID '{value}'"))
        }
        "pve-storage-id" => {
            (is_storage_id(value), format!("storage ID '{value}' contains illegal characters"))
        }
        "pve-tag-list" => (all(is_tag), "invalid characters in tag".to_owned()),
        "urlencoded" => (is_url_encoded(value), format!("invalid urlencoded string: {value}")),
        "pve-volume-id" => {
            (parse_volume_id(value).is_some(), format!("unable to parse volume ID '{value}'"))
        }
        "pve-volume-id-or-qm-path" => {
            let fits = matches!(value, "none" | "cdrom")
                || value.starts_with('/')
                || parse_volume_id(value).is_some();
            (fits, format!("unable to parse volume ID '{value}'"))
        }
        "pve-volume-id-or-absolute-path" => {
            let fits = value.starts_with('/') || parse_volume_id(value).is_some();
            (fits, format!("unable to parse volume ID '{value}'"))
        }
        "pve-bridge-id" => {
            let fits = value.len() <= 15
                && value.starts_with(|first: char| first.is_ascii_alphabetic())
                && value
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
            (fits, format!("invalid bridge ID '{value}'"))
        }
        "boot-order" => match items(value).find(|device| !is_boot_device(device)) {
            Some(device) => (false, format!("invalid boot device '{device}'")),
            None => (true, String::new()),
        },
        "cpu-model" => (
            CPU_MODELS.contains(&value) || value.starts_with("custom-"),
            format!("Built-in cputype '{value}' is not defined (missing 'custom-' prefix?)"),
        ),
        "pve-storage-content" | "pve-storage-content-list" => {
            match items(value).find(|item| !CONTENTS.contains(item)) {
                Some(item) => (false, format!("invalid content type '{item}'")),
                None => (true, String::new()),
            }
        }
        "pve-vm-cpu-conf" => return check_cpu(release, value),
        _ => (true, String::new()),
    };
    if fits { Ok(()) } else { Err(format!("invalid format - {text}\n")) }
}

/// A CPU is checked by its model alone; its complaint has no place in front.
fn check_cpu(release: Release, value: &str) -> Result<(), String> {
    let properties = super::Properties::parse(value);
    let model = properties.bare().or_else(|| properties.get("cputype")).unwrap_or_default();
    if release == Release::V8_4 && properties.get("guest-phys-bits").is_some() {
        let text = super::UNDEFINED;
        return Err(format!("invalid format - format error\ncpu.guest-phys-bits: {text}\n"));
    }
    if release == Release::V8_4 && properties.get("flags").is_some_and(names_other_flags) {
        let known = OLD_CPU_FLAGS.join(", ");
        let text = "VM-specific CPU flags must be a subset of:";
        return Err(format!("invalid format - {text} {known}\n"));
    }
    check(release, "cpu-model", "cpu", model)
}

/// Flags that a VM of the older release may switch.
const OLD_CPU_FLAGS: [&str; 12] = [
    "pcid",
    "spec-ctrl",
    "ibpb",
    "ssbd",
    "virt-ssbd",
    "amd-ssbd",
    "amd-no-ssb",
    "pdpe1gb",
    "md-clear",
    "hv-tlbflush",
    "hv-evmcs",
    "aes",
];

fn names_other_flags(flags: &str) -> bool {
    let mut flags = flags.split(';').map(|flag| flag.trim_start_matches(['+', '-']));
    flags.any(|flag| !OLD_CPU_FLAGS.contains(&flag))
}

fn is_boot_device(text: &str) -> bool {
    let stem = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    stem.len() < text.len()
        && ["ide", "sata", "scsi", "virtio", "net", "hostpci", "usb"].contains(&stem)
}

const CONTENTS: [&str; 8] =
    ["images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"];

/// The processor models that are built in.
pub fn cpu_models() -> impl Iterator<Item = &'static str> {
    CPU_MODELS.into_iter()
}

const CPU_MODELS: [&str; 67] = [
    "486",
    "Broadwell",
    "Broadwell-IBRS",
    "Broadwell-noTSX",
    "Broadwell-noTSX-IBRS",
    "Cascadelake-Server",
    "Cascadelake-Server-noTSX",
    "Cascadelake-Server-v2",
    "Cascadelake-Server-v4",
    "Cascadelake-Server-v5",
    "Conroe",
    "Cooperlake",
    "Cooperlake-v2",
    "EPYC",
    "EPYC-Genoa",
    "EPYC-IBPB",
    "EPYC-Milan",
    "EPYC-Milan-v2",
    "EPYC-Rome",
    "EPYC-Rome-v2",
    "EPYC-v3",
    "GraniteRapids",
    "Haswell",
    "Haswell-IBRS",
    "Haswell-noTSX",
    "Haswell-noTSX-IBRS",
    "Icelake-Client",
    "Icelake-Server",
    "Icelake-Server-noTSX",
    "IvyBridge",
    "IvyBridge-IBRS",
    "KnightsMill",
    "Nehalem",
    "Nehalem-IBRS",
    "Opteron_G1",
    "Opteron_G2",
    "Opteron_G3",
    "Opteron_G4",
    "Opteron_G5",
    "Penryn",
    "SandyBridge",
    "SandyBridge-IBRS",
    "SapphireRapids",
    "Skylake-Client",
    "Skylake-Client-IBRS",
    "Skylake-Client-noTSX-IBRS",
    "Skylake-Server",
    "Skylake-Server-IBRS",
    "Skylake-Server-noTSX-IBRS",
    "Westmere",
    "Westmere-IBRS",
    "athlon",
    "core2duo",
    "coreduo",
    "host",
    "kvm32",
    "kvm64",
    "max",
    "pentium",
    "pentium2",
    "pentium3",
    "phenom",
    "qemu64",
    "x86-64-v2",
    "x86-64-v2-AES",
    "x86-64-v3",
    "x86-64-v4",
];

/// Property strings whose keys the published schema leaves out.
static STRINGS: LazyLock<BTreeMap<&str, BTreeMap<String, Definition>>> = LazyLock::new(|| {
    BTreeMap::from([
        ("pve-tfa-config", {
            let mut keys = table(&[("type", "", false), ("id", "", false), ("key", "", false)]);
            keys.extend(table(&[("url", "", false), ("digits", "", false), ("step", "", false)]));
            if let Some(definition) = keys.get_mut("type") {
                definition.optional = false;
                definition.values = Some(vec!["yubico".to_owned(), "oath".to_owned()]);
            }
            keys
        }),
        ("pve-qm-boot", table(&[("legacy", "", true), ("order", "boot-order", false)])),
        ("pve-qm-ipconfig", {
            let mut keys = table(&[
                ("ip", "pve-ipv4-config", false),
                ("gw", "ipv4", false),
                ("ip6", "pve-ipv6-config", false),
                ("gw6", "", false),
            ]);
            for (key, needed) in [("gw", "ip"), ("gw6", "ip6")] {
                if let Some(definition) = keys.get_mut(key) {
                    definition.requires = Some(needed.to_owned());
                }
            }
            keys
        }),
        (
            "pve-qm-cicustom",
            table(&[
                ("meta", "pve-volume-id", false),
                ("network", "pve-volume-id", false),
                ("user", "pve-volume-id", false),
                ("vendor", "pve-volume-id", false),
            ]),
        ),
    ])
});

fn table(keys: &[(&str, &str, bool)]) -> BTreeMap<String, Definition> {
    keys.iter()
        .map(|(key, format, default_key)| {
            let definition = Definition {
                kind: Some("string".to_owned()),
                optional: true,
                default_key: *default_key,
                format: (!format.is_empty()).then(|| Format::Named((*format).to_owned())),
                ..Definition::default()
            };
            ((*key).to_owned(), definition)
        })
        .collect()
}
