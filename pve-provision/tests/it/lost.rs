//! Create requests whose answer was lost: looked for first, and never taken for another's VM.

use pve_provision::create::End;
use pve_provision::create::Remedy;
use pve_provision::create::Stage;

use crate::flow::HA;
use crate::flow::POST;
use crate::flow::PUT;
use crate::flow::error;
use crate::scene::CREATE;
use crate::scene::Departures;
use crate::scene::Ran;
use crate::scene::Scene;
use crate::server::Reply;

const TASKS: &str = "GET /nodes/pve1/tasks?";
const IS_FREE: &str = "GET /cluster/nextid?vmid=105";
const CONFIG: &str = "GET /nodes/pve1/qemu/105/config";

/// What the server makes of the request of the defaults.
const OURS: &str = r#"{"ostype":"l26","sockets":1,"cores":2,"cpu":"host","numa":0,"memory":"2048",
    "bios":"ovmf","machine":"q35","scsihw":"virtio-scsi-single","agent":"1","balloon":2048,
    "efidisk0":"ceph-pool:vm-105-disk-0,efitype=4m,pre-enrolled-keys=0,size=528K",
    "ide2":"cephfs:iso/nixos-minimal-25.05.1.a-x86_64-linux.iso,media=cdrom,size=1G",
    "scsi0":"ceph-pool:vm-105-disk-1,iothread=1,size=32G,ssd=1",
    "net0":"virtio=BC:24:11:7C:A1:0E,bridge=vmbr9,firewall=1","boot":"order=scsi0;ide2;net0",
    "smbios1":"uuid=5f2c9f0e-52a1-4c57-8a8f-3f6f0f1d2c3b","meta":"creation-qemu=10.2.2,ctime=1"}"#;

fn ours() -> String {
    OURS.replace(r#""balloon":2048,"#, "")
}

fn task(upid: &str) -> Reply {
    Reply::data(&format!(r#"[{{"upid":"{upid}"}}]"#))
}

fn no_task() -> Reply {
    Reply::data("[]")
}

fn taken() -> (&'static str, Reply) {
    let errors = r#"{"vmid":"VM 105 already exists"}"#;
    let body = format!(
        r#"{{"data":null,"message":"Parameter verification failed.\n","errors":{errors}}}"#
    );
    (IS_FREE, Reply::status(400, "Parameter verification failed.", &body))
}

fn config(json: &str) -> (&'static str, Reply) {
    (CONFIG, Reply::data(json))
}

fn lost() -> (&'static str, Reply) {
    (POST, error(596, "Connection timed out"))
}

const EXISTS: &str = "unable to create VM 105 - VM 105 already exists on node 'pve1'";

async fn ran(departures: Departures) -> Ran {
    let scene = Scene::start("9.1", departures).await;
    let plan = scene.plan(&[]).await;
    scene.run(&plan, Stage::Create).await
}

/// A first run that is lost without a trace, and what comes of going on from there.
async fn again(departures: Departures) -> (Ran, Scene) {
    let scene = Scene::start("9.1", vec![lost()]).await;
    let plan = scene.plan(&[]).await;
    let first = scene.run(&plan, Stage::Create).await;
    let End::Unknown { failure, resume } = &first.end else { panic!("{:?}", first.end) };
    insta::allow_duplicates! {
        insta::assert_snapshot!(failure.reason, @"the answer to the request was lost: no task and no VM came of it, but it may still come");
        insta::assert_debug_snapshot!(failure.remedy, @r#"
        Command(
            "pvesh get /nodes/pve1/tasks --vmid 105 --source all",
        )
        "#);
    }
    assert!(matches!(resume, Stage::Again(before) if before.is_empty()), "{resume:?}");
    assert!(first.events.ends_with("Unknown"), "{}", first.events);
    assert_eq!(first.writes, [POST]);
    scene.depart(departures);
    (scene.run(&plan, resume.clone()).await, scene)
}

#[tokio::test]
async fn a_lost_answer_is_looked_for_and_never_sent_again() {
    for lost in [error(596, "Connection timed out"), Reply::Cut, Reply::Half] {
        let ran = ran(vec![
            (POST, lost),
            (TASKS, no_task()),
            (TASKS, task(&CREATE.replace("root@pam!ci", "other@pve"))),
            (TASKS, task(CREATE)),
            taken(),
            config(&ours()),
        ])
        .await;
        assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
        assert_eq!(ran.writes, [POST, PUT, HA]);
    }
}

#[tokio::test]
async fn a_vm_that_was_made_otherwise_is_anothers_and_is_not_touched() {
    let memory = ours().replace("\"2048\"", "\"512\"");
    let disk = ours().replace("ceph-pool:vm-105-disk-1", "local-lvm:vm-105-disk-1");
    let name = ours().replace("{\"ostype\"", "{\"name\":\"db\",\"ostype\"");
    let card = ours().replace("net0", "net1");
    for other in [memory, disk, name, card] {
        // By a task of another account, and on another node.
        for (seen, there) in [
            (task(&CREATE.replace("root@pam!ci", "other@pve")), config(&other)),
            (no_task(), config(&other)),
            (
                no_task(),
                (
                    CONFIG,
                    error(
                        500,
                        "Configuration file 'nodes/pve1/qemu-server/105.conf' does not exist",
                    ),
                ),
            ),
        ] {
            let ran = ran(vec![
                lost(),
                (TASKS, no_task()),
                (TASKS, seen),
                taken(),
                there,
                ("GET /cluster/nextid", Reply::data("105")),
                ("GET /cluster/nextid", Reply::data("106")),
            ])
            .await;
            let End::NothingMade(failure) = &ran.end else { panic!("{other}: {:?}", ran.end) };
            assert_eq!(failure.remedy, Remedy::TakeNumber(Some("106".parse().unwrap())));
            assert_eq!(ran.writes, [POST], "the other's VM is not touched");
        }
    }
}

#[tokio::test]
async fn what_the_account_itself_made_otherwise_may_be_ours_and_is_not_made_twice() {
    let other = ours().replace("\"2048\"", "\"512\"");
    let ran =
        ran(vec![lost(), (TASKS, no_task()), (TASKS, task(CREATE)), taken(), config(&other)]).await;
    let End::Unknown { failure, resume: Stage::Again(_) } = &ran.end else {
        panic!("{:?}", ran.end)
    };
    insta::assert_snapshot!(failure.reason, @"the answer to the request was lost: a task of root@pam!ci made VM 105, but not as it was asked for");
    assert_eq!(ran.writes, [POST]);
}

#[tokio::test]
async fn what_cannot_be_told_stays_unknown() {
    for there in [
        config(r#"{"lock":"create","memory":"512"}"#),
        // Somebody else, who may not be seen, may have asked for the same.
        config(&ours()),
        (CONFIG, error(403, "Permission check failed (/vms/105, VM.Audit)")),
    ] {
        let ran = ran(vec![lost(), taken(), there]).await;
        let End::Unknown { resume: Stage::Again(_), .. } = &ran.end else {
            panic!("{:?}", ran.end)
        };
        assert_eq!(ran.writes, [POST]);
    }
}

#[tokio::test]
async fn going_on_looks_first_and_finds_what_came_late() {
    let (ran, _) = again(vec![(TASKS, task(CREATE)), taken(), config(&ours())]).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!(ran.writes, [PUT, HA], "nothing is sent twice");
}

#[tokio::test]
async fn going_on_sends_it_again_when_nothing_came() {
    let (ran, _) = again(vec![taken_later(), taken(), config(&ours())]).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!(ran.writes, [POST, PUT, HA]);
}

/// Free when it is looked at first.
fn taken_later() -> (&'static str, Reply) {
    (IS_FREE, Reply::data("\"105\""))
}

#[tokio::test]
async fn a_number_that_is_taken_when_it_is_sent_again_may_be_ours() {
    let exists = || (POST, error(500, EXISTS));
    let scene = Scene::start("9.1", vec![lost()]).await;
    let plan = scene.plan(&[]).await;
    let first = scene.run(&plan, Stage::Create).await;
    let End::Unknown { resume, .. } = first.end else { panic!("{:?}", first.end) };
    scene.depart(vec![exists()]);
    scene.depart_after(POST, vec![(TASKS, task(CREATE)), taken(), config(&ours())]);
    let ran = scene.run(&plan, resume).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!(ran.writes, [POST, PUT, HA]);
    // It cannot be told.
    let (ran, _) =
        again(vec![taken_later(), exists(), taken(), config(r#"{"lock":"create"}"#)]).await;
    let End::Unknown { resume: Stage::Again(_), .. } = &ran.end else { panic!("{:?}", ran.end) };
    assert_eq!(ran.writes, [POST], "no other number is taken on its own");
}

#[tokio::test]
async fn of_two_requests_the_one_that_made_the_vm_counts() {
    let second = CREATE.replace("00000997", "00000A01");
    let failed = Reply::data(&format!(r#"{{"status":"stopped","exitstatus":"{EXISTS}"}}"#));
    let status = "GET /nodes/pve1/tasks/UPID%3Apve1%3A00000A01%3A00029DAF%3A6B0D7C1D%3Aqmcreate%3A105%3Aroot%40pam%21ci%3A/status";
    let both = Reply::data(&format!(r#"[{{"upid":"{second}"}},{{"upid":"{CREATE}"}}]"#));
    let scene = Scene::start("9.1", vec![lost()]).await;
    let plan = scene.plan(&[]).await;
    let first = scene.run(&plan, Stage::Create).await;
    let End::Unknown { resume, .. } = first.end else { panic!("{:?}", first.end) };
    scene.depart(vec![(POST, Reply::data(&format!("\"{second}\"")))]);
    let late = [(status, failed), taken(), config(&ours())];
    let tasks = [(TASKS, both.clone()), (TASKS, both)];
    scene.depart_after(POST, late.into_iter().chain(tasks).collect());
    let ran = scene.run(&plan, resume).await;
    assert_eq!(ran.end, End::Made { warnings: Vec::new() }, "{}", ran.events);
    assert_eq!(ran.writes, [POST, PUT, HA]);
}

#[tokio::test]
async fn what_is_refused_when_it_is_sent_again_was_not_made() {
    let refused = error(500, "storage 'ceph-pool' does not exist");
    let (ran, _) = again(vec![(POST, refused)]).await;
    let End::NothingMade(failure) = &ran.end else { panic!("{:?}", ran.end) };
    assert!(failure.reason.contains("storage 'ceph-pool' does not exist"), "{}", failure.reason);
    let (ran, _) = again(vec![(POST, error(500, "VM is locked (backup)"))]).await;
    assert!(matches!(ran.end, End::Unknown { resume: Stage::Again(_), .. }), "{:?}", ran.end);
}

#[tokio::test]
async fn a_number_that_the_account_itself_took_before_is_said_to_be_so() {
    for (user, says) in [("root@pam!ci", true), ("other@pve", false)] {
        let earlier = task(&CREATE.replace("root@pam!ci", user));
        let ran = ran(vec![(TASKS, earlier), (POST, error(500, EXISTS))]).await;
        let End::NothingMade(failure) = &ran.end else { panic!("{:?}", ran.end) };
        let told = "a task of root@pam!ci itself made that number before";
        assert_eq!(failure.reason.contains(told), says, "{}", failure.reason);
    }
}

#[tokio::test]
async fn nothing_is_sent_while_the_tasks_cannot_be_listed() {
    let ran = ran(vec![(TASKS, error(403, "Permission check failed"))]).await;
    assert!(matches!(ran.end, End::NothingMade(_)), "{:?}", ran.end);
    assert_eq!(ran.writes, [""; 0], "a lost answer could not be looked for");
}
