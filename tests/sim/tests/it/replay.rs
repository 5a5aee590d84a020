//! The recorded command lines of the single node's session, in order, against the simulator.

use pve_sim::schema::Release;
use pve_sim::world::World;
use serde::Deserialize;

use crate::normalise::normalise;
use crate::shell;
use crate::shell::Printed;
use crate::start;

/// A recorded command.
#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    call: Vec<String>,
    #[serde(default)]
    exit: i32,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
}

/// Rows that are out of scope, and why.
const SKIPPED: &[(&str, &[&str])] = &[
    (
        "not one of the three programs",
        &[
            "pveversion",
            "pveversion-v",
            "ha-manager-remove-nosuch",
            "ha-manager-add",
            "ha-manager-config",
            "ha-manager-status",
            "ha-manager-config-after",
            "pvecm-status-noquorum",
            "ls-left",
            "qm-set-as-other-user",
        ],
    ),
    (
        "help and listings for people",
        &["qm-help-create", "pvesh-ls", "pvesh-resources-text", "pvesh-resources-noborder"],
    ),
    (
        "the guest agent is not simulated",
        &["qm-agent-not-yet", "qm-agent-ping", "qm-agent-net", "qm-guest-exec", "qm-guest-cmd-bad"],
    ),
    (
        "clones, templates and snapshots are not simulated",
        &[
            "qm-clone",
            "qm-template",
            "qm-start-template",
            "qm-destroy-304",
            "qm-snapshot",
            "qm-listsnapshot",
            "qm-delsnapshot",
        ],
    ),
    ("the hypervisor's own command line", &["qm-showcmd", "qm-start-fails"]),
    (
        "several processes at once, or a loop",
        &[
            "concurrent-qm-set",
            "concurrent-qm-create",
            "concurrent-nextid-create",
            "lock-timeout",
            "qm-set-agent-forms",
        ],
    ),
    ("a summary of several calls", &["qm-set-many-vs-one-by-one"]),
];

/// Rows of the older release's session that are left out besides, and why.
const SKIPPED_OLD: &[(&str, &[&str])] = &[
    (
        "that session's API calls had left other VMs",
        &["pvesm-list", "pvesh-resources", "qm-list", "qm-list-full"],
    ),
    ("counters of a hypervisor", &["qm-status-verbose"]),
    ("a warning of Perl's", &["qm-start-ha"]),
    (
        "two disks of one call are made in any order",
        &["qm-set-partial-off-storage", "qm-set-replace-disk"],
    ),
];

/// Steps of the session that were not recorded, or that skipped rows did, by the row they precede.
const UNRECORDED: &[(&str, &[&str])] = &[
    // The number 0 was free again when the first image was imported.
    ("qm-create", &["pvesm free local:300/vm-300-disk-0.raw"]),
    // An option that a skipped row removed.
    ("qm-set-lock", &["qm set 300 --delete kvm"]),
    ("qm-unlock", &["qm create 302", "qm set 302 --lock backup"]),
    ("qm-set-sshkeys-file", &["qm create 305 --kvm 0 --scsi0 local:1"]),
    ("qm-set-many-at-once", &["qm create 500 --kvm 0"]),
    ("qm-set-boot-before-disk-one-call", &["qm create 502 --kvm 0"]),
];

/// Rows that were recorded on the first node of a cluster.
const CLUSTER: [&str; 9] = [
    "qm-create-noquorum",
    "qm-list-noquorum",
    "pvesm-status-noquorum",
    "qm-set-nodes-wrong",
    "qm-start-other-node",
    "qm-destroy-other-node",
    "qm-migrate",
    "pvesh-remote",
    "pvesh-cluster-resources-cl",
];

/// The session as release 9.2 answered it.
const NEW: &str = include_str!("../../fixtures/cli-single.jsonl");

/// The same session as release 8.4 answered it, without the rows of a cluster.
const OLD: &str = include_str!("../../fixtures/cli-single-8.4.jsonl");

fn rows(text: &str) -> Vec<Row> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn skipped(release: Release, name: &str) -> bool {
    let old = if release == Release::V8_4 { SKIPPED_OLD } else { &[] };
    SKIPPED.iter().chain(old).any(|(_, names)| names.contains(&name))
}

/// The keys that were in the file `/root/key.pub`: the command that reads it prints them.
fn keys(rows: &[Row]) -> String {
    let row = rows.iter().find(|row| row.name == "qm-set-sshkeys-file").unwrap();
    let encoded = row.stdout.trim().rsplit(' ').next().unwrap();
    percent_encoding::percent_decode_str(encoded).decode_utf8().unwrap().into_owned()
}

/// What happened around the calls: quorum came and went, VMs came into being.
fn before(name: &str, single: &mut World, cluster: &mut World) {
    let quorate = |world: &mut World, quorate: bool| {
        if let Some(cluster) = &mut world.cluster {
            cluster.quorate = quorate;
        }
    };
    match name {
        "qm-create-noquorum" => quorate(cluster, false),
        "qm-set-nodes-wrong" => quorate(cluster, true),
        "qm-migrate" => start::vm(cluster, "pvea", 210, &[("boot", " ")]),
        "ha-manager-add" => {
            let options = [("state".to_owned(), "started".to_owned())].into();
            single.ha.insert("vm:303".to_owned(), options);
        }
        _ => {}
    }
    for (_, steps) in UNRECORDED.iter().filter(|(row, _)| *row == name) {
        for step in *steps {
            let printed = shell::script(single, "pve1", step);
            assert_eq!(printed.exit, 0, "{step}: {printed:?}");
        }
    }
}

fn replay(row: &Row, single: &mut World, cluster: &mut World) -> Printed {
    if CLUSTER.contains(&row.name.as_str()) {
        return shell::run(cluster, "pvea", &row.call);
    }
    match row.call[0].as_str() {
        "bash" => shell::script(single, "pve1", &row.call[2]),
        "cat" => shell::script(single, "pve1", &row.call.join(" ")),
        _ => shell::run(single, "pve1", &row.call),
    }
}

/// Replays a session; returns how many rows were replayed and left out, and what differs.
fn session(release: Release, recorded: &str) -> (usize, usize, Vec<String>) {
    let rows = rows(recorded);
    let (mut single, mut cluster) = (start::single(&keys(&rows)), start::cluster());
    (single.release, cluster.release) = (release, release);
    let mut different = Vec::new();
    let (mut replayed, mut left_out) = (0, 0);
    for row in rows {
        before(&row.name, &mut single, &mut cluster);
        if skipped(release, &row.name) {
            left_out += 1;
            continue;
        }
        replayed += 1;
        let got = replay(&row, &mut single, &mut cluster);
        let wanted = (row.exit, normalise(&row.stdout), normalise(&row.stderr));
        let got = (got.exit, normalise(&got.stdout), normalise(&got.stderr));
        if wanted != got {
            different.push(format!(
                "{}: {:?}\n wanted {wanted:#?}\n    got {got:#?}",
                row.name, row.call
            ));
        }
    }
    (replayed, left_out, different)
}

#[test]
fn the_recorded_command_lines_are_answered_as_they_were() {
    let (replayed, left_out, different) = session(Release::V9_2, NEW);
    assert!(different.is_empty(), "{} rows differ:\n{}", different.len(), different.join("\n"));
    // More rows may be replayed one day, never fewer.
    assert_eq!((replayed, left_out), (165, 34));
}

#[test]
fn the_older_release_answers_as_it_did() {
    let (replayed, left_out, different) = session(Release::V8_4, OLD);
    assert!(different.is_empty(), "{} rows differ:\n{}", different.len(), different.join("\n"));
    assert_eq!((replayed, left_out), (144, 40));
}

#[test]
fn every_row_that_is_left_out_exists() {
    let rows = rows(NEW);
    for (_, names) in SKIPPED.iter().chain(SKIPPED_OLD) {
        for name in *names {
            assert!(rows.iter().any(|row| row.name == *name), "{name}");
        }
    }
}
