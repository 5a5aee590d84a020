//! Uploads an image to a storage.
//!
//! ```text
//! PVE_TOKEN='root@pam!ci=…' PVE_PIN=7E:4A:… \
//!     cargo run --example upload -- pve1.example.org pve1 local disk.qcow2
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::error::Error;
use std::path::Path;

use pve_api::ApiToken;
use pve_api::Content;
use pve_api::NodeName;
use pve_api::Server;
use pve_api::Settings;
use pve_api::StorageId;
use pve_api::Trust;
use pve_api::UploadFile;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, node, storage, path] = &arguments[..] else {
        return Err("which server, node, storage and file?".into());
    };
    let trust = match env::var("PVE_PIN") {
        Ok(pin) => Trust::Fingerprints(vec![pin.parse()?]),
        Err(_) => Trust::System,
    };
    let token: ApiToken = env::var("PVE_TOKEN")?.parse()?;
    let client = Server::new(&Settings::new(address.parse()?, trust))?.token(&token);
    let (node, storage): (NodeName, StorageId) = (node.parse()?, storage.parse()?);

    let source = tokio::fs::File::open(path).await?;
    let length = source.metadata().await?.len();
    let name = Path::new(path).file_name().ok_or("no file name")?.to_string_lossy();
    let file = UploadFile {
        content: if name.ends_with(".iso") { Content::Iso } else { Content::Import },
        file_name: name.into_owned(),
        length,
        checksum: None,
    };
    let mut told = 0;
    let progress = move |sent: u64| {
        let percent = sent * 100 / length.max(1);
        if percent >= told + 10 || sent == length {
            told = percent;
            println!("{percent} %");
        }
    };
    let upid = client.node(&node).storage(&storage).upload(&file, source, progress).await?;
    client.task(&upid).wait().await?.into_result()?;
    println!("{storage} has {}", file.file_name);
    Ok(())
}
