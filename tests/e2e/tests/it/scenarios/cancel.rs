//! Somebody interferes at every step: cancels, leaves, kills the server, asks it to stop.

use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use pve_provision::OnFailure;
use pve_provision::Step;
use serde_json::json;

use super::day::Day;
use super::day::block;
use super::day::check;
use super::deed::Deed;
use super::deed::Moment;
use super::failures::put_guest;
use super::hold::Hold;
use super::hold::holds;
use super::hold::migrating;
use super::left::left;
use super::table;
use super::table::Row;
use super::table::row;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_is_settled_by_the_rule_of_its_step() {
    insta::assert_snapshot!(table::run(cancelled()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_server_was_killed_is_settled_by_the_next_one() {
    // How many relayed lines were on disk when the server was killed is a matter of moments.
    let told = table::run(killed()).await;
    let told: Vec<&str> =
        told.lines().filter(|line| !line.starts_with("    processing   ")).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_twice_cancels_its_jobs() {
    insta::assert_snapshot!(table::run(terminated()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_without_its_reader() {
    insta::assert_snapshot!(table::run(left_alone()).await);
}

pub(super) fn rows() -> Vec<Row> {
    [cancelled(), killed(), terminated(), left_alone()].into_iter().flatten().collect()
}

fn cancelled() -> Vec<Row> {
    let held = |hold: Hold| {
        row(hold.name, (hold.prepare)(Day::new()).deed(Deed::Cancel(hold.moment)).run())
    };
    let mut rows: Vec<Row> = holds().into_iter().map(held).collect();
    rows.push(row("steps that take no time", in_passing(Deed::Cancel)));
    rows
}

fn killed() -> Vec<Row> {
    let held =
        |hold: Hold| row(hold.name, (hold.prepare)(Day::new()).deed(Deed::Kill(hold.moment)).run());
    let mut rows: Vec<Row> = holds().into_iter().map(held).collect();
    let create = Moment { step: Step::CreatingVm.name(), says: "", command: "qm create" };
    rows.push(row(
        "qm create of an id that somebody else has",
        Day::new()
            .world(|world| put_guest(world, 120))
            .asking(json!({"id": 120}))
            .slow("^qm create", 700)
            .deed(Deed::Kill(create))
            .run(),
    ));
    // Longer than a VM is waited for that may never appear.
    let slow = Day::new().slow("^qm create", 13_000).deed(Deed::Kill(create));
    rows.push(row("qm create that goes on for long", slow.run()));
    rows.push(row("a VM with our mark, of a job that is not known", stray()));
    rows.push(row("steps that take no time", in_passing(Deed::Kill)));
    rows
}

fn terminated() -> Vec<Row> {
    let held = |hold: Hold| {
        row(hold.name, (hold.prepare)(Day::new()).deed(Deed::TerminateTwice(hold.moment)).run())
    };
    let mut rows: Vec<Row> = holds().into_iter().map(held).collect();
    let create = Moment { step: Step::CreatingVm.name(), says: "", command: "qm create" };
    rows.push(row(
        "once: the job is finished first",
        Day::new().slow("^qm create", 700).deed(Deed::Terminate(create)).run(),
    ));
    rows
}

/// The reader leaves at every step; nothing is held, for the job goes on as ever.
fn left_alone() -> Vec<Row> {
    let left = |step: &Step| {
        let moment = Moment { step: step.name(), says: "", command: "" };
        let day = match step {
            Step::MigratingVm => migrating(Day::new()),
            _ => Day::new(),
        };
        row(step.name(), day.deed(Deed::Leave(moment)).run())
    };
    // The cache is empty: there is no image to be used.
    Step::ALL.iter().filter(|step| **step != Step::UsingOsImage).map(left).collect()
}

/// It is told of in the server's log, and left alone.
async fn stray() -> String {
    let mark = "made by pve-server job 01234567-89ab-7def-8123-456789abcdef";
    let mut day = Day::new().prepared(|sim| {
        sim.change(|world| {
            put_guest(world, 120);
            let options = &mut world.guests.get_mut(&120).unwrap().configuration.options;
            options.insert("description".to_owned(), mark.to_owned());
        });
    });
    let rig = day.begin().await;
    let install = rig.install(day.request()).await.unwrap();
    check(&rig, &install).await;
    let log = rig.place.log();
    let told = log.lines().filter(|line| line.contains("its job is not known")).count();
    format!("  told of {told} time(s)\n{}", block("left", &left(&rig).await))
}

/// Steps that are over before anybody can interfere: whichever is met, its own rule is followed.
async fn in_passing(deed: fn(Moment) -> Deed) -> String {
    let steps = [
        Step::CheckingVmid,
        Step::AssigningIp,
        Step::ValidatingCpuAndRam,
        Step::ValidatingDiskSize,
        Step::SettingDefaultConfigValues,
        Step::UsingOsImage,
    ];
    for step in steps {
        let moment = Moment { step: step.name(), says: "", command: "" };
        let mut day = Day::new().deed(deed(moment));
        let rig = day.begin().await;
        if step == Step::UsingOsImage {
            let first = rig.install(day.request()).await.unwrap();
            assert!(first.succeeded(), "{}", first.raw);
        }
        let before = rig.guests();
        let (rig, install) = day.deed.done(rig, day.request()).await;
        check(&rig, &install).await;
        settled(&rig, &install, &before).await;
    }
    format!("  {} steps are settled by the rule of the step that was met", steps.len())
}

/// What is left is what the rule of the failed step says; a success leaves a VM.
async fn settled(rig: &Rig, install: &Install, before: &[u32]) {
    let mut told = install.messages.iter().filter_map(|message| message.told().ok());
    let failed = told.rfind(|told| told.status == "error");
    let rule = failed.and_then(|told| Step::from_name(&told.step)).map(Step::on_failure);
    let keeps = matches!(rule, None | Some(OnFailure::Keep));
    let more = if keeps { before.len() + 1 } else { before.len() };
    assert_eq!(rig.guests().len(), more, "{}", install.raw);
    let odd = left(rig).await.into_iter().filter(|line| {
        !line.starts_with("VM ")
            && !line.starts_with("file images/")
            && !line.starts_with("jobs success")
    });
    assert_eq!(odd.collect::<Vec<_>>(), Vec::<String>::new(), "{}", install.raw);
}
