//! The worlds in which the recorded API calls begin.

use std::net::Ipv4Addr;

use pve_sim::world::Storage;
use pve_sim::world::Volume;
use pve_sim::world::Web;
use pve_sim::world::World;
use pve_sim::world::access::Entry;
use pve_sim::world::access::Recovery;
use pve_sim::world::access::Totp;
use pve_sim::world::access::User;

/// Any secret: that of these users was not recorded.
const SECRET: &str = "MFRGGZDFMZTWQ2LKMFRGGZDFMZTWQ2LK";

/// When the factors of those users had been added.
const ADDED: u64 = 1_796_050_498;

/// The accounts that all sessions have.
pub(super) fn accounts(world: &mut World) {
    let access = &mut world.access;
    for (user, password) in [
        ("root@pam", "RootPw-1!"),
        ("admin@pve", "AdminPw-1!"),
        ("viewer@pve", "ViewerPw-1!"),
        ("op@pve", "OpPw-12345!"),
        ("noperm@pve", "NopermPw-1!"),
        ("disabled@pve", "DisabledPw-1!"),
    ] {
        access.users.insert(user.to_owned(), User::with_password(password));
    }
    let detail = |user: &mut User, text: &str| {
        user.details.insert("comment".to_owned(), text.to_owned());
    };
    detail(access.users.get_mut("admin@pve").unwrap(), "full admin");
    access.users.get_mut("disabled@pve").unwrap().enabled = false;
    access.token("root@pam", "tok", "9a5b0d5e-0000-4000-8000-000000000001", false);
    access.token("admin@pve", "cli", "9a5b0d5e-0000-4000-8000-000000000002", false);
    access.token("admin@pve", "sep", "9a5b0d5e-0000-4000-8000-000000000003", true);
    access.grant("/", "admin@pve", "Administrator");
    access.grant("/", "viewer@pve", "PVEAuditor");
    access.grant("/pool/testpool", "op@pve", "PVEVMAdmin");
}

/// Something on `local`.
fn volume(name: &str, content: &str, format: &str, size: u64, vmid: Option<u32>) -> Volume {
    Volume {
        storage: "local".to_owned(),
        node: None,
        name: name.to_owned(),
        content: content.to_owned(),
        format: format.to_owned(),
        size,
        vmid,
        imported_from: None,
    }
}

/// The world of the session on a single node.
pub(super) fn single() -> World {
    let mut world = World::new(&[("pve1", Ipv4Addr::new(10, 99, 0, 1))], 1_796_045_139);
    accounts(&mut world);
    let content = "images,rootdir,snippets,vztmpl,backup,iso,import";
    let mut scratch = Storage::directory("scratch", "/srv/scratch", "images,import");
    scratch.options.push(("prune-backups".to_owned(), "keep-all=1".to_owned()));
    let mut off = Storage::directory("off", "/srv/off", "images");
    off.disabled = true;
    let mut elsewhere = Storage::directory("elsewhere", "/srv/elsewhere", "images");
    elsewhere.nodes = Some(vec!["pve2".to_owned()]);
    let isoonly = Storage::directory("isoonly", "/srv/isoonly", "vztmpl,iso");
    let local = Storage::directory("local", "/var/lib/vz", content);
    for storage in [local, scratch, isoonly, off, elsewhere] {
        world.storages.insert(storage.name.clone(), storage);
    }
    for volume in [
        volume("100/vm-100-disk-0.qcow2", "images", "qcow2", 1 << 30, Some(100)),
        volume("import/tiny-cloud.qcow2", "import", "qcow2", 196_616, None),
        volume("import/tiny-guest.qcow2", "import", "qcow2", 16_849_408, None),
        volume("iso/small.iso", "iso", "iso", 1_048_576, None),
        volume("iso/tiny-cloud.img", "iso", "iso", 196_616, None),
        volume("snippets/user.yaml", "snippets", "snippet", 26, None),
    ] {
        world.put_volume("pve1", volume);
    }
    let options = [
        ("boot", "order=scsi0"),
        ("kvm", "0"),
        ("memory", "256"),
        ("name", "first"),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
        ("scsi0", "local:100/vm-100-disk-0.qcow2,size=1G"),
    ];
    crate::start::vm(&mut world, "pve1", 100, &options);
    world.pools.entry("testpool".to_owned()).or_default();
    for (key, value) in [
        ("registered-tags", "prod;dev"),
        ("tag-style", "shape=full,color-map=prod:ff0000:ffffff;dev:00ff00,ordering=config"),
        ("user-tag-access", "user-allow=list,user-allow-list=dev;prod;test"),
    ] {
        world.options.insert(key.to_owned(), value.to_owned());
    }
    files(&mut world);
    world
}

/// The world of the session on two nodes.
pub(super) fn cluster() -> World {
    let addresses = [11, 12].map(|last| Ipv4Addr::new(10, 98, 0, last));
    let mut world = World::new(&[("pvea", addresses[0]), ("pveb", addresses[1])], 1_796_047_484);
    accounts(&mut world);
    let content = "images,rootdir,snippets,vztmpl,backup,iso,import";
    let mut onlya = Storage::directory("onlya", "/srv/onlya", "images");
    onlya.nodes = Some(vec!["pvea".to_owned()]);
    for storage in [Storage::directory("local", "/var/lib/vz", content), onlya] {
        world.storages.insert(storage.name.clone(), storage);
    }
    for node in ["pvea", "pveb"] {
        let guest = volume("import/tiny-guest.qcow2", "import", "qcow2", 16_849_408, None);
        world.put_volume(node, guest);
    }
    files(&mut world);
    world
}

/// Images on the node, and a server of images beside it.
fn files(world: &mut World) {
    for (name, size) in [("tiny-guest", 50_u64 << 20), ("tiny-cloud", 64 << 20)] {
        let mut head = b"QFI\xfb\0\0\0\x03".to_vec();
        head.resize(24, 0);
        head.extend(size.to_be_bytes());
        world.host.put(&format!("/var/lib/vz/import/{name}.qcow2"), &head);
    }
    let sum = "4a41445f03eeaa5cc8ebf8d645a17da75667fd12f5b6ea4e54b3c6f45157a81a";
    for (name, size, format) in [
        ("cloud.qcow2", 16_849_408, "qcow2"),
        ("with%20space.qcow2", 16_849_408, "qcow2"),
        ("cloud.img", 2_097_152, "raw"),
        ("disk.raw", 2_097_152, "raw"),
        ("", 545, "html"),
    ] {
        let html = format == "html";
        let web = Web {
            size,
            mime: if html { "text/html" } else { "application/octet-stream" }.to_owned(),
            missing: None,
            sum: sum.to_owned(),
            format: format.to_owned(),
            file: None,
        };
        world.host.web.insert(format!("http://127.0.0.1:8099/{name}"), web);
    }
}

/// A user of the session with second factors; those that have some before it begins.
fn user(world: &mut World, name: &str, password: &str) {
    let mut user = User::with_password(password);
    user.details.insert("comment".to_owned(), "made-up TFA test user".to_owned());
    world.access.users.insert(format!("{name}@pve"), user);
}

/// The world of the session with second factors.
pub(super) fn factors() -> World {
    let mut world = World::new(&[("pve1", Ipv4Addr::new(10, 99, 0, 1))], ADDED);
    world.storages.insert("local".to_owned(), Storage::directory("local", "/var/lib/vz", "iso"));
    accounts(&mut world);
    world.pools.entry("testpool".to_owned()).or_default();
    for (name, password) in [
        ("tfanone", "NonePw-123!"),
        ("tfatotp", "TotpPw-123!"),
        ("tfarec", "RecPw-1234!"),
        ("tfaboth", "BothPw-123!"),
        ("tfahard", "HardPw-123!"),
        ("tfalock", "LockPw-123!"),
        ("tfalock2", "Lock2Pw-12!"),
        ("tfadis", "DisPw-1234!"),
        ("tfazero", "ZeroPw-123!"),
    ] {
        user(&mut world, name, password);
    }
    world
}

/// Gives the users their factors whose adding was not recorded.
pub(super) fn add_factors(world: &mut World) {
    let mut add = |name: &str, id: &str, key: Option<&str>| {
        let user = format!("{name}@pve");
        let account = world.access.users.get_mut(&user).unwrap();
        account.details.insert("keys".to_owned(), "x".to_owned());
        let factors = world.access.factors.entry(user).or_default();
        let totp = Totp::new(SECRET).unwrap();
        factors.entries.push(Entry::totp(id, "phone", totp, ADDED));
        if let Some(key) = key {
            let mut keys: Vec<Option<String>> =
                (0..10).map(|number| Some(format!("{number:04}-0000-0000-0000"))).collect();
            keys[0] = Some(key.to_owned());
            factors.recovery = Some(Recovery { keys, created: ADDED });
        }
    };
    add("tfahard", "6d97c5cb-fd3b-40fa-8e74-9c9110e4b53b", Some("0295-4b0a-85bc-1b11"));
    add("tfalock", "6513d289-bb84-42cd-9431-667fbeab4509", Some("0346-f32b-a5e6-21f6"));
    add("tfalock2", "b8751ab6-6ce3-443c-86b6-84f6f863a947", None);
    add("tfadis", "cf20755f-e715-4329-bafa-37ae18feb0e3", None);
}
