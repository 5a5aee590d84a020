//! Starting and HA: what is only wished, and what is only known by half.

use pve_provision::create::End;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;

use crate::flow::HA;
use crate::flow::error;
use crate::flow::log_in;
use crate::scene::Departures;
use crate::scene::Ran;
use crate::scene::Scene;
use crate::scene::ticket;
use crate::server::Reply;

const START: &str = "POST /nodes/pve1/qemu/105/status/start";
const STATUS: &str = "GET /nodes/pve1/qemu/105/status/current";
const RESOURCE: &str = "GET /cluster/ha/resources/vm";
const WISH: &str = r#""UPID:pve1:00000999:00029DB1:6B0D7C1F:hastart:105:root@pam!ci:""#;

/// A run from a VM that has its console, and the state that HA was told.
async fn finished(departures: Departures) -> (Ran, Option<String>) {
    let scene = Scene::start("9.1", Vec::new()).await;
    let plan = scene.plan(&["confirm.start=yes"]).await;
    scene.depart(departures);
    let ran = scene.run(&plan, Stage::Finish).await;
    let seen = scene.server.seen();
    let mut told = seen.iter().filter(|seen| seen.line().ends_with("/cluster/ha/resources"));
    let told = told.rfind(|seen| seen.method == "POST");
    (ran, told.map(|seen| seen.form()["state"].clone()))
}

fn status(text: &str, ha: &str) -> (&'static str, Reply) {
    (STATUS, Reply::data(&format!(r#"{{"vmid":105,"status":"{text}","ha":{ha}}}"#)))
}

fn reasons(ran: &Ran) -> String {
    let End::Incomplete(failures) = &ran.end else { panic!("{:?}", ran.end) };
    let reasons = failures.iter().map(|failure| match &failure.remedy {
        Remedy::Command(line) => format!("{}; on the node: {line}", failure.reason),
        _ => failure.reason.clone(),
    });
    reasons.collect::<Vec<_>>().join("\n")
}

const MANAGED: &str = r#"{"managed":1,"state":null}"#;

#[tokio::test]
async fn a_wish_is_waited_for_until_the_vm_runs() {
    let there = error(500, "create resource failed: resource ID 'vm:105' already defined");
    let (ran, told) = finished(vec![
        status("stopped", MANAGED),
        (START, Reply::data(WISH)),
        status("stopped", MANAGED),
        status("running", MANAGED),
        (HA, there),
        (RESOURCE, Reply::data(r#"{"sid":"vm:105","state":"started"}"#)),
    ])
    .await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!(told.as_deref(), Some("started"));
    insta::assert_snapshot!(ran.events, @"
    setting up serial console processing [*] setting serial0=socket and vga=serial0
    setting up serial console success [+] the web UI's console is the serial terminal
    starting VM processing [*] starting the VM
    starting VM processing   TASK OK
    starting VM processing [*] HA was asked to start it; waiting until it runs
    starting VM success [+] the VM runs
    adding to HA processing [*] putting the VM under HA as started
    adding to HA success [+] HA keeps the VM started
    ");
}

#[tokio::test]
async fn a_wish_alone_is_no_start() {
    for (managed, says) in [(MANAGED, "nothing yet"), (r#"{"managed":1,"state":"error"}"#, "error")]
    {
        let waiting = (0..200).map(|_| status("stopped", managed));
        let there = error(500, "create resource failed: resource ID 'vm:105' already defined");
        let departures = waiting.chain([
            (START, Reply::data(WISH)),
            (HA, there),
            (RESOURCE, Reply::data(r#"{"sid":"vm:105","state":"started"}"#)),
        ]);
        let (ran, _) = finished(departures.collect()).await;
        assert!(!ran.events.contains("the VM runs"), "{}", ran.events);
        assert_eq!(
            reasons(&ran),
            format!(
                "HA was asked to start it, and 0 s later it does not run (HA's manager says of it: {says}); it may start yet; on the node: qm status 105 --verbose"
            )
        );
    }
}

#[tokio::test]
async fn ha_never_stops_what_may_be_starting() {
    let task = "GET /nodes/pve1/tasks/UPID%3Apve1%3A00000998";
    for departure in [
        (START, error(596, "Connection timed out")),
        (START, Reply::Cut),
        (START, Reply::data("7")),
        (task, error(403, "Permission check failed")),
    ] {
        let (ran, told) = finished(vec![departure]).await;
        assert_eq!(told.as_deref(), Some("started"), "{}", ran.events);
        assert!(!ran.events.contains("the VM runs"), "{}", ran.events);
        assert!(
            reasons(&ran).contains("it may start yet")
                || reasons(&ran).contains("goes on without us")
        );
    }
    let failed =
        Reply::data(r#"{"status":"stopped","exitstatus":"start failed: QEMU exited with code 1"}"#);
    for departure in [(task, failed), (START, error(500, "storage 'x' is not online"))] {
        let (ran, told) = finished(vec![departure]).await;
        assert_eq!(told.as_deref(), Some("stopped"), "{}", ran.events);
    }
}

#[tokio::test]
async fn a_lost_start_is_seen_by_the_vm_that_runs() {
    let stopped = || status("stopped", r#"{"managed":0}"#);
    let lost = (START, error(596, "Connection timed out"));
    let running = status("running", r#"{"managed":0}"#);
    let (ran, told) = finished(vec![stopped(), lost, stopped(), running]).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!((told.as_deref(), ran.writes.len()), (Some("started"), 3));
}

#[tokio::test]
async fn a_state_that_cannot_be_read_is_said() {
    let hidden = || (STATUS, error(403, "Permission check failed (/vms/105, VM.Audit)"));
    let hidden = (0..200).map(|_| hidden());
    let (ran, told) = finished(hidden.chain([(START, Reply::data(WISH))]).collect()).await;
    assert!(reasons(&ran).contains("its state cannot be read"), "{}", reasons(&ran));
    assert_eq!(told.as_deref(), Some("started"));
}

#[tokio::test]
async fn a_start_that_meets_a_lock_is_tried_again() {
    let locked = "can't lock file '/var/lock/qemu-server/lock-105.conf' - got timeout";
    let locked = Reply::data(&format!(r#"{{"status":"stopped","exitstatus":"{locked}"}}"#));
    let (ran, _) = finished(vec![("GET /nodes/pve1/tasks/UPID%3Apve1%3A00000998", locked)]).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!(ran.writes.iter().filter(|line| **line == START).count(), 2);
}

#[tokio::test]
async fn what_is_under_ha_already_is_left_and_a_lost_answer_is_looked_up() {
    let there = || (HA, error(500, "create resource failed: resource ID 'vm:105' already defined"));
    let lost = || (HA, error(596, "Connection timed out"));
    let entry =
        |state: &str| (RESOURCE, Reply::data(&format!(r#"{{"sid":"vm:105","state":"{state}"}}"#)));
    for departure in [there(), lost()] {
        let (ran, _) = finished(vec![departure, entry("started")]).await;
        assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
        assert_eq!(ran.writes.len(), 3);
    }
    // What would stop the VM that was just started is not taken for what was asked for.
    let (ran, _) = finished(vec![there(), entry("stopped")]).await;
    insta::assert_snapshot!(reasons(&ran), @"HA has the VM already, as stopped, and so stops it; on the node: ha-manager set vm:105 --state started");
    let (ran, _) =
        finished(vec![there(), (RESOURCE, error(403, "Permission check failed (/, Sys.Audit)"))])
            .await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "it need not be readable");
}

#[tokio::test]
async fn a_session_that_ends_while_the_start_is_waited_for_is_no_reason_to_wait() {
    let dead = || error(401, "permission denied - invalid PVE ticket");
    let scene = Scene::start("9.1", vec![("POST /access/ticket", ticket())]).await;
    let client = log_in(&scene).await;
    let plan = scene.plan(&["confirm.start=yes"]).await;
    for start in [Reply::data(WISH), error(596, "Connection timed out")] {
        scene.depart(vec![
            status("stopped", MANAGED),
            (START, start),
            (STATUS, dead()),
            ("POST /access/ticket", dead()),
        ]);
        let ran = scene.run_as(&client, &plan, Stage::Finish).await;
        let End::Incomplete(failures) = &ran.end else { panic!("{:?}", ran.end) };
        assert_eq!(failures[0].remedy, Remedy::LogIn, "{}", ran.events);
        let reason = &failures[0].reason;
        assert!(
            reason.contains("the session has ended") && !reason.contains(" s later"),
            "{reason}"
        );
        scene.depart(vec![("POST /access/ticket", ticket())]);
        assert!(client.adopt(&log_in(&scene).await));
    }
}

#[tokio::test]
async fn what_ha_refuses_for_good_is_sent_once_and_what_may_pass_is_told_once() {
    for (refusal, for_good) in [
        (error(500, "create resource failed: something is broken"), true),
        (error(596, "Connection timed out"), false),
        (error(500, "cluster not ready - no quorum?"), false),
    ] {
        let all = (0..200).map(|_| (HA, refusal.clone())).collect();
        let (ran, _) = finished(all).await;
        assert!(matches!(ran.end, End::Incomplete(_)), "{:?}", ran.end);
        let sent = ran.writes.iter().filter(|line| **line == HA).count();
        assert_eq!(sent == 1, for_good, "{sent} times: {}", ran.events);
        let told = ran.events.matches("trying again").count();
        assert_eq!(told, usize::from(!for_good), "{}", ran.events);
    }
}
