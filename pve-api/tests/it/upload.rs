//! Uploads.

use std::sync::Arc;
use std::sync::Mutex;

use pve_api::Content;
use pve_api::Error;
use pve_api::Upid;
use pve_api::UploadFile;

use crate::server::Reply;
use crate::server::Server;

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
async fn a_file_shorter_than_promised_is_not_passed_off_as_whole() {
    let server = Server::start(|_| Reply::data(&format!("\"{UPID}\""))).await;
    let (result, _) = upload(&server, &file(1000), vec![0; 10]).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Source { .. }) && error.had_no_effect(), "{error:?}");
    assert_eq!(server.lines(), [] as [&str; 0]);
}

#[tokio::test]
async fn an_upload_that_is_dropped_is_not_sent_again() {
    let server = Server::start(|_| Reply::Close).await;
    let (result, _) = upload(&server, &file(100_000), vec![7; 100_000]).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::UnknownOutcome { .. }), "{error:?}");
    assert_eq!(server.lines().len(), 1);
}
