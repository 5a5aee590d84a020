//! Lists nodes, guests and storages. A dead node does not spoil the list.
//!
//! ```text
//! PVE_TOKEN='root@pam!ci=…' PVE_PIN=7E:4A:… cargo run --example list -- pve1.example.org
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::env;
use std::error::Error;

use pve_api::ApiToken;
use pve_api::Client;
use pve_api::Server;
use pve_api::Settings;
use pve_api::Trust;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = client()?;
    for node in &client.nodes().await? {
        let state = node.status.as_ref().map_or("?", |state| state.as_str());
        println!("{} is {state}", node.name);
        let handle = client.node(&node.name);
        match handle.guests().await {
            Ok(guests) => {
                for guest in &guests {
                    let name = guest.name.as_deref().unwrap_or_default();
                    let state = guest.status.as_ref().map_or("?", |state| state.as_str());
                    println!("    {} {name} {state}", guest.vmid);
                }
            }
            Err(error) => println!("    {error}"),
        }
        match handle.storages(None).await {
            Ok(storages) => {
                for storage in &storages {
                    let free = storage.available.unwrap_or_default() >> 30;
                    println!("    {} with {free} GiB free", storage.id);
                }
            }
            Err(error) => println!("    {error}"),
        }
    }
    Ok(())
}

fn client() -> Result<Client, Box<dyn Error>> {
    let address = env::args().nth(1).ok_or("which server?")?.parse()?;
    let trust = match env::var("PVE_PIN") {
        Ok(pin) => Trust::Fingerprints(vec![pin.parse()?]),
        Err(_) => Trust::System,
    };
    let token: ApiToken = env::var("PVE_TOKEN")?.parse()?;
    Ok(Server::new(&Settings::new(address, trust))?.token(&token))
}
