//! Waiting for tasks.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use pve_api::Error;
use pve_api::Heard;
use pve_api::TaskExit;
use pve_api::Upid;

use crate::server::Reply;
use crate::server::Seen;
use crate::server::Server;

const UPID: &str = "UPID:pve2:000014C9:00034C34:6B0D7DDC:qmcreate:121:root@pam!ci:";

fn upid() -> Upid {
    UPID.parse().unwrap()
}

/// A task that ends with `exit` at the third look at its state, having logged a line each time.
async fn task(exit: Option<&'static str>) -> Server {
    let looks = AtomicUsize::new(0);
    Server::start(move |seen: &Seen| {
        assert!(
            seen.target.starts_with("/api2/json/nodes/pve2/tasks/UPID%3Apve2%3A"),
            "{}",
            seen.target
        );
        if let Some((_, query)) = seen.target.split_once("/log?") {
            let start: usize =
                query.strip_prefix("start=").unwrap().split('&').next().unwrap().parse().unwrap();
            let there = match looks.load(Ordering::SeqCst) {
                1 => vec!["no content".to_owned()],
                count => (1..count).map(|n| format!("WARN: line {n}")).collect(),
            };
            let lines: Vec<String> = there
                .iter()
                .enumerate()
                .skip(start)
                .map(|(index, text)| format!(r#"{{"n":{},"t":"{text}"}}"#, index + 1))
                .collect();
            return Reply::data(&format!("[{}]", lines.join(",")));
        }
        match (looks.fetch_add(1, Ordering::SeqCst), exit) {
            (0 | 1, _) => Reply::data(r#"{"status":"running","id":"121"}"#),
            (2, _) => Reply::status(595, "No route to host", ""),
            (_, Some(exit)) => {
                Reply::data(&format!(r#"{{"status":"stopped","exitstatus":"{exit}"}}"#))
            }
            (_, None) => Reply::data(r#"{"status":"stopped"}"#),
        }
    })
    .await
}

async fn follow(server: &Server) -> (Result<TaskExit, Error>, Vec<String>) {
    let (client, upid, mut heard) = (server.client(), upid(), Vec::new());
    let exit = client
        .task(&upid)
        .follow(|what| {
            heard.push(match what {
                Heard::Line(line) => line.to_owned(),
                Heard::Unreachable(error) => {
                    error.to_string().split(": ").last().unwrap().to_owned()
                }
                other => format!("{other:?}"),
            });
        })
        .await;
    (exit, heard)
}

#[tokio::test]
async fn a_task_is_followed_on_its_own_node_line_by_line_and_through_a_break() {
    let server = task(Some("OK")).await;
    let (exit, heard) = follow(&server).await;
    assert_eq!(exit.unwrap(), TaskExit::Ok);
    assert_eq!(heard, ["WARN: line 1", "node unreachable", "WARN: line 2", "WARN: line 3"]);
}

#[tokio::test]
async fn warnings_are_a_success_with_their_lines() {
    let server = task(Some("WARNINGS: 3")).await;
    let exit = server.client().task(&upid()).wait().await.unwrap();
    let lines = ["WARN: line 1", "WARN: line 2", "WARN: line 3"].map(str::to_owned).to_vec();
    assert_eq!(exit, TaskExit::Warnings(3, lines.clone()));
    assert_eq!(exit.into_result(), Ok(lines));
}

#[tokio::test]
async fn a_failure_brings_the_end_of_the_log() {
    let server = task(Some("unable to create VM 121 - VM 121 already exists on node 'pve1'")).await;
    let exit = server.client().task(&upid()).wait().await.unwrap();
    let failure = exit.into_result().unwrap_err();
    assert!(failure.already_exists());
    assert_eq!(failure.log.last().map(String::as_str), Some("WARN: line 3"));
}

#[tokio::test]
async fn a_task_can_be_followed_by_a_task_of_its_own() {
    let server = task(Some("OK")).await;
    let client = server.client();
    let exit = tokio::spawn(async move { client.task(&upid()).follow(|_| ()).await });
    assert!(exit.await.unwrap().unwrap().is_success());
}

#[tokio::test]
async fn an_ending_without_a_word_is_looked_at_once_more_and_is_a_failure() {
    let server = task(None).await;
    let exit = server.client().task(&upid()).wait().await.unwrap();
    assert_eq!(exit.into_result().unwrap_err().status, "ended without saying how");
    let looks = server.lines().iter().filter(|line| line.ends_with("/status")).count();
    assert_eq!(looks, 5);
}

#[tokio::test]
async fn how_a_task_ended_is_told_also_when_its_log_cannot_be_read() {
    for (log, exit) in [
        (Reply::status(500, "unable to open file", ""), "OK"),
        (Reply::status(403, "Permission check failed (/nodes/pve2, Sys.Audit)", ""), "OK"),
        (Reply::data("7"), "unexpected status"),
        (Reply::Cut, "OK"),
    ] {
        let looks = AtomicUsize::new(0);
        let server = Server::start(move |seen: &Seen| {
            if seen.target.contains("/log?") {
                return log.clone();
            }
            match looks.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Reply::data(r#"{"status":"running"}"#),
                _ => Reply::data(&format!(r#"{{"status":"stopped","exitstatus":"{exit}"}}"#)),
            }
        })
        .await;
        let mut unread = 0;
        let (client, upid) = (server.client(), upid());
        let heard = |heard: Heard<'_>| unread += u8::from(matches!(heard, Heard::Unreachable(_)));
        let end = client.task(&upid).follow(heard).await.unwrap();
        match end {
            TaskExit::Ok => assert_eq!(exit, "OK"),
            TaskExit::Failed(failure) => assert_eq!(failure.status, exit),
            TaskExit::Warnings(..) => panic!("{end:?}"),
        }
        assert_eq!(unread, 3);
    }
}

#[tokio::test]
async fn a_task_that_nobody_knows_is_not_waited_for() {
    let server = Server::start(|_| {
        Reply::status(400, "Parameter verification failed.", r#"{"errors":{"upid":"no such task"},"data":null,"message":"Parameter verification failed.\n"}"#)
    })
    .await;
    let error = server.client().task(&upid()).wait().await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}
