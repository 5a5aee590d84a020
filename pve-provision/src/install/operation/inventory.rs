//! All VMs and nodes of the cluster: what the configuration files say, and what runs.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use super::OperationError;
use super::change::text;
use crate::install::commands;
use crate::install::installer::Installer;
use crate::install::problem::chain;

/// The VMs and nodes of the cluster.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inventory {
    /// How many VMs there are.
    pub count: usize,
    /// The VMs, by number.
    pub vms: Vec<Vm>,
    /// The nodes, by name.
    pub nodes: Vec<Node>,
}

/// A VM as a list shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Vm {
    /// Its number.
    pub vmid: u32,
    /// Its name; empty when it has none.
    pub name: String,
    /// The first tag, which an install sets to the operating system; else Proxmox VE's `ostype`.
    pub os: String,
    /// Whether it runs; `null` when its node does not say.
    pub running: Option<bool>,
    /// The node that has it.
    pub node: String,
    /// Cores in all.
    pub cpu: u64,
    /// The size of its first disk, such as `32G`.
    pub disk: String,
    /// Memory in MiB.
    pub memory: u64,
    /// Memory in use, in MiB; `null` when its node does not say.
    pub memory_used: Option<u64>,
    /// Whether a job of this server made it.
    pub ours: bool,
}

/// A node as a list shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// Whether the cluster sees it.
    pub online: bool,
    /// How many VMs it has.
    pub vms: usize,
}

#[derive(Deserialize)]
struct Resource {
    vmid: u32,
    #[serde(default)]
    status: String,
    mem: Option<f64>,
}

impl Installer {
    /// All VMs and nodes. What runs is asked once for the whole cluster; without an answer the rest stands.
    pub async fn inventory(&self) -> Result<Inventory, OperationError> {
        let failed = |error: std::io::Error| {
            OperationError::Failed(format!("the cluster cannot be read: {error}"))
        };
        let members = self.0.directory.members().map_err(failed)?;
        let mut found = self.0.directory.vms().map_err(failed)?;
        found.sort_by_key(|(_, vmid, _)| *vmid);
        let resources = self.resources().await;
        let vms: Vec<Vm> = found
            .iter()
            .map(|(node, vmid, config)| {
                let number =
                    |key: &str| config.get(key).and_then(|value| value.parse::<u64>().ok());
                let online = members.online(node.as_str()) == Some(true);
                let resource = resources.get(&vmid.get()).filter(|_| online);
                let tag = config
                    .get("tags")
                    .and_then(|tags| tags.split([';', ',', ' ']).find(|tag| !tag.is_empty()));
                Vm {
                    vmid: vmid.get(),
                    name: config.get("name").unwrap_or_default().to_owned(),
                    os: tag.or(config.get("ostype")).unwrap_or_default().to_owned(),
                    running: resource.and_then(|resource| running(&resource.status)),
                    node: node.to_string(),
                    cpu: number("cores").unwrap_or(1) * number("sockets").unwrap_or(1),
                    disk: config.disk_bytes("scsi0").map(text).unwrap_or_default(),
                    memory: config.get("memory").and_then(memory).unwrap_or(512),
                    memory_used: resource.and_then(|resource| resource.mem).map(mebibytes),
                    ours: config.job().is_some(),
                }
            })
            .collect();
        let nodes = members
            .names()
            .into_iter()
            .map(|name| Node {
                node: name.to_owned(),
                online: members.online(name) == Some(true),
                vms: vms.iter().filter(|vm| vm.node == name).count(),
            })
            .collect();
        Ok(Inventory { count: vms.len(), vms, nodes })
    }

    async fn resources(&self) -> BTreeMap<u32, Resource> {
        let answer = self.0.exec.here(commands::vm_resources(), None).await;
        let parsed = match answer {
            Ok(output) => serde_json::from_str::<Vec<serde_json::Value>>(&output.stdout)
                .map_err(|error| error.to_string()),
            Err(error) => Err(chain(&error)),
        };
        let resources = parsed.unwrap_or_else(|why| {
            tracing::warn!("what runs is not known: {why}");
            Vec::new()
        });
        // One odd entry does not spoil the list.
        let resources = resources
            .into_iter()
            .filter_map(|entry| serde_json::from_value::<Resource>(entry).ok());
        resources.map(|resource| (resource.vmid, resource)).collect()
    }
}

/// The MiB of `2048`, or of the newer form `current=2048`.
fn memory(value: &str) -> Option<u64> {
    value.strip_prefix("current=").unwrap_or(value).split(',').next()?.parse().ok()
}

fn running(status: &str) -> Option<bool> {
    match status {
        "running" => Some(true),
        "stopped" => Some(false),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a byte count fits, and is not negative"
)]
fn mebibytes(bytes: f64) -> u64 {
    bytes as u64 >> 20
}
