//! What is sent, and what is answered before anything has been run.

use pve_e2e::programs::repository;
use pve_e2e::rig::Rig;
use pve_sim::Config;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

/// A server on one node without a cap, and with one of 64 GiB where it is asked for.
async fn rig(settings: &[(&str, &str)]) -> Rig {
    Rig::start(Config::default(), settings).await.unwrap()
}

/// Sends a body as JSON and gives status and message.
async fn answer(rig: &Rig, body: impl Into<reqwest::Body>) -> (u16, String) {
    let request = rig.server.client().post(rig.server.url("/api/vm/install"));
    told(request.header("Content-Type", "application/json").body(body)).await
}

async fn told(request: reqwest::RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let message = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(form)) => {
            let keys: Vec<&String> = form.keys().collect();
            assert_eq!(keys, ["success", "message"], "{text}");
            assert_eq!(form["success"], false);
            form["message"].as_str().unwrap().to_owned()
        }
        _ => text,
    };
    (status, message)
}

/// The last command line of that program.
fn last(rig: &Rig, program: &str) -> String {
    rig.foreground().into_iter().rfind(|line| line.starts_with(program)).unwrap()
}

/// Nothing has been run, and there is no job.
async fn assert_untouched(rig: &Rig) {
    let commands: Vec<String> = rig.foreground();
    assert_eq!(commands, Vec::<String>::new());
    let jobs: Value = rig
        .server
        .client()
        .get(rig.server.url("/api/jobs"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(jobs["count"], 0, "{jobs}");
    assert_eq!(rig.guests(), Vec::<u32>::new());
}

/// A body with the required fields and these members.
fn with(members: &str) -> String {
    format!(r#"{{"os":"debian","version":"12",{members}}}"#)
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the table is long")]
async fn members_that_cannot_work_are_refused_with_what_would_be_right() {
    let rig = rig(&[]).await;
    let long = format!(r#""name":"{}""#, "a".repeat(64));
    let user = format!(r#""user":"{}""#, "a".repeat(40));
    let rows = [
        r#""id":5"#,
        r#""id":99"#,
        r#""id":255"#,
        r#""id":300"#,
        r#""id":1"#,
        r#""id":-1"#,
        r#""id":"abc""#,
        r#""id":1.5"#,
        r#""name":"web 1""#,
        r#""name":"a\"b""#,
        r#""name":"a;b""#,
        r#""name":"wéb""#,
        r#""name":"-web""#,
        r#""name":"web_1""#,
        &long,
        r#""name":7"#,
        r#""user":"a;b""#,
        r#""user":"-oProxyCommand=x""#,
        r#""user":"yes""#,
        &user,
        r#""passwd":"two\nlines""#,
        r#""passwd":["s3cret"]"#,
        r#""pubkey":"garbage""#,
        r#""pubkey":"-----BEGIN OPENSSH PRIVATE KEY-----""#,
        r#""disk":"abc""#,
        r#""disk":"1T""#,
        r#""disk":"16.5G""#,
        r#""disk":"32g""#,
        r#""disk":" 32G""#,
        r#""disk":"9999999999999G""#,
        r#""disk":32"#,
        r#""cpu":"2""#,
        r#""cpu":1.5"#,
        r#""cpu":true"#,
        r#""ram":"2G""#,
        r#""ram":{}"#,
        r#""node":"nowhere""#,
        r#""node":"-x""#,
        r#""os":"debian","version":"7""#,
        r#""os":"beos""#,
        r#""version":12"#,
    ];
    let mut answers = Vec::new();
    for row in rows {
        let (status, message) = answer(&rig, with(row)).await;
        assert_eq!(status, 400, "{row}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
        answers.push(format!(
            "{row}\n    {}",
            message.strip_prefix("please check your input: ").unwrap()
        ));
    }
    assert_untouched(&rig).await;
    insta::assert_snapshot!(answers.join("\n"), @r#"
    "id":5
        id 5 is not between 100 and 254, the last host of the VMs' network
    "id":99
        id 99 is not between 100 and 254, the last host of the VMs' network
    "id":255
        id 255 is not between 100 and 254, the last host of the VMs' network
    "id":300
        id 300 is not between 100 and 254, the last host of the VMs' network
    "id":1
        id 1 is not between 100 and 254, the last host of the VMs' network
    "id":-1
        id -1 is not between 100 and 254, the last host of the VMs' network
    "id":"abc"
        id "abc" is not between 100 and 254, the last host of the VMs' network
    "id":1.5
        id 1.5 is not between 100 and 254, the last host of the VMs' network
    "name":"web 1"
        name "web 1" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web-1"
    "name":"a\"b"
        name "a\"b" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "a-b"
    "name":"a;b"
        name "a;b" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "a-b"
    "name":"wéb"
        name "wéb" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "w-b"
    "name":"-web"
        name "-web" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web"
    "name":"web_1"
        name "web_1" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "web-1"
    "name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        name "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not a DNS name (letters, digits, '-' inside, dots between labels of at most 63 characters with -254 at the end); for example "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "name":7
        name is a number, not a text
    "user":"a;b"
        user "a;b" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    "user":"-oProxyCommand=x"
        user "-oProxyCommand=x" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    "user":"yes"
        user "yes" is not a text in cloud-init's YAML: take another
    "user":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        user "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not a user name ([a-z_][a-z0-9_-]*, at most 32 characters)
    "passwd":"two\nlines"
        passwd holds a control character or line break, which no login prompt takes
    "passwd":["s3cret"]
        passwd is a list, not a text
    "pubkey":"garbage"
        pubkey line 1 is not a public key
    "pubkey":"-----BEGIN OPENSSH PRIVATE KEY-----"
        pubkey holds a private key: send the public one, the .pub file
    "disk":"abc"
        disk "abc" is not a size in GiB such as "32G"
    "disk":"1T"
        disk "1T" is not a size in GiB such as "32G"
    "disk":"16.5G"
        disk "16.5G" is not a size in GiB such as "32G"
    "disk":"32g"
        disk "32g" is not a size in GiB such as "32G"
    "disk":" 32G"
        disk " 32G" is not a size in GiB such as "32G"
    "disk":"9999999999999G"
        disk "9999999999999G" is larger than 131072G
    "disk":32
        disk is a number, not a text
    "cpu":"2"
        cpu is a text, not a whole number
    "cpu":1.5
        cpu is 1.5, not a whole number
    "cpu":true
        cpu is true or false, not a whole number
    "ram":"2G"
        ram is a text, not a whole number
    "ram":{}
        ram is an object, not a whole number
    "node":"nowhere"
        node "nowhere" is not a node of this cluster (pve1)
    "node":"-x"
        node "-x" is not a node of this cluster (pve1)
    "os":"debian","version":"7"
        version "7" of debian is not one of 11, 12, 13
    "os":"beos"
        os "beos" is not one of debian, rockylinux, ubuntu
    "version":12
        version is a number, not a text
    "#);
}

#[tokio::test]
async fn bodies_and_methods_that_are_none_of_ours_have_the_same_form() {
    let rig = rig(&[]).await;
    let url = rig.server.url("/api/vm/install");
    let client = rig.server.client();
    let large = vec![b' '; 10 << 20];
    let mut answers = Vec::new();
    let mut note = |what: &str, (status, message): (u16, String)| {
        answers.push(format!("{what}: {status} {message}"));
    };
    note("empty", answer(&rig, "").await);
    note("[]", answer(&rig, "[]").await);
    note("cut", answer(&rig, r#"{"os":"debian""#).await);
    note("not UTF-8", answer(&rig, vec![b'{', 0xff, b'}']).await);
    note("10 MiB", answer(&rig, large).await);
    note("a form", told(client.post(&url).form(&[("os", "debian")])).await);
    note("no type", told(client.post(&url).body("{}")).await);
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        note(method.as_str(), told(client.request(method.clone(), &url)).await);
    }
    note("elsewhere", told(client.get(rig.server.url("/nowhere"))).await);
    assert_untouched(&rig).await;
    insta::assert_snapshot!(answers.join("\n"), @r"
    empty: 400 please check your input: the body is empty: send a JSON object with os and version
    []: 400 please check your input: the body is not a JSON object
    cut: 400 please check your input: the body is not JSON: EOF while parsing an object at line 1 column 14
    not UTF-8: 400 please check your input: the body is not JSON: key must be a string at line 1 column 2
    10 MiB: 413 please check your input: the body is larger than 1 MiB
    a form: 415 please check your input: the body must be JSON, with the header 'Content-Type: application/json'
    no type: 415 please check your input: the body must be JSON, with the header 'Content-Type: application/json'
    GET: 405 please check your input: /api/vm/install does not take GET
    PUT: 405 please check your input: /api/vm/install does not take PUT
    DELETE: 405 please check your input: /api/vm/install does not take DELETE
    elsewhere: 404 please check your input: there is nothing at /nowhere
    ");
}

#[tokio::test]
async fn who_may_not_call_is_refused_before_the_body_is_read() {
    let settings = [("ALLOW_IPS", "192.0.2.7"), ("TRUSTED_PROXIES", "192.0.2.8")];
    let rig = rig(&settings).await;
    let url = rig.server.url("/api/vm/install");
    let client = rig.server.client();
    let good = json!({"os": "debian", "version": "12"});
    let mut answers = Vec::new();
    let mut note = |what: &str, (status, message): (u16, String)| {
        answers.push(format!("{what}: {status} {message}"));
    };
    note("install", told(client.post(&url).json(&good)).await);
    note(
        "forwarded",
        told(client.post(&url).header("X-Forwarded-For", "192.0.2.7").json(&good)).await,
    );
    note("no JSON", told(client.post(&url).body("x")).await);
    note("jobs", told(client.get(rig.server.url("/api/jobs"))).await);
    let text = answers.join("\n");
    insta::assert_snapshot!(rig.neutral("no job", &text), @r#"
    install: 200 data: {"step":"preparation > checking source IP","status":"error","message":"[-] 127.0.0.1 may not call this server (ALLOW_IPS)"}


    forwarded: 200 data: {"step":"preparation > checking source IP","status":"error","message":"[-] 127.0.0.1 may not call this server (ALLOW_IPS)"}


    no JSON: 200 data: {"step":"preparation > checking source IP","status":"error","message":"[-] 127.0.0.1 may not call this server (ALLOW_IPS)"}


    jobs: 403 127.0.0.1 may not call this server (ALLOW_IPS)
    "#);
}

#[tokio::test]
async fn a_web_page_of_elsewhere_and_a_missing_token_are_refused() {
    let rig = rig(&[("API_TOKEN", "t0ken")]).await;
    let url = rig.server.url("/api/vm/install");
    let client = rig.server.client();
    let post =
        || client.post(&url).bearer_auth("t0ken").json(&json!({"os": "beos", "version": "12"}));
    let mut answers = Vec::new();
    let mut note = |what: &str, (status, message): (u16, String)| {
        answers.push(format!("{what}: {status} {message}"));
    };
    note("good", told(post()).await);
    note("no token", told(client.post(&url).json(&json!({}))).await);
    note("wrong token", told(client.post(&url).bearer_auth("t0kem").json(&json!({}))).await);
    note("foreign origin", told(post().header("Origin", "http://example.org")).await);
    note("cross-site", told(post().header("Sec-Fetch-Site", "cross-site")).await);
    note("rebound name", told(post().header("Host", "rebound.example.org")).await);
    note("localhost", told(post().header("Host", "localhost:1")).await);
    insta::assert_snapshot!(answers.join("\n"), @r#"
    good: 400 please check your input: os "beos" is not one of debian, rockylinux, ubuntu
    no token: 401 the header 'Authorization: Bearer <API_TOKEN>' is missing or wrong
    wrong token: 401 the header 'Authorization: Bearer <API_TOKEN>' is missing or wrong
    foreign origin: 403 requests from the web page of another server ('http://example.org') are refused
    cross-site: 403 requests from the web page of another server ('cross-site') are refused
    rebound name: 403 'rebound.example.org' is not a name of this server (HOST_NAMES)
    localhost: 400 please check your input: os "beos" is not one of debian, rockylinux, ubuntu
    "#);
}

/// The members in the first cells of the table "What is refused".
fn refused_in_the_reference() -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/reference/endpoint.md")).unwrap();
    let (_, table) = page.split_once("| members | why |").unwrap();
    let rows = table.lines().take_while(|line| line.is_empty() || line.starts_with('|'));
    rows.filter_map(|row| row.strip_prefix("| `")?.split_once("` |"))
        .map(|(members, _)| members.to_owned())
        .collect()
}

#[tokio::test]
async fn what_the_reference_calls_refused_is_refused() {
    let rig = rig(&[]).await;
    let rows = refused_in_the_reference();
    assert!(rows.len() > 10);
    for members in rows {
        let (status, message) = answer(&rig, with(&members)).await;
        assert_eq!(status, 400, "{members}: {message}");
    }
    assert_untouched(&rig).await;
}

#[tokio::test]
async fn values_are_clamped_with_a_notice_and_odd_input_is_taken() {
    let settings = [("VM_MAX_CPU", "8"), ("VM_MAX_RAM", "4096"), ("VM_MAX_DISK", "64")];
    let rig = rig(&settings).await;
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqMVqgNWqLUVhzCW+zTI2SRHOvXFI8Vq2bZNf9W9qCn";
    let keys = format!(r#""pubkey":"{key} one\r\n\r\nfrom=\"192.0.2.0/24\" {key} two words\r\n""#);
    let rows = [
        r#""cpu":-1,"ram":-1,"disk":"-5G""#,
        r#""cpu":0,"ram":0,"disk":"5""#,
        r#""cpu":999,"ram":9999999,"disk":"9999999999999G""#,
        r#""cpu":1e30,"ram":-1e30,"disk":"64G""#,
        r#""id":0,"name":null,"node":"","user":"","disk":"40""#,
        r#""name":"web.example.org","node":"pve1""#,
        r#""name":"10.0.0.5-app""#,
        r#""name":"Web","user":"root""#,
        r#""user":"deploy","colour":"blue","ip":"192.0.2.9","gateway":"192.0.2.1","storage":"other""#,
        &keys,
    ];
    let mut answers = Vec::new();
    for row in rows {
        let body: Value = serde_json::from_str(&with(row)).unwrap();
        let install = rig.install(&body).await.unwrap();
        assert!(install.succeeded(), "{row}: {}", install.raw);
        answers.push(row.replace(key, "<key>"));
        let (create, size) = (last(&rig, "qm create"), last(&rig, "qm resize"));
        let arguments = create.split_once(" --scsihw").unwrap().0;
        answers.push(format!("    {arguments}; {size}"));
        let told = install.messages.iter().filter_map(|message| message.told().ok());
        let is_preparation = |step: &str| {
            step.contains("validating CPU")
                || step.contains("disk size")
                || step.contains("default config")
        };
        let notices = told.filter(|told| told.status == "processing" && is_preparation(&told.step));
        let notices = notices
            .filter(|told| told.message.contains('→') || told.message.contains("without effect"));
        answers.extend(notices.map(|told| format!("    {}", told.message)));
    }
    insta::assert_snapshot!(answers.join("\n"), @r#"
    "cpu":-1,"ram":-1,"disk":"-5G"
        qm create 100 --name 100-100 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 100 scsi0 16G
        [*] cpu -1 → 1 (the minimum)
        [*] ram -1 → 512 (the minimum)
        [*] disk -5 → 16 (the minimum)
    "cpu":0,"ram":0,"disk":"5"
        qm create 101 --name 101-101 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 101 scsi0 16G
        [*] cpu 0 → 1 (the minimum)
        [*] ram 0 → 512 (the minimum)
        [*] disk 5 → 16 (the minimum)
    "cpu":999,"ram":9999999,"disk":"9999999999999G"
        qm create 102 --name 102-102 --cores 8 --cpu x86-64-v4 --memory 4096; qm resize 102 scsi0 64G
        [*] cpu 999 → 8 (VM_MAX_CPU)
        [*] ram 9999999 → 4096 (VM_MAX_RAM)
        [*] disk 9999999999999 → 64 (VM_MAX_DISK)
    "cpu":1e30,"ram":-1e30,"disk":"64G"
        qm create 103 --name 103-103 --cores 8 --cpu x86-64-v4 --memory 512; qm resize 103 scsi0 64G
        [*] cpu 9223372036854775807 → 8 (VM_MAX_CPU)
        [*] ram -9223372036854775808 → 512 (the minimum)
    "id":0,"name":null,"node":"","user":"","disk":"40"
        qm create 104 --name 104-104 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 104 scsi0 40G
    "name":"web.example.org","node":"pve1"
        qm create 105 --name web.example.org-105 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 105 scsi0 16G
    "name":"10.0.0.5-app"
        qm create 106 --name 10.0.0.5-app-106 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 106 scsi0 16G
    "name":"Web","user":"root"
        qm create 107 --name Web-107 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 107 scsi0 16G
    "user":"deploy","colour":"blue","ip":"192.0.2.9","gateway":"192.0.2.1","storage":"other"
        qm create 108 --name 108-108 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 108 scsi0 16G
        [*] without effect: colour, ip, gateway, storage
    "pubkey":"<key> one\r\n\r\nfrom=\"192.0.2.0/24\" <key> two words\r\n"
        qm create 109 --name 109-109 --cores 1 --cpu x86-64-v4 --memory 512; qm resize 109 scsi0 16G
    "#);
}
