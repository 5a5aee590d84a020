//! Many at once: on one server, and on two of one cluster.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_e2e::server::Place;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use serde_json::Value;
use serde_json::json;

use super::day::Day;
use super::day::IMAGE;
use super::day::check;
use super::deed::Deed;
use super::deed::Moment;
use super::left::left;
use super::table;
use super::table::Row;
use super::table::row;
use super::told::Alike;
use super::told::beyond_plain;

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_do_not_get_in_each_others_way() {
    insta::assert_snapshot!(table::run(rows()).await);
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("fifty at once, cold cache, locks that are held", fifty()),
        row("two servers on one cluster", two_servers()),
        row("one id twice at once", one_id_twice()),
        row("more than INSTALLS_AT_ONCE", one_at_a_time()),
        row("cancelled while it waits for a turn", cancelled_in_the_queue()),
        row("four at once without a key", without_a_key()),
    ]
}

fn request() -> Value {
    json!({"os": "debian", "version": "12"})
}

async fn at_once(rig: &Rig, count: usize) -> Vec<Install> {
    let request = request();
    let installs = join_all((0..count).map(|_| rig.install(&request))).await;
    let installs: Vec<Install> = installs.into_iter().map(Result::unwrap).collect();
    for install in &installs {
        check(rig, install).await;
    }
    installs
}

fn succeeded(installs: &[Install]) -> usize {
    installs.iter().filter(|install| install.succeeded()).count()
}

/// The VMIDs and the addresses that were told at the end.
fn told(installs: &[Install], what: &str) -> BTreeSet<String> {
    let lines = installs.iter().flat_map(|install| install.messages.iter());
    let lines = lines.filter_map(|message| message.told().ok());
    lines.filter_map(|told| told.message.strip_prefix(what).map(str::to_owned)).collect()
}

fn count(rig: &Rig, command: &str) -> usize {
    rig.sim.commands().iter().filter(|call| call.line().starts_with(command)).count()
}

async fn fifty() -> String {
    let locked = FaultAnswer::Instead {
        stdout: String::new(),
        stderr: "trying to acquire lock...\ncan't lock file '/var/lock/qemu-server/lock-1.conf' - got timeout\n"
            .to_owned(),
        exit: 255,
    };
    let lock = |pattern: &str| Fault { times: Some(10), ..Fault::always(pattern, locked.clone()) };
    let mut day = Day::new()
        .setting("INSTALLS_AT_ONCE", "50")
        .fault(lock("^qm set"))
        .fault(lock("^qm (importdisk|start)"));
    let rig = day.begin().await;
    let installs = at_once(&rig, 50).await;
    format!(
        "  {} succeed with {} VMIDs and {} addresses, {} qm create, {} VMs left, {} download of the image",
        succeeded(&installs),
        told(&installs, "[*] VMID: ").len(),
        told(&installs, "[*] IP: ").len(),
        count(&rig, "qm create"),
        rig.guests().len(),
        rig.sim.mirror().count("GET", IMAGE),
    )
}

async fn two_servers() -> String {
    let rig = Day::new().begin().await;
    let place = Place::new(&rig.sim).unwrap();
    let server = place.serve().await.unwrap();
    // A key that both have: as on one node.
    let request = request();
    let others =
        join_all((0..5).map(|_| async {
            Install::read(server.install(&request).await.unwrap()).await.unwrap()
        }));
    let (mut installs, others) = tokio::join!(at_once(&rig, 5), others);
    installs.extend(others);
    let text: Vec<&str> = installs.iter().map(|install| install.raw.as_str()).collect();
    assert_eq!(succeeded(&installs), 10, "{text:#?}");
    format!(
        "  {} succeed with {} VMIDs, {} VMs left",
        succeeded(&installs),
        told(&installs, "[*] VMID: ").len(),
        rig.guests().len(),
    )
}

async fn one_id_twice() -> String {
    let mut day = Day::new().slow("^qm create", 700).asking(json!({"id": 120}));
    let rig = day.begin().await;
    let (one, other) = tokio::join!(rig.install(day.request()), rig.install(day.request()));
    let installs = [one.unwrap(), other.unwrap()];
    let mut lines: Vec<String> = Vec::new();
    for install in &installs {
        check(&rig, install).await;
        lines.extend(install.errors().iter().map(|error| format!("  {error}")));
    }
    lines.push(format!(
        "  {} succeeds, {} qm create",
        succeeded(&installs),
        count(&rig, "qm create")
    ));
    lines.join("\n")
}

async fn one_at_a_time() -> String {
    let mut day = Day::new().setting("INSTALLS_AT_ONCE", "1").slow("^qm create", 300);
    let rig = day.begin().await;
    let installs = at_once(&rig, 3).await;
    let waited =
        installs.iter().filter(|install| install.raw.contains("waiting for a turn: 1 installs"));
    let waited = waited.count();
    // Between create and the last set of one there is no create of another.
    let lines: Vec<String> = rig.sim.commands().iter().map(pve_sim::sim::Recorded::line).collect();
    let order =
        lines.iter().filter(|line| line.starts_with("qm create") || line.contains("--ipconfig0"));
    let order: Vec<&str> =
        order.map(|line| if line.contains("create") { "create" } else { "set" }).collect();
    format!("  {} succeed, {waited} waited, {}", succeeded(&installs), order.join(" "))
}

async fn cancelled_in_the_queue() -> String {
    let mut day = Day::new().setting("INSTALLS_AT_ONCE", "1").slow("^qm importdisk", 2500);
    let rig = day.begin().await;
    let mut first = rig.server.install(day.request()).await.unwrap();
    let is_import = |message: &pve_e2e::sse::Message| {
        message.told().is_ok_and(|told| told.step == "VM creation > importing disk image")
    };
    first.until(is_import).await.unwrap();
    let waits =
        Moment { step: "VM creation > creating VM", says: "waiting for a turn", command: "" };
    let (rig, second) = Deed::Cancel(waits).done(rig, day.request()).await;
    check(&rig, &second).await;
    let text = beyond_plain(&second.messages, &Alike::new(&rig)).await;
    first.rest().await.unwrap();
    format!("{text}\n  left: {}", left(&rig).await.join("; "))
}

async fn without_a_key() -> String {
    let rig = Day::new().begin().await;
    let installs = at_once(&rig, 4).await;
    let made = installs.iter().filter(|install| install.raw.contains("there was none")).count();
    format!("  {} succeed, {made} makes the key", succeeded(&installs))
}
