use std::fs;
use std::time::Duration;

use futures_util::FutureExt;

use super::*;

/// A node with VM 120, which is ours, and VM 121, which is not.
///
/// Its `qm` writes down what it was asked, and says that a VM is stopped.
fn server() -> Server {
    let server = super::server();
    fill(&server);
    server
}

fn fill(server: &Server) {
    let node = server.directory.path().join("pve/nodes/pve1/qemu-server");
    let config = |mark: &str| {
        format!(
            "{mark}cores: 2\nmemory: 2048\nname: web\nscsi0: local:vm-disk-0,size=32G\ntags: debian\n"
        )
    };
    fs::write(node.join("120.conf"), config("#made by pve-server job 0190b3f0\n")).unwrap();
    fs::write(node.join("121.conf"), config("")).unwrap();
    stand_in(server, "qm", "echo \"$@\" >> \"$HOME/asked\"\necho status: stopped\n");
}

/// Written by a process of its own: a file that this one has open for writing, in whichever fork, cannot be run.
fn stand_in(server: &Server, name: &str, script: &str) {
    stand_in_at(&server.directory.path().join("bin"), name, script);
}

fn stand_in_at(bin: &Path, name: &str, script: &str) {
    let path = bin.join(name);
    let write = "printf '#!/bin/sh\n%s' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let mut shell = std::process::Command::new("sh");
    assert!(shell.args(["-c", write]).arg(path).arg(script).status().unwrap().success());
}

fn asked(server: &Server) -> String {
    fs::read_to_string(server.directory.path().join("asked")).unwrap_or_default()
}

fn json(path: &str, body: &str) -> Request<Body> {
    post(path, Some("application/json"), body.to_owned())
}

async fn table(server: &Server, rows: &[(&str, &str)]) -> String {
    let mut answers = String::new();
    for (path, body) in rows {
        let answer = told(server, json(&format!("/api/vm/{path}"), body)).await;
        writeln!(answers, "{path} {body}: {answer}").unwrap();
    }
    answers
}

#[tokio::test]
async fn vms_are_listed_though_nothing_says_what_runs() {
    let server = server();
    insta::assert_snapshot!(told(&server, get("/api/vm/list")).await, @r#"200 {"count":2,"vms":[{"vmid":120,"name":"web","os":"debian","running":null,"node":"pve1","cpu":2,"disk":"32G","memory":2048,"memory_used":null,"ours":true},{"vmid":121,"name":"web","os":"debian","running":null,"node":"pve1","cpu":2,"disk":"32G","memory":2048,"memory_used":null,"ours":false}],"nodes":[{"node":"pve1","online":true,"vms":2}]}"#);
}

#[tokio::test]
async fn the_status_is_one_word() {
    let server = server();
    assert_eq!(told(&server, get("/api/vm/120/status")).await, "200 stopped");
}

#[tokio::test]
async fn a_vm_that_does_not_exist_is_not_found_whatever_is_done_to_it() {
    let server = server();
    let unknown = "404 {\"success\":false,\"message\":\"please check your input: there is no VM ";
    for (id, path) in [("122", "status"), ("5", "status"), ("..%2F120", "status")] {
        let answer = told(&server, get(&format!("/api/vm/{id}/{path}"))).await;
        assert!(answer.starts_with(unknown), "{answer}");
    }
    for what in [
        "start",
        "reboot",
        "stop",
        "shutdown",
        "destroy",
        "set/cpu",
        "set/memory",
        "set/disk",
        "set/node",
    ] {
        let answer = told(&server, json(&format!("/api/vm/122/{what}"), "{}")).await;
        assert!(answer.starts_with(unknown), "{answer}");
    }
    assert_eq!(asked(&server), "");
}

#[tokio::test]
async fn what_cannot_be_set_is_told_with_what_would_be_right() {
    let server = server();
    let rows = [
        ("120/set/cpu", ""),
        ("120/set/cpu", "{}"),
        ("120/set/cpu", r#"{"cpu":"4"}"#),
        ("120/set/cpu", r#"{"cpu":1.5}"#),
        ("120/set/memory", "[]"),
        ("120/set/disk", r#"{"disk":"-1G"}"#),
        ("120/set/disk", r#"{"disk":10}"#),
        ("120/set/node", r#"{"node":"pve9"}"#),
        ("120/set/node", r#"{"node":"pve1"}"#),
        ("120/destroy", r#"{"force":"yes"}"#),
        ("121/destroy", ""),
        ("121/destroy", r#"{"force":false}"#),
    ];
    insta::assert_snapshot!(table(&server, &rows).await, @r#"
    120/set/cpu : 400 {"success":false,"message":"please check your input: the body is not JSON: EOF while parsing a value at line 1 column 0"}
    120/set/cpu {}: 400 {"success":false,"message":"please check your input: cpu is missing; it must be a whole number"}
    120/set/cpu {"cpu":"4"}: 400 {"success":false,"message":"please check your input: cpu must be a whole number"}
    120/set/cpu {"cpu":1.5}: 400 {"success":false,"message":"please check your input: cpu must be a whole number"}
    120/set/memory []: 400 {"success":false,"message":"please check your input: the body is not a JSON object"}
    120/set/disk {"disk":"-1G"}: 400 {"success":false,"message":"please check your input: disk \"-1G\" is not a size to grow by, such as \"10G\""}
    120/set/disk {"disk":10}: 400 {"success":false,"message":"please check your input: disk must be a text"}
    120/set/node {"node":"pve9"}: 400 {"success":false,"message":"please check your input: node \"pve9\" is not a node of this cluster (pve1)"}
    120/set/node {"node":"pve1"}: 400 {"success":false,"message":"please check your input: node \"pve1\" has VM 120 already"}
    120/destroy {"force":"yes"}: 400 {"success":false,"message":"please check your input: force must be true or false"}
    121/destroy : 409 {"success":false,"message":"please check your input: VM 121 was not made by this server: to destroy it all the same, send {\"force\":true}"}
    121/destroy {"force":false}: 409 {"success":false,"message":"please check your input: VM 121 was not made by this server: to destroy it all the same, send {\"force\":true}"}
    "#);
    assert_eq!(asked(&server), "");
}

#[tokio::test]
async fn changes_are_carried_out_and_answered_with_what_was_set() {
    let server = server();
    let rows = [
        ("120/set/cpu", r#"{"cpu":4}"#),
        ("120/set/cpu", r#"{"cpu":1e30}"#),
        ("120/set/memory", r#"{"memory":-1}"#),
        ("120/stop", ""),
        ("120/shutdown", ""),
        ("120/destroy", ""),
        ("121/destroy", r#"{"force":true}"#),
    ];
    insta::assert_snapshot!(table(&server, &rows).await, @r#"
    120/set/cpu {"cpu":4}: 200 VM 120: cpu 4, from its next start on
    120/set/cpu {"cpu":1e30}: 200 VM 120: cpu 4294967295 (cpu 9223372036854775807 → 4294967295 (the maximum)), from its next start on
    120/set/memory {"memory":-1}: 200 VM 120: memory 512 MiB (ram -1 → 512 (the minimum)), from its next start on
    120/stop : 200 VM 120 is stopped
    120/shutdown : 200 VM 120 is shut down
    120/destroy : 200 VM 120 is destroyed
    121/destroy {"force":true}: 200 VM 121 is destroyed
    "#);
    insta::assert_snapshot!(asked(&server), @"
    set 120 --cores 4
    status 120
    set 120 --cores 4294967295
    status 120
    set 120 --memory 512
    status 120
    stop 120
    shutdown 120
    stop 120 --skiplock
    destroy 120 --purge --skiplock
    stop 121 --skiplock
    destroy 121 --purge --skiplock
    ");
}

#[tokio::test]
async fn more_cores_than_the_node_has_are_not_set() {
    let server = super::server_prepared(access(), |bin| {
        let answer = r#"{"cpuinfo":{"flags":"lm","cpus":8}}"#;
        stand_in_at(bin, "pvesh", &format!("echo '{answer}'\n"));
    });
    fill(&server);
    let rows = [("120/set/cpu", r#"{"cpu":9}"#), ("120/set/cpu", r#"{"cpu":8}"#)];
    insta::assert_snapshot!(table(&server, &rows).await, @r#"
    120/set/cpu {"cpu":9}: 400 {"success":false,"message":"please check your input: cpu 9 is more than pve1 has (8 threads): ask for fewer, or use another node"}
    120/set/cpu {"cpu":8}: 200 VM 120: cpu 8, from its next start on
    "#);
    assert_eq!(asked(&server), "set 120 --cores 8\nstatus 120\n");
}

#[tokio::test]
async fn a_vm_that_proxmox_is_at_work_on_is_not_destroyed() {
    let server = server();
    let node = server.directory.path().join("pve/nodes/pve1/qemu-server");
    fs::write(node.join("121.conf"), "lock: backup\nname: db\n").unwrap();
    let rows = [("121/destroy", r#"{"force":true}"#)];
    insta::assert_snapshot!(table(&server, &rows).await, @r#"121/destroy {"force":true}: 409 {"success":false,"message":"please check your input: VM 121 is locked (backup): wait for what locks it; should that have died, 'qm unlock 121'"}"#);
    assert_eq!(asked(&server), "");
}

#[tokio::test]
async fn the_ha_manager_is_waited_for() {
    let server = server();
    let ha = server.directory.path().join("pve/ha");
    fs::create_dir(&ha).unwrap();
    fs::write(ha.join("resources.cfg"), "ct: 121\n\tstate started\n\nvm: 120\n\tstate started\n")
        .unwrap();
    // The second look finds it stopped.
    let script = "echo \"$@\" >> \"$HOME/asked\"\n\
        [ $(grep -c status \"$HOME/asked\") -ge 2 ] && echo status: stopped || echo status: running\n";
    stand_in(&server, "qm", script);
    let answers = table(&server, &[("120/stop", ""), ("121/stop", "")]).await;
    assert_eq!(answers, "120/stop : 200 VM 120 is stopped\n121/stop : 200 VM 121 is stopped\n");
    assert_eq!(asked(&server), "stop 120\nstatus 120\nstatus 120\nstop 121\n");
}

#[tokio::test]
async fn a_migration_by_the_ha_manager_is_waited_for() {
    let server = server();
    let pve = server.directory.path().join("pve");
    fs::create_dir_all(pve.join("nodes/pve2/qemu-server")).unwrap();
    fs::create_dir(pve.join("ha")).unwrap();
    fs::write(pve.join("ha/resources.cfg"), "vm: 120\n").unwrap();
    let members = r#"{"nodename": "pve1", "version": 2,
        "cluster": {"name": "c", "version": 2, "nodes": 2, "quorate": 1},
        "nodelist": {"pve1": {"id": 1, "online": 1, "ip": "192.0.2.11"},
                     "pve2": {"id": 2, "online": 1, "ip": "192.0.2.12"}}}"#;
    fs::write(pve.join(".members"), members).unwrap();
    let script = "[ \"$1\" = migrate ] || exit 0\n\
        cd \"$HOME/pve/nodes\"\n\
        (sleep 1; mv pve1/qemu-server/120.conf pve2/qemu-server/) > /dev/null 2>&1 &\n";
    stand_in(&server, "qm", script);
    let request = json("/api/vm/120/set/node", r#"{"node":"pve2"}"#);
    let response = router(server.app.clone()).oneshot(request).await.unwrap();
    insta::assert_snapshot!(text(response).await, @r#"
    id: 0
    data: {"step":"VM operation > migrating VM","status":"processing","message":"[*] migrating VM 120 from pve1 to pve2"}

    id: 1
    data: {"step":"VM operation > migrating VM","status":"success","message":"[+] VM 120 is on pve2"}

    id: 2
    event: close
    data: {}
    "#);
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_in_the_one_form() {
    let server = server();
    for path in ["/api/vm/%FF/status", "/api/jobs/%FF", "/sh/%FF"] {
        let answer = told(&server, get(path)).await;
        assert_eq!(
            answer,
            r#"400 {"success":false,"message":"please check your input: the path is not UTF-8"}"#
        );
    }
}

#[tokio::test]
async fn a_cluster_that_cannot_be_read_is_not_the_callers_fault() {
    let server = server();
    fs::remove_file(server.directory.path().join("pve/.members")).unwrap();
    let answer = told(&server, json("/api/vm/install", r#"{"os":"debian","version":"12"}"#)).await;
    assert!(answer.starts_with("500 "), "{answer}");
    assert!(answer.contains(".members"), "{answer}");
}

#[tokio::test]
async fn a_start_is_a_job_with_events() {
    let server = server();
    stand_in(&server, "qm", "[ \"$1\" = status ] && echo status: running\nexit 0\n");
    let request = json("/api/vm/121/start", "");
    let response = router(server.app.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let id = response.headers()["x-job-id"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["location"], format!("/api/jobs/{id}"));
    insta::assert_snapshot!(text(response).await, @r#"
    id: 0
    data: {"step":"VM operation > starting VM","status":"processing","message":"[*] starting VM 121 on pve1"}

    id: 1
    data: {"step":"VM operation > starting VM","status":"success","message":"[+] VM 121 is started"}

    id: 2
    data: {"step":"VM operation > waiting for ready","status":"processing","message":"[*] waiting until its status is running"}

    id: 3
    data: {"step":"VM operation > waiting for ready","status":"success","message":"[+] VM 121 is running; it has no address to ask for more"}

    id: 4
    event: close
    data: {}
    "#);

    let job = server.jobs.get(&id.parse().unwrap()).await.unwrap();
    assert_eq!(
        job.request(),
        &json!({"operation": "start", "id": 121, "node": "pve1", "target": null})
    );
}

#[tokio::test]
async fn a_change_goes_on_when_its_caller_leaves() {
    let server = server();
    let directory = server.directory.path();
    let script = "echo begun >> \"$HOME/asked\"\nread line < \"$HOME/gate\"\necho ended >> \"$HOME/asked\"\n";
    stand_in(&server, "qm", script);
    let made = std::process::Command::new("mkfifo").arg(directory.join("gate")).status().unwrap();
    assert!(made.success());

    let caller = tokio::spawn(router(server.app.clone()).oneshot(json("/api/vm/120/stop", "")));
    for _ in 0..1_000 {
        if asked(&server) == "begun\n" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(asked(&server), "begun\n");
    insta::assert_snapshot!(told(&server, json("/api/vm/120/destroy", "")).await, @r#"409 {"success":false,"message":"please check your input: VM 120 is being worked on by a job or another request: wait for it, or cancel the job"}"#);
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    server.app.stop();
    assert!(server.app.idle().now_or_never().is_none());
    let gate = directory.join("gate");
    tokio::task::spawn_blocking(move || fs::write(gate, "go\n").unwrap()).await.unwrap();
    server.app.idle().await;

    assert_eq!(asked(&server), "begun\nended\n");
}

#[tokio::test]
async fn the_init_scripts_can_be_read() {
    let server = server();
    let (status, script) = ask(&server, get("/sh/debian_12.sh")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(script.starts_with("#!"), "{script}");
    for path in ["/sh/debian_99.sh", "/sh/debian_12", "/sh/..%2Fdebian_12.sh", "/sh/.sh"] {
        assert_eq!(ask(&server, get(path)).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}
