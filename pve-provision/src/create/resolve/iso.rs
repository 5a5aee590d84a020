//! Which ISO is meant by a name that says no version: the newest.

use std::cmp::Ordering;

use pve_api::Volume;

/// The volume that a text means: a volume id or a file name as it is, else the newest file whose
/// name is that text and a version.
pub(super) fn find<'a>(volumes: &'a [Volume], text: &str) -> Option<&'a Volume> {
    volumes
        .iter()
        .find(|volume| volume.id.as_str() == text || file_name(volume) == text)
        .or_else(|| newest(volumes, text))
}

/// The file's name, as it is shown.
pub(super) fn file_name(volume: &Volume) -> &str {
    let name = volume.id.name();
    name.strip_prefix("iso/").unwrap_or(name)
}

fn newest<'a>(volumes: &'a [Volume], prefix: &str) -> Option<&'a Volume> {
    let versioned = volumes.iter().filter_map(|volume| {
        let parts = version(file_name(volume).strip_prefix(prefix)?)?;
        Some((parts, volume))
    });
    let newest = versioned.max_by(|(a, first), (b, second)| {
        compare(a, b).then_with(|| first.created.cmp(&second.created))
    });
    newest.map(|(_, volume)| volume)
}

/// The parts of `-25.05.805252.b43c397f6c21-x86_64-linux.iso`, if it begins with a number and is
/// not made for another kind of processor.
fn version(rest: &str) -> Option<Vec<&str>> {
    let rest = rest.strip_suffix(".iso")?;
    if rest.contains("aarch64") || !rest.starts_with(['-', '.', '_']) {
        return None;
    }
    let parts: Vec<&str> = rest.split(['-', '.', '_']).skip(1).collect();
    parts.first()?.parse::<u64>().is_ok().then_some(parts)
}

/// Part by part: numbers as numbers and above words, words as words.
fn compare(a: &[&str], b: &[&str]) -> Ordering {
    let part = |text: &str| text.parse::<u64>().ok();
    let pairs = a.iter().zip(b).map(|(a, b)| match (part(a), part(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a_number, b_number) => a_number.cmp(&b_number).then_with(|| a.cmp(b)),
    });
    pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(names: &[&str]) -> Vec<Volume> {
        let volume = |name: &&str| {
            let volid = format!("cephfs:iso/{name}");
            serde_json::from_value(serde_json::json!({ "volid": volid, "ctime": 7 })).unwrap()
        };
        names.iter().map(volume).collect()
    }

    fn found<'a>(volumes: &'a [Volume], text: &str) -> Option<&'a str> {
        find(volumes, text).map(file_name)
    }

    #[test]
    fn the_newest_is_found_by_year_month_and_build() {
        let all = volumes(&[
            "nixos-minimal-24-11.999999.ffff.x86_64-linux.iso",
            "nixos-minimal-25.05.99.b43c397f6c21-x86_64-linux.iso",
            "nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso",
            "nixos-minimal-25.11.1.aaaa-aarch64-linux.iso",
            "nixos-minimal-new-kernel-25.11.1.aaaa-x86_64-linux.iso",
            "nixos-graphical-26.05.1.aaaa-x86_64-linux.iso",
            "nixos-minimal-9.09.1-x86_64-linux.iso",
        ]);
        let newest = "nixos-minimal-25.05.805252.b43c397f6c21-x86_64-linux.iso";
        assert_eq!(found(&all, "nixos-minimal"), Some(newest));
        assert_eq!(found(&all[..1], "nixos-minimal"), Some(file_name(&all[0])));
        assert_eq!(found(&all[3..6], "nixos-minimal"), None);
    }

    #[test]
    fn a_file_may_be_named_whole() {
        let all = volumes(&["debian-13.1.0-amd64-netinst.iso", "debian-13.2.0-amd64-netinst.iso"]);
        assert_eq!(found(&all, "debian-13.1.0-amd64-netinst.iso"), Some(file_name(&all[0])));
        assert_eq!(found(&all, all[0].id.as_str()), Some(file_name(&all[0])));
        assert_eq!(found(&all, "debian"), Some(file_name(&all[1])));
        assert_eq!(found(&all, "debian-13"), Some(file_name(&all[1])));
        assert_eq!(found(&all, "deb"), None);
    }
}
