//! Drives as parameters: what one asks for, and how it is made.

use crate::call::Caller;
use crate::call::Died;
use crate::call::Output;
use crate::call::guard;
use crate::effect::DiskChange;
use crate::effect::Effect;
use crate::schema::Properties;
use crate::schema::Release;
use crate::schema::parse_volume_id;
use crate::world::Configuration;
use crate::world::FileFacts;
use crate::world::World;
use crate::world::format_size;

mod volume;

pub use volume::Allocated;
pub use volume::allocate;
pub use volume::find_storage;
pub use volume::free;
pub use volume::parse_volume_name;
pub use volume::progress;
pub use volume::require_images_for_import;
pub use volume::say_formatting;
pub use volume::usable_storage;

use self::volume::created_effect;
use self::volume::default_format;
use self::volume::require_images;
use self::volume::volume;

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
    options.tidy_booleans();
    let wish = if matches!(file.as_str(), "none" | "cdrom") || file.starts_with('/') {
        Wish::Kept(file)
    } else {
        let (storage, name) = parse_volume_id(&file)
            .ok_or_else(|| Died::new(format!("unable to parse volume ID '{file}'")))?;
        let found = find_storage(world, storage)?;
        let made = import.is_some() || name == "cloudinit" || gibibytes(name).is_some();
        if made {
            let path = format!("/storage/{storage}");
            guard::require(world, caller, &path, "Datastore.AllocateSpace")?;
        }
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
            None => {
                if let Some(size) = gibibytes(name) {
                    require_images(found, true)?;
                    Wish::New { storage: storage.to_owned(), size: special_size(slot, size) }
                } else {
                    parse_volume_name(found, name)?;
                    Wish::Attached { storage: storage.to_owned(), name: name.to_owned() }
                }
            }
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
            let line = match world.release {
                Release::V9_2 => 651,
                Release::V8_4 => 581,
            };
            let place = format!("/usr/share/perl5/PVE/Storage.pm line {line}.");
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
    let path = world.path_of(found, name);
    Ok(Source {
        text: text.to_owned(),
        // A file's own header knows better than the listing how large its image is.
        facts: volume.map(|volume| {
            world.host.facts(&path).unwrap_or(FileFacts {
                format: if volume.format == "qcow2" { "qcow2" } else { "raw" },
                virtual_size: volume.size,
            })
        }),
        path,
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
            if slot == "efidisk0" {
                say_variables(world.release, &options, disk.size, output);
            }
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

/// What is printed when firmware variables are copied to their disk.
fn say_variables(release: Release, options: &Properties, size: u64, output: &mut Output) {
    for line in progress(size) {
        output.say(line);
    }
    if release == Release::V8_4 {
        return;
    }
    let keys = if options.get("pre-enrolled-keys") == Some("1") { ".ms" } else { "" };
    let file = format!("/usr/share/pve-edk2-firmware//OVMF_VARS_4M{keys}.fd");
    output.say(format!("INFO: reading raw edk2 varstore from {file}"));
    output.say("INFO: var store range: 0x64 -> 0x40000");
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
    if from_volume && world.release == Release::V9_2 {
        output.say(format!("allocated target volume '{}'", disk.id()));
    }
    for line in progress(facts.virtual_size) {
        output.say(line);
    }
    imported_effect(world, node, source, &disk, output);
    Ok(disk)
}
