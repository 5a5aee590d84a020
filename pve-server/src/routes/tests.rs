use std::fmt::Write;
use std::path::Path;
use std::path::PathBuf;

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use pve_images::Cache;
use pve_images::CacheSettings;
use pve_images::Catalogue;
use pve_images::Head;
use pve_provision::Kind;
use pve_provision::Left;
use pve_provision::Step;
use pve_provision::install::Installer;
use pve_provision::install::Limits;
use pve_provision::install::Settings;
use pve_provision::jobs::CancelReason;
use pve_provision::jobs::Job;
use pve_provision::jobs::Jobs;
use serde_json::json;
use tempfile::TempDir;
use tower::ServiceExt;

use super::*;
use crate::access::Access;
use crate::access::Allowed;

mod vm;

/// A server on a node whose commands stand in `bin`: none, until a test puts one there.
struct Server {
    app: App,
    jobs: Jobs,
    directory: TempDir,
}

fn settings(directory: &Path) -> Settings {
    Settings {
        main_node: "pve1".parse().unwrap(),
        gateway: "127.0.0.1".parse().unwrap(),
        first_vmid: 100,
        last_vmid: 254,
        storage: "local".parse().unwrap(),
        limits: Limits::default(),
        root_password: None,
        nodes: std::collections::BTreeMap::new(),
        ssh_port: 2222,
        nameserver: None,
        timezone: None,
        script_directory: None,
        pve_directory: directory.join("pve"),
        state_directory: directory.to_owned(),
        home: directory.to_owned(),
        path: format!("{}:/usr/bin:/bin", directory.join("bin").display()),
        installs_at_once: 4,
        patience: pve_provision::install::Patience::default(),
    }
}

fn access() -> Access {
    Access {
        allowed: Allowed::Only(vec!["192.0.2.0/24".parse().unwrap()]),
        trusted_proxies: Vec::new(),
        token: None,
        host_names: ["pve1".to_owned()].into(),
    }
}

fn server_with(access: Access) -> Server {
    server_prepared(access, |_| ())
}

/// A server whose `bin` is filled before it starts.
fn server_prepared(access: Access, fill: impl FnOnce(&Path)) -> Server {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bin")).unwrap();
    fill(&directory.path().join("bin"));
    let pve = directory.path().join("pve/nodes/pve1/qemu-server");
    std::fs::create_dir_all(pve).unwrap();
    let members = r#"{"nodename": "pve1", "version": 1}"#;
    std::fs::write(directory.path().join("pve/.members"), members).unwrap();
    let jobs = Jobs::open(directory.path()).unwrap();
    let images =
        CacheSettings { directory: PathBuf::from("/tmp"), head: Head::Required, verify: true };
    let installer = Installer::new(
        settings(directory.path()),
        Catalogue::builtin(),
        Cache::new(images).unwrap(),
    )
    .unwrap();
    Server { app: App::new(access, jobs.clone(), installer), jobs, directory }
}

fn server() -> Server {
    server_with(access())
}

fn from_allowed(builder: Builder) -> Builder {
    let peer: SocketAddr = "192.0.2.9:4711".parse().unwrap();
    builder.extension(ConnectInfo(peer))
}

fn get(path: &str) -> Request<Body> {
    from_allowed(Request::get(path)).body(Body::empty()).unwrap()
}

fn post(path: &str, content_type: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let mut builder = from_allowed(Request::post(path));
    if let Some(content_type) = content_type {
        builder = builder.header("content-type", content_type);
    }
    builder.body(body.into()).unwrap()
}

/// Status and body.
async fn ask(server: &Server, request: Request<Body>) -> (StatusCode, String) {
    let response = router(server.app.clone()).oneshot(request).await.unwrap();
    let status = response.status();
    (status, text(response).await)
}

async fn text(response: Response) -> String {
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.into()).unwrap()
}

async fn told(server: &Server, request: Request<Body>) -> String {
    let (status, body) = ask(server, request).await;
    format!("{} {body}", status.as_u16())
}

async fn short_job(server: &Server) -> Job {
    let job = server.jobs.start(json!({"os": "debian", "version": "12"})).await.unwrap();
    job.report(Step::CheckingVmid, Kind::Started("checking VMID".to_owned())).await;
    job.claim(120.try_into().unwrap(), &"pve1".parse().unwrap()).await.unwrap();
    job.report(Step::CheckingVmid, Kind::Done("VMID 120".to_owned())).await;
    job
}

#[tokio::test]
async fn the_server_says_that_it_is_there() {
    assert_eq!(told(&server(), get("/api/health")).await, "200 ok");
}

#[tokio::test]
async fn whatever_is_wrong_with_a_request_is_said_in_the_specified_form() {
    let json = Some("application/json");
    let form = Some("application/x-www-form-urlencoded");
    let valid = r#"{"os":"debian","version":"12"}"#;
    let large = vec![b' '; 10 << 20];
    let rows = [
        ("cut JSON", post(INSTALL, json, r#"{"os":"debi"#)),
        ("a wrong type", post(INSTALL, json, r#"{"os":5,"version":"12"}"#)),
        ("another", post(INSTALL, json, r#"{"os":"debian","version":"12","cpu":"2"}"#)),
        ("a list", post(INSTALL, json, "[]")),
        ("an empty body", post(INSTALL, json, "")),
        ("nothing at all", post(INSTALL, None, "")),
        ("10 MiB", post(INSTALL, json, large)),
        ("a form", post(INSTALL, form, "os=debian&version=12")),
        ("no type", post(INSTALL, None, valid)),
        ("JSON as text", post(INSTALL, Some("text/plain"), valid)),
        ("GET", get(INSTALL)),
        ("an unknown route", get("/api/vm/instal")),
        ("an unknown job", get("/api/jobs/0190b3f0-0000-7000-8000-000000000000")),
        ("no job's id", get("/api/jobs/..%2F..%2Flock")),
        ("an unknown system", post(INSTALL, json, r#"{"os":"windows","version":"12"}"#)),
        ("a charset", post(INSTALL, Some("Application/JSON; charset=utf-8"), "{}")),
    ];
    let server = server();
    let mut answers = String::new();
    for (what, request) in rows {
        writeln!(answers, "{what}: {}", told(&server, request).await).unwrap();
    }
    insta::assert_snapshot!(answers, @r#"
    cut JSON: 400 {"success":false,"message":"please check your input: the body is not JSON: EOF while parsing a string at line 1 column 11"}
    a wrong type: 400 {"success":false,"message":"please check your input: os is a number, not a text"}
    another: 400 {"success":false,"message":"please check your input: cpu is a text, not a whole number"}
    a list: 400 {"success":false,"message":"please check your input: the body is not a JSON object"}
    an empty body: 400 {"success":false,"message":"please check your input: the body is empty: send a JSON object with os and version"}
    nothing at all: 400 {"success":false,"message":"please check your input: the body is empty: send a JSON object with os and version"}
    10 MiB: 413 {"success":false,"message":"please check your input: the body is larger than 1 MiB"}
    a form: 415 {"success":false,"message":"please check your input: the body must be JSON, with the header 'Content-Type: application/json'"}
    no type: 415 {"success":false,"message":"please check your input: the body must be JSON, with the header 'Content-Type: application/json'"}
    JSON as text: 415 {"success":false,"message":"please check your input: the body must be JSON, with the header 'Content-Type: application/json'"}
    GET: 405 {"success":false,"message":"please check your input: /api/vm/install does not take GET"}
    an unknown route: 404 {"success":false,"message":"please check your input: there is nothing at /api/vm/instal"}
    an unknown job: 404 {"success":false,"message":"please check your input: job '0190b3f0-0000-7000-8000-000000000000' does not exist"}
    no job's id: 404 {"success":false,"message":"please check your input: job '../../lock' does not exist"}
    an unknown system: 400 {"success":false,"message":"please check your input: os \"windows\" is not one of debian, rockylinux, ubuntu"}
    a charset: 400 {"success":false,"message":"please check your input: os is missing"}
    "#);
    assert!(server.jobs.list().await.is_empty());
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_one() {
    let response = router(server().app).oneshot(get(INSTALL)).await.unwrap();
    assert_eq!(response.headers()["allow"], "POST");
    assert_eq!(response.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn a_denied_caller_gets_one_line_from_install_and_403_from_the_rest() {
    let server = server();
    let denied = |builder: Builder| {
        let peer: SocketAddr = "203.0.113.5:4711".parse().unwrap();
        let builder = builder.extension(ConnectInfo(peer)).header("x-forwarded-for", "192.0.2.9");
        // A body that never comes must not be waited for.
        builder
            .body(Body::from_stream(
                futures_util::stream::pending::<Result<&[u8], std::io::Error>>(),
            ))
            .unwrap()
    };
    let request = denied(Request::post(INSTALL));
    let response = router(server.app.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    insta::assert_snapshot!(text(response).await.trim_end(), @r#"data: {"step":"preparation > checking source IP","status":"error","message":"[-] 203.0.113.5 may not call this server (ALLOW_IPS)"}"#);
    insta::assert_snapshot!(told(&server, denied(Request::get("/api/health"))).await, @r#"403 {"success":false,"message":"203.0.113.5 may not call this server (ALLOW_IPS)"}"#);
}

#[tokio::test]
async fn other_refusals_are_in_the_json_form_on_every_route() {
    let server = server_with(Access { token: Some("s3cret-token".into()), ..access() });
    let mut answers = String::new();
    for (name, value) in [
        ("host", "evil.example.net"),
        ("origin", "https://evil.example.net"),
        ("sec-fetch-site", "cross-site"),
        ("authorization", "Bearer wrong"),
    ] {
        for builder in [Request::post(INSTALL), Request::get("/api/jobs")] {
            let request = from_allowed(builder.header(name, value)).body(Body::empty()).unwrap();
            writeln!(answers, "{}", told(&server, request).await).unwrap();
        }
    }
    insta::assert_snapshot!(answers, @r#"
    403 {"success":false,"message":"'evil.example.net' is not a name of this server (HOST_NAMES)"}
    403 {"success":false,"message":"'evil.example.net' is not a name of this server (HOST_NAMES)"}
    403 {"success":false,"message":"requests from the web page of another server ('https://evil.example.net') are refused"}
    403 {"success":false,"message":"requests from the web page of another server ('https://evil.example.net') are refused"}
    403 {"success":false,"message":"requests from the web page of another server ('cross-site') are refused"}
    403 {"success":false,"message":"requests from the web page of another server ('cross-site') are refused"}
    401 {"success":false,"message":"the header 'Authorization: Bearer <API_TOKEN>' is missing or wrong"}
    401 {"success":false,"message":"the header 'Authorization: Bearer <API_TOKEN>' is missing or wrong"}
    "#);

    let builder = Request::get("/api/health").header("authorization", "Bearer s3cret-token");
    assert_eq!(told(&server, from_allowed(builder).body(Body::empty()).unwrap()).await, "200 ok");
}

fn events(job: &Job, last: Option<&str>) -> Request<Body> {
    let mut builder = from_allowed(Request::get(format!("/api/jobs/{}/events", job.id())));
    if let Some(last) = last {
        builder = builder.header("last-event-id", last);
    }
    builder.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn the_events_of_a_job_are_replayed_from_where_the_reader_was() {
    let server = server();
    let job = short_job(&server).await;
    job.end().await;

    let response = router(server.app.clone()).oneshot(events(&job, None)).await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let headers = ["content-type", "cache-control", "x-accel-buffering"].map(header);
    assert_eq!(headers, ["text/event-stream", "no-cache", "no"]);
    let whole = text(response).await;
    insta::assert_snapshot!(whole, @r#"
    id: 0
    data: {"step":"preparation > checking VMID","status":"processing","message":"[*] checking VMID"}

    id: 1
    data: {"step":"preparation > checking VMID","status":"success","message":"[+] VMID 120"}

    id: 2
    event: close
    data: {}
    "#);
    let answer = async |last: &str| ask(&server, events(&job, Some(last))).await;
    let from = |id: &str| whole[whole.find(id).unwrap()..].to_owned();
    assert_eq!(answer("0").await, (StatusCode::OK, from("id: 1")));
    assert_eq!(answer("1").await, (StatusCode::OK, from("id: 2")));
    assert_eq!(answer("2").await, (StatusCode::NO_CONTENT, String::new()));
    assert_eq!(answer("99").await, (StatusCode::NO_CONTENT, String::new()));
    for wrong in ["", "-1", "x", "18446744073709551615"] {
        assert_eq!(answer(wrong).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn a_reader_of_a_running_job_gets_what_is_there_and_what_comes() {
    let server = server();
    let job = short_job(&server).await;
    let reader = tokio::spawn(router(server.app.clone()).oneshot(events(&job, Some("0"))));
    let response = reader.await.unwrap().unwrap();
    let reader = tokio::spawn(text(response));
    job.report(Step::AssigningIp, Kind::Failed { text: "no".to_owned(), left: Left::Nothing })
        .await;
    job.end().await;

    insta::assert_snapshot!(reader.await.unwrap(), @r#"
    id: 1
    data: {"step":"preparation > checking VMID","status":"success","message":"[+] VMID 120"}

    id: 2
    data: {"step":"preparation > assigning IP","status":"error","message":"[-] no"}

    id: 3
    event: close
    data: {}
    "#);
}

/// The text with ids and times made equal.
fn plain(text: &str, job: &Job) -> String {
    let text = text.replace(&job.id().to_string(), "<id>");
    let state = job.state();
    let times = [Some(state.accepted), state.ended].into_iter().flatten();
    times.fold(text, |text, time| text.replace(&time.to_string(), "<time>"))
}

#[tokio::test]
async fn jobs_are_listed_and_shown() {
    let server = server();
    let job = short_job(&server).await;
    let path = format!("/api/jobs/{}", job.id());
    insta::assert_snapshot!(plain(&told(&server, get("/api/jobs")).await, &job), @r#"200 {"count":1,"jobs":[{"id":"<id>","status":"running","accepted":"<time>","claimed":{"vmid":120,"node":"pve1"},"step":"preparation > checking VMID","failed":null,"events":2,"ended":null}]}"#);
    insta::assert_snapshot!(plain(&told(&server, get(&path)).await, &job), @r#"200 {"id":"<id>","status":"running","request":{"os":"debian","version":"12"},"accepted":"<time>","claimed":{"vmid":120,"node":"pve1"},"step":"preparation > checking VMID","failed":null,"events":2,"ended":null}"#);

    job.report(Step::CheckingVmid, Kind::Failed { text: "no".to_owned(), left: Left::Unknown })
        .await;
    job.end().await;
    insta::assert_snapshot!(plain(&told(&server, get(&path)).await, &job), @r#"200 {"id":"<id>","status":"error","request":{"os":"debian","version":"12"},"accepted":"<time>","claimed":{"vmid":120,"node":"pve1"},"step":"preparation > checking VMID","failed":"unknown","events":3,"ended":"<time>"}"#);
}

#[tokio::test]
async fn a_running_job_is_cancelled_and_an_ended_one_is_not() {
    let server = server();
    let job = short_job(&server).await;
    let delete = || {
        let builder = Request::delete(format!("/api/jobs/{}", job.id()));
        from_allowed(builder).body(Body::empty()).unwrap()
    };
    assert_eq!(ask(&server, delete()).await.0, StatusCode::ACCEPTED);
    assert_eq!(job.cancel_reason(), Some(CancelReason::Requested));

    job.end().await;
    insta::assert_snapshot!(plain(&told(&server, delete()).await, &job), @r#"409 {"success":false,"message":"job <id> has ended"}"#);
}

#[tokio::test]
async fn a_stopping_server_takes_no_new_jobs() {
    let server = server();
    server.app.stop();
    let request = post(INSTALL, Some("application/json"), r#"{"os":"debian","version":"12"}"#);
    insta::assert_snapshot!(told(&server, request).await, @r#"503 {"success":false,"message":"the server stops and takes no new jobs"}"#);
    assert_eq!(told(&server, get("/api/health")).await, "200 ok");
    server.app.idle().await;
}

#[tokio::test]
async fn a_job_that_breaks_off_says_so_and_ends() {
    let server = server();
    let job = short_job(&server).await;
    let admission = server.app.admit().unwrap();
    admission.run(job.clone(), async { panic!("a fault") });
    server.app.stop();
    server.app.idle().await;

    assert!(job.state().ended.is_some());
    assert_eq!(job.state().failed, Some(Left::Unknown));
}
