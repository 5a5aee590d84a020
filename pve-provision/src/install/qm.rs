//! What the steps ask of Proxmox VE, done by commands on the node that has the VM.

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
        const SSH_PORT: u16 = 22;
        let (host, port) = if let Some(said) = self.addresses.get(node.as_str()) {
            match said.rsplit_once(':') {
                Some((host, port)) => (
                    host.to_owned(),
                    port.parse()
                        .map_err(|error| format!("NODE_{node} is not host[:port]: {error}"))?,
                ),
                None => (said.clone(), SSH_PORT),
            }
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

    /// The word that `qm status` says of a VM, such as `running`; for messages.
    pub(crate) async fn status(&self, node: &NodeName, vmid: Vmid) -> String {
        match self.run(node, commands::status(vmid), None).await {
            Ok(output) => output.stdout.trim().trim_start_matches("status:").trim().to_owned(),
            Err(error) => format!("not known ({error})"),
        }
    }
}

/// Whether a command gave up because somebody else had the lock; the text may stand on any line.
fn is_lock_timeout(text: &str) -> bool {
    text.contains("can't lock file")
}
