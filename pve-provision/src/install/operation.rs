//! What is done to VMs that exist: start, reboot, migrate with events; stop, destroy and changes at once.

mod change;
mod inventory;
mod power;

use pve_api::NodeName;
use pve_api::Vmid;
use thiserror::Error;

use super::installer::Inner;
use super::installer::Installer;
use super::problem::CommandError;
use super::problem::chain;
use super::pve_directory::VmConfig;
use super::script;
use crate::jobs::Job;

pub use inventory::Inventory;
pub use inventory::Node;
pub use inventory::Vm;

/// Why something was not done to a VM.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OperationError {
    /// There is no such VM.
    #[error("there is no VM {0}")]
    NotFound(Vmid),
    /// The value that was given cannot be taken.
    #[error("{0}")]
    Invalid(String),
    /// The VM was not made by this server, and nobody insisted.
    #[error(
        "VM {0} was not made by this server: to destroy it all the same, send {{\"force\":true}}"
    )]
    NotOurs(Vmid),
    /// The VM is protected against removal.
    #[error("VM {0} is protected (its option 'protection' is on): take that away first")]
    Protected(Vmid),
    /// A command failed; what it says is part of the text.
    #[error("{0}")]
    Failed(String),
}

impl From<CommandError> for OperationError {
    fn from(error: CommandError) -> Self {
        Self::Failed(chain(&error))
    }
}

/// What is done to a VM as a job with events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// `qm start`, then the wait until it is ready.
    Start,
    /// `qm reboot`, then the wait until it is ready.
    Reboot,
    /// `qm migrate` to that node.
    Migrate(NodeName),
}

/// A VM that exists, with the node that has it.
#[derive(Debug, Clone)]
pub struct Found {
    pub(crate) vmid: Vmid,
    pub(crate) node: NodeName,
    pub(crate) config: VmConfig,
}

impl Found {
    /// Its number.
    pub fn vmid(&self) -> Vmid {
        self.vmid
    }

    /// The node that has the VM.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Whether a job of this server made it.
    pub fn is_ours(&self) -> bool {
        self.config.job().is_some()
    }
}

impl Installer {
    /// Finds a VM anywhere in the cluster, by its configuration file.
    pub fn find(&self, vmid: Vmid) -> Result<Found, OperationError> {
        self.0.find(vmid)
    }

    /// The node of that name, when it is online and not the one that has the VM.
    pub fn migration_target(&self, vm: &Found, node: &str) -> Result<NodeName, OperationError> {
        let members = self.0.directory.members();
        let members = members.map_err(|error| OperationError::Failed(error.to_string()))?;
        let shown: String = node.chars().take(64).collect();
        let invalid = |why: String| Err(OperationError::Invalid(format!("node {shown:?} {why}")));
        match members.online(node) {
            None => {
                invalid(format!("is not a node of this cluster ({})", members.names().join(", ")))
            }
            Some(false) => invalid("is offline".to_owned()),
            Some(true) if node == vm.node.as_str() => {
                invalid(format!("has VM {} already", vm.vmid))
            }
            Some(true) => node.parse().map_err(|error| OperationError::Invalid(format!("{error}"))),
        }
    }

    /// The script that sets up a VM of this system; nothing when the catalogue does not have it.
    pub fn init_script(&self, os: &str, version: &str) -> Result<Option<String>, OperationError> {
        // Names that the catalogue has lead to no other file.
        if self.0.catalogue.find(os, version).is_none() {
            return Ok(None);
        }
        let script = script::find(self.0.settings.script_directory.as_deref(), os, version);
        script.map(Some).map_err(|problem| OperationError::Failed(chain(&problem)))
    }

    /// Carries out an operation to its end; the job's log tells all. A failure never destroys.
    pub async fn operate(&self, vm: Found, operation: Operation, job: Job) {
        self.0.operate(vm, operation, &job).await;
        job.end().await;
    }
}

impl Inner {
    fn find(&self, vmid: Vmid) -> Result<Found, OperationError> {
        let found = self.directory.find(vmid);
        match found.map_err(|error| {
            OperationError::Failed(format!("the cluster's VMs cannot be read: {error}"))
        })? {
            Some((node, config)) => Ok(Found { vmid, node, config }),
            None => Err(OperationError::NotFound(vmid)),
        }
    }

    /// Whether QEMU runs, as `qm status` says it.
    async fn is_running(&self, vm: &Found) -> bool {
        self.qm.status(&vm.node, vm.vmid).await.is_ok_and(|word| word == "running")
    }
}
