//! Every recorded error, as this crate sorts it.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt::Write as _;

use super::recorded;
use crate::endpoint::ALL;
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
        let sure = if error.had_no_effect() { "" } else { " (may have changed something)" };
        let text = format!("{} {refusal}{sure}", row.status).replace('\n', "⏎");
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
    let method = method.parse().unwrap();
    let starts_task = ALL.iter().any(|one| {
        one.starts_task
            && one.method == method
            && one.path.split('/').count() == path.split('/').count()
            && one.path.rsplit('/').next() == path.rsplit('/').next()
    });
    let call = crate::Call { method, path: path.to_owned(), starts_task };
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

#[test]
fn a_server_that_failed_half_way_may_have_changed_something() {
    let config = "/nodes/pve1/qemu/502/config";
    // Recorded: the first of two disks was made and stayed among the pending changes.
    let second_disk = classified("PUT", config, 500, "storage 'off' is disabled", "");
    assert!(matches!(second_disk, Error::Refused { .. }), "{second_disk:?}");
    assert!(!second_disk.had_no_effect());
    for text in ["hotplug problem - no space", "unable to apply pending change scsi1 : no space"] {
        let body = format!(r#"{{"data":null,"errors":{{"scsi1":"{text}"}}}}"#);
        let error = classified("PUT", config, 400, "Parameter verification failed.", &body);
        assert!(!error.had_no_effect(), "{text}");
    }
    // The lock of a storage is taken once for each disk.
    let lock = "cfs-lock 'storage-nfs' error: got lock request timeout";
    let locked = classified("PUT", config, 500, lock, "");
    assert!(matches!(locked, Error::Locked { .. }) && !locked.had_no_effect(), "{locked:?}");
    // What begins a task has only been checked, unless it was the beginning that failed.
    let created = classified("POST", "/nodes/pve1/qemu", 500, "storage 'off' is disabled", "");
    assert!(created.had_no_effect());
    for said in ["got no worker upid - start worker failed", "Internal Server Error", ""] {
        let error = classified("POST", "/nodes/pve1/qemu", 500, said, "");
        assert!(!error.had_no_effect(), "{said}");
    }
}

#[test]
fn a_check_that_failed_has_changed_nothing() {
    let config = "/nodes/pve1/qemu/111/config";
    for (status, said) in [
        (401, "Permission denied - invalid csrf token"),
        (403, "Permission check failed (/vms/111, VM.Config.Disk)"),
        (500, "Configuration file 'nodes/pve1/qemu-server/111.conf' does not exist"),
        (500, "VM is locked (backup)"),
        (500, "can't lock file '/var/lock/qemu-server/lock-111.conf' - got timeout"),
        (500, "checksum mismatch (file change by other user?)"),
        (500, "only root can set 'args' config"),
        (595, "No route to host"),
    ] {
        assert!(classified("PUT", config, status, said, "").had_no_effect(), "{said}");
    }
    let body = r#"{"errors":{"cores":"value must have a minimum value of 1"}}"#;
    assert!(classified("PUT", config, 400, "", body).had_no_effect());
    assert!(classified("GET", config, 500, "storage 'off' is disabled", "").had_no_effect());
}
