//! The faults of the flow, and the end to which each leads.

use pve_provision::create::End;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;

use crate::scene::CREATE;
use crate::scene::Departures;
use crate::scene::Ran;
use crate::scene::Scene;
use crate::scene::privileges;
use crate::scene::ticket;
use crate::server::Reply;

pub(crate) const POST: &str = "POST /nodes/pve1/qemu";
pub(crate) const PUT: &str = "PUT /nodes/pve1/qemu/105/config";
pub(crate) const HA: &str = "POST /cluster/ha/resources";
const STATUS: &str = "GET /nodes/pve1/tasks/UPID%3Apve1%3A00000997";

pub(crate) fn error(status: u16, reason: &str) -> Reply {
    Reply::status(status, reason, &format!(r#"{{"data":null,"message":"{reason}\n"}}"#))
}

async fn ran(departures: Departures) -> Ran {
    with(departures, &[]).await
}

async fn with(departures: Departures, said: &[&str]) -> Ran {
    let scene = Scene::start("9.1", departures).await;
    let plan = scene.plan(said).await;
    scene.run(&plan, Stage::Create).await
}

#[tokio::test]
async fn a_vm_is_made_gets_its_console_starts_and_is_put_under_ha_in_this_order() {
    for release in ["9.2", "8.4"] {
        let scene = Scene::start(release, Vec::new()).await;
        let plan = scene.plan(&["confirm.start=yes"]).await;
        let ran = scene.run(&plan, Stage::Create).await;
        assert_eq!(ran.end, End::Made { warnings: Vec::new() });
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.events, @"
            checking privileges processing [*] comparing privileges with what is needed
            checking privileges success [+] root@pam!ci may do all of it
            creating through the API processing [*] creating VM 105 on pve1
            creating through the API processing   TASK OK
            creating through the API success [+] VM 105 is made on pve1
            setting up serial console processing [*] setting serial0=socket and vga=serial0
            setting up serial console success [+] the web UI's console is the serial terminal
            starting VM processing [*] starting the VM
            starting VM processing   TASK OK
            starting VM success [+] the VM runs
            adding to HA processing [*] putting the VM under HA as started
            adding to HA success [+] HA keeps the VM started
            ");
            insta::assert_snapshot!(ran.writes.join("\n"), @"
            POST /nodes/pve1/qemu
            PUT /nodes/pve1/qemu/105/config
            POST /nodes/pve1/qemu/105/status/start
            POST /cluster/ha/resources
            ");
        }
        let seen = scene.server.seen();
        let sent = |pattern: &str| {
            let found =
                seen.iter().find(|seen| seen.line().replacen("/api2/json", "", 1) == pattern);
            found.unwrap().form()
        };
        let create = sent(POST);
        assert!(!create.contains_key("start") && !create.contains_key("ha-managed"));
        assert_eq!(sent(PUT).len(), 2);
        assert_eq!((&*sent(HA)["sid"], &*sent(HA)["state"]), ("vm:105", "started"));
    }
}

#[tokio::test]
async fn without_a_privilege_nothing_is_written() {
    let granted = format!(r#"{{"/":{{{}}}}}"#, privileges().replace("VM.Allocate", "VM.Audit"));
    let first = Reply::data(&granted);
    let ran =
        ran(vec![("GET /access/permissions", first.clone()), ("GET /access/permissions", first)])
            .await;
    let End::NothingMade(failure) = &ran.end else { panic!("{:?}", ran.end) };
    insta::assert_snapshot!(failure.reason, @"root@pam!ci lacks VM.Allocate on /vms/105 (for making a VM)");
    insta::assert_debug_snapshot!(failure.remedy, @r#"
    Grant(
        [
            "pveum acl modify /vms/105 --tokens 'root@pam!ci' --roles PVEVMAdmin",
        ],
    )
    "#);
    assert_eq!(ran.writes, [""; 0]);
}

#[tokio::test]
async fn a_number_that_was_taken_meanwhile_is_answered_with_one_that_is_free() {
    const SAID: &str = "unable to create VM 105 - VM 105 already exists on node 'pve2'";
    let next = ("GET /cluster/nextid", Reply::data("\"105\""));
    let free = ("GET /cluster/nextid", Reply::data("106"));
    let failed = Reply::data(&format!(r#"{{"status":"stopped","exitstatus":"{SAID}"}}"#));
    for taken in [(POST, error(500, SAID)), (STATUS, failed)] {
        let ran = ran(vec![next.clone(), free.clone(), taken]).await;
        let End::NothingMade(failure) = &ran.end else { panic!("{:?}", ran.end) };
        assert_eq!(failure.remedy, Remedy::TakeNumber(Some("106".parse().unwrap())));
        assert_eq!(ran.writes, [POST], "the other's VM is not touched");
    }
}

#[tokio::test]
async fn a_refused_parameter_is_shown_at_its_field() {
    let body = r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"scsi0":"no","cores":"too few","bogus":"what"}}"#;
    let ran = ran(vec![(POST, Reply::status(400, "Parameter verification failed.", body))]).await;
    let End::NothingMade(failure) = &ran.end else { panic!("{:?}", ran.end) };
    let fields: Vec<String> =
        failure.fields.iter().map(|(key, text)| format!("{key}: {text}")).collect();
    assert_eq!(fields, ["cpu.cores: too few", "disks.0.storage: no"]);
}

#[tokio::test]
async fn a_ticket_that_dies_on_the_last_screen_loses_nothing() {
    let dead = || error(401, "permission denied - invalid PVE ticket");
    let refused = ("POST /access/ticket", dead());
    let first = ("POST /access/ticket", ticket());
    let scene = Scene::start("9.1", vec![first, (POST, dead()), refused]).await;
    let client = log_in(&scene).await;
    let plan = scene.plan(&["general.name=web"]).await;
    let ran = scene.run_as(&client, &plan, Stage::Create).await;
    let End::NothingMade(failure) = &ran.end else { panic!("{:?}", ran.end) };
    assert_eq!(failure.remedy, Remedy::LogIn);
    let fresh = log_in(&scene).await;
    assert!(client.adopt(&fresh));
    let ran = scene.run_as(&client, &plan, Stage::Create).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() });
}

pub(crate) async fn log_in(scene: &Scene) -> pve_api::Client {
    let user = "root@pam".parse().unwrap();
    match scene.server.door().login(&user, &"secret".to_owned().into()).await.unwrap() {
        pve_api::Login::Done(client) => client,
        pve_api::Login::SecondFactor(challenge) => panic!("{challenge:?}"),
    }
}

#[tokio::test]
async fn warnings_of_the_task_are_told_and_are_success() {
    let warned = Reply::data(r#"{"status":"stopped","exitstatus":"WARNINGS: 1"}"#);
    let log = Reply::data(r#"[{"n":1,"t":"WARN: something"},{"n":2,"t":"TASK WARNINGS: 1"}]"#);
    let path = "GET /nodes/pve1/tasks/UPID%3Apve1%3A00000997%3A00029DAF%3A6B0D7C1D%3Aqmcreate%3A105%3Aroot%40pam%21ci%3A/log";
    let ran = ran(vec![(path, log), (STATUS, warned)]).await;
    assert_eq!(ran.end, End::Made { warnings: vec!["WARN: something".to_owned()] });
    assert!(ran.events.contains("[*] WARN: something"));
}

#[tokio::test]
async fn a_task_that_cannot_be_followed_is_followed_later() {
    let scene = Scene::start("9.1", vec![(STATUS, error(403, "Permission check failed"))]).await;
    let plan = scene.plan(&[]).await;
    let ran = scene.run(&plan, Stage::Create).await;
    let End::Unknown { resume: Stage::Follow(upid), .. } = &ran.end else {
        panic!("{:?}", ran.end)
    };
    assert_eq!(upid.as_str(), CREATE);
    let ran = scene.run(&plan, Stage::Follow(upid.clone())).await;
    assert_eq!(
        (ran.end, ran.writes),
        (End::Made { warnings: Vec::new() }, vec![PUT.to_owned(), HA.to_owned()])
    );
}

#[tokio::test]
async fn a_console_that_cannot_be_set_is_an_end_of_its_own_and_can_be_tried_again() {
    let bare = || ("GET /nodes/pve1/qemu/105/config", Reply::data("{}"));
    for (refusal, tries) in [
        (error(403, "Permission check failed (/vms/105, VM.Config.HWType)"), 1),
        (error(500, "VM is locked (backup)"), 2),
        (error(596, "Connection timed out"), 2),
    ] {
        let mut departures = Departures::new();
        for _ in 0..200 {
            departures.push((PUT, refusal.clone()));
            departures.push(bare());
        }
        let scene = Scene::start("9.1", departures).await;
        let plan = scene.plan(&["confirm.start=yes"]).await;
        let ran = scene.run(&plan, Stage::Create).await;
        let End::WithoutConsole(failure) = &ran.end else { panic!("{:?}", ran.end) };
        let command = "qm set 105 --serial0 socket --vga serial0".to_owned();
        assert_eq!(failure.remedy, Remedy::Command(command));
        assert!(ran.writes.len() > tries, "{:?}", ran.writes);
        assert!(!ran.writes.iter().any(|line| line.ends_with("start") || line == HA));
        assert!(ran.events.contains("Vm { vmid: Vmid(105)"), "{}", ran.events);
    }
}

#[tokio::test]
async fn a_lock_that_goes_away_is_waited_for() {
    let locked =
        || error(500, "can't lock file '/var/lock/qemu-server/lock-105.conf' - got timeout");
    let bare = || ("GET /nodes/pve1/qemu/105/config", Reply::data("{}"));
    let ran = ran(vec![(PUT, locked()), (PUT, locked()), bare(), bare()]).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() });
    assert_eq!(ran.writes, [POST, PUT, PUT, PUT, HA]);
    assert_eq!(ran.events.matches("trying again").count(), 1);
}

#[tokio::test]
async fn ha_without_privilege_or_a_failing_start_leave_the_vm() {
    let refused = error(403, "Permission check failed (/, Sys.Console)");
    let failed =
        Reply::data(r#"{"status":"stopped","exitstatus":"start failed: QEMU exited with code 1"}"#);
    let start = "GET /nodes/pve1/tasks/UPID%3Apve1%3A00000998";
    let ran = with(vec![(HA, refused), (start, failed)], &["confirm.start=yes"]).await;
    let End::Incomplete(failures) = &ran.end else { panic!("{:?}", ran.end) };
    let failures: Vec<String> = failures
        .iter()
        .map(|failure| format!("{}: {}", failure.step.name(), failure.reason))
        .collect();
    insta::assert_snapshot!(failures.join("\n"), @"
    VM creation > starting VM: start failed: QEMU exited with code 1
    VM creation > adding to HA: POST /cluster/ha/resources: not permitted: Permission check failed (/, Sys.Console)
    ");
    insta::assert_snapshot!(ran.events, @r#"
    checking privileges processing [*] comparing privileges with what is needed
    checking privileges success [+] root@pam!ci may do all of it
    creating through the API processing [*] creating VM 105 on pve1
    creating through the API processing   TASK OK
    creating through the API success [+] VM 105 is made on pve1
    setting up serial console processing [*] setting serial0=socket and vga=serial0
    setting up serial console success [+] the web UI's console is the serial terminal
    starting VM processing [*] starting the VM
    starting VM processing   TASK OK
    starting VM error [-] start failed: QEMU exited with code 1; on the node: qm start 105 Vm { vmid: Vmid(105), node: NodeName("pve1") }
    adding to HA processing [*] putting the VM under HA as stopped
    adding to HA error [-] POST /cluster/ha/resources: not permitted: Permission check failed (/, Sys.Console); on the node: ha-manager add vm:105 --state stopped Vm { vmid: Vmid(105), node: NodeName("pve1") }
    "#);
}

#[tokio::test]
async fn a_running_vm_is_told_when_the_console_takes_effect() {
    let config = "GET /nodes/pve1/qemu/105/config?current";
    let ran = ran(vec![(config, Reply::data(r#"{"vga":"std"}"#))]).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() });
    assert!(ran.events.contains("takes effect when"), "{}", ran.events);
}
