//! The server's own rules for texts, each with what would be right.

use std::path::Path;

use pve_api::NodeName;
use pve_api::PoolId;
use pve_api::StorageId;
use pve_api::Tag;
use pve_api::Volid;

use crate::create::field::Field;

/// A name: labels of letters, digits and `-`, joined by dots.
pub(super) fn name(text: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !text.split('.').all(label) {
        return Err(format!(
            "'{text}' is not a DNS name: letters, digits and '-', not at the ends of a part"
        ));
    }
    if text.split('.').any(|label| label.len() > 63) {
        return Err("a part of a DNS name has at most 63 characters".to_owned());
    }
    Ok(())
}

/// A name that was typed because the list of names could not be had.
pub(super) fn choice(field: Field, text: &str) -> Result<(), String> {
    let plain = |wanted: &str| {
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            Ok(())
        } else {
            Err(format!("'{text}' is not {wanted} (letters, digits, '-', '_' or '.')"))
        }
    };
    match field {
        Field::Node => text.parse::<NodeName>().map(drop).map_err(|error| error.to_string()),
        Field::Pool => text.parse::<PoolId>().map(drop).map_err(|error| error.to_string()),
        Field::Iso => volume(text).map(drop),
        Field::Bridge => plain("a bridge"),
        Field::CpuType => plain("a CPU model"),
        Field::DiskFormat | Field::EfiFormat if !["raw", "qcow2", "vmdk"].contains(&text) => {
            Err(format!("'{text}' is not a format (raw, qcow2 or vmdk)"))
        }
        _ if field.is_storage() => {
            text.parse::<StorageId>().map(drop).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}

/// The volume of an image, as the server names it.
pub(super) fn volume(text: &str) -> Result<Volid, String> {
    let wrong = || format!("'{text}' is not a volume id (<storage>:iso/<file>.iso)");
    let Ok(volume) = text.parse::<Volid>() else { return Err(wrong()) };
    let file = volume.name().strip_prefix("iso/").map(Path::new);
    let kind = file.and_then(Path::extension).unwrap_or_default();
    let is_image = ["iso", "img"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    let is_plain = |letter: char| !letter.is_whitespace() && letter != ',';
    let is_flat = volume.name().matches('/').count() == 1;
    if is_image && is_flat && text.chars().all(is_plain) { Ok(volume) } else { Err(wrong()) }
}

pub(super) fn tag(text: &str) -> Result<(), String> {
    text.parse::<Tag>().map(drop).map_err(|error| error.to_string())
}

/// A hardware address of a single card, not of a group.
pub(super) fn mac(text: &str) -> Result<(), String> {
    let pairs: Vec<&str> = text.split(':').collect();
    let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    if pairs.len() != 6 || !pairs.iter().all(is_pair) {
        return Err(format!("'{text}' is not a MAC address, such as BC:24:11:00:00:01"));
    }
    if u8::from_str_radix(pairs[0], 16).is_ok_and(|first| first & 1 == 1) {
        return Err(format!("'{text}' is an address of a group: its second digit must be even"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_looked_up_must_at_least_be_one() {
        for (field, good, bad) in [
            (Field::Node, "pve1", "pve1.example.org"),
            (Field::Pool, "lab/web", "lab web"),
            (Field::DiskStorage, "ceph-pool", "ceph:1,format=raw"),
            (Field::IsoStorage, "cephfs", "c"),
            (Field::Iso, "cephfs:iso/a-1.2.iso", "debian.iso"),
            (Field::Iso, "local:iso/A.IMG", "local:iso/a.iso,media=disk"),
            (Field::Iso, "local:iso/a.img", "local:import/a.qcow2"),
            (Field::Bridge, "vmbr0.7_x", "vmbr0,tag=5"),
            (Field::CpuType, "custom-small", "host,hidden=1"),
            (Field::DiskFormat, "qcow2", "vdi"),
            (Field::EfiFormat, "raw", "raw "),
        ] {
            assert_eq!(choice(field, good), Ok(()), "{good}");
            assert!(choice(field, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_addresses_follow_the_rules_of_the_server() {
        for good in ["web", "a", "web-1.example.org", "1", "A-b"] {
            assert_eq!(name(good), Ok(()), "{good}");
        }
        for bad in ["-a", "a-", "a_b", "a..b", ".", "a b", "ü", "web!", &"a".repeat(64)] {
            assert!(name(bad).is_err(), "{bad}");
        }
        for good in ["BC:24:11:00:00:01", "bc:24:11:aa:bb:cc", "00:00:00:00:00:00"] {
            assert_eq!(mac(good), Ok(()), "{good}");
        }
        for bad in
            ["BD:24:11:00:00:01", "BC:24:11:00:00", "BC-24-11-00-00-01", "x", "BC:24:11:00:00:0G"]
        {
            assert!(mac(bad).is_err(), "{bad}");
        }
    }
}
