//! Storages and the volumes on them.

use std::path::PathBuf;

use super::Disks;
use super::World;

/// A storage as `storage.cfg` defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Its id.
    pub name: String,
    /// `dir`, `zfspool`, `lvmthin` ….
    pub kind: String,
    /// What it may hold, in the order of the file.
    pub content: Vec<String>,
    /// The directory of a storage that keeps files.
    pub path: Option<String>,
    /// The only nodes that have it.
    pub nodes: Option<Vec<String>>,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Whether it answers; an enabled storage that does not is `inactive`.
    pub reachable: bool,
    /// KiB in all.
    pub total: u64,
    /// KiB in use.
    pub used: u64,
    /// Other options, in order.
    pub options: Vec<(String, String)>,
}

/// Something on a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The storage's id.
    pub storage: String,
    /// The node that has it, when the storage is not shared.
    pub node: Option<String>,
    /// The part after the colon of the volume id.
    pub name: String,
    /// `images`, `iso`, `import` ….
    pub content: String,
    /// `raw`, `qcow2` ….
    pub format: String,
    /// Bytes.
    pub size: u64,
    /// The guest it belongs to.
    pub vmid: Option<u32>,
    /// The file that it was made from.
    pub imported_from: Option<String>,
}

impl Storage {
    /// A directory that holds `content` (separated by commas).
    pub fn directory(name: &str, path: &str, content: &str) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(name, "dir", content) }
    }

    /// A storage of any kind, enabled and half full.
    pub fn new(name: &str, kind: &str, content: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            content: content.split(',').map(str::to_owned).collect(),
            path: matches!(kind, "nfs" | "cifs" | "btrfs").then(|| format!("/mnt/pve/{name}")),
            nodes: None,
            disabled: false,
            reachable: true,
            total: 264_212_084,
            used: 25_975_312,
            options: match kind {
                "zfspool" => vec![("pool".to_owned(), "rpool/data".to_owned())],
                "lvmthin" => vec![
                    ("thinpool".to_owned(), "data".to_owned()),
                    ("vgname".to_owned(), "pve".to_owned()),
                ],
                "lvm" => vec![("vgname".to_owned(), "pve".to_owned())],
                "rbd" => vec![("pool".to_owned(), "rbd".to_owned())],
                _ => Vec::new(),
            },
        }
    }

    /// Whether its volumes are files with `VMID/` in front and an extension behind.
    pub fn keeps_files(&self) -> bool {
        matches!(self.kind.as_str(), "dir" | "nfs" | "cifs" | "btrfs" | "cephfs" | "glusterfs")
    }

    /// Whether every node sees the same volumes.
    pub fn shared(&self) -> bool {
        matches!(self.kind.as_str(), "nfs" | "cifs" | "rbd" | "cephfs" | "glusterfs")
            || self.options.iter().any(|(key, value)| key == "shared" && value == "1")
    }

    /// Whether a node may use it.
    pub fn on(&self, node: &str) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.iter().any(|known| known == node))
    }

    /// Whether it may hold this.
    pub fn holds(&self, content: &str) -> bool {
        self.content.iter().any(|known| known == content)
    }

    /// Its section of `storage.cfg`.
    pub fn section(&self) -> String {
        let mut text = format!("{}: {}\n", self.kind, self.name);
        let mut line = |key: &str, value: &str| {
            text.push('\t');
            text.push_str(format!("{key} {value}").trim_end());
            text.push('\n');
        };
        if self.disabled {
            line("disable", "");
        }
        if let Some(path) = &self.path {
            line("path", path);
        }
        line("content", &self.content.join(","));
        if let Some(nodes) = &self.nodes {
            line("nodes", &nodes.join(","));
        }
        for (key, value) in &self.options {
            line(key, value);
        }
        text
    }
}

impl Volume {
    /// The volume id.
    pub fn id(&self) -> String {
        format!("{}:{}", self.storage, self.name)
    }
}

impl World {
    /// The volume of this id as `node` sees it.
    pub fn volume(&self, node: &str, storage: &str, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| is(volume, node, storage, name))
    }

    /// Like [`World::volume`], to be changed.
    pub fn volume_mut(&mut self, node: &str, storage: &str, name: &str) -> Option<&mut Volume> {
        self.volumes.iter_mut().find(|volume| is(volume, node, storage, name))
    }

    /// Puts a volume on a storage; on a storage that is not shared it belongs to `node`.
    pub fn put_volume(&mut self, node: &str, mut volume: Volume) {
        let shared = self.storages.get(&volume.storage).is_some_and(Storage::shared);
        volume.node = (!shared).then(|| node.to_owned());
        self.volumes.push(volume);
    }

    /// Takes a volume away.
    pub fn take_volume(&mut self, node: &str, storage: &str, name: &str) -> Option<Volume> {
        let place = self.volumes.iter().position(|volume| is(volume, node, storage, name))?;
        Some(self.volumes.remove(place))
    }

    /// The name for a VM's next disk on a storage: the first number that is free there.
    pub fn free_disk_name(&self, node: &str, storage: &Storage, vmid: u32, format: &str) -> String {
        let stem = |number: u32| format!("vm-{vmid}-disk-{number}");
        let taken = |number: u32| {
            self.volumes
                .iter()
                .filter(|volume| volume.storage == storage.name)
                .filter(|volume| volume.node.as_deref().is_none_or(|owner| owner == node))
                .any(|volume| {
                    let name = volume.name.rsplit('/').next().unwrap_or_default();
                    name.split('.').next() == Some(stem(number).as_str())
                })
        };
        let number = (0..100_000).find(|number| !taken(*number)).unwrap_or_default();
        if storage.keeps_files() {
            format!("{vmid}/{}.{format}", stem(number))
        } else {
            stem(number)
        }
    }

    /// The path that Proxmox VE names for a volume.
    pub fn path_of(&self, storage: &Storage, name: &str) -> String {
        let base = storage.path.clone().unwrap_or_else(|| match storage.kind.as_str() {
            "zfspool" => "/dev/zvol/rpool/data".to_owned(),
            "lvmthin" | "lvm" => "/dev/pve".to_owned(),
            _ => format!("/dev/{}", storage.name),
        });
        match name.split_once('/') {
            Some(("iso", file)) => format!("{base}/template/iso/{file}"),
            Some(("vztmpl", file)) => format!("{base}/template/cache/{file}"),
            Some(("backup", file)) => format!("{base}/dump/{file}"),
            Some(("import" | "snippets", _)) | None => format!("{base}/{name}"),
            Some(_) => format!("{base}/images/{name}"),
        }
    }

    /// The file that stands for a volume in real mode: below the directory of [`Disks::Real`], by
    /// node where the storage is not shared. In acted mode it is the path that Proxmox VE names,
    /// and nothing lies there.
    pub fn file_of(&self, node: &str, storage: &Storage, name: &str) -> PathBuf {
        match &self.disks {
            Disks::Acted => PathBuf::from(self.path_of(storage, name)),
            Disks::Real(directory) => {
                let owner = if storage.shared() { "shared" } else { node };
                directory.join(owner).join(&storage.name).join(name)
            }
        }
    }
}

fn is(volume: &Volume, node: &str, storage: &str, name: &str) -> bool {
    volume.storage == storage
        && volume.name == name
        && volume.node.as_deref().is_none_or(|owner| owner == node)
}

/// A size as the configuration writes it: the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    let mut size = bytes;
    for unit in ["", "K", "M", "G"] {
        if !size.is_multiple_of(1024) {
            return format!("{size}{unit}");
        }
        size /= 1024;
    }
    format!("{size}T")
}

/// Reads a size with its unit; bytes without one.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1_u64 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        b'T' => (&text[..text.len() - 1], 1 << 40),
        _ => (text, 1),
    };
    if !number.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok().filter(|value| *value >= 0.0)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size with a fraction is rounded to bytes"
    )]
    Some((value * factor as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::format_size;
    use super::parse_size;

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_divides_them() {
        let written: Vec<String> =
            [0, 1536, 52_428_800, 1 << 30, 1_140_850_688].map(format_size).into();
        assert_eq!(written, ["0T", "1536", "50M", "1G", "1088M"]);
        assert_eq!(parse_size("1.5G"), Some(1_610_612_736));
        assert_eq!(parse_size("+1"), None);
    }
}
