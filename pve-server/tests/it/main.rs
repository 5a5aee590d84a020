//! The server as a process: its settings, its signals, its end.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails its test")]

mod node;

use std::time::Duration;

use serde_json::Value;

use self::node::Node;

#[tokio::test]
async fn wrong_settings_are_told_all_at_once_and_nothing_is_opened() {
    let node = Node::new();
    node.settings("PORT=80x\nALLOW_IPS=here\n");
    let (code, told) = node.run_to_its_end(&[]).await;
    assert_eq!(code, Some(2), "{told}");
    for variable in ["PORT", "ALLOW_IPS", "MAIN_NODE", "GATEWAY", "ASSIGN_STORAGE"] {
        assert!(told.contains(&format!(" {variable} ")), "{variable} is missing in {told}");
    }
    assert!(!node.path("state").exists());
}

#[tokio::test]
async fn a_check_names_what_is_in_the_way_and_ends() {
    let node = Node::new();
    node.settings(&format!("{}MAIN_NODE=pve2\n", node.right_settings()));
    let (code, told) = node.run_to_its_end(&["--check"]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("MAIN_NODE is 'pve2', but this node is 'pve1'"), "{told}");
    assert!(told.contains("no SSH key yet"), "{told}");
}

#[tokio::test]
async fn a_second_server_on_the_same_state_is_refused() {
    let node = Node::new();
    let server = node.start().await;
    let (code, told) = node.run_to_its_end(&[]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("another server uses this directory"), "{told}");
    drop(server);
}

#[tokio::test]
async fn after_a_signal_the_job_is_finished_and_a_new_one_refused() {
    let node = Node::new();
    node.stand_in("qm", "[ \"$1\" = start ] && read line < \"$HOME/gate\"\necho status: running\n");
    node.gate();
    let mut server = node.start().await;
    let stream = tokio::spawn(server.ask("POST", "/api/vm/120/start"));
    server.wait_for_job().await;

    server.terminate();
    let refused = server.wait_for("POST", "/api/vm/120/stop", " 503 ").await;
    assert!(refused.contains("\"success\":false"), "{refused}");
    assert!(server.ask("GET", "/api/health").await.ends_with("\r\n\r\nok"));
    node.open_gate().await;

    let stream = stream.await.unwrap();
    assert!(stream.contains("[+] VM 120 is running"), "{stream}");
    assert!(stream.contains("event: close"), "{stream}");
    assert_eq!(server.end().await, Some(0));
}

#[tokio::test]
async fn a_second_signal_cancels_the_wait_of_a_job() {
    let node = Node::new();
    // It starts, but never runs: the wait would take a minute.
    node.stand_in("qm", "echo status: stopped\n");
    let mut server = node.start().await;
    let stream = tokio::spawn(server.ask("POST", "/api/vm/120/start"));
    server.wait_for("GET", "/api/jobs", "VM operation > waiting for ready").await;

    server.terminate();
    server.wait_for("POST", "/api/vm/120/stop", " 503 ").await;
    server.terminate();

    let stream = stream.await.unwrap();
    assert!(stream.contains("cancelled because the server stops"), "{stream}");
    assert!(stream.contains("event: close"), "{stream}");
    assert_eq!(server.end().await, Some(0));
}

#[tokio::test]
async fn a_killed_servers_job_is_ended_by_the_next() {
    let node = Node::new();
    node.stand_in("qm", "[ \"$1\" = start ] && read line < \"$HOME/gate\"\necho status: running\n");
    node.gate();
    let mut server = node.start().await;
    let _stream = tokio::spawn(server.ask("POST", "/api/vm/120/start"));
    server.wait_for("GET", "/api/jobs", "VM operation > starting VM").await;
    server.kill().await;
    node.open_gate().await;

    let server = node.start().await;
    let list = server.wait_for("GET", "/api/jobs", "\"status\":\"error\"").await;
    let list: Value = serde_json::from_str(list.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let id = list["jobs"][0]["id"].as_str().unwrap();
    let events = server.ask("GET", &format!("/api/jobs/{id}/events")).await;
    assert!(
        events.contains("the server ended while 'VM operation > starting VM' was at work"),
        "{events}"
    );
    assert!(events.contains("event: close"), "{events}");
}

/// How long anything may take here.
const LIMIT: Duration = Duration::from_mins(1);
