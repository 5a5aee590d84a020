//! What is sent: refused before the stream, or planned as the events of the preparation say.
//!
//! The storage of these servers does not exist, so that a request that is accepted ends early.

use pve_e2e::rig::Install;
use pve_e2e::rig::Rig;
use reqwest::Method;
use reqwest::RequestBuilder;
use serde_json::Value;
use serde_json::json;

use super::day::Day;
use super::day::PASSWORD;
use super::day::check;
use super::day::commands;
use super::table;
use super::table::Row;
use super::table::row;
use super::told::Alike;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqMVqgNWqLUVhzCW+zTI2SRHOvXFI8Vq2bZNf9W9qCn you@example.org";
const ANOTHER_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqMVqgNWqLUVhzCW+zTI2SRHOvXFI8Vq2bZNf9W9qCm me@example.org";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_refused_with_the_reason_or_planned() {
    insta::assert_snapshot!(table::run(rows()).await);
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = identities();
    rows.extend(sizes());
    rows.push(row("numbers above the caps are clamped", capped()));
    rows.push(row("a body that is none", bodies()));
    rows.push(row("a caller that is not let in", callers()));
    rows.push(row("a token that is wrong", tokens()));
    rows.extend(installs());
    rows
}

/// Who the VM is and who may log in.
fn identities() -> Vec<Row> {
    vec![
        fields(
            "id",
            [
                json!(5),
                json!(99),
                json!(255),
                json!(300),
                json!("abc"),
                json!(-1),
                json!(1),
                json!(2.5),
            ],
        ),
        fields(
            "id that is left out",
            [json!(0), json!(null), json!("")].map(|id| json!({"id": id})),
        ),
        fields("id that is free", [json!(120)].map(|id| json!({"id": id}))),
        fields(
            "name",
            [
                json!("web 1"),
                json!("a\"b"),
                json!("a;b"),
                json!("wéb"),
                json!("-web"),
                json!("web_1"),
                json!("web-"),
                json!("a..b"),
                json!("x".repeat(64)),
                json!(7),
            ],
        ),
        fields(
            "name that fits",
            [json!("web.example.org"), json!("10.0.0.5-app"), json!("Web"), json!("")]
                .map(|name| json!({"name": name})),
        ),
        fields(
            "user",
            [
                json!("a;b"),
                json!("-oProxyCommand=x"),
                json!("yes"),
                json!("u".repeat(40)),
                json!("Root"),
                json!("null"),
            ],
        ),
        fields(
            "user that fits",
            [json!("root"), json!("deploy"), json!("")].map(|user| json!({"user": user})),
        ),
        fields("passwd", [json!("a\nb"), json!(["us3r's s3cret"])]),
        fields(
            "pubkey",
            [
                json!("garbage"),
                json!(
                    "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
                ),
                json!(format!("{KEY}\nssh-rsa AAAA")),
            ],
        ),
    ]
}

/// What it is made of.
fn sizes() -> Vec<Row> {
    vec![
        fields(
            "disk",
            [
                json!("abc"),
                json!("1T"),
                json!("16.5G"),
                json!("32g"),
                json!(" 32G"),
                json!("9999999999999G"),
                json!(40),
            ],
        ),
        fields(
            "disk that is clamped",
            [json!("-5G"), json!("5"), json!("15G"), json!("40"), json!("131072G")]
                .map(|disk| json!({"disk": disk})),
        ),
        fields("cpu", [json!("2"), json!(1.5), json!(true)]),
        fields("ram", [json!("2"), json!([])]),
        fields(
            "cpu and ram that are clamped",
            [
                json!({"cpu": -1, "ram": -1}),
                json!({"cpu": 0, "ram": 0}),
                json!({"cpu": null, "ram": ""}),
            ],
        ),
        fields(
            "os and version",
            [
                json!({"os": "arch"}),
                json!({"os": ""}),
                json!({"os": null}),
                json!({"version": "99"}),
                json!({"version": 12}),
            ],
        ),
        fields("node", [json!("nowhere"), json!("a;b"), json!(1)]),
        fields(
            "node that is the main node",
            [json!("pve1"), json!("")].map(|node| json!({"node": node})),
        ),
        fields(
            "a field that has no effect",
            [
                json!({"ip": "192.0.2.7", "gateway": "192.0.2.1", "storage": "local", "colour": "blue", "a\nb": 1}),
            ],
        ),
    ]
}

/// Values of a field, or whole objects of fields, on one server.
fn fields<const N: usize>(name: &'static str, values: [Value; N]) -> Row {
    let objects: Vec<Value> = values
        .into_iter()
        .map(|value| if value.is_object() { value } else { json!({ name: value }) })
        .collect();
    row(name, async move { answers(Day::new(), objects).await })
}

/// What a server without a storage answers to each.
async fn answers(day: Day, objects: Vec<Value>) -> String {
    let mut day = day.setting("ASSIGN_STORAGE", "nosuch");
    let rig = day.begin().await;
    let mut lines = Vec::new();
    for object in objects {
        let mut body = json!({"os": "debian", "version": "12", "passwd": PASSWORD});
        let Value::Object(fields) = &object else { panic!("{object}") };
        body.as_object_mut().unwrap().extend(fields.clone());
        let shown = object.to_string();
        let shown: String = shown.chars().take(100).collect();
        lines.push(format!("  {shown}"));
        lines.push(indented(&answer(&rig, &body).await));
    }
    lines.push(rest(&rig));
    lines.join("\n")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Nothing but the look at the storages may have been run.
fn rest(rig: &Rig) -> String {
    let run = commands(rig, &Alike::new(rig));
    assert!(run.iter().all(|line| line.starts_with("pvesm status")), "{run:?}");
    let leaks = rig.leaks("", &[PASSWORD]).unwrap();
    assert_eq!(leaks, Vec::<String>::new());
    if run.is_empty() {
        "  commands: none".to_owned()
    } else {
        "  commands: pvesm status".to_owned()
    }
}

/// The refusal, or what an accepted request is planned as.
async fn answer(rig: &Rig, body: &Value) -> String {
    let request = rig.server.client().post(rig.server.url("/api/vm/install")).json(body);
    let response = request.send().await.unwrap();
    if !response.status().is_success() {
        return refusal(response).await;
    }
    let install = Install::read(pve_e2e::client::Stream::new(response)).await.unwrap();
    check(rig, &install).await;
    planned(rig, &install)
}

async fn refusal(response: reqwest::Response) -> String {
    let status = response.status();
    let text = response.text().await.unwrap();
    let form: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(form.as_object().unwrap().len(), 2, "{text}");
    assert_eq!(form["success"], false, "{text}");
    format!("{} {}", status.as_u16(), form["message"].as_str().unwrap())
}

/// The good ends of the steps that plan, and their notices.
fn planned(rig: &Rig, install: &Install) -> String {
    let steps = [
        "checking VMID",
        "validating CPU and RAM",
        "validating disk size",
        "setting default config values",
    ];
    let told = install.messages.iter().filter_map(|message| message.told().ok());
    let told = told.filter(|told| {
        let step = told.step.strip_prefix("preparation > ").unwrap_or_default();
        let begins = ["looking for", "checking ", "filling in"];
        let begins = begins.iter().any(|text| told.message.starts_with(&format!("[*] {text}")));
        steps.contains(&step) && !begins
    });
    let lines: Vec<String> = told.map(|told| Alike::new(rig).text(&told.message)).collect();
    lines.join("; ")
}

async fn capped() -> String {
    let day = Day::new()
        .setting("VM_MAX_CPU", "4")
        .setting("VM_MAX_RAM", "8192")
        .setting("VM_MAX_DISK", "64G");
    let objects = vec![
        json!({"cpu": 999, "ram": 999_999}),
        json!({"cpu": 1e30, "ram": 1e30}),
        json!({"cpu": 4, "ram": 8192, "disk": "64G"}),
        json!({"disk": "65G"}),
        json!({"disk": "9999999999999G"}),
    ];
    answers(day, objects).await
}

/// A request to the install route that is anything.
fn request(rig: &Rig, method: Method) -> RequestBuilder {
    rig.server.client().request(method, rig.server.url("/api/vm/install"))
}

async fn bodies() -> String {
    let rig = Day::new().setting("ASSIGN_STORAGE", "nosuch").begin().await;
    let json_type = |request: RequestBuilder| request.header("Content-Type", "application/json");
    let post = || request(&rig, Method::POST);
    let requests = [
        ("nothing", json_type(post())),
        ("a list", json_type(post().body("[]"))),
        ("cut JSON", json_type(post().body(r#"{"os":"debian","#))),
        ("no UTF-8", json_type(post().body(&b"{\"os\":\"\xff\"}"[..]))),
        ("10 MiB", json_type(post().body(vec![b' '; 10 << 20]))),
        (
            "a form",
            post().header("Content-Type", "application/x-www-form-urlencoded").body("os=debian"),
        ),
        ("no content type", post().body(r#"{"os":"debian","version":"12"}"#)),
        ("GET", request(&rig, Method::GET)),
    ];
    let mut lines = Vec::new();
    for (name, request) in requests {
        lines.push(format!("  {name}: {}", refusal(request.send().await.unwrap()).await));
    }
    lines.push(rest(&rig));
    lines.join("\n")
}

/// The only line of the answer to an address that is not allowed.
async fn one_line(response: reqwest::Response) -> String {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert_eq!(text.matches("data:").count(), 1, "{text}");
    format!("{status} {}", text.trim_end())
}

async fn callers() -> String {
    let denying = Day::new().setting("ALLOW_IPS", "192.0.2.0/24, 198.51.100.7").begin().await;
    let body = json!({"os": "debian", "version": "12"});
    let mut lines = Vec::new();
    for header in [None, Some("192.0.2.7")] {
        let mut request = request(&denying, Method::POST).json(&body);
        if let Some(header) = header {
            request = request.header("X-Forwarded-For", header);
        }
        let answer = one_line(request.send().await.unwrap()).await;
        lines.push(format!(
            "  a denied peer, X-Forwarded-For {header:?}: {}",
            Alike::new(&denying).text(&answer)
        ));
    }
    let list = denying.server.client().get(denying.server.url("/api/jobs")).send().await.unwrap();
    let answer = refusal(list).await;
    lines
        .push(format!("  a denied peer asks for the jobs: {}", Alike::new(&denying).text(&answer)));
    lines.push(rest(&denying));

    let rig = Day::new().begin().await;
    for (name, value) in [
        ("Origin", "https://evil.example.org"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Host", "evil.example.org:8080"),
    ] {
        let request = request(&rig, Method::POST).header(name, value).json(&body);
        let answer = refusal(request.send().await.unwrap()).await;
        lines.push(format!("  {name}: {value}: {}", Alike::new(&rig).text(&answer)));
    }
    lines.push(rest(&rig));
    lines.join("\n")
}

async fn tokens() -> String {
    let rig = Day::new().setting("API_TOKEN", "t0ken").begin().await;
    let body = json!({"os": "debian", "version": "12"});
    let mut lines = Vec::new();
    for token in [None, Some("wrong"), Some("t0ken2")] {
        let mut request = request(&rig, Method::POST).json(&body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = refusal(request.send().await.unwrap()).await;
        lines.push(format!("  {token:?}: {answer}"));
    }
    lines.push(rest(&rig));
    lines.join("\n")
}

/// What is accepted and used to the end.
fn installs() -> Vec<Row> {
    let passwords = [
        ("quotes", r#"it's "quoted""#.to_owned()),
        ("dollar and backslash", r"$HOME \ `x`".to_owned()),
        ("what is no ASCII", "pässwörd ☂".to_owned()),
        ("200 characters", "p".repeat(200)),
    ];
    let mut rows: Vec<Row> = passwords
        .into_iter()
        .map(|(name, password)| row(format!("a password of {name}"), with_password(password)))
        .collect();
    let keys = [
        ("a key with CRLF and blank lines", format!("\r\n{KEY}\r\n\r\n")),
        ("two keys", format!("{KEY}\n{ANOTHER_KEY}\n")),
        ("a key with options before it", format!("no-pty,from=\"192.0.2.0/24\" {KEY}")),
    ];
    rows.extend(keys.into_iter().map(|(name, keys)| row(name, with_keys(keys))));
    rows.extend(["root", "deploy"].map(|user| {
        row(format!("the user {user}"), Day::new().asking(json!({"user": user})).run())
    }));
    rows
}

async fn with_password(password: String) -> String {
    let mut day = Day::new().asking(json!({"passwd": password}));
    let rig = day.begin().await;
    let install = rig.install(day.request()).await.unwrap();
    check(&rig, &install).await;
    assert!(install.succeeded(), "{}", install.raw);
    assert_eq!(rig.leaks(&install.raw, &[&password]).unwrap(), Vec::<String>::new());
    let hash = rig.sim.world(|world| {
        world.guests[&100].configuration.get("cipassword").unwrap_or_default().to_owned()
    });
    format!("  nowhere to be seen; the VM has {}…", &hash[..3])
}

async fn with_keys(keys: String) -> String {
    let mut day = Day::new().asking(json!({"pubkey": keys}));
    let rig = day.begin().await;
    let install = rig.install(day.request()).await.unwrap();
    check(&rig, &install).await;
    let stored = rig.sim.world(|world| {
        world
            .guests
            .get(&100)
            .and_then(|guest| guest.configuration.get("sshkeys").map(str::to_owned))
    });
    let stored = stored
        .unwrap_or_default()
        .replace("%20", " ")
        .replace("%2B", "+")
        .replace("%40", "@")
        .replace("%2F", "/");
    // The first is the node's own.
    let lines: Vec<&str> = stored.split("%0A").skip(1).filter(|line| !line.is_empty()).collect();
    format!("  {}\n  succeeded: {}", lines.join("\n  "), install.succeeded())
}
