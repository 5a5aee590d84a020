//! The recorded API calls of three sessions, each in order from one start world, against the
//! HTTPS face.

mod row;
mod session;
mod single;
mod start;
mod unrecorded;

use pve_sim::schema::Release;
use row::Row;
use session::Session;

const SINGLE: &str = include_str!("../../fixtures/api-single.jsonl");
const SINGLE_OLD: &str = include_str!("../../fixtures/api-single-8.4.jsonl");
const ONLY_OLD: &str = include_str!("../../fixtures/api-only-8.4.jsonl");
const CLUSTER: &str = include_str!("../../fixtures/api-cluster.jsonl");
const FACTORS: &str = include_str!("../../fixtures/api-factors.jsonl");

/// Rows that are out of scope, and why.
type Skipped<'a> = &'a [(&'static str, &'static [&'static str])];

fn is_skipped(skipped: Skipped<'_>, name: &str) -> bool {
    skipped.iter().any(|(_, names)| names.contains(&name))
}

/// Replays a session; returns how many rows were replayed and left out, and what differs.
fn replay(
    rows: Vec<Row>,
    skipped: Skipped<'_>,
    mut session: Session,
) -> (usize, usize, Vec<String>) {
    let (mut replayed, mut left_out, mut different) = (0, 0, Vec::new());
    for row in rows {
        unrecorded::before(&row.name, &mut session);
        if is_skipped(skipped, &row.name) {
            left_out += 1;
            session.learn(&row);
            continue;
        }
        replayed += 1;
        different.extend(session.replay(&row));
    }
    (replayed, left_out, different)
}

fn report(different: &[String]) {
    // The whole list helps while rows are being added.
    if let Ok(file) = std::env::var("PVE_SIM_DIFFERENCES") {
        std::fs::write(file, different.join("\n")).unwrap();
    }
    let first: Vec<&str> = different.iter().take(10).map(String::as_str).collect();
    assert!(different.is_empty(), "{} rows differ:\n{}", different.len(), first.join("\n"));
}

const FACTORS_SKIPPED: Skipped<'static> = &[(
    "a command that is not simulated; what it changed is done otherwise",
    &[
        "tfa-cli-list",
        "tfa-cli-list-user",
        "tfa-cli-list-locked",
        "tfa-cli-user-list-locked",
        "tfa-cli-unlock",
        "tfa-cli-unlock-not-locked",
        "tfa-cli-list-user-disabled",
        "tfa-cli-delete",
        "tfa-cli-list-empty",
    ],
)];

#[test]
fn the_recorded_second_factors_are_answered_as_they_were() {
    let session = Session::new(start::factors(), "pve1");
    let (replayed, left_out, different) = replay(row::rows(FACTORS), FACTORS_SKIPPED, session);
    report(&different);
    // More rows may be replayed one day, never fewer.
    assert_eq!((replayed, left_out), (241, 9));
}

const SINGLE_SKIPPED: Skipped<'static> = &[
    (
        "not one call with one answer; shown by other tests where it matters",
        &["start-concurrent", "plain-http-on-8006", "tls", "upload-ticket"],
    ),
    ("answers are not compressed", &["hdr-gzip"]),
    ("the recording client did not read the answer", &["upload-noperm", "upload-checksum-bad"]),
    (
        "snapshots, clones and templates are not simulated, nor what lists show of them",
        &[
            "snapshot-raw-unsupported",
            "clone-exists",
            "snapshot-create",
            "snapshot-list",
            "snapshot-exists",
            "snapshot-bad-name",
            "snapshot-rollback",
            "snapshot-delete",
            "clone-full",
            "clone-config",
            "template",
            "template-config",
            "template-start",
            "clone-linked",
            "clone-linked-config",
            "delete-template-with-clone",
            "content-after-clone",
            "cluster-resources-template",
            "get-qemu-trailing-slash",
            "qemu-feature-snapshot",
            "qemu-config-snapshot-param",
        ],
    ),
    (
        "disks are not moved between storages, nor found where they went",
        &["move-disk", "config-after-unlink"],
    ),
    (
        "the agent executes nothing and knows nothing of its machine",
        &[
            "agent-get-fsinfo",
            "agent-info",
            "agent-get-vcpus",
            "agent-get-time",
            "agent-get-timezone",
            "agent-get-users",
            "agent-get-memory-blocks",
            "agent-exec",
            "agent-exec-status",
            "agent-exec-string",
            "agent-exec-status-bad",
            "agent-file-write",
            "agent-file-read",
            "agent-set-user-password",
            "agent-exec-viewer-403",
            "agent-fsfreeze-status",
        ],
    ),
    (
        "tasks that wait for a lock; shown with the process",
        &[
            "shutdown-to-abort",
            "task-log-shutdown-running",
            "task-stop-running",
            "task-status-aborted",
            "task-log-aborted",
            "stop-120",
            "delete-120-purge",
            "content-images-after-delete",
        ],
    ),
    (
        "what a guest and its hypervisor do is not known to the calls",
        &["shutdown-forcestop", "start-fails", "start-fails-qemu", "cloudinit-after-change"],
    ),
    ("tasks that were not recorded are in it", &["cluster-tasks"]),
    (
        "long tables of one release",
        &["capabilities-cpu", "capabilities-machines", "capabilities-cpu-flags"],
    ),
    (
        "indices, which no client needs",
        &["index-root", "node-index", "qemu-index", "cluster-index"],
    ),
    (
        "backups, consoles, statistics, services, disks, devices, networks beyond a bridge",
        &[
            "backup-list",
            "backup-list-after",
            "storage-import-metadata",
            "vncproxy",
            "node-rrddata",
            "qemu-rrddata",
            "cluster-log",
            "node-services",
            "sdn-zones",
            "sdn-vnets",
            "node-sdn-zones",
            "node-disks",
            "node-hardware-pci",
            "firewall-vm-options",
        ],
    ),
];

#[test]
fn the_recorded_single_node_is_answered_as_it_was() {
    let session = Session::new(start::single(), "pve1");
    let (replayed, left_out, different) = replay(row::rows(SINGLE), SINGLE_SKIPPED, session);
    report(&different);
    assert_eq!((replayed, left_out), (501, 80));
}

/// Rows of the older release that are left out besides.
const SINGLE_OLD_SKIPPED: Skipped<'static> = &[
    (
        "that session had other VMs and files",
        &[
            "storage-content-local",
            "storage-content-local-iso",
            "qemu-list-running",
            "locked-list",
            "locked-config",
            "ha-vm-status",
            "ha-resources-vm",
            "delete-in-pool-config-before",
            "delete-in-pool-after",
        ],
    ),
    (
        "what a hypervisor counts",
        &[
            "status-current-running",
            "qemu-list-full",
            "cluster-resources-vm-running",
            "status-current-paused",
        ],
    ),
    ("a warning of Perl's", &["ha-vm-start"]),
    ("a task that had come further", &["task-log-running"]),
];

#[test]
fn the_older_release_is_answered_as_it_was() {
    let mut session = Session::new(start::single(), "pve1");
    session.world.release = Release::V8_4;
    let skipped = [SINGLE_SKIPPED, SINGLE_OLD_SKIPPED].concat();
    let (replayed, left_out, different) = replay(row::rows(SINGLE_OLD), &skipped, session);
    report(&different);
    assert_eq!((replayed, left_out), (485, 92));
}

const ONLY_OLD_SKIPPED: Skipped<'static> = &[
    (
        "kinds of networks that only the newer release has",
        &["w8-network-fabric", "w8-network-include_sdn"],
    ),
    ("an index, which no client needs", &["w8-ha-index"]),
    ("an option that only the older release has", &["w8-opt-disk-cyls"]),
];

/// What was tried on the older release alone: options that it lacks, groups that it still has.
#[test]
fn the_older_release_refuses_what_it_lacks() {
    let mut session = Session::new(start::single(), "pve1");
    session.world.release = Release::V8_4;
    let (replayed, left_out, different) = replay(row::rows(ONLY_OLD), ONLY_OLD_SKIPPED, session);
    report(&different);
    assert_eq!((replayed, left_out), (62, 4));
}

const CLUSTER_SKIPPED: Skipped<'static> = &[
    ("how nodes join is not simulated", &["cl-config-join"]),
    ("disks are not moved between storages", &["cl-move-disk"]),
];

#[test]
fn the_recorded_cluster_is_answered_as_it_was() {
    let session = Session::new(start::cluster(), "pvea");
    let (replayed, left_out, different) = replay(row::rows(CLUSTER), CLUSTER_SKIPPED, session);
    report(&different);
    assert_eq!((replayed, left_out), (51, 2));
}

/// A judge who lets anything pass is none: a status, a key, a text, a header, a line of a log and
/// an exit are changed in the recording, and each is seen.
#[test]
fn what_differs_in_one_place_is_seen() {
    let mut rows = row::rows(CLUSTER);
    let mut change = |name: &str, change: fn(&mut Row)| {
        change(rows.iter_mut().find(|row| row.name == name).unwrap());
    };
    change("cl-nodes", |row| row.status = 201);
    change("cl-status", |row| row.body["data"][0]["colour"] = "red".into());
    change("cl-unknown-node", |row| row.reason.push('!'));
    change("cl-remote-storage", |row| row.connection = Some(vec!["close".to_owned()]));
    change("cl-create-on-a", |row| row.log.as_mut().unwrap().insert(0, "more".to_owned()));
    change("cl-start-via-wrong-node", |row| row.exit = Some("OK".to_owned()));
    let session = Session::new(start::cluster(), "pvea");
    let (_, _, different) = replay(rows, CLUSTER_SKIPPED, session);
    assert_eq!(different.len(), 6, "{}", different.join("\n"));
}

#[test]
fn every_row_that_is_left_out_exists() {
    let sessions = [
        (FACTORS, FACTORS_SKIPPED),
        (SINGLE, SINGLE_SKIPPED),
        (CLUSTER, CLUSTER_SKIPPED),
        (SINGLE_OLD, SINGLE_OLD_SKIPPED),
        (ONLY_OLD, ONLY_OLD_SKIPPED),
    ];
    for (recorded, skipped) in sessions {
        let rows: Vec<Row> = row::rows(recorded);
        for name in skipped.iter().flat_map(|(_, names)| *names) {
            assert!(rows.iter().any(|row| row.name == *name), "{name}");
        }
    }
}
