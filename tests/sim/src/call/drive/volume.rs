//! Volumes: where they may lie, how they come and how they go.

use crate::call::Died;
use crate::call::Output;
use crate::effect::DiskChange;
use crate::effect::Effect;
use crate::schema::Properties;
use crate::schema::parse_volume_id;
use crate::world::Storage;
use crate::world::Volume;
use crate::world::World;

/// Bytes of the largest file that the recorded file system keeps.
const LARGEST_FILE: u64 = 16 << 40;

/// A storage of this name.
pub fn find_storage<'a>(world: &'a World, name: &str) -> Result<&'a Storage, Died> {
    let missing = || Died::new(format!("storage '{name}' does not exist"));
    world.storages.get(name).ok_or_else(missing)
}

/// A storage that a node may use now.
pub fn usable_storage<'a>(world: &'a World, node: &str, name: &str) -> Result<&'a Storage, Died> {
    let storage = find_storage(world, name)?;
    if storage.disabled {
        return Err(Died::new(format!("storage '{name}' is disabled")));
    }
    if !storage.on(node) {
        return Err(Died::new(format!("storage '{name}' is not available on node '{node}'")));
    }
    if !storage.reachable {
        return Err(Died::new(format!("storage '{name}' is not online")));
    }
    Ok(storage)
}

pub(super) fn require_images(storage: &Storage, as_parameter: bool) -> Result<(), Died> {
    if storage.holds("images") {
        return Ok(());
    }
    if as_parameter {
        let text = format!("storage '{}' does not support vm images", storage.name);
        return Err(Died::parameter("storage", text));
    }
    Err(Died::new(format!("storage {} does not support vm images", storage.name)))
}

/// Like the check of a drive's storage, in the words of `qm disk import`.
pub fn require_images_for_import(storage: &Storage) -> Result<(), Died> {
    require_images(storage, false)
}

/// Whether a name could be a volume of this kind of storage.
pub fn parse_volume_name(storage: &Storage, name: &str) -> Result<(), Died> {
    let fits = if storage.keeps_files() {
        name.split_once('/').is_some_and(|(folder, file)| {
            let known = matches!(folder, "iso" | "vztmpl" | "backup" | "import" | "snippets");
            let owned = folder.bytes().all(|byte| byte.is_ascii_digit())
                && [".raw", ".qcow2", ".vmdk"].iter().any(|end| file.ends_with(end));
            known || owned
        })
    } else {
        ["vm-", "base-", "subvol-"].iter().any(|start| name.starts_with(start))
    };
    let kind = match storage.kind.as_str() {
        "zfspool" => "zfs",
        "lvm" | "lvmthin" => "lvm",
        "rbd" => "rbd",
        _ => "directory",
    };
    if fits {
        return Ok(());
    }
    Err(Died::new(format!("unable to parse {kind} volume name '{name}'")))
}

/// A place for a new disk.
#[derive(Debug, Clone)]
pub struct Allocated {
    /// The storage's id.
    pub storage: String,
    /// The volume's name.
    pub name: String,
    /// `raw`, `qcow2` or `vmdk`.
    pub format: String,
    /// Bytes.
    pub size: u64,
}

impl Allocated {
    /// The volume id.
    pub fn id(&self) -> String {
        format!("{}:{}", self.storage, self.name)
    }
}

/// Makes a volume for a VM and says what the tools say of it.
pub fn allocate(
    world: &mut World,
    node: &str,
    vmid: u32,
    wanted: (&str, &str, u64),
    imported_from: Option<&str>,
    output: &mut Output,
) -> Result<Allocated, Died> {
    let (storage_name, format, size) = wanted;
    let storage = usable_storage(world, node, storage_name)?.clone();
    let format = if storage.keeps_files() { format } else { "raw" };
    let name = world.free_disk_name(node, &storage, vmid, format);
    let path = world.path_of(&storage, &name);
    say_formatting(&storage, &path, format, size, output);
    if storage.keeps_files() && size > LARGEST_FILE {
        let text = format!("The image size is too large for file format '{format}'");
        return Err(Died::new(format!("unable to create image: qemu-img: {path}: {text}")));
    }
    world.put_volume(node, volume(&storage, vmid, &name, format, size, imported_from));
    Ok(Allocated { storage: storage.name, name, format: format.to_owned(), size })
}

pub(super) fn volume(
    storage: &Storage,
    vmid: u32,
    name: &str,
    format: &str,
    size: u64,
    imported_from: Option<&str>,
) -> Volume {
    Volume {
        storage: storage.name.clone(),
        node: None,
        name: name.to_owned(),
        content: "images".to_owned(),
        format: format.to_owned(),
        size,
        vmid: Some(vmid),
        imported_from: imported_from.map(str::to_owned),
    }
}

/// What the tool behind a storage prints when it makes an image.
pub fn say_formatting(storage: &Storage, path: &str, format: &str, size: u64, output: &mut Output) {
    match (storage.keeps_files(), format) {
        (true, "qcow2") => output.say(format!(
            "Formatting '{path}', fmt=qcow2 cluster_size=65536 extended_l2=off \
             preallocation=metadata compression_type=zlib size={size} lazy_refcounts=off \
             refcount_bits=16"
        )),
        (true, _) => {
            output.say(format!("Formatting '{path}', fmt={format} size={size} preallocation=off"));
        }
        (false, _) if storage.kind.starts_with("lvm") => {
            let name = path.rsplit('/').next().unwrap_or_default();
            output.say(format!("  Logical volume \"{name}\" created."));
        }
        (false, _) => {}
    }
}

/// The lines of a copy's progress.
pub fn progress(size: u64) -> Vec<String> {
    const STEPS: u64 = 10;
    let total = bytes(size);
    let line = |done: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a percentage with two digits")]
        let percent = if size == 0 { 100.0 } else { done as f64 * 100.0 / size as f64 };
        format!("transferred {} of {total} ({percent:.2}%)", bytes(done))
    };
    (0..=STEPS).map(|step| line(size / STEPS * step)).chain([line(size)]).collect()
}

/// A number of bytes as the progress lines show it.
fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// The format of a new disk when none is named.
pub(super) fn default_format(world: &World, storage: &str) -> String {
    let option = world.storages.get(storage).and_then(|storage| {
        storage.options.iter().find(|(key, _)| key == "format").map(|(_, value)| value.clone())
    });
    option.unwrap_or_else(|| "raw".to_owned())
}

pub(super) fn created_effect(world: &World, node: &str, disk: &Allocated, output: &mut Output) {
    if let Some(storage) = world.storages.get(&disk.storage) {
        output.effect(Effect::Disk(DiskChange::Created {
            file: world.file_of(node, storage, &disk.name),
            format: disk.format.clone(),
            size: disk.size,
        }));
    }
}

/// Frees a volume that an option names, if it is this VM's; `cdrom` images and others' stay.
pub fn free(world: &mut World, node: &str, vmid: u32, value: &str, output: &mut Output) {
    let drive = Properties::parse(value);
    let Some(id) = drive.bare().or_else(|| drive.get("file")) else { return };
    let Some((storage, name)) = parse_volume_id(id) else { return };
    let owned = world.volume(node, storage, name).is_some_and(|volume| volume.vmid == Some(vmid));
    if !owned {
        return;
    }
    if let Some(found) = world.storages.get(storage) {
        let file = world.file_of(node, found, name);
        output.effect(Effect::Disk(DiskChange::Removed { file }));
    }
    world.take_volume(node, storage, name);
}
