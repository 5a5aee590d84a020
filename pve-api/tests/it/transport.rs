//! What goes over the wire, and what is told when it breaks.

use pve_api::ConfigUpdate;
use pve_api::Destroy;
use pve_api::Error;
use pve_api::QemuConfig;
use pve_api::Vmid;

use crate::secrets::told;
use crate::server::Reply;
use crate::server::Server;
use crate::server::deserted;
use crate::server::impatient;
use crate::server::silent;
use crate::server::token_client;

const VERSION: &str = r#"{"version":"9.2.11","release":"9.2","repoid":"14a22df35955d97d"}"#;
const UPID: &str = r#""UPID:pve1:000014C9:00034C34:6B0D7DDC:qmstart:121:root@pam!ci:""#;

fn vmid() -> Vmid {
    "121".parse().unwrap()
}

#[tokio::test]
async fn head_and_small_body_leave_in_one_tls_record() {
    let server = Server::start(|_| Reply::data("null")).await;
    let client = server.client();
    let node = "pve1".parse().unwrap();
    let set = QemuConfig {
        description: Some("a text of some length ".repeat(40)),
        ..QemuConfig::default()
    };
    for _ in 0..4 {
        client.node(&node).qemu(vmid()).set_config(&ConfigUpdate::set(set.clone())).await.unwrap();
    }
    let seen = server.seen();
    assert!(seen.iter().all(|request| request.body.len() > 800));
    // On a new connection as well as on one that was used before.
    assert_eq!(seen.iter().map(|request| request.connection).collect::<Vec<_>>(), [0; 4]);
    assert_eq!(seen.iter().map(|request| request.records).collect::<Vec<_>>(), [1; 4]);
}

#[tokio::test]
async fn a_connection_is_used_again_unless_the_server_says_that_it_closes_it() {
    for (headers, connections) in [
        (vec!["Connection: Keep-Alive"], 1),
        // Proxmox VE says both for what its daemon answers. It keeps the connection, but to rely on
        // that would be to rely on a broken promise.
        (vec!["Connection: close", "Connection: Keep-Alive"], 3),
    ] {
        let server = Server::start(move |_| Reply::Answer {
            status: 200,
            reason: "OK".to_owned(),
            headers: headers.clone(),
            body: format!("{{\"data\":{VERSION}}}"),
        })
        .await;
        let client = server.client();
        for _ in 0..3 {
            client.version().await.unwrap();
        }
        assert_eq!(server.connections(), connections);
    }
}

#[tokio::test]
async fn parameters_of_reads_and_removals_stand_in_the_query() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => Reply::data("\"555\""),
        _ => Reply::data(UPID),
    })
    .await;
    let client = server.client();
    assert!(client.cluster().is_free("555".parse().unwrap()).await.unwrap());
    let node = "pve1".parse().unwrap();
    let how = Destroy { purge: true, unreferenced_disks: true };
    client.node(&node).qemu(vmid()).destroy(&how).await.unwrap();
    client.node(&node).qemu(vmid()).start().await.unwrap();
    assert_eq!(
        server.lines(),
        [
            "GET /api2/json/cluster/nextid?vmid=555",
            "DELETE /api2/json/nodes/pve1/qemu/121?purge=1&destroy-unreferenced-disks=1",
            "POST /api2/json/nodes/pve1/qemu/121/status/start",
        ]
    );
    assert!(server.seen().iter().all(|request| request.body.is_empty()));
}

#[tokio::test]
async fn a_request_that_was_never_sent_goes_to_the_next_address() {
    let server = Server::start(|_| Reply::data(UPID)).await;
    let mut settings = server.settings();
    settings.addresses = vec![deserted().await, deserted().await, server.address()];
    let client = token_client(&settings);
    let node = "pve1".parse().unwrap();
    client.node(&node).qemu(vmid()).start().await.unwrap();
    client.node(&node).qemu(vmid()).stop().await.unwrap();
    assert_eq!(server.lines().len(), 2);

    settings.addresses = vec![deserted().await, deserted().await];
    let error = token_client(&settings).node(&node).qemu(vmid()).start().await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }) && error.had_no_effect(), "{error:?}");
    let words = "POST /nodes/pve1/qemu/121/status/start: not sent: cannot connect to 127.0.0.1:";
    assert!(told(&error).starts_with(words), "{}", told(&error));
}

#[tokio::test]
async fn a_node_that_cannot_be_connected_to_in_the_time_for_an_answer_was_never_sent_anything() {
    let (_listener, silent) = silent().await;
    let server = Server::start(|_| Reply::data(UPID)).await;
    let mut settings = impatient(server.settings());
    settings.addresses = vec![silent];
    // The usual time for a connection is far longer than this one for an answer.
    assert!(settings.timeouts.connect > settings.timeouts.answer);
    let node = "pve1".parse().unwrap();
    let error = token_client(&settings).node(&node).qemu(vmid()).start().await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }) && error.had_no_effect(), "{error:?}");
    settings.addresses.push(server.address());
    token_client(&settings).node(&node).qemu(vmid()).start().await.unwrap();
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_not_sent_again() {
    for lost in [Reply::Close, Reply::Cut, Reply::Half, Reply::Silence] {
        let reply = lost.clone();
        let server = Server::start(move |_| reply.clone()).await;
        let second = Server::start(|_| Reply::data(UPID)).await;
        let mut settings = impatient(server.settings());
        settings.addresses.push(second.address());
        let client = token_client(&settings);
        let node = "pve1".parse().unwrap();
        let error = client.node(&node).qemu(vmid()).start().await.unwrap_err();
        assert!(matches!(error, Error::UnknownOutcome { .. }), "{lost:?}: {error:?}");
        assert!(!error.had_no_effect() && !error.is_transient());
        told(&error);
        assert_eq!((server.lines().len(), second.lines().len()), (1, 0), "{lost:?}");
    }
}

#[tokio::test]
async fn a_write_on_a_used_connection_that_breaks_is_not_sent_again_either() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => Reply::data(VERSION),
        _ => Reply::Cut,
    })
    .await;
    let client = server.client();
    client.version().await.unwrap();
    let node = "pve1".parse().unwrap();
    let error = client.node(&node).qemu(vmid()).start().await.unwrap_err();
    assert!(matches!(error, Error::UnknownOutcome { .. }), "{error:?}");
    assert_eq!(server.lines().len(), 2);
    assert_eq!(server.seen()[1].connection, 0);
}

#[tokio::test]
async fn a_read_whose_answer_was_lost_is_asked_again_twice() {
    let server = Server::start({
        let asked = std::sync::atomic::AtomicUsize::new(0);
        move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::Close,
            1 => Reply::status(596, "Connection timed out", ""),
            _ => Reply::data(VERSION),
        }
    })
    .await;
    assert_eq!(server.client().version().await.unwrap().to_string(), "9.2.11");
    assert_eq!(server.lines().len(), 3);

    let server = Server::start(|_| Reply::Cut).await;
    let error = server.client().version().await.unwrap_err();
    assert!(matches!(error, Error::Interrupted { .. }) && error.had_no_effect(), "{error:?}");
    assert_eq!(server.lines().len(), 3);
}

#[tokio::test]
async fn a_refusal_is_asked_once_and_told_by_its_reason_phrase() {
    let server = Server::start(|_| {
        Reply::status(
            500,
            "unable to create VM 100 - VM 100 already exists on node 'pve1'",
            "{\"data\":null}",
        )
    })
    .await;
    let client = server.client();
    let error = client.version().await.unwrap_err();
    assert_eq!(
        told(&error),
        "GET /version: already exists: unable to create VM 100 - VM 100 already exists on node 'pve1'"
    );
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn statuses_that_are_not_http_are_understood() {
    let server = Server::start(|_| Reply::status(595, "No route to host", "")).await;
    let node = "pve2".parse().unwrap();
    let error = server.client().node(&node).status().await.unwrap_err();
    let Error::NodeUnreachable { node: Some(name), .. } = &error else { panic!("{error:?}") };
    assert_eq!(name, "pve2");
    assert_eq!(told(&error), "GET /nodes/pve2/status: node unreachable: No route to host");
}
