//! Every recorded error, as this crate sorts it.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt::Write as _;

use super::recorded;
use crate::error::Error;
use crate::error::classify;

fn kind(error: &Error) -> String {
    match error {
        Error::NotPermitted { path: Some(path), privileges, .. } => {
            format!("NotPermitted {path} {}", privileges.join(" or "))
        }
        Error::Locked { by, .. } => format!("Locked by {}", by.as_deref().unwrap_or("?")),
        Error::NodeUnreachable { node, .. } => {
            format!("NodeUnreachable {}", node.as_deref().unwrap_or("?"))
        }
        other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn every_recorded_error_is_sorted_by_what_the_caller_can_do() {
    let mut sorted: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut count = 0;
    for (_, row) in recorded().into_iter().filter(|(_, row)| row.status >= 300) {
        let error = classify(row.call(), row.status, &row.reason, row.body.as_bytes(), &[]);
        let refusal = error.refusal().unwrap_or_else(|| panic!("{}: {error:?}", row.name));
        assert_eq!(refusal.status, row.status, "{}", row.name);
        assert!(!refusal.message.is_empty(), "{}", row.name);
        assert!(!refusal.message.ends_with('\n'), "{}", row.name);
        let text = format!("{} {refusal}", row.status).replace('\n', "⏎");
        *sorted.entry(kind(&error)).or_default().entry(text).or_default() += 1;
        count += 1;
    }
    let mut text = String::new();
    for (kind, texts) in sorted {
        writeln!(text, "{kind}").unwrap();
        for (said, times) in texts {
            writeln!(text, "    {times} × {said}").unwrap();
        }
    }
    writeln!(text, "{count} errors").unwrap();
    insta::assert_snapshot!(text);
}

fn classified(method: &str, path: &str, status: u16, reason: &str, body: &str) -> Error {
    let call = crate::Call { method: method.parse().unwrap(), path: path.to_owned() };
    classify(call, status, reason, body.as_bytes(), &[])
}

#[test]
fn a_lost_answer_of_another_node_is_an_unknown_outcome_for_a_write_only() {
    let path = "/nodes/pve2/qemu";
    for status in [596, 597, 598, 599] {
        let post = classified("POST", path, status, "Connection timed out", "");
        assert!(matches!(post, Error::UnknownOutcome { .. }), "{post:?}");
        assert!(!post.had_no_effect() && !post.is_transient());
        let get = classified("GET", path, status, "Connection timed out", "");
        assert!(matches!(get, Error::Interrupted { .. }), "{get:?}");
        assert!(get.had_no_effect() && get.is_transient());
    }
    let error = classified("POST", path, 596, "Connection timed out", "");
    insta::assert_snapshot!(error, @"POST /nodes/pve2/qemu: the answer was lost, it may have been done");
    insta::assert_snapshot!(error.source().unwrap(), @"Connection timed out");
}

#[test]
fn a_host_name_where_a_node_name_should_be_is_not_a_tls_problem() {
    let error = classified(
        "POST",
        "/nodes/pve1.example.org/qemu",
        596,
        "tls_process_server_certificate: certificate verify failed",
        "",
    );
    let Error::NodeUnreachable { node, .. } = &error else { panic!("{error:?}") };
    assert_eq!(node.as_deref(), Some("pve1.example.org"));
    assert!(error.had_no_effect());
}

#[test]
fn a_message_is_taken_from_the_body_then_from_the_reason_phrase_then_from_the_status() {
    let message = |reason: &str, body: &str| {
        classified("GET", "/version", 500, reason, body).refusal().unwrap().message.clone()
    };
    assert_eq!(
        message("first line", r#"{"message":"first line\nand more\n"}"#),
        "first line\nand more"
    );
    assert_eq!(message("only the phrase", r#"{"data":null}"#), "only the phrase");
    assert_eq!(message("only the phrase", "<html>"), "only the phrase");
    assert_eq!(message("", ""), "status 500");
}

#[test]
fn a_number_that_is_taken_is_told_in_all_three_ways() {
    let exists = "unable to create VM 100 - VM 100 already exists on node 'pve1'";
    let by_create = classified("POST", "/nodes/pve1/qemu", 500, exists, "");
    assert!(matches!(by_create, Error::AlreadyExists { .. }), "{by_create:?}");
    let body = r#"{"data":null,"errors":{"vmid":"VM 100 already exists"}}"#;
    let by_number =
        classified("GET", "/cluster/nextid", 400, "Parameter verification failed.", body);
    assert!(matches!(by_number, Error::AlreadyExists { .. }), "{by_number:?}");
    assert!(crate::error::task_says_exists(exists));
}

#[test]
fn a_refusal_names_every_field() {
    let body = r#"{"data":null,"errors":{"cores":"value must have a minimum value of 1","name":"invalid format\n"},"message":"Parameter verification failed.\n"}"#;
    let error = classified("POST", "/nodes/pve1/qemu", 400, "Parameter verification failed.", body);
    insta::assert_snapshot!(error, @"POST /nodes/pve1/qemu: refused");
    insta::assert_snapshot!(error.source().unwrap(), @"Parameter verification failed: cores: value must have a minimum value of 1; name: invalid format");
}
