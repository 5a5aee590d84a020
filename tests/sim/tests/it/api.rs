//! The recorded API calls of three sessions, each in order from one start world, against the
//! HTTPS face.

mod row;
mod session;
mod single;
mod start;
mod unrecorded;

use row::Row;
use session::Session;

const SINGLE: &str = include_str!("../../fixtures/api-single.jsonl");
const CLUSTER: &str = include_str!("../../fixtures/api-cluster.jsonl");
const FACTORS: &str = include_str!("../../fixtures/api-factors.jsonl");

/// Rows that are out of scope, and why.
type Skipped = &'static [(&'static str, &'static [&'static str])];

fn is_skipped(skipped: Skipped, name: &str) -> bool {
    skipped.iter().any(|(_, names)| names.contains(&name))
}

/// Replays a session; returns how many rows were replayed and left out, and what differs.
fn replay(recorded: &str, skipped: Skipped, mut session: Session) -> (usize, usize, Vec<String>) {
    let (mut replayed, mut left_out, mut different) = (0, 0, Vec::new());
    for row in row::rows(recorded) {
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

const FACTORS_SKIPPED: Skipped = &[(
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
    let (replayed, left_out, different) = replay(FACTORS, FACTORS_SKIPPED, session);
    report(&different);
    // More rows may be replayed one day, never fewer.
    assert_eq!((replayed, left_out), (241, 9));
}

const SINGLE_SKIPPED: Skipped = &[
    (
        "not one call with one answer; shown by other tests where it matters",
        &["start-concurrent", "plain-http-on-8006", "tls", "upload-ticket"],
    ),
];

#[test]
fn the_recorded_single_node_is_answered_as_it_was() {
    let session = Session::new(start::single(), "pve1");
    let (replayed, left_out, different) = replay(SINGLE, SINGLE_SKIPPED, session);
    report(&different);
    assert_eq!((replayed, left_out), (0, 0));
}

#[test]
fn every_row_that_is_left_out_exists() {
    for (recorded, skipped) in [(FACTORS, FACTORS_SKIPPED)] {
        let rows: Vec<Row> = row::rows(recorded);
        for name in skipped.iter().flat_map(|(_, names)| *names) {
            assert!(rows.iter().any(|row| row.name == *name), "{name}");
        }
    }
}
