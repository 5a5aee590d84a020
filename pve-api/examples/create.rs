//! Makes a virtual machine, follows the task's log, and starts the machine.
//!
//! ```text
//! PVE_TOKEN='root@pam!ci=…' PVE_PIN=7E:4A:… \
//!     cargo run --example create -- pve1.example.org pve1 local-lvm web
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::error::Error;

use pve_api::ApiToken;
use pve_api::Client;
use pve_api::Create;
use pve_api::Heard;
use pve_api::NodeName;
use pve_api::OsType;
use pve_api::Property;
use pve_api::QemuConfig;
use pve_api::ScsiController;
use pve_api::Server;
use pve_api::Settings;
use pve_api::StorageId;
use pve_api::TaskExit;
use pve_api::Trust;
use pve_api::Upid;
use pve_api::Vmid;
use pve_api::property::Agent;
use pve_api::property::Drive;
use pve_api::property::Memory;
use pve_api::property::NetDevice;
use pve_api::property::NetModel;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, node, storage, name] = &arguments[..] else {
        return Err("which server, node, storage and name?".into());
    };
    let client = client(address)?;
    let node: NodeName = node.parse()?;
    let config = config(name, &storage.parse()?)?;
    let vmid = create(&client, &node, config).await?;
    let upid = client.node(&node).qemu(vmid).start().await?;
    follow(&client, &upid).await?;
    println!("{vmid} runs");
    Ok(())
}

fn config(name: &str, storage: &StorageId) -> Result<QemuConfig, Box<dyn Error>> {
    let mut config = QemuConfig {
        name: Some(name.to_owned()),
        os: Some(OsType::Linux),
        cores: Some(2),
        memory: Some(Property::new(Memory { current: Some(2048), ..Memory::default() })?),
        scsi_controller: Some(ScsiController::VirtioScsiSingle),
        agent: Some(Property::new(Agent { enabled: Some(true), ..Agent::default() })?),
        ..QemuConfig::default()
    };
    let mut disk = Property::<Drive>::create(storage, 32);
    disk.change(|disk| disk.iothread = Some(true))?;
    config.scsi.insert(0, disk)?;
    let card = NetDevice {
        model: Some(NetModel::Virtio),
        bridge: Some("vmbr0".to_owned()),
        ..NetDevice::default()
    };
    config.net.insert(0, Property::new(card)?)?;
    Ok(config)
}

/// The next free number is only a proposal: another client may take it meanwhile.
async fn create(
    client: &Client,
    node: &NodeName,
    config: QemuConfig,
) -> Result<Vmid, Box<dyn Error>> {
    for _ in 0..5 {
        let vmid = client.cluster().next_id().await?;
        let created = client.node(node).create(&Create::new(vmid, config.clone())).await;
        match created {
            Ok(upid) => match follow(client, &upid).await? {
                TaskExit::Failed(failure) if failure.already_exists() => {}
                exit => {
                    for warning in exit.into_result()? {
                        println!("{warning}");
                    }
                    return Ok(vmid);
                }
            },
            Err(pve_api::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        println!("{vmid} has just been taken");
    }
    Err("no number could be had".into())
}

async fn follow(client: &Client, upid: &Upid) -> Result<TaskExit, pve_api::Error> {
    let heard = |heard: Heard<'_>| match heard {
        Heard::Line(line) => println!("    {line}"),
        Heard::Unreachable(error) => println!("    waiting: {error}"),
        _ => {}
    };
    println!("{}", upid.kind());
    client.task(upid).follow(heard).await
}

fn client(address: &str) -> Result<Client, Box<dyn Error>> {
    let trust = match env::var("PVE_PIN") {
        Ok(pin) => Trust::Fingerprints(vec![pin.parse()?]),
        Err(_) => Trust::System,
    };
    let token: ApiToken = env::var("PVE_TOKEN")?.parse()?;
    Ok(Server::new(&Settings::new(address.parse()?, trust))?.token(&token))
}
