//! Uploads.

use std::sync::Arc;
use std::sync::Mutex;

use pve_api::Client;
use pve_api::Content;
use pve_api::Error;
use pve_api::Login;
use pve_api::Upid;
use pve_api::UploadFile;

use crate::secrets;
use crate::secrets::told;
use crate::server::Reply;
use crate::server::Server;
use crate::server::deserted;
use crate::server::token_client;

const UPID: &str = "UPID:pve1:00002723:0004A4AB:6B0D814E:imgcopy::root@pam!ci:";

fn file(length: u64) -> UploadFile {
    UploadFile {
        content: Content::Import,
        file_name: "disk.qcow2".to_owned(),
        length,
        checksum: None,
    }
}

async fn upload(
    server: &Server,
    file: &UploadFile,
    bytes: Vec<u8>,
) -> (Result<Upid, Error>, Vec<u64>) {
    let (node, storage) = ("pve1".parse().unwrap(), "local".parse().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let progress = {
        let heard = Arc::clone(&heard);
        move |sent| heard.lock().unwrap().push(sent)
    };
    let client = server.client();
    let result = client
        .node(&node)
        .storage(&storage)
        .upload(file, std::io::Cursor::new(bytes), progress)
        .await;
    let heard = heard.lock().unwrap().clone();
    (result, heard)
}

#[tokio::test]
async fn a_file_arrives_whole_and_its_progress_is_heard() {
    let server = Server::start(|_| Reply::data(&format!("\"{UPID}\""))).await;
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let (upid, heard) = upload(&server, &file(1_000_003), bytes.clone()).await;
    assert_eq!(upid.unwrap().to_string(), UPID);
    assert_eq!(heard.last(), Some(&1_000_003));
    assert!(heard.len() > 3 && heard.is_sorted());

    let seen = &server.seen()[0];
    assert_eq!(seen.line(), "POST /api2/json/nodes/pve1/storage/local/upload");
    let boundary =
        seen.headers["content-type"].strip_prefix("multipart/form-data; boundary=").unwrap();
    assert_eq!(seen.headers["content-length"], seen.body.len().to_string());
    assert!(!seen.headers.contains_key("transfer-encoding"));
    let at = seen.body.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let front = String::from_utf8(seen.body[..at].to_vec()).unwrap();
    assert!(front.contains("name=\"content\"\r\n\r\nimport\r\n"));
    assert!(front.contains("name=\"filename\"; filename=\"disk.qcow2\"\r\n"));
    assert_eq!(&seen.body[at + bytes.len()..], format!("\r\n--{boundary}--\r\n").as_bytes());
}

#[tokio::test]
async fn a_file_of_another_length_than_promised_is_not_passed_off_as_whole() {
    let many = 1_000_000;
    for (promised, there, words) in [
        (1000, 10, "the source ends after 10 of the 1000 bytes that were promised"),
        (1000, 1001, "the source is longer than the 1000 bytes that were promised"),
        (0, 1, "the source is longer than the 0 bytes that were promised"),
        (many, many - 1, "the source ends after 999999 of the 1000000 bytes that were promised"),
        (many, many + 1, "the source is longer than the 1000000 bytes that were promised"),
    ] {
        let server = Server::start(|_| Reply::data(&format!("\"{UPID}\""))).await;
        let bytes = vec![0; usize::try_from(there).unwrap()];
        let (result, _) = upload(&server, &file(promised), bytes).await;
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Source { .. }) && error.had_no_effect(), "{error:?}");
        assert!(told(&error).ends_with(words), "{}", told(&error));
        assert_eq!(server.lines(), [] as [&str; 0]);
    }
}

/// Uploads 100,000 bytes.
async fn plain(client: &Client) -> Result<Upid, Error> {
    let (node, storage) = ("pve1".parse().unwrap(), "local".parse().unwrap());
    let bytes = std::io::Cursor::new(vec![7; 100_000]);
    client.node(&node).storage(&storage).upload(&file(100_000), bytes, |_| ()).await
}

#[tokio::test]
async fn an_upload_that_was_never_sent_goes_to_the_next_address_whole() {
    let server = Server::start(|_| Reply::data(&format!("\"{UPID}\""))).await;
    let mut settings = server.settings();
    settings.addresses = vec![deserted().await, server.address()];
    plain(&token_client(&settings)).await.unwrap();
    let seen = &server.seen()[0];
    assert!(seen.body.windows(100_000).any(|window| window.iter().all(|byte| *byte == 7)));

    settings.addresses = vec![deserted().await, deserted().await];
    let error = plain(&token_client(&settings)).await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }), "{error:?}");
}

/// A session with the first ticket; the server takes `taken` only.
async fn session(taken: &'static [&'static str]) -> (Server, Client) {
    let server = Server::start(move |seen| {
        let cookie = seen.headers.get("cookie").cloned().unwrap_or_default();
        let cookie = percent_encoding::percent_decode_str(&cookie).decode_utf8_lossy();
        let next = match seen.form().get("password").map(String::as_str) {
            Some(secrets::PASSWORD) => secrets::TICKET,
            _ => secrets::NEXT_TICKET,
        };
        match seen.target.as_str() {
            "/api2/json/access/ticket" => Reply::data(&format!(
                r#"{{"ticket":"{next}","CSRFPreventionToken":"{}"}}"#,
                secrets::CSRF
            )),
            _ if taken.iter().any(|ticket| cookie.ends_with(ticket)) => {
                Reply::data(&format!("\"{UPID}\""))
            }
            _ => Reply::status(401, "permission denied - invalid PVE ticket", ""),
        }
    })
    .await;
    let user = "root@pam".parse().unwrap();
    let login = server.door().login(&user, &secrets::PASSWORD.to_owned().into()).await.unwrap();
    let Login::Done(client) = login else { panic!("{login:?}") };
    (server, client)
}

#[tokio::test]
async fn an_upload_begins_with_a_ticket_that_lasts() {
    let (server, client) = session(&[secrets::TICKET, secrets::NEXT_TICKET]).await;
    plain(&client).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_mins(10)).await;
    tokio::time::resume();
    plain(&client).await.unwrap();
    let lines = server.lines();
    let paths: Vec<&str> = lines.iter().map(|line| line.rsplit('/').next().unwrap()).collect();
    assert_eq!(paths, ["ticket", "upload", "ticket", "upload"]);
}

#[tokio::test]
async fn an_upload_that_was_refused_for_its_ticket_may_be_made_again_with_a_new_one() {
    let (server, client) = session(&[secrets::NEXT_TICKET]).await;
    let error = plain(&client).await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }) && error.had_no_effect(), "{error:?}");
    assert!(
        told(&error).ends_with("not sent: the session's ticket was refused and has been renewed"),
        "{}",
        told(&error)
    );
    plain(&client).await.unwrap();
    assert_eq!(server.lines().len(), 4);
}

#[tokio::test]
async fn an_upload_that_is_dropped_is_not_sent_again() {
    let server = Server::start(|_| Reply::Close).await;
    let (result, _) = upload(&server, &file(100_000), vec![7; 100_000]).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::UnknownOutcome { .. }), "{error:?}");
    assert_eq!(server.lines().len(), 1);
}
