//! What the steps ask of Proxmox VE, done by commands on the node that has the VM.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;

use pve_api::NodeName;
use pve_api::Vmid;
use tokio::time::Instant;

use super::commands;
use super::commands::CommandLine;
use super::exec::Exec;
use super::exec::NodeAddress;
use super::exec::Output;
use super::problem::CommandError;
use super::pve_directory::PveDirectory;
use super::settings::Settings;
use super::ssh::Lines;

/// The port of a node's SSH server, where `NODE_<name>` names no other.
const SSH_PORT: u16 = 22;
/// Between two tries for a lock; a try waits for some seconds itself.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// The commands of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Qm {
    exec: Exec,
    directory: PveDirectory,
    main_node: NodeName,
    addresses: std::collections::BTreeMap<String, String>,
    lock_patience: Duration,
}

impl Qm {
    pub(crate) fn new(exec: Exec, directory: PveDirectory, settings: &Settings) -> Self {
        Self {
            exec,
            directory,
            main_node: settings.main_node.clone(),
            addresses: settings.nodes.clone(),
            lock_patience: settings.patience.lock,
        }
    }

    /// Runs a command on `node`.
    ///
    /// One that did not get the VM's lock has done nothing, and is tried again for a while; no other is.
    pub(crate) async fn run(
        &self,
        node: &NodeName,
        line: CommandLine,
        lines: Option<&Lines>,
    ) -> Result<Output, CommandError> {
        let give_up = Instant::now() + self.lock_patience;
        loop {
            let result = self.once(node, line.clone(), lines.cloned()).await;
            match &result {
                // `qm resize` exits 0 even then.
                Ok(output) if is_lock_timeout(&output.stderr) && Instant::now() < give_up => {
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
                Err(error) if is_lock_timeout(error.text()) && Instant::now() < give_up => {
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
                _ => return result,
            }
        }
    }

    async fn once(
        &self,
        node: &NodeName,
        line: CommandLine,
        lines: Option<Lines>,
    ) -> Result<Output, CommandError> {
        if *node == self.main_node {
            self.exec.here(line, lines).await
        } else {
            let address = self.address(node).map_err(|why| CommandError::NotRun {
                title: line.title(),
                source: std::io::Error::other(why),
            })?;
            self.exec.there(line, address, lines).await
        }
    }

    /// Where a node's SSH server is: `NODE_<name>`, or else its address in `.members`.
    fn address(&self, node: &NodeName) -> Result<NodeAddress, String> {
        let (host, port) = if let Some(said) = self.addresses.get(node.as_str()) {
            endpoint(said).ok_or_else(|| format!("NODE_{node} is not host[:port]"))?
        } else {
            let members = self.directory.members().map_err(|error| error.to_string())?;
            let address = members.address(node.as_str());
            let address = address
                .ok_or_else(|| format!("the address of {node} is not known: set NODE_{node}"))?;
            (address.to_string(), SSH_PORT)
        };
        Ok(NodeAddress {
            node: node.clone(),
            host,
            port,
            known_hosts: self.directory.known_hosts(node),
        })
    }

    /// The word that `qm status` says of a VM, such as `running`.
    pub(crate) async fn status(&self, node: &NodeName, vmid: Vmid) -> Result<String, CommandError> {
        let output = self.run(node, commands::status(vmid), None).await?;
        Ok(output.stdout.trim().trim_start_matches("status:").trim().to_owned())
    }
}

/// The host and port of `host[:port]`, where the host may be an IPv6 address.
fn endpoint(said: &str) -> Option<(String, u16)> {
    if let Ok(address) = said.parse::<SocketAddr>() {
        return Some((address.ip().to_string(), address.port()));
    }
    if said.parse::<IpAddr>().is_ok() || !said.contains(':') {
        return Some((said.to_owned(), SSH_PORT));
    }
    let (host, port) = said.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// Whether a command gave up because somebody else had the lock; the text may stand on any line.
fn is_lock_timeout(text: &str) -> bool {
    text.contains("can't lock file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_host_and_port_of_either_family() {
        let rows = [
            "pve2",
            "192.0.2.12:2222",
            "fd00::12",
            "[fd00::12]:2222",
            "pve2.example.org:23",
            "pve2:x",
        ];
        let ends = rows.map(|said| {
            endpoint(said).map(|(host, port)| format!("{host} {port}")).unwrap_or_default()
        });
        assert_eq!(
            ends,
            [
                "pve2 22",
                "192.0.2.12 2222",
                "fd00::12 22",
                "fd00::12 2222",
                "pve2.example.org 23",
                ""
            ]
        );
    }
}
