//! Sessions that outlive their tickets.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pve_api::Client;
use pve_api::Error;
use pve_api::Login;
use pve_api::Settings;
use tokio::sync::Barrier;

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
    log_in_with(&server.settings(), "root@pam").await
}

async fn log_in_with(settings: &Settings, user: &str) -> Client {
    let (door, user) = (pve_api::Server::new(settings).unwrap(), user.parse().unwrap());
    match door.login(&user, &secrets::PASSWORD.to_owned().into()).await.unwrap() {
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
    for end in at_once(&client, 100).await {
        end.unwrap();
    }
    assert_eq!(renewals(&server), 1);
}

#[tokio::test]
async fn a_ticket_is_renewed_before_half_of_its_life_and_never_by_password() {
    let server = expiring(&Arc::default()).await;
    let client = log_in(&server).await;
    client.version().await.unwrap();
    later(3599).await;
    client.version().await.unwrap();
    assert_eq!(renewals(&server), 0);
    later(2).await;
    for end in at_once(&client, 100).await {
        end.unwrap();
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
    for end in at_once(&client, 20).await {
        let error = end.unwrap_err();
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

/// Lets time pass for the client.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Makes calls at once and gives how they ended.
async fn at_once(client: &Client, count: usize) -> Vec<Result<(), Error>> {
    let calls = (0..count).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.version().await.map(drop) })
    });
    let mut ends = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        ends.push(call.await.unwrap());
    }
    ends
}

/// Gives a ticket for the password, lets `renewal` answer to the ticket, and `call` to the rest.
async fn renewing(
    renewal: impl Fn() -> Reply + Send + Sync + 'static,
    call: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> Server {
    Server::start(move |seen| match is_login(seen) {
        true if seen.form()["password"] == secrets::PASSWORD => ticket(secrets::TICKET),
        true => renewal(),
        false => call(seen),
    })
    .await
}

#[tokio::test]
async fn an_old_ticket_is_used_on_when_its_renewal_fails_and_that_is_asked_once_in_a_while() {
    let asked = AtomicUsize::new(0);
    let server = renewing(
        move || match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::status(595, "Connection refused", ""),
            1 => Reply::Cut,
            _ => ticket(secrets::NEXT_TICKET),
        },
        |_| Reply::data(VERSION),
    )
    .await;
    let client = log_in(&server).await;
    later(3601).await;
    for end in at_once(&client, 20).await {
        end.unwrap();
    }
    client.version().await.unwrap();
    assert_eq!(renewals(&server), 1);
    assert!(sends(&server.seen().pop().unwrap(), secrets::TICKET));
    later(31).await;
    client.version().await.unwrap();
    assert_eq!(renewals(&server), 2);
    assert!(sends(&server.seen().pop().unwrap(), secrets::TICKET));
    later(31).await;
    client.version().await.unwrap();
    assert_eq!(renewals(&server), 3);
    assert!(sends(&server.seen().pop().unwrap(), secrets::NEXT_TICKET));
}

#[tokio::test]
async fn a_ticket_that_may_not_be_renewed_is_used_until_the_server_refuses_it() {
    let refused = Arc::new(AtomicBool::new(false));
    let server = renewing(|| Reply::status(401, "authentication failure", ""), {
        let refused = Arc::clone(&refused);
        move |_| {
            if refused.load(Ordering::SeqCst) {
                Reply::status(401, "permission denied - invalid PVE ticket", "")
            } else {
                Reply::data(VERSION)
            }
        }
    })
    .await;
    let client = log_in(&server).await;
    later(3601).await;
    for end in at_once(&client, 20).await {
        end.unwrap();
    }
    // Not even its age by our own clock ends it.
    later(7200).await;
    client.version().await.unwrap();
    assert_eq!(renewals(&server), 1);

    refused.store(true, Ordering::SeqCst);
    let error = client.version().await.unwrap_err();
    assert!(matches!(error, Error::NeedsLogin { .. }), "{error:?}");
    let before = server.lines().len();
    let error = client.version().await.unwrap_err();
    assert!(matches!(error, Error::NeedsLogin { .. }), "{error:?}");
    // It is known by now, and each refusal would take three seconds.
    assert_eq!((renewals(&server), server.lines().len()), (1, before));

    refused.store(false, Ordering::SeqCst);
    assert!(client.adopt(&log_in(&server).await));
    client.version().await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_fails_is_asked_once_and_told_to_all_who_waited_for_it() {
    const CALLS: usize = 20;
    let all = Arc::new(Barrier::new(CALLS));
    let server = renewing(
        || Reply::Cut,
        move |_| Reply::status(401, "permission denied - invalid PVE ticket", "").together(&all),
    )
    .await;
    let client = log_in(&server).await;
    for end in at_once(&client, CALLS).await {
        let error = end.unwrap_err();
        assert!(matches!(error, Error::NotSent { .. }), "{error:?}");
        assert!(error.had_no_effect() && error.is_transient());
        let words = "GET /version: not sent: the session could not be renewed: \
                     POST /access/ticket: the answer was lost";
        assert!(told(&error).starts_with(words), "{}", told(&error));
    }
    assert_eq!(renewals(&server), 1);
}

#[tokio::test]
async fn a_write_that_waited_for_a_renewal_whose_answer_was_lost_was_not_sent() {
    let server = renewing(|| Reply::Half, |_| Reply::data("null")).await;
    let client = log_in(&server).await;
    later(7201).await;
    let error = client.cluster().ha().remove("100".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }) && error.had_no_effect(), "{error:?}");
    assert_eq!(error.call().to_string(), "DELETE /cluster/ha/resources/vm:100");
    assert_eq!(server.lines(), ["POST /api2/json/access/ticket"; 2]);
}

#[tokio::test]
async fn a_session_is_adopted_only_from_the_same_account_addresses_and_trust() {
    let server = expiring(&Arc::default()).await;
    let other = expiring(&Arc::default()).await;
    let client = log_in(&server).await;
    assert!(!client.adopt(&log_in(&other).await), "another server's");

    let mut settings = server.settings();
    settings.trust = pve_api::Trust::InsecureAcceptAnyCertificate;
    assert!(!client.adopt(&log_in_with(&settings, "root@pam").await), "another trust's");
    let mut settings = server.settings();
    settings.addresses.push(other.address());
    assert!(!client.adopt(&log_in_with(&settings, "root@pam").await), "more servers'");
    assert!(!client.adopt(&log_in_with(&server.settings(), "jane@pve").await), "somebody else's");
    assert!(!client.adopt(&server.client()), "a token's");
    client.version().await.unwrap();
    assert!(sends(&server.seen().pop().unwrap(), secrets::TICKET));
    assert!(client.adopt(&log_in(&server).await));
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
