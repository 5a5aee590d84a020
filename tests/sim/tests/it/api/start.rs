//! The worlds in which the recorded API calls begin.

use std::net::Ipv4Addr;

use pve_sim::world::Storage;
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
