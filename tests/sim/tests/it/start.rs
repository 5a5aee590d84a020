//! The worlds in which the recorded command lines begin.
//!
//! The recordings are one long session; before its first command the API calls had left VMs,
//! storages and volumes, which stand here.

use std::net::Ipv4Addr;

use pve_sim::world::Configuration;
use pve_sim::world::Guest;
use pve_sim::world::Kind;
use pve_sim::world::Running;
use pve_sim::world::Storage;
use pve_sim::world::Volume;
use pve_sim::world::World;

/// When the session began.
const START: u64 = 1_796_046_400;

/// The single node, with these keys in root's directory.
pub(crate) fn single(keys: &str) -> World {
    let mut world = World::new(&[("pve1", Ipv4Addr::new(10, 98, 0, 10))], START);
    world.entropy = pve_sim::world::Entropy::new(1);
    let content = "snippets,vztmpl,images,rootdir,iso,backup,import";
    let mut scratch = Storage::directory("scratch", "/srv/scratch", "import,images");
    scratch.options.push(("prune-backups".to_owned(), "keep-all=1".to_owned()));
    let mut off = Storage::directory("off", "/srv/off", "images");
    off.disabled = true;
    let mut elsewhere = Storage::directory("elsewhere", "/srv/elsewhere", "images");
    elsewhere.nodes = Some(vec!["pve2".to_owned()]);
    let isoonly = Storage::directory("isoonly", "/srv/isoonly", "iso,vztmpl");
    let local = Storage::directory("local", "/var/lib/vz", content);
    for storage in [local, scratch, isoonly, off, elsewhere] {
        world.storages.insert(storage.name.clone(), storage);
    }
    volumes(&mut world);
    vm(
        &mut world,
        "pve1",
        100,
        &[
            ("boot", "order=scsi0"),
            ("memory", "256"),
            ("name", "first"),
            ("scsi0", "local:100/vm-100-disk-0.qcow2,size=1G"),
        ],
    );
    vm(&mut world, "pve1", 111, &[("boot", " "), ("cores", "2"), ("memory", "1024")]);
    files(&mut world, keys);
    world
}

/// Two nodes; `pvea` is the one whose commands were recorded.
pub(crate) fn cluster() -> World {
    let addresses = [10, 11, 12].map(|last| Ipv4Addr::new(10, 98, 0, last));
    let mut world = World::new(&[("pvea", addresses[1]), ("pveb", addresses[2])], START);
    let mut onlya = Storage::directory("onlya", "/srv/onlya", "images");
    onlya.nodes = Some(vec!["pvea".to_owned()]);
    for storage in [Storage::directory("local", "/var/lib/vz", "images,iso"), onlya] {
        world.storages.insert(storage.name.clone(), storage);
    }
    let disk = |name: &str| format!("local:{name},size=1G");
    vm(
        &mut world,
        "pveb",
        200,
        &[
            ("boot", "order=scsi0"),
            ("memory", "128"),
            ("name", "mig"),
            ("scsi0", &disk("200/vm-200-disk-0.qcow2")),
        ],
    );
    vm(
        &mut world,
        "pveb",
        201,
        &[
            ("boot", "order=scsi0"),
            ("memory", "128"),
            ("name", "remote"),
            ("scsi0", "local:201/vm-201-disk-0.raw,size=50M"),
        ],
    );
    if let Some(guest) = world.guests.get_mut(&200) {
        guest.running = Some(Running { pid: 691, since: START - 98, paused: false });
    }
    world
}

/// Adds a VM with these options.
pub(crate) fn vm(world: &mut World, node: &str, vmid: u32, options: &[(&str, &str)]) {
    let mut configuration = Configuration::default();
    for (key, value) in options {
        configuration.options.insert((*key).to_owned(), (*value).to_owned());
    }
    let node = node.to_owned();
    world.guests.insert(vmid, Guest { kind: Kind::Qemu, node, configuration, running: None });
}

fn volumes(world: &mut World) {
    let kept: [(&str, &str, &str, u64, Option<u32>); 13] = [
        ("100/vm-100-disk-0.qcow2", "images", "qcow2", 1 << 30, Some(100)),
        ("121/vm-121-disk-9.raw", "images", "raw", 8 << 20, Some(121)),
        ("iso/cloud.img", "iso", "iso", 2_097_152, None),
        ("iso/small.iso", "iso", "iso", 1_048_576, None),
        ("iso/tiny-cloud.img", "iso", "iso", 196_616, None),
        ("import/c2.qcow2", "import", "qcow2", 16_849_408, None),
        ("import/c5.qcow2", "import", "qcow2", 16_849_408, None),
        ("import/cloud.qcow2", "import", "qcow2", 16_849_408, None),
        ("import/tiny-cloud.qcow2", "import", "qcow2", 196_616, None),
        ("import/tiny-guest.qcow2", "import", "qcow2", 16_849_408, None),
        ("import/with_space.qcow2", "import", "qcow2", 16_849_408, None),
        ("import/disk.raw", "import", "raw", 2_097_152, None),
        ("snippets/user.yaml", "snippets", "snippet", 26, None),
    ];
    for (name, content, format, size, vmid) in kept {
        let volume = Volume {
            storage: "local".to_owned(),
            node: None,
            name: name.to_owned(),
            content: content.to_owned(),
            format: format.to_owned(),
            size,
            vmid,
            imported_from: None,
        };
        world.put_volume("pve1", volume);
    }
}

/// The node's own files.
fn files(world: &mut World, keys: &str) {
    world.host.put("/root/key.pub", keys.as_bytes());
    world.host.put("/etc/passwd", &[b'x'; 1400]);
    for (name, size) in [("tiny-guest", 50_u64 << 20), ("tiny-cloud", 64 << 20)] {
        let mut head = b"QFI\xfb\0\0\0\x03".to_vec();
        head.resize(24, 0);
        head.extend(size.to_be_bytes());
        world.host.put(&format!("/var/lib/vz/import/{name}.qcow2"), &head);
    }
}
