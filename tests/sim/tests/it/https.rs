//! The API over TLS, as a client meets it: connections, certificates, holds, faults.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use pve_sim::Account;
use pve_sim::Config;
use pve_sim::Sim;
use pve_sim::sim::Fault;
use pve_sim::sim::FaultAnswer;
use pve_sim::sim::Manners;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use sha2::Digest;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const TOKEN: &str = "PVEAPIToken=root@pam!sim=01234567-89ab-cdef-0123-456789abcdef";

async fn sim(nodes: &[&str]) -> Sim {
    let config = Config {
        program: Some(env!("CARGO_BIN_EXE_pve-sim").into()),
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        manners: Manners { hold: Duration::ZERO, ..Manners::default() },
        ..Config::default()
    };
    Sim::start(config).await.unwrap()
}

/// A connection that trusts the cluster's authority and nobody else.
async fn connect(sim: &Sim, node: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(sim.authority()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let url = sim.https_url_of(node).unwrap();
    let address: SocketAddr = url.strip_prefix("https://").unwrap().parse().unwrap();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), stream).await
}

/// Status line, headers and body of one answer; nothing when the connection ended first.
async fn read(stream: &mut TlsStream<TcpStream>) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.unwrap().parse().unwrap();
            while bytes.len() < end + 4 + length {
                stream.read_buf(&mut bytes).await.unwrap();
            }
            return Some((head, String::from_utf8(bytes[end + 4..].to_vec()).unwrap()));
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

fn text(method: &str, path: &str, credential: &str, body: &str) -> String {
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let length = body.len();
    format!(
        "{method} /api2/json{path} HTTP/1.1\r\nHost: pve1\r\n{credential}\r\n{kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

async fn ask(
    stream: &mut TlsStream<TcpStream>,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(String, String)> {
    let credential = format!("Authorization: {TOKEN}");
    stream.write_all(text(method, path, &credential, body).as_bytes()).await.unwrap();
    read(stream).await
}

fn data(answer: Option<(String, String)>) -> Value {
    let (_, body) = answer.unwrap();
    serde_json::from_str::<Value>(&body).unwrap()["data"].clone()
}

fn status(answer: Option<&(String, String)>) -> &str {
    answer.unwrap().0.lines().next().unwrap()
}

/// Polls a task until it has ended.
async fn exit(stream: &mut TlsStream<TcpStream>, upid: &str) -> String {
    let node = upid.split(':').nth(1).unwrap().to_owned();
    for _ in 0..500 {
        let path = format!("/nodes/{node}/tasks/{upid}/status");
        let found = data(ask(stream, "GET", &path, "").await);
        if found["status"] == "stopped" {
            return found["exitstatus"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the task does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_stays_whatever_its_headers_say_until_something_fails() {
    let sim = sim(&["pve1"]).await;
    let mut stream = connect(&sim, "pve1").await.unwrap();
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    let digest = sha2::Sha256::digest(&certificate);
    let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(sim.fingerprint(), pairs.join(":"));
    let nodes = data(ask(&mut stream, "GET", "/nodes", "").await);
    assert_eq!(nodes[0]["ssl_fingerprint"], sim.fingerprint());
    let created = ask(&mut stream, "POST", "/nodes/pve1/qemu", "vmid=100&name=web").await;
    let head = &created.as_ref().unwrap().0;
    assert!(head.contains("Connection: close\r\nConnection: Keep-Alive\r\n"), "{head}");
    let upid = data(created).as_str().unwrap().to_owned();
    assert_eq!(exit(&mut stream, &upid).await, "OK");
    assert!(sim.pve_directory().join("nodes/pve1/qemu-server/100.conf").exists());
    let failed = ask(&mut stream, "GET", "/nope", "").await;
    assert_eq!(status(failed.as_ref()), "HTTP/1.1 501 Method 'GET /nope' not implemented");
    assert_eq!(read(&mut stream).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_speaks_no_tls_is_sent_to_where_it_is_spoken() {
    let sim = sim(&["pve1"]).await;
    let url = sim.https_url().unwrap();
    let mut stream = TcpStream::connect(url.strip_prefix("https://").unwrap()).await.unwrap();
    stream.write_all(b"GET /x HTTP/1.1\r\nHost: pve1:8006\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 301 Moved Permanently\r\n"), "{answer}");
    assert!(answer.contains("\r\nLocation: https://pve1:8006/x\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_401_is_held_back_and_a_ticket_ends_with_its_time() {
    let sim = sim(&["pve1"]).await;
    let mut stream = connect(&sim, "pve1").await.unwrap();
    let form = "username=auditor@pve&password=simulated";
    let login = data(ask(&mut stream, "POST", "/access/ticket", form).await);
    assert_eq!(login, Value::Null, "a token cannot log in");
    let mut stream = connect(&sim, "pve1").await.unwrap();
    stream.write_all(text("POST", "/access/ticket", "X: y", form).as_bytes()).await.unwrap();
    let login = data(read(&mut stream).await);
    let cookie = format!("Cookie: PVEAuthCookie={}", login["ticket"].as_str().unwrap());
    stream.write_all(text("GET", "/version", &cookie, "").as_bytes()).await.unwrap();
    assert_eq!(status(read(&mut stream).await.as_ref()), "HTTP/1.1 200 OK");
    sim.pass(Duration::from_secs(7201));
    let hold = Duration::from_millis(200);
    sim.set_manners(Manners { hold, ..Manners::default() });
    let asked = Instant::now();
    stream.write_all(text("GET", "/version", &cookie, "").as_bytes()).await.unwrap();
    assert_eq!(status(read(&mut stream).await.as_ref()), "HTTP/1.1 401 Authentication failed!");
    assert!(asked.elapsed() >= hold);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_answers_in_place_of_a_call_or_ends_its_connection_before_or_after_it() {
    let sim = sim(&["pve1"]).await;
    let no_room = FaultAnswer::Answer {
        status: 500,
        text: "no room".to_owned(),
        errors: std::collections::BTreeMap::new(),
    };
    sim.faults().add(Fault::once("^POST /nodes/pve1/qemu .*vmid=100", no_room));
    for done in [false, true] {
        let drop = FaultAnswer::Drop { done, polite: done };
        sim.faults().add(Fault::once("^POST /nodes/pve1/qemu .*vmid=100", drop));
    }
    let mut answers = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(&sim, "pve1").await.unwrap();
        let answer = ask(&mut stream, "POST", "/nodes/pve1/qemu", "vmid=100").await;
        answers.push(answer.map(|(head, _)| head.lines().next().unwrap().to_owned()));
    }
    let taken = "HTTP/1.1 500 unable to create VM 100 - VM 100 already exists on node 'pve1'";
    let expected =
        [Some("HTTP/1.1 500 no room"), None, None, Some(taken)].map(|text| text.map(str::to_owned));
    assert_eq!(answers, expected);
    let made: Vec<u16> = sim.called().iter().map(|call| call.status).collect();
    assert_eq!(made, [200, 500]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_later_than_its_head_costs_a_ticket_its_connection() {
    let sim = sim(&["pve1"]).await;
    let ticket = sim.world(|world| world.access.ticket("root@pam", "", world.now));
    let token = sim.world(|world| world.access.request_token("root@pam", world.now));
    let with_ticket = format!("Cookie: PVEAuthCookie={ticket}\r\nCSRFPreventionToken: {token}");
    let with_token = format!("Authorization: {TOKEN}");
    let mut outcomes = Vec::new();
    for drops_late_bodies in [false, true] {
        sim.set_manners(Manners { drops_late_bodies, ..Manners::default() });
        for credential in [&with_ticket, &with_token] {
            let mut stream = connect(&sim, "pve1").await.unwrap();
            let request = text("PUT", "/cluster/options", credential, "keyboard=de");
            let (head, body) = request.split_at(request.len() - 11);
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _ = stream.write_all(body.as_bytes()).await;
            outcomes.push(read(&mut stream).await.is_some());
        }
    }
    assert_eq!(outcomes, [true, true, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_reached_by_any_node_and_says_which_one_is_gone() {
    let sim = sim(&["pve1", "pve2", "pve3"]).await;
    let mut second = connect(&sim, "pve2").await.unwrap();
    let created = ask(&mut second, "POST", "/nodes/pve1/qemu", "vmid=100").await;
    let upid = data(created).as_str().unwrap().to_owned();
    assert!(upid.starts_with("UPID:pve1:"));
    assert_eq!(exit(&mut second, &upid).await, "OK");
    sim.take_down("pve1").await;
    let gone = ask(&mut second, "GET", "/nodes/pve1/qemu", "").await;
    assert_eq!(status(gone.as_ref()), "HTTP/1.1 595 No route to host");
    assert_eq!(gone.unwrap().1, "");
    assert!(sim.https_url_of("pve1").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_have_the_factors_tokens_and_roles_that_they_are_given() {
    let secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
    let account = Account {
        totp: Some(secret.to_owned()),
        recovery: vec!["0000-1111-2222-3333".to_owned()],
        ..Account::new("ops@pve", "sesame").role("/vms", "PVEVMAdmin").token("ci", "s", true)
    };
    let config = Config {
        program: Some(env!("CARGO_BIN_EXE_pve-sim").into()),
        accounts: vec![account],
        ..Config::default()
    };
    let sim = Sim::start(config).await.unwrap();
    let mut stream = connect(&sim, "pve1").await.unwrap();
    let form = "username=ops@pve&password=sesame";
    stream.write_all(text("POST", "/access/ticket", "X: y", form).as_bytes()).await.unwrap();
    let half = data(read(&mut stream).await);
    assert_eq!(half["NeedTFA"], 1);
    let challenge: String =
        url::form_urlencoded::byte_serialize(half["ticket"].as_str().unwrap().as_bytes()).collect();
    let form =
        format!("username=ops@pve&password=recovery:0000-1111-2222-3333&tfa-challenge={challenge}");
    stream.write_all(text("POST", "/access/ticket", "X: y", &form).as_bytes()).await.unwrap();
    let whole = data(read(&mut stream).await);
    assert_eq!(whole["cap"]["vms"]["VM.Allocate"], 1);
    assert_eq!(whole["cap"]["dc"], serde_json::json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_downloads_an_image_of_the_mirror_and_makes_a_disk_of_it() {
    let sim = sim(&["pve1"]).await;
    let image = sim.mirror().images().into_iter().find(|image| image.os == "debian").unwrap();
    let url = format!("{}{}", sim.mirror_url(), image.path);
    let mut stream = connect(&sim, "pve1").await.unwrap();
    let escaped: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    let path = format!("/nodes/pve1/query-url-metadata?url={escaped}");
    let metadata = data(ask(&mut stream, "GET", &path, "").await);
    assert_eq!(metadata["filename"], image.file_name());
    let form = format!("content=import&filename=debian.qcow2&url={escaped}");
    let path = "/nodes/pve1/storage/local/download-url";
    let upid = data(ask(&mut stream, "POST", path, &form).await).as_str().unwrap().to_owned();
    assert_eq!(exit(&mut stream, &upid).await, "OK");
    let form = "vmid=100&scsi0=local:0,import-from=local:import/debian.qcow2";
    let upid = data(ask(&mut stream, "POST", "/nodes/pve1/qemu", form).await);
    assert_eq!(exit(&mut stream, upid.as_str().unwrap()).await, "OK");
    let size =
        sim.world(|world| world.volume("pve1", "local", "100/vm-100-disk-0.qcow2").unwrap().size);
    assert_eq!(size, image.virtual_size);
}
