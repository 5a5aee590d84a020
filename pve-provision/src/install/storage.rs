//! Whether the storage can take a VM's disk, judged by what `pvesm status` and `storage.cfg` say.

use super::pve_directory::StorageConfig;
use super::pve_directory::lists;

/// The storage types that disks are put on.
const TYPES: [&str; 8] = ["dir", "zfspool", "lvmthin", "nfs", "btrfs", "cifs", "lvm", "rbd"];

/// The type of the storage when disks can be put on it for VMs of these nodes.
///
/// # Errors
///
/// Says what was found instead, in words for the admin.
pub(crate) fn check(
    status: &str,
    config: Option<&StorageConfig>,
    name: &str,
    nodes: &[&str],
) -> Result<String, String> {
    // The header has changed between versions: rows are read by position.
    let rows = status.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.filter(|row| row.len() >= 3).collect();
    let Some(row) = rows.iter().find(|row| row[0] == name) else {
        let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
        return Err(format!(
            "storage '{name}' (ASSIGN_STORAGE) does not exist on this node; there are: {}",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ));
    };
    let (kind, state) = (row[1], row[2]);
    if state != "active" {
        let advice = if state == "disabled" { "enable it" } else { "see why it cannot be reached" };
        return Err(format!(
            "storage '{name}' is {state}: {advice}, or set ASSIGN_STORAGE to another"
        ));
    }
    if !TYPES.contains(&kind) {
        return Err(format!(
            "storage '{name}' is of type {kind}; a VM's disk goes on one of {}",
            TYPES.join(", ")
        ));
    }
    if let Some(content) = config.and_then(StorageConfig::content)
        && !lists(content, "images")
    {
        return Err(format!(
            "storage '{name}' holds {content}, not images: add images to its content, or set ASSIGN_STORAGE to another"
        ));
    }
    if let Some(having) = config.and_then(StorageConfig::nodes)
        && let Some(missing) = nodes.iter().find(|node| !lists(having, node))
    {
        return Err(format!("storage '{name}' is on {having} only, not on {missing}"));
    }
    Ok(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::pve_directory::StorageConfig;

    const STATUS: &str = "\
Name             Type     Status     Total (KiB)      Used (KiB) Available (KiB)        %
backup            pbs     active       264212084        25975312        69310576    9.83%
elsewhere         dir   disabled               0               0               0      N/A
isoonly           dir     active       264212084        25975312        69310576    9.83%
local-zfs     zfspool     active       264212084        25975312        69310576    9.83%
nas               nfs   inactive               0               0               0    0.00%
";
    const CONFIG: &str = "dir: isoonly\n\tcontent iso,vztmpl\n\nzfspool: local-zfs\n\tnodes pve1,pve2\n\tcontent images,rootdir\n";

    fn checked(name: &str, node: &str) -> Result<String, String> {
        check(STATUS, StorageConfig::find(CONFIG, name).as_ref(), name, &["pve1", node])
    }

    #[test]
    fn a_storage_for_disks_is_accepted() {
        assert_eq!(checked("local-zfs", "pve2").unwrap(), "zfspool");
    }

    #[test]
    fn what_is_wrong_with_a_storage_is_told() {
        let found = [
            ("nosuch", "pve1"),
            ("elsewhere", "pve1"),
            ("nas", "pve1"),
            ("isoonly", "pve1"),
            ("backup", "pve1"),
            ("local-zfs", "pve3"),
        ]
        .map(|(name, node)| checked(name, node).unwrap_err());
        insta::assert_snapshot!(found.join("\n"), @"
        storage 'nosuch' (ASSIGN_STORAGE) does not exist on this node; there are: backup, elsewhere, isoonly, local-zfs, nas
        storage 'elsewhere' is disabled: enable it, or set ASSIGN_STORAGE to another
        storage 'nas' is inactive: see why it cannot be reached, or set ASSIGN_STORAGE to another
        storage 'isoonly' holds iso,vztmpl, not images: add images to its content, or set ASSIGN_STORAGE to another
        storage 'backup' is of type pbs; a VM's disk goes on one of dir, zfspool, lvmthin, nfs, btrfs, cifs, lvm, rbd
        storage 'local-zfs' is on pve1,pve2 only, not on pve3
        ");
    }
}
