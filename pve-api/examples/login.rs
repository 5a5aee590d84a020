//! Logs in with trust on first use and a second factor, and says what the account may do.
//!
//! ```text
//! PVE_PASSWORD=… cargo run --example login -- pve1.example.org root@pam
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::env;
use std::error::Error;
use std::io;

use pve_api::Address;
use pve_api::Challenge;
use pve_api::Client;
use pve_api::Login;
use pve_api::Server;
use pve_api::Settings;
use pve_api::Timeouts;
use pve_api::Trust;
use pve_api::probe;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address: Address = arguments.next().ok_or("which server?")?.parse()?;
    let user = arguments.next().ok_or("which account?")?.parse()?;
    let password = env::var("PVE_PASSWORD")?.into();

    // Nothing is sent before the certificate is trusted.
    let certificate = probe(&address, Timeouts::default().connect).await?;
    let trust = if certificate.trusted_by_system {
        Trust::System
    } else {
        println!("{} shows a certificate of {}", address, certificate.subject);
        println!("    {}", certificate.fingerprint);
        println!("Is that what the node's own console shows (yes/no)?");
        if line()? != "yes" {
            return Err("not trusted".into());
        }
        Trust::Fingerprints(vec![certificate.fingerprint])
    };

    let server = Server::new(&Settings::new(address, trust))?;
    for realm in &server.realms().await? {
        println!("realm {} ({})", realm.realm, realm.comment.as_deref().unwrap_or_default());
    }
    let client = match server.login(&user, &password).await? {
        Login::Done(client) => client,
        Login::SecondFactor(challenge) => second_factor(&challenge).await?,
    };

    println!("{} on Proxmox VE {}", client.account(), client.version().await?);
    let permissions = client.permissions().await?;
    for path in permissions.paths() {
        println!("{path}: {} privileges", permissions.on(path).len());
    }
    Ok(())
}

async fn second_factor(challenge: &Challenge) -> Result<Client, Box<dyn Error>> {
    if let Some(advice) = challenge.offered().advice() {
        return Err(advice.into());
    }
    if challenge.offered().totp {
        println!("TOTP code of {}?", challenge.user());
        Ok(challenge.totp(&line()?).await?)
    } else {
        println!("recovery key of {}?", challenge.user());
        Ok(challenge.recovery(&line()?).await?)
    }
}

fn line() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().read_line(&mut text)?;
    Ok(text.trim().to_owned())
}
