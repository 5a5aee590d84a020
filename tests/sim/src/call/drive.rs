//! Drives as parameters: what one asks for, and how it is made.

use crate::call::Caller;
use crate::call::Died;
use crate::call::Output;
use crate::effect::DiskChange;
use crate::effect::Effect;
use crate::schema::Properties;
use crate::schema::parse_volume_id;
use crate::world::Configuration;
use crate::world::FileFacts;
use crate::world::Storage;
use crate::world::Volume;
use crate::world::World;
use crate::world::format_size;

/// The size of a cloud-init drive.
const CLOUD_INIT_SIZE: u64 = 4 << 20;

/// A drive that was asked for, checked as far as that goes before anything is done.
#[derive(Debug, Clone)]
pub struct Drive {
    /// `scsi0`, `ide2` ….
    pub slot: String,
    /// Its options; the volume stands apart.
    options: Properties,
    wish: Wish,
}

#[derive(Debug, Clone)]
enum Wish {
    /// `none`, `cdrom` or a path: kept as it is.
    Kept(String),
    CloudInit(String),
    New {
        storage: String,
        size: u64,
    },
    Import {
        storage: String,
        source: Source,
    },
    Attached {
        storage: String,
        name: String,
    },
}

/// What an import reads.
#[derive(Debug, Clone)]
pub struct Source {
    /// The path or volume id, as given.
    pub text: String,
    /// The file behind it.
    pub path: String,
    /// What is known of the file, if it exists.
    pub facts: Option<FileFacts>,
    /// The format that a copy keeps: a volume's own, raw for a path.
    pub keeps: String,
}

impl Drive {
    /// Whether this is a new cloud-init drive.
    pub fn is_cloud_init(&self) -> bool {
        matches!(self.wish, Wish::CloudInit(_))
    }
}

/// Checks the text of a drive option.
pub fn parse(
    world: &World,
    caller: &Caller,
    node: &str,
    slot: &str,
    text: &str,
) -> Result<Drive, Died> {
    let mut options = Properties::parse(text);
    let file =
        ["", "file", "volume"].iter().find_map(|key| options.remove(key)).unwrap_or_default();
    let import = options.remove("import-from");
    let wish = if matches!(file.as_str(), "none" | "cdrom") || file.starts_with('/') {
        Wish::Kept(file)
    } else {
        let (storage, name) = parse_volume_id(&file)
            .ok_or_else(|| Died::new(format!("unable to parse volume ID '{file}'")))?;
        let found = find_storage(world, storage)?;
        match import {
            Some(source) => {
                if name != "0" {
                    let text = "'import-from' requires special syntax - use \
                                <storage ID>:0,import-from=<source>";
                    return Err(Died::parameter(slot, text));
                }
                require_images(found, true)?;
                let source = source_of(world, caller, node, slot, &source)?;
                Wish::Import { storage: storage.to_owned(), source }
            }
            None if name == "cloudinit" => {
                require_images(found, true)?;
                Wish::CloudInit(storage.to_owned())
            }
            None => match gibibytes(name) {
                Some(size) => {
                    require_images(found, true)?;
                    Wish::New { storage: storage.to_owned(), size: special_size(slot, size) }
                }
                None => {
                    parse_volume_name(found, name)?;
                    Wish::Attached { storage: storage.to_owned(), name: name.to_owned() }
                }
            },
        }
    };
    Ok(Drive { slot: slot.to_owned(), options, wish })
}

/// Firmware variables and TPM state have sizes of their own.
fn special_size(slot: &str, size: u64) -> u64 {
    match slot {
        "efidisk0" => 528 << 10,
        "tpmstate0" => 4 << 20,
        _ => size,
    }
}

/// The size in a `STORAGE:SIZE` text: GiB, with a fraction if one likes.
fn gibibytes(text: &str) -> Option<u64> {
    let number = text.starts_with(|first: char| first.is_ascii_digit());
    number.then(|| format!("{text}G")).and_then(|text| crate::world::parse_size(&text))
}

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

fn require_images(storage: &Storage, as_parameter: bool) -> Result<(), Died> {
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

/// Finds what an `import-from` names.
fn source_of(
    world: &World,
    caller: &Caller,
    node: &str,
    slot: &str,
    text: &str,
) -> Result<Source, Died> {
    if text.starts_with('/') {
        if !caller.is_root() {
            let place = "/usr/share/perl5/PVE/Storage.pm line 651.";
            let text = format!("Only root can pass arbitrary filesystem paths. at {place}");
            return Err(Died::new(text));
        }
        return Ok(path_source(world, text, text));
    }
    let (storage, name) = parse_volume_id(text)
        .ok_or_else(|| Died::new(format!("unable to parse volume ID '{text}'")))?;
    let found = find_storage(world, storage)?;
    parse_volume_name(found, name)?;
    if let Some((content @ ("iso" | "vztmpl" | "backup" | "snippets"), _)) = name.split_once('/') {
        let text = format!("{text} has wrong type '{content}' - needs to be 'images' or 'import'");
        return Err(Died::parameter(slot, text));
    }
    let volume = world.volume(node, storage, name);
    Ok(Source {
        text: text.to_owned(),
        path: world.path_of(found, name),
        facts: volume.map(|volume| FileFacts {
            format: if volume.format == "qcow2" { "qcow2" } else { "raw" },
            virtual_size: volume.size,
        }),
        keeps: volume.map_or_else(|| "raw".to_owned(), |volume| volume.format.clone()),
    })
}

/// A file of the node; `path` is where it is, `text` what it was called.
pub fn path_source(world: &World, text: &str, path: &str) -> Source {
    Source {
        text: text.to_owned(),
        path: path.to_owned(),
        facts: world.host.facts(path),
        keeps: "raw".to_owned(),
    }
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
    world.put_volume(node, volume(&storage, vmid, &name, format, size, imported_from));
    Ok(Allocated { storage: storage.name, name, format: format.to_owned(), size })
}

fn volume(
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

/// Makes what a drive asks for; returns the option's value.
pub fn make(
    world: &mut World,
    node: &str,
    vmid: u32,
    configuration: &Configuration,
    drive: &Drive,
    output: &mut Output,
) -> Result<String, Died> {
    let slot = &drive.slot;
    let mut options = drive.options.clone();
    let (id, created) = match &drive.wish {
        Wish::Kept(text) => (text.clone(), false),
        Wish::CloudInit(storage) => {
            let other = configuration
                .drives()
                .find(|(other, value)| other != slot && value.contains("-cloudinit"));
            if let Some((other, _)) = other {
                return Err(Died::new(format!(
                    "{slot} - cloud-init drive is already attached at '{other}'"
                )));
            }
            options.set("media", "cdrom");
            (cloud_init(world, node, vmid, storage, &options, output)?, true)
        }
        Wish::New { storage, size } => {
            let format = options.remove("format").unwrap_or_else(|| default_format(world, storage));
            let wanted = (storage.as_str(), format.as_str(), *size);
            let disk = allocate(world, node, vmid, wanted, None, output)?;
            created_effect(world, node, &disk, output);
            options.set("size", &format_size(disk.size));
            (disk.id(), true)
        }
        Wish::Import { storage, source } => {
            let format = options.remove("format").unwrap_or_else(|| source.keeps.clone());
            let disk = import(world, node, vmid, (storage, &format), source, output)?;
            options.set("size", &format_size(disk.size));
            (disk.id(), true)
        }
        Wish::Attached { storage, name } => {
            let id = format!("{storage}:{name}");
            let volume = world
                .volume(node, storage, name)
                .ok_or_else(|| Died::new(format!("volume '{id}' does not exist")))?;
            options.set("size", &format_size(volume.size));
            options.remove("format");
            (id, false)
        }
    };
    let mut value = Properties::default();
    value.set("", &id);
    for (key, text) in options.sorted().pairs() {
        value.set(key, text);
    }
    let value = value.to_string();
    if created {
        output.say(format!("{slot}: successfully created disk '{value}'"));
    }
    Ok(value)
}

/// The format of a new disk when none is named.
fn default_format(world: &World, storage: &str) -> String {
    let option = world.storages.get(storage).and_then(|storage| {
        storage.options.iter().find(|(key, _)| key == "format").map(|(_, value)| value.clone())
    });
    option.unwrap_or_else(|| "raw".to_owned())
}

fn cloud_init(
    world: &mut World,
    node: &str,
    vmid: u32,
    storage: &str,
    options: &Properties,
    output: &mut Output,
) -> Result<String, Died> {
    let storage = usable_storage(world, node, storage)?.clone();
    let format = if storage.keeps_files() {
        options.get("format").unwrap_or("qcow2").to_owned()
    } else {
        "raw".to_owned()
    };
    let name = if storage.keeps_files() {
        format!("{vmid}/vm-{vmid}-cloudinit.{format}")
    } else {
        format!("vm-{vmid}-cloudinit")
    };
    if world.take_volume(node, &storage.name, &name).is_none() {
        let path = world.path_of(&storage, &name);
        say_formatting(&storage, &path, &format, CLOUD_INIT_SIZE, output);
    }
    let made = volume(&storage, vmid, &name, &format, CLOUD_INIT_SIZE, None);
    let id = made.id();
    world.put_volume(node, made);
    Ok(id)
}

fn created_effect(world: &World, node: &str, disk: &Allocated, output: &mut Output) {
    if let Some(storage) = world.storages.get(&disk.storage) {
        output.effect(Effect::Disk(DiskChange::Created {
            file: world.file_of(node, storage, &disk.name),
            format: disk.format.clone(),
            size: disk.size,
        }));
    }
}

/// The effect of copying a source to a disk.
pub fn imported_effect(
    world: &World,
    node: &str,
    source: &Source,
    disk: &Allocated,
    output: &mut Output,
) {
    if let (Some(storage), Some(facts)) = (world.storages.get(&disk.storage), &source.facts) {
        output.effect(Effect::Disk(DiskChange::Imported {
            source: source.path.clone().into(),
            source_format: source_format(&source.path, facts).to_owned(),
            file: world.file_of(node, storage, &disk.name),
            format: disk.format.clone(),
        }));
    }
}

/// An image is read as what its name says, if that is a format; else as what it is.
pub fn source_format<'a>(path: &'a str, facts: &'a FileFacts) -> &'a str {
    match path.rsplit_once('.') {
        Some((_, end @ ("qcow2" | "raw" | "vmdk" | "qcow" | "qed" | "cloop"))) => end,
        _ => facts.format,
    }
}

fn import(
    world: &mut World,
    node: &str,
    vmid: u32,
    wanted: (&str, &str),
    source: &Source,
    output: &mut Output,
) -> Result<Allocated, Died> {
    let Some(facts) = &source.facts else {
        return Err(Died::new(format!("failed to stat '{}'", source.path)));
    };
    let (storage, format) = wanted;
    let from_volume = !source.text.starts_with('/');
    if from_volume {
        output.say(format!("create full clone of drive ({})", source.text));
    }
    let wanted = (storage, format, facts.virtual_size);
    let disk = allocate(world, node, vmid, wanted, Some(&source.path), output)?;
    if from_volume && world.release == crate::schema::Release::V9_2 {
        output.say(format!("allocated target volume '{}'", disk.id()));
    }
    for line in progress(facts.virtual_size) {
        output.say(line);
    }
    imported_effect(world, node, source, &disk, output);
    Ok(disk)
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
