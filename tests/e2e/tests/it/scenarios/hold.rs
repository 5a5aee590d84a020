//! Moments of an install at which it can be held: in a command, or in a wait.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use pve_e2e::server::Place;
use pve_sim::Sim;
use pve_sim::guest::Behaviour;
use pve_sim::guest::Boot;
use pve_sim::guest::CloudInit;
use pve_sim::guest::CloudInitEnd;
use pve_sim::guest::End;
use pve_sim::guest::Script;
use pve_sim::guest::When;
use pve_sim::mirror::Fault;
use pve_sim::mirror::Times;
use serde_json::json;

use super::day::Day;
use super::day::IMAGE;
use super::deed::Moment;

/// A moment, and how an install is made to dwell on it.
#[derive(Clone, Copy)]
pub(crate) struct Hold {
    pub(crate) name: &'static str,
    pub(crate) moment: Moment,
    pub(crate) prepare: fn(Day) -> Day,
}

/// How long a held command takes.
const A_WHILE: u64 = 700;

const NO_PORT: Boot = Boot { port: When::Never, ..Boot::READY };

/// A hold for every step that can take time, two where a command and a wait follow each other.
pub(crate) fn holds() -> Vec<Hold> {
    let hold = |name, step, says, command, prepare| Hold {
        name,
        moment: Moment { step, says, command },
        prepare,
    };
    vec![
        hold("pvesm status", "preparation > checking storage pool", "", "pvesm status", |day| {
            day.slow("^pvesm status", A_WHILE)
        }),
        hold(
            "the nodes are asked for their CPUs",
            "OS preparation > getting OS image",
            "",
            "",
            |day| {
                // This image needs a level, so the install waits for the nodes.
                day.asking(json!({"os": "rockylinux", "version": "9"})).slow("^pvesh get", 2500)
            },
        ),
        hold(
            "the publisher does not answer",
            "OS preparation > validating OS image URL",
            "",
            "",
            |day| day.mirror(IMAGE, Fault::Hang, Times::Always),
        ),
        hold("the download", "OS preparation > downloading OS image", "MiB/s", "", |day| {
            day.mirror(IMAGE, Fault::Rate(200_000), Times::Always)
        }),
        hold("ssh-keygen", "SSH preparation > checking SSH key", "", "", |day| {
            day.placed(slow_keygen)
        }),
        hold("qm create", "VM creation > creating VM", "", "qm create", |day| {
            day.slow("^qm create", A_WHILE)
        }),
        hold("qm importdisk", "VM creation > importing disk image", "", "qm importdisk", |day| {
            day.slow("^qm importdisk", A_WHILE)
        }),
        hold(
            "qm resize",
            "VM initialization > initializing configuration",
            "",
            "qm resize",
            |day| day.slow("^qm resize", A_WHILE),
        ),
        hold("qm migrate", "VM initialization > migrating VM", "starting migration", "", |day| {
            // The time of a command is spread over what it does.
            migrating(day).with(|rig| rig.sim.set_latency(Duration::from_millis(600)))
        }),
        hold(
            "qm start on another node",
            "VM initialization > waiting for ready",
            "",
            "qm start",
            |day| migrating(day).slow("^qm start", A_WHILE),
        ),
        hold("qm start", "VM initialization > waiting for ready", "", "qm start", |day| {
            day.slow("^qm start", A_WHILE)
        }),
        hold(
            "the wait for the first login",
            "VM initialization > waiting for ready",
            "waiting for a login",
            "",
            |day| day.guest(Behaviour { first: NO_PORT, ..Behaviour::default() }),
        ),
        hold(
            "the wait for cloud-init",
            "VM initialization > SSH initialization",
            "waiting for cloud-init",
            "",
            |day| {
                let cloud_init = CloudInit { end: CloudInitEnd::Hangs, ..CloudInit::default() };
                day.guest(Behaviour { cloud_init, ..Behaviour::default() })
            },
        ),
        hold(
            "the init script",
            "VM initialization > SSH initialization",
            "Setting up",
            "",
            |day| {
                let script = Script { end: End::Hangs, ..Script::default() };
                day.guest(Behaviour { script, ..Behaviour::default() })
            },
        ),
        hold("qm reboot", "VM initialization > rebooting VM", "", "qm reboot", |day| {
            day.slow("^qm reboot", A_WHILE)
        }),
        hold(
            "the wait for the second login",
            "VM initialization > rebooting VM",
            "waiting for a login",
            "",
            |day| day.guest(Behaviour { again: NO_PORT, ..Behaviour::default() }),
        ),
    ]
}

/// A second node, and a VM for it.
pub(crate) fn migrating(day: Day) -> Day {
    day.on_two_nodes().asking(json!({"node": "pve2"}))
}

/// An `ssh-keygen` that takes its time before the real one.
fn slow_keygen(_: &Sim, place: &mut Place) {
    let directory = place.directory().join("slow");
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join("ssh-keygen");
    let own = directory.display();
    let script = format!("#!/bin/sh\nsleep 0.7\nPATH=${{PATH#{own}:}}\nexec ssh-keygen \"$@\"\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = place.commands_environment()["PATH"].clone();
    let path = format!("{own}:{}", path.to_string_lossy());
    place.set("PATH", path);
}
