//! The screen Disks.

use std::collections::BTreeSet;

use pve_api::Content;

use super::Choices;
use super::Resolver;
use super::Rule;
use super::os::settle_storage;
use super::os::template_fits;
use crate::create::field::Field;
use crate::create::field::Key;
use crate::create::render::node_name;
use crate::create::value::Value;

/// Buses, what they are called, and the last number on each.
const BUSES: [(&str, &str, u64); 4] =
    [("scsi", "SCSI", 30), ("virtio", "VirtIO Block", 15), ("sata", "SATA", 5), ("ide", "IDE", 3)];

const CACHES: [(&str, &str); 6] = [
    ("default", "Default (No cache)"),
    ("directsync", "Direct sync"),
    ("writethrough", "Write through"),
    ("writeback", "Write back"),
    ("unsafe", "Write back (unsafe)"),
    ("none", "No cache"),
];

const AIO: [(&str, &str); 4] = [
    ("default", "Default (io_uring)"),
    ("io_uring", "io_uring"),
    ("native", "native"),
    ("threads", "threads"),
];

pub(super) fn resolve(cx: &mut Resolver<'_>) {
    let count = cx.draft.disks();
    cx.settle(Field::Disks, Rule::of(count as u64));
    if let Some(answer) = cx.answers.0.get_mut(&Field::Disks.into()) {
        answer.value = Value::Number(count as u64);
    }
    let mut taken = reserved(cx);
    for disk in 0..count {
        place(cx, disk, &mut taken);
        settle_storage(cx, Key::disk(disk, Field::DiskStorage), &Content::Images, true);
        size(cx, disk);
        let storage = Key::disk(disk, Field::DiskStorage);
        settle_format(cx, Key::disk(disk, Field::DiskFormat), storage, true);
        options(cx, disk);
    }
}

/// Places on which no disk may be put: the CD drive's, and those that q35 does not have.
fn reserved(cx: &Resolver<'_>) -> BTreeSet<(String, u64)> {
    let mut taken = BTreeSet::from([("ide".to_owned(), 2)]);
    if cx.answers.text(Field::Machine) == "q35" {
        taken.extend([("ide".to_owned(), 1), ("ide".to_owned(), 3)]);
    }
    taken
}

/// Bus and number. Unless said, a disk takes the lowest number that neither another disk before it
/// has nor one behind it was told to take.
fn place(cx: &mut Resolver<'_>, disk: usize, taken: &mut BTreeSet<(String, u64)>) {
    let (bus_key, device_key) =
        (Key::disk(disk, Field::DiskBus), Key::disk(disk, Field::DiskDevice));
    let buses: Vec<(&str, &str)> = BUSES.iter().map(|(value, label, _)| (*value, *label)).collect();
    let own = if cx.answers.text(Field::OsVersion) == "l26" { "scsi" } else { "ide" };
    let rule = Rule::choice(own, Choices::fixed(&buses)).preset(template_fits(cx));
    cx.settle(bus_key, rule);
    let bus = cx.answers.text(bus_key).to_owned();
    let last = BUSES.iter().find(|(value, _, _)| *value == bus).map_or(0, |(_, _, last)| *last);
    let told: Vec<u64> = (disk + 1..cx.answers.disks())
        .filter_map(|other| cx.draft.said(Key::disk(other, Field::DiskDevice))?.number())
        .collect();
    let is_free = |number: &u64| !taken.contains(&(bus.clone(), *number));
    let free = (0..=last).find(|number| is_free(number) && !told.contains(number));
    let free = free.or_else(|| (0..=last).find(is_free));
    cx.settle(device_key, Rule::of(free.map_or(Value::Empty, Value::Number)));
    let Some(number) = cx.answers.number(device_key) else {
        cx.problem(device_key, format!("there is no place left on {bus}"));
        return;
    };
    if number > last {
        cx.problem(device_key, format!("the last number on {bus} is {last}"));
    } else if !taken.insert((bus.clone(), number)) {
        let problem = match (bus.as_str(), number) {
            ("ide", 2) => "ide2 is the CD drive".to_owned(),
            ("ide", 1 | 3) if cx.answers.text(Field::Machine) == "q35" => {
                format!("q35 has no ide{number}: such a VM does not start")
            }
            _ => format!("another disk is {bus}{number}"),
        };
        cx.problem(device_key, problem);
    }
}

fn size(cx: &mut Resolver<'_>, disk: usize) {
    let key = Key::disk(disk, Field::DiskSize);
    cx.settle(key, Rule::of(Value::Decimal(32.0)).required("a size is needed"));
    let Value::Decimal(size) = *cx.answers.value(key) else { return };
    let storage = cx.answers.text(Key::disk(disk, Field::DiskStorage));
    let free = node_name(&cx.answers)
        .and_then(|node| cx.facts.storage(&node, storage))
        .and_then(|storage| storage.available);
    #[expect(clippy::cast_precision_loss, reason = "a figure for a person")]
    let free = free.map(|bytes| bytes as f64 / f64::from(1 << 30));
    if let Some(free) = free
        && size > free
    {
        let note =
            format!("{free:.1} GiB are left on '{storage}'; the disk can only grow into them");
        cx.note(key, note);
    }
}

const FORMATS: [(&str, &str); 3] =
    [("raw", "Raw disk image"), ("qcow2", "QEMU image format"), ("vmdk", "VMware image format")];

/// Settles the format of a volume on the storage that another field names.
pub(super) fn settle_format(cx: &mut Resolver<'_>, key: Key, storage: Key, shown: bool) {
    let offered = offered_formats(cx, storage);
    let offers = |format: &str| match &offered {
        Some(offered) => offered.iter().any(|one| one == format),
        None => format == "raw",
    };
    let all: Vec<(&str, &str)> =
        FORMATS.iter().copied().filter(|(format, _)| offers(format)).collect();
    let own = if offers("qcow2") { "qcow2" } else { "raw" };
    let template = cx.draft.template();
    let (fixed, reason) = if template.locks(key.field) {
        let value = cx.draft.preset(key).map_or(own, Value::text).to_owned();
        (value, Some(format!("the template '{}' leaves no choice", template.name())))
    } else if let ([(only, _)], true) = (all.as_slice(), offered.is_some()) {
        ((*only).to_owned(), Some("the storage knows no other".to_owned()))
    } else {
        (own.to_owned(), None)
    };
    let choices = if offered.is_some() { Choices::fixed(&all) } else { Choices::Free };
    cx.settle(key, Rule::choice(own, choices).lock(&*fixed, reason).shown(shown));
}

/// The formats that the storage of this field offers, as far as that is known.
pub(super) fn offered_formats(cx: &Resolver<'_>, storage: Key) -> Option<Vec<String>> {
    let node = node_name(&cx.answers)?;
    let storage = cx.facts.storage(&node, cx.answers.text(storage))?;
    storage.image_formats().map(|(formats, _)| formats)
}

fn options(cx: &mut Resolver<'_>, disk: usize) {
    let key = |field| Key::disk(disk, field);
    let bus = cx.answers.text(key(Field::DiskBus)).to_owned();
    cx.settle(key(Field::DiskCache), Rule::choice("default", Choices::fixed(&CACHES)));
    cx.settle(key(Field::DiskDiscard), Rule::of(false));
    let single = cx.answers.text(Field::Controller) == "virtio-scsi-single";
    let has_threads = bus == "virtio" || bus == "scsi";
    let own = bus == "virtio" || bus == "scsi" && single;
    cx.settle(key(Field::DiskIoThread), Rule::of(own).shown(has_threads));
    if bus == "scsi" && !single && cx.answers.is_on(key(Field::DiskIoThread)) {
        let note = "has an effect with the controller VirtIO SCSI single only";
        cx.note(key(Field::DiskIoThread), note);
    }
    cx.settle(key(Field::DiskSsd), Rule::of(false).shown(bus != "virtio"));
    cx.settle(key(Field::DiskBackup), Rule::of(true));
    cx.settle(key(Field::DiskSkipReplication), Rule::of(false));
    cx.settle(key(Field::DiskAio), Rule::choice("default", Choices::fixed(&AIO)));
    let cached = ["writethrough", "writeback", "unsafe"];
    if cx.answers.text(key(Field::DiskAio)) == "native"
        && cached.contains(&cx.answers.text(key(Field::DiskCache)))
    {
        let problem = "'native' needs the cache 'none' or 'directsync': such a VM does not start";
        cx.problem(key(Field::DiskAio), problem);
    }
}
