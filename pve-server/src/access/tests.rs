use axum::http::Request;

use super::*;

fn access() -> Access {
    Access {
        allowed: Allowed::Only(vec!["192.0.2.0/24".parse().unwrap()]),
        trusted_proxies: vec!["198.51.100.7/32".parse().unwrap(), "127.0.0.0/8".parse().unwrap()],
        token: None,
        host_names: BTreeSet::from(["pve1".to_owned(), "pve1.example.org".to_owned()]),
    }
}

fn check(access: &Access, peer: &str, headers: &[(&str, &str)]) -> String {
    let mut request = Request::builder().uri("/api/health");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    match access.check(peer.parse().unwrap(), &head.uri, &head.headers) {
        Ok(()) => "in".to_owned(),
        Err(refused) => refused.to_string(),
    }
}

#[test]
fn the_peer_counts_and_only_trusted_proxies_speak_for_others() {
    let rows: [(&str, &[(&str, &str)]); 14] = [
        ("192.0.2.9", &[]),
        ("::ffff:192.0.2.9", &[]),
        ("203.0.113.5", &[]),
        ("::1", &[]),
        ("203.0.113.5", &[("x-forwarded-for", "192.0.2.9")]),
        ("198.51.100.7", &[]),
        ("198.51.100.7", &[("x-forwarded-for", "192.0.2.9")]),
        ("198.51.100.7", &[("x-forwarded-for", "192.0.2.9:4711")]),
        ("198.51.100.7", &[("x-forwarded-for", "192.0.2.9, 203.0.113.5")]),
        ("198.51.100.7", &[("x-forwarded-for", "203.0.113.5, 192.0.2.9, 127.0.0.1")]),
        ("198.51.100.7", &[("x-forwarded-for", "192.0.2.9"), ("x-forwarded-for", "203.0.113.5")]),
        ("198.51.100.7", &[("x-forwarded-for", "192.0.2.9, unknown")]),
        ("198.51.100.7", &[("x-forwarded-for", "")]),
        ("192.0.2.9", &[("x-forwarded-for", "203.0.113.5")]),
    ];
    let answers = rows.map(|(peer, headers)| {
        let via: Vec<&str> = headers.iter().map(|(_, value)| *value).collect();
        format!("{peer} for {via:?}: {}", check(&access(), peer, headers))
    });
    insta::assert_snapshot!(answers.join("\n"), @r#"
    192.0.2.9 for []: in
    ::ffff:192.0.2.9 for []: in
    203.0.113.5 for []: 203.0.113.5 may not call this server (ALLOW_IPS)
    ::1 for []: ::1 may not call this server (ALLOW_IPS)
    203.0.113.5 for ["192.0.2.9"]: 203.0.113.5 may not call this server (ALLOW_IPS)
    198.51.100.7 for []: 198.51.100.7 may not call this server (ALLOW_IPS)
    198.51.100.7 for ["192.0.2.9"]: in
    198.51.100.7 for ["192.0.2.9:4711"]: in
    198.51.100.7 for ["192.0.2.9, 203.0.113.5"]: 203.0.113.5 may not call this server (ALLOW_IPS)
    198.51.100.7 for ["203.0.113.5, 192.0.2.9, 127.0.0.1"]: in
    198.51.100.7 for ["192.0.2.9", "203.0.113.5"]: 203.0.113.5 may not call this server (ALLOW_IPS)
    198.51.100.7 for ["192.0.2.9, unknown"]: 0.0.0.0 may not call this server (ALLOW_IPS)
    198.51.100.7 for [""]: 0.0.0.0 may not call this server (ALLOW_IPS)
    192.0.2.9 for ["203.0.113.5"]: in
    "#);
}

#[test]
fn everybody_is_let_in_when_all_are_allowed() {
    let access = Access { allowed: Allowed::All, ..access() };
    for peer in ["203.0.113.5", "2001:db8::1"] {
        assert_eq!(check(&access, peer, &[]), "in");
    }
}

#[test]
fn only_requests_for_our_own_names_are_answered() {
    let rows = [
        "192.0.2.1:8080",
        "[2001:db8::1]:8080",
        "localhost:8080",
        "pve1",
        "PVE1.example.org.:8080",
        "evil.example.net",
        "evil.example.net:8080",
        "pve1.example.org.evil.example.net",
        "192.0.2.1.evil.example.net",
        "",
        "user@pve1",
    ];
    let answers =
        rows.map(|host| format!("{host}: {}", check(&access(), "192.0.2.9", &[("host", host)])));
    insta::assert_snapshot!(answers.join("\n"), @"
    192.0.2.1:8080: in
    [2001:db8::1]:8080: in
    localhost:8080: in
    pve1: in
    PVE1.example.org.:8080: in
    evil.example.net: 'evil.example.net' is not a name of this server (HOST_NAMES)
    evil.example.net:8080: 'evil.example.net:8080' is not a name of this server (HOST_NAMES)
    pve1.example.org.evil.example.net: 'pve1.example.org.evil.example.net' is not a name of this server (HOST_NAMES)
    192.0.2.1.evil.example.net: '192.0.2.1.evil.example.net' is not a name of this server (HOST_NAMES)
    : '' is not a name of this server (HOST_NAMES)
    user@pve1: 'user@pve1' is not a name of this server (HOST_NAMES)
    ");
}

#[test]
fn pages_of_other_servers_are_refused() {
    let rows: [&[(&str, &str)]; 11] = [
        &[("origin", "http://pve1:8080"), ("host", "pve1:8080")],
        &[("origin", "http://pve1"), ("host", "pve1")],
        &[("origin", "https://pve1.example.org"), ("host", "pve1.example.org:443")],
        &[("origin", "http://pve1:8006"), ("host", "pve1:8080")],
        &[("origin", "http://pve1"), ("host", "pve1:8080")],
        &[("origin", "https://evil.example.net"), ("host", "pve1:8080")],
        &[("origin", "null"), ("host", "pve1:8080")],
        &[("origin", "http://pve1:8080")],
        &[("host", "pve1:8080"), ("sec-fetch-site", "cross-site")],
        &[("host", "pve1:8080"), ("sec-fetch-site", "same-origin")],
        &[("host", "pve1:8080"), ("sec-fetch-site", "none")],
    ];
    let answers =
        rows.map(|headers| format!("{headers:?}: {}", check(&access(), "192.0.2.9", headers)));
    insta::assert_snapshot!(answers.join("\n"), @r#"
    [("origin", "http://pve1:8080"), ("host", "pve1:8080")]: in
    [("origin", "http://pve1"), ("host", "pve1")]: in
    [("origin", "https://pve1.example.org"), ("host", "pve1.example.org:443")]: in
    [("origin", "http://pve1:8006"), ("host", "pve1:8080")]: requests from the web page of another server ('http://pve1:8006') are refused
    [("origin", "http://pve1"), ("host", "pve1:8080")]: requests from the web page of another server ('http://pve1') are refused
    [("origin", "https://evil.example.net"), ("host", "pve1:8080")]: requests from the web page of another server ('https://evil.example.net') are refused
    [("origin", "null"), ("host", "pve1:8080")]: requests from the web page of another server ('null') are refused
    [("origin", "http://pve1:8080")]: requests from the web page of another server ('http://pve1:8080') are refused
    [("host", "pve1:8080"), ("sec-fetch-site", "cross-site")]: requests from the web page of another server ('cross-site') are refused
    [("host", "pve1:8080"), ("sec-fetch-site", "same-origin")]: in
    [("host", "pve1:8080"), ("sec-fetch-site", "none")]: in
    "#);
}

#[test]
fn a_token_must_be_shown_whole() {
    let access = Access { token: Some("s3cret-token".into()), ..access() };
    let answer = |shown: &str| check(&access, "192.0.2.9", &[("authorization", shown)]) == "in";

    assert!(answer("Bearer s3cret-token"));
    assert!(answer("bearer  s3cret-token"));
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer s3cret-toke",
        "Bearer s3cret-tokenx",
        "Basic s3cret-token",
        "s3cret-token",
    ] {
        assert!(!answer(wrong), "{wrong}");
    }
    assert_ne!(check(&access, "192.0.2.9", &[]), "in");
    assert!(!format!("{access:?}").contains("s3cret"));
}

#[test]
fn the_machine_is_known_by_its_short_and_full_names() {
    let hosts = "127.0.0.1 localhost\n192.0.2.11 PVE1.example.org pve1 # this node\n192.0.2.12 pve2.example.org pve2\n";
    let resolver = "search lan.example.org example.com\nnameserver 192.0.2.53\n";

    let names = own_names("pve1\n", hosts, resolver);

    assert_eq!(
        names,
        BTreeSet::from(["pve1", "pve1.example.org", "pve1.lan.example.org"].map(String::from))
    );
    assert!(own_names("", hosts, resolver).is_empty());
}
