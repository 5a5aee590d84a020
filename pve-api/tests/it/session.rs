//! Sessions that outlive their tickets.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pve_api::Client;
use pve_api::Error;
use pve_api::Login;

use crate::secrets;
use crate::secrets::told;
use crate::server::Reply;
use crate::server::Seen;
use crate::server::Server;

const VERSION: &str = r#"{"version":"9.2.11","release":"9.2"}"#;

fn ticket(ticket: &str) -> Reply {
    Reply::data(&format!(r#"{{"ticket":"{ticket}","CSRFPreventionToken":"{}"}}"#, secrets::CSRF))
}

fn is_login(seen: &Seen) -> bool {
    seen.target == "/api2/json/access/ticket"
}

fn sends(seen: &Seen, ticket: &str) -> bool {
    let cookie = seen.headers.get("cookie").cloned().unwrap_or_default();
    percent_encoding::percent_decode_str(&cookie).decode_utf8_lossy().ends_with(ticket)
}

async fn log_in(server: &Server) -> Client {
    let user = "root@pam".parse().unwrap();
    match server.door().login(&user, &secrets::PASSWORD.to_owned().into()).await.unwrap() {
        Login::Done(client) => client,
        Login::SecondFactor(challenge) => panic!("{challenge:?}"),
    }
}

/// Gives the first ticket for the password and the next one for the first; refuses the first once
/// `expired` is set.
async fn expiring(expired: &Arc<AtomicBool>) -> Server {
    let expired = Arc::clone(expired);
    Server::start(move |seen| {
        if is_login(seen) {
            return match seen.form()["password"].as_str() {
                secrets::PASSWORD => ticket(secrets::TICKET),
                secrets::TICKET => ticket(secrets::NEXT_TICKET),
                _ => Reply::status(401, "authentication failure", ""),
            };
        }
        if expired.load(Ordering::SeqCst) && sends(seen, secrets::TICKET) {
            return Reply::status(401, "permission denied - invalid PVE ticket", "");
        }
        match seen.method.as_str() {
            "GET" => Reply::data(VERSION),
            _ => Reply::data("null"),
        }
    })
    .await
}

fn renewals(server: &Server) -> usize {
    server.seen().iter().filter(|seen| is_login(seen)).count() - 1
}

#[tokio::test]
async fn a_hundred_calls_at_the_end_of_a_ticket_make_one_renewal() {
    let expired = Arc::new(AtomicBool::new(false));
    let server = expiring(&expired).await;
    let client = log_in(&server).await;
    client.version().await.unwrap();
    expired.store(true, Ordering::SeqCst);
    let calls = (0..100).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.version().await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(renewals(&server), 1);
}

#[tokio::test]
async fn a_ticket_is_renewed_before_half_of_its_life_and_never_by_password() {
    let server = expiring(&Arc::default()).await;
    let client = log_in(&server).await;
    client.version().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3599)).await;
    tokio::time::resume();
    client.version().await.unwrap();
    assert_eq!(renewals(&server), 0);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    let calls = (0..100).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.version().await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(renewals(&server), 1);
    let last = server.seen().pop().unwrap();
    assert!(sends(&last, secrets::NEXT_TICKET));
}

#[tokio::test]
async fn a_write_that_was_refused_for_its_ticket_is_repeated_once_with_a_new_one() {
    let expired = Arc::new(AtomicBool::new(true));
    let server = expiring(&expired).await;
    let client = log_in(&server).await;
    client.cluster().ha().remove("100".parse().unwrap()).await.unwrap();
    let methods: Vec<String> = server.seen().iter().map(|seen| seen.method.clone()).collect();
    assert_eq!(methods, ["POST", "DELETE", "POST", "DELETE"]);
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_needs_a_login_and_goes_on_after_it() {
    let alive = Arc::new(AtomicBool::new(true));
    let server = Server::start({
        let alive = Arc::clone(&alive);
        move |seen| match (is_login(seen), alive.load(Ordering::SeqCst)) {
            (true, true) => ticket(secrets::TICKET),
            (true, false) if seen.form()["password"] == secrets::PASSWORD => {
                ticket(secrets::NEXT_TICKET)
            }
            (false, false) if sends(seen, secrets::NEXT_TICKET) => Reply::data(VERSION),
            (false, true) => Reply::data(VERSION),
            _ => Reply::status(401, "authentication failure", ""),
        }
    })
    .await;
    let client = log_in(&server).await;
    alive.store(false, Ordering::SeqCst);
    let calls = (0..20).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.version().await.unwrap_err() })
    });
    for call in calls.collect::<Vec<_>>() {
        let error = call.await.unwrap();
        assert!(matches!(error, Error::NeedsLogin { .. }) && error.had_no_effect(), "{error:?}");
        told(&error);
    }
    // Every refusal costs three seconds, so one was enough for all.
    assert_eq!(renewals(&server), 1);

    let fresh = log_in(&server).await;
    assert!(client.clone().adopt(&fresh));
    client.version().await.unwrap();
    assert!(!client.adopt(&server.client()));
}

#[tokio::test]
async fn a_renewal_that_fails_for_another_reason_is_tried_again_later() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let asked = Arc::clone(&asked);
        move |seen| match (is_login(seen), asked.load(Ordering::SeqCst)) {
            (false, _) => Reply::data(VERSION),
            (true, count) => {
                asked.store(count + 1, Ordering::SeqCst);
                if count == 1 {
                    Reply::status(595, "Connection refused", "")
                } else {
                    ticket(if count == 0 { secrets::TICKET } else { secrets::NEXT_TICKET })
                }
            }
        }
    })
    .await;
    let client = log_in(&server).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3601)).await;
    tokio::time::resume();
    client.version().await.unwrap();
    assert!(sends(&server.seen().pop().unwrap(), secrets::TICKET));
    client.version().await.unwrap();
    assert!(sends(&server.seen().pop().unwrap(), secrets::NEXT_TICKET));
}

#[tokio::test]
async fn a_missing_csrf_token_is_cured_like_an_old_ticket() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "POST" if is_login(seen) && seen.form()["password"] == secrets::PASSWORD => {
            ticket(secrets::TICKET)
        }
        "POST" if is_login(seen) => ticket(secrets::NEXT_TICKET),
        "DELETE" if sends(seen, secrets::TICKET) => {
            Reply::status(401, "Permission denied - invalid csrf token", "")
        }
        _ => Reply::data("null"),
    })
    .await;
    let client = log_in(&server).await;
    client.cluster().ha().remove("100".parse().unwrap()).await.unwrap();
    assert_eq!(renewals(&server), 1);
}
