//! What happened between the recorded calls, and what the recordings do not say.

use pve_sim::https::Request;
use pve_sim::world::Link;
use pve_sim::world::World;
use pve_sim::world::access::Factor;
use pve_sim::world::access::Recovery;

use super::row::Row;
use super::session::Session;
use super::start;

/// Rows whose ticket was never made by the cluster.
pub(super) const FORGED: [&str; 8] = [
    "tfa-challenge-no-PVE-prefix",
    "tfa-challenge-no-tfa-prefix",
    "tfa-challenge-only-json",
    "tfa-challenge-percent-decoded",
    "tfa-challenge-percent-encoded-twice",
    "tfa-challenge-garbage",
    "tfa-half-ticket-as-password",
    "tfa-half-ticket-as-password-with-otp",
];

/// Whose ticket a row brings, when it is not that of the user it names.
pub(super) fn owner(row: &str) -> Option<&'static str> {
    match row {
        "tfa-challenge-of-other-user" => Some("tfaboth@pve"),
        _ => None,
    }
}

/// Rows whose task goes on while others are answered.
pub(super) fn is_left_running(row: &str) -> bool {
    row == "start-110"
}

/// Rows whose guest did not do what it was asked, and what was said of it.
pub(super) fn guest_refuses(row: &str) -> Option<&'static str> {
    (row == "shutdown-timeout").then_some("VM quit/powerdown failed - got timeout")
}

/// VMs that were gone before the next call was recorded.
const GONE: [u32; 8] = [903, 906, 908, 912, 913, 914, 915, 930];

/// Right codes of users whose secret was not recorded: how many steps from now they are.
const CODES: [(&str, &str, u64); 7] = [
    ("tfa-lock-right-code", "tfalock@pve", 0),
    ("tfa-lock-right-code-after-recovery", "tfalock@pve", 0),
    ("tfa-lock2-right-code", "tfalock2@pve", 0),
    ("tfa-unlock-right-code", "tfalock2@pve", 0),
    ("tfa-unlock-right-code-after-cli", "tfalock2@pve", 1),
    ("tfa-hardlock-right-totp", "tfahard@pve", 0),
    ("tfa-login2-two-totp-first", "tfalock2@pve", 0),
];

/// Puts such codes into a request.
pub(super) fn codes(row: &Row, world: &World, request: &mut Request) {
    let Some((_, user, ahead)) = CODES.iter().find(|(name, _, _)| *name == row.name) else {
        return;
    };
    let entry = &world.access.factors[*user].entries[0];
    let Factor::Totp(totp, _) = &entry.factor else { panic!("{user} has codes") };
    let code = totp.code(totp.step(world.now) + ahead);
    let text = String::from_utf8(request.body.clone()).unwrap();
    let (before, after) = text.split_once("totp%3A").unwrap();
    request.body = format!("{before}totp%3A{code}{}", &after[6..]).into_bytes();
}

fn wrong_codes(session: &mut Session, user: &str, times: u32) {
    let now = session.world.now;
    let factors = session.world.access.factors.get_mut(user).unwrap();
    for _ in 0..times {
        assert!(!factors.answer("totp:wrong", now));
    }
}

fn link(session: &mut Session, link: Link) {
    session.world.nodes.get_mut("pveb").unwrap().link = link;
}

/// One of two nodes takes the quorum along.
fn power(session: &mut Session, on: bool) {
    session.world.nodes.get_mut("pveb").unwrap().online = on;
    session.world.cluster.as_mut().unwrap().quorate = on;
}

/// Rows whose log tells how fast a disk was copied, and by what.
pub(super) const COPIES: [&str; 4] =
    ["cl-migrate-offline", "cl-migrate-back", "cl-migrate-online", "cl-migrate-online-local-disks"];

/// Does what happened before a row.
pub(super) fn before(row: &str, session: &mut Session) {
    if row.starts_with("w8-opt-") || row.starts_with("w8-net-") {
        // Each of these makes a VM that was removed at once.
        let tried = |vmid: &u32| (702..710).contains(vmid);
        session.world.guests.retain(|vmid, _| !tried(vmid));
        session.world.volumes.retain(|volume| !volume.vmid.as_ref().is_some_and(tried));
    }
    match row {
        "qemu-create-disk-noimport" => {
            let world = &mut session.world;
            world.guests.retain(|vmid, _| !GONE.contains(vmid));
            world.volumes.retain(|volume| volume.vmid.is_none_or(|vmid| !GONE.contains(&vmid)));
            for pool in world.pools.values_mut() {
                pool.guests.retain(|vmid| !GONE.contains(vmid));
            }
        }
        "cl-start" => {
            let world = &mut session.world;
            let guest = world.guests.get_mut(&200).unwrap();
            for value in guest.configuration.options.values_mut() {
                *value = value.replace("onlya:", "local:");
            }
            let disk = world.volumes.iter_mut().find(|volume| volume.vmid == Some(200));
            "local".clone_into(&mut disk.unwrap().storage);
        }
        "cl-remote-proxy-stopped" => link(session, Link::Refused),
        "cl-down-nodes-at-once" => link(session, Link::Gone),
        "cl-down-nodes" => power(session, false),
        "cl-back-nodes" => {
            link(session, Link::Up);
            power(session, true);
        }
        "permissions-op" => {
            session.call("DELETE", "/nodes/pve1/qemu/906", "");
            session.call("POST", "/nodes/pve1/qemu/120/status/stop", "");
            session.call("DELETE", "/nodes/pve1/qemu/120", "");
        }
        "start-100b" => {
            session.call("POST", "/nodes/pve1/qemu/100/status/stop", "");
        }
        "task-status-ok" => session.finish("start-110"),
        "agent-vm-not-running" => {
            session.call("PUT", "/nodes/pve1/qemu/111/config", "agent=1&balloon=0");
        }
        "locked-start" => {
            session.call("PUT", "/nodes/pve1/qemu/111/config", "lock=backup");
        }
        "create-120-token" => {
            session.call("POST", "/nodes/pve1/qemu", "vmid=906&pool=testpool");
        }
        "tfa-list-root" => start::add_factors(&mut session.world),
        "tfa-verify-path-privs-password-allowed" => {
            session.world.access.grant("/", "tfatotp@pve", "PVEAuditor");
        }
        "tfa-lock-wrong-1" => {
            session.world.access.grants.retain(|grant| grant.to != "tfatotp@pve");
        }
        "tfa-lock2-right-code" | "tfa-unlock-by-token" | "tfa-cli-unlock" => {
            wrong_codes(session, "tfalock2@pve", 8);
        }
        "tfa-cli-unlock-not-locked" => {
            session.call("PUT", "/access/users/tfalock2@pve/unlock-tfa", "");
        }
        "tfa-realm-after-user" => {
            let user = session.world.access.users.get_mut("tfanone@pve").unwrap();
            user.details.remove("keys");
        }
        "tfa-login1-both-totp-disabled" | "tfa-entry-delete-last" => {
            let both = session.world.access.factors.get_mut("tfaboth@pve").unwrap();
            both.entries[0].enabled = row == "tfa-entry-delete-last";
        }
        "tfa-hardlock-wrong-100" => {
            let now = session.world.now;
            let factors = session.world.access.factors.get_mut("tfahard@pve").unwrap();
            for _ in 0..99 {
                assert!(!factors.answer("recovery:0000-0000-0000-ffff", now));
            }
        }
        // Its place in the order is a later one than its time.
        "tfa-realm-yubico-leftover-entry" => {
            let factors = session.world.access.factors.get_mut("tfarec@pve").unwrap();
            factors.recovery.as_mut().unwrap().created = 1_796_050_498;
        }
        "tfa-hardlock-list" => {
            let factors = session.world.access.factors.get_mut("tfarec@pve").unwrap();
            factors.recovery.as_mut().unwrap().created = 1_796_051_021;
        }
        "tfa-list-at-end" => {
            for user in ["tfalock@pve", "tfalock2@pve", "tfazero@pve"] {
                session.world.access.factors.remove(user);
            }
        }
        "tfa-cli-delete" => {
            session.world.access.factors.remove("tfahard@pve");
        }
        "tfa-login1-recovery-all-used" => {
            let factors = session.world.access.factors.get_mut("tfarec@pve").unwrap();
            factors.entries.clear();
            factors.recovery = Some(Recovery { keys: vec![None; 10], created: 1_796_051_113 });
        }
        _ => {}
    }
}
