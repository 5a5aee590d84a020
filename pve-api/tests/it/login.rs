//! Realms, passwords, second factors, tokens.

use pve_api::Error;
use pve_api::Login;

use crate::secrets;
use crate::secrets::told;
use crate::server::Reply;
use crate::server::Seen;
use crate::server::Server;

const FAILURE: &str = r#"{"data":null,"message":"authentication failure\n"}"#;

fn granted(ticket: &str) -> Reply {
    Reply::data(&format!(
        r#"{{"cap":{{"vms":{{"VM.Audit":1}}}},"username":"root@pam","ticket":"{ticket}","CSRFPreventionToken":"{}"}}"#,
        secrets::CSRF
    ))
}

/// Asks for a second factor and takes one code and one recovery key.
fn with_second_factor(seen: &Seen) -> Reply {
    let form = seen.form();
    let field = |name: &str| form.get(name).map(String::as_str);
    match (seen.target.as_str(), field("password"), field("tfa-challenge")) {
        ("/api2/json/access/ticket", Some(secrets::PASSWORD), None) => Reply::data(&format!(
            r#"{{"username":"root@pam","NeedTFA":1,"ticket":{:?},"CSRFPreventionToken":"{}"}}"#,
            secrets::HALF_TICKET,
            secrets::CSRF
        )),
        ("/api2/json/access/ticket", Some(answer), Some(secrets::HALF_TICKET))
            if answer == format!("totp:{}", secrets::CODE)
                || answer == format!("recovery:{}", secrets::RECOVERY) =>
        {
            granted(secrets::TICKET)
        }
        ("/api2/json/access/ticket", ..) => Reply::status(401, "authentication failure", FAILURE),
        ("/api2/json/version", ..) => Reply::data(r#"{"version":"9.2.11","release":"9.2"}"#),
        _ => Reply::data("null"),
    }
}

#[tokio::test]
async fn realms_are_listed_without_a_login_in_a_steady_order() {
    let server = Server::start(|_| {
        Reply::data(
            r#"[{"realm":"pve","comment":"Proxmox VE authentication server","type":"pve","tfa":"oath"},{"type":"pam","realm":"pam","default":1},{"type":"openid","realm":"company"},{"type":"new","realm":"zz"}]"#,
        )
    })
    .await;
    let realms = server.door().realms().await.unwrap();
    let names: Vec<&str> = realms.iter().map(|realm| realm.realm.as_str()).collect();
    assert_eq!(names, ["company", "pam", "pve", "zz"]);
    let passwords: Vec<bool> = realms.iter().map(pve_api::Domain::takes_passwords).collect();
    assert_eq!(passwords, [false, true, true, true]);
    assert_eq!(realms[1].default, Some(true));
    assert_eq!(realms[2].second_factor.as_deref(), Some("oath"));
    let seen = server.seen();
    assert!(
        !seen[0].headers.contains_key("cookie") && !seen[0].headers.contains_key("authorization")
    );
}

#[tokio::test]
async fn a_session_sends_its_ticket_with_all_calls_and_the_csrf_token_with_writes() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/api2/json/access/ticket" => granted(secrets::TICKET),
        "/api2/json/version" => Reply::data(r#"{"version":"9.2.11","release":"9.2"}"#),
        _ => Reply::data("null"),
    })
    .await;
    let user = "root@pam".parse().unwrap();
    let login = server.door().login(&user, &secrets::PASSWORD.to_owned().into()).await.unwrap();
    let Login::Done(client) = login else { panic!("{login:?}") };
    assert_eq!(client.account(), "root@pam");
    client.version().await.unwrap();
    client.cluster().ha().remove("100".parse().unwrap()).await.unwrap();
    let [login, read, write] = &server.seen()[..] else { panic!("{:?}", server.lines()) };
    assert_eq!(login.form().keys().collect::<Vec<_>>(), ["password", "username"]);
    assert!(
        !login.headers.contains_key("cookie") && !login.headers.contains_key("csrfpreventiontoken")
    );
    for request in [read, write] {
        let cookie = request.headers["cookie"].strip_prefix("PVEAuthCookie=").unwrap();
        let ticket = percent_encoding::percent_decode_str(cookie).decode_utf8().unwrap();
        assert_eq!(ticket, secrets::TICKET);
    }
    assert_eq!(read.headers.get("csrfpreventiontoken"), None);
    assert_eq!(write.headers["csrfpreventiontoken"], secrets::CSRF);
}

#[tokio::test]
async fn a_second_factor_is_answered_with_the_half_ticket_byte_for_byte() {
    let server = Server::start(with_second_factor).await;
    let user = "root@pam".parse().unwrap();
    let login = server.door().login(&user, &secrets::PASSWORD.to_owned().into()).await.unwrap();
    let Login::SecondFactor(challenge) = login else { panic!("{login:?}") };
    assert!(challenge.offered().totp);
    assert_eq!(challenge.offered().recovery, Some(vec![0, 1, 2]));

    let error = challenge.totp("111111").await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
    assert_eq!(told(&error), "POST /access/ticket: not accepted: authentication failure");
    // The challenge may be answered again, and people type blanks.
    let (first, last) = secrets::CODE.split_at(4);
    let client = challenge.totp(&format!(" {first} {last} ")).await.unwrap();
    client.version().await.unwrap();
    challenge.recovery(&format!(" {}\n", secrets::RECOVERY.to_uppercase())).await.unwrap();

    let logins: Vec<Seen> =
        server.seen().into_iter().filter(|seen| seen.target.ends_with("/ticket")).collect();
    assert_eq!(logins.len(), 4, "no answer was tried twice");
    assert!(logins.iter().all(|seen| !seen.form().contains_key("otp")));
    assert!(logins[1..].iter().all(|seen| seen.form()["tfa-challenge"] == secrets::HALF_TICKET));
    assert_eq!(logins[2].form()["password"], format!("totp:{}", secrets::CODE));
}

#[tokio::test]
async fn a_wrong_password_is_asked_once() {
    let server = Server::start(with_second_factor).await;
    let user = "root@pam".parse().unwrap();
    let error = server.door().login(&user, &"wrong".to_owned().into()).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_token_is_sent_alone() {
    let server = Server::start(|_| Reply::data("null")).await;
    let client = server.client();
    assert_eq!(client.account(), "root@pam!ci");
    client.cluster().ha().remove("100".parse().unwrap()).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(
        seen.headers["authorization"],
        format!("PVEAPIToken=root%40pam!ci={}", secrets::TOKEN).replace("%40", "@")
    );
    assert!(
        !seen.headers.contains_key("cookie") && !seen.headers.contains_key("csrfpreventiontoken")
    );
}

#[tokio::test]
async fn a_token_that_is_refused_is_not_renewed() {
    let server =
        Server::start(|_| Reply::status(401, "no such token 'ci' for user 'root@pam'", "")).await;
    let error = server.client().version().await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_login_whose_answer_makes_no_sense_does_not_tell_what_it_was() {
    let answer = format!(r#"{{"ticket":["{}"]}}"#, secrets::TICKET);
    let server = Server::start(move |_| Reply::data(&answer)).await;
    let user = "root@pam".parse().unwrap();
    let error = server.door().login(&user, &secrets::PASSWORD.to_owned().into()).await.unwrap_err();
    assert_eq!(told(&error), "POST /access/ticket: unexpected answer at `data`: no ticket");
}
