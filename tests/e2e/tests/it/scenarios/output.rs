//! What a VM prints: every line is delivered, whatever its bytes.

use std::time::Duration;

use pve_e2e::rig::Install;
use pve_sim::guest::Behaviour;
use pve_sim::guest::End;
use pve_sim::guest::Play;
use pve_sim::guest::Script;

use super::day::Day;
use super::day::check;
use super::table;
use super::table::Row;
use super::table::row;

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_delivered_whatever_its_bytes() {
    insta::assert_snapshot!(table::run(rows()).await);
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("both streams at once, five thousand lines each", both_streams()),
        row("a line of 1 MB", long_line()),
        row("every byte but the line feed", every_byte()),
        row("half a UTF-8 sequence at the end of a piece", halves()),
        row("the root password", root_password()),
    ]
}

/// The lines that were relayed of a script that prints this.
async fn relayed(lines: Vec<Play>) -> (Install, Vec<String>) {
    let script = Script { lines, end: End::Code(0) };
    let mut day = Day::new().guest(Behaviour { script, ..Behaviour::default() });
    let rig = day.begin().await;
    let install = rig.install(day.request()).await.unwrap();
    check(&rig, &install).await;
    assert!(install.succeeded(), "{:?}", install.errors());
    let told = install.messages.iter().filter_map(|message| message.told().ok());
    let lines = told.filter(|told| told.step == "VM initialization > SSH initialization");
    let lines = lines.filter_map(|told| told.message.strip_prefix("  ").map(str::to_owned));
    let lines = lines.filter(|line| !line.starts_with("status: ")).collect();
    (install, lines)
}

async fn both_streams() -> String {
    let plays = (0..5000).flat_map(|number| {
        [Play::out(format!("out {number}\n")), Play::err(format!("err {number}\n"))]
    });
    let (_, lines) = relayed(plays.collect()).await;
    for stream in ["out ", "err "] {
        let of_it = lines.iter().filter_map(|line| line.strip_prefix(stream)?.parse::<u32>().ok());
        assert!(of_it.eq(0..5000), "{stream} is not whole and in order");
    }
    format!("  {} lines, each stream in its order", lines.len())
}

async fn long_line() -> String {
    let text = "x".repeat(1_000_000);
    let (_, lines) = relayed(vec![Play::out(format!("{text}\n")), Play::out("after\n")]).await;
    format!("  lines of {:?} characters", lines.iter().map(String::len).collect::<Vec<_>>())
}

async fn every_byte() -> String {
    let bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').chain(*b"\n").collect();
    let (_, lines) = relayed(vec![Play::out(bytes)]).await;
    format!("  {lines:?}")
}

async fn halves() -> String {
    let pause = Duration::from_millis(50);
    let plays = vec![
        Play::out(&b"\xe2\x98"[..]),
        Play::out(&b"\x82 whole\n"[..]).after(pause),
        Play::out(&b"\xe2\x98\n"[..]).after(pause),
    ];
    let (_, lines) = relayed(plays).await;
    format!("  {lines:?}")
}

/// An admin's own script may print it.
async fn root_password() -> String {
    let password = super::day::ROOT_PASSWORD;
    let (_, lines) = relayed(vec![Play::out(format!("set to {password}.\n"))]).await;
    format!("  {lines:?}")
}
