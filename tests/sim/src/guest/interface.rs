//! Addresses that come and go with their guests.

use std::io;
use std::net::Ipv4Addr;

use tokio::process::Command;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface(pub(super) String);

impl Interface {
    pub(super) async fn add(&self, address: Ipv4Addr) -> io::Result<()> {
        self.ip("replace", address).await
    }

    pub(super) async fn remove(&self, address: Ipv4Addr) {
        if let Err(error) = self.ip("del", address).await {
            tracing::warn!(%address, %error, "an address stays");
        }
    }

    /// One address alone: the route to its network is somebody else's.
    async fn ip(&self, change: &str, address: Ipv4Addr) -> io::Result<()> {
        let address = format!("{address}/32");
        let output =
            Command::new("ip").args(["address", change, &address, "dev", &self.0]).output().await?;
        if output.status.success() {
            return Ok(());
        }
        let interface = &self.0;
        let told = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!(
            "ip address {change} {address} dev {interface}: {}",
            told.trim()
        )))
    }
}
