//! Undoing what a job made, and nothing else: the VM that its log claims and that carries its mark.

use pve_api::NodeName;
use pve_api::Vmid;

use super::commands;
use super::pve_directory::PveDirectory;
use super::qm::Qm;

/// What a clean-up found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CleanUp {
    /// There is no VM with the job's mark.
    NothingThere,
    /// The VM is gone.
    Destroyed { vmid: Vmid, node: NodeName },
    /// The VM is still there, and why.
    Failed { vmid: Vmid, node: NodeName, why: String },
    /// The cluster cannot be looked at.
    Unknown { vmid: Vmid, why: String },
}

/// The node that has the job's VM, by number and mark; a migration may have moved it.
pub(crate) fn find(
    directory: &PveDirectory,
    vmid: Vmid,
    job: &str,
) -> std::io::Result<Option<NodeName>> {
    let found = directory.find(vmid)?;
    Ok(found.filter(|(_, config)| config.job() == Some(job)).map(|(node, _)| node))
}

/// Stops and destroys the VM `vmid` when the job `job` made it.
pub(crate) async fn destroy(qm: &Qm, directory: &PveDirectory, vmid: Vmid, job: &str) -> CleanUp {
    let node = match find(directory, vmid, job) {
        Ok(Some(node)) => node,
        Ok(None) => return CleanUp::NothingThere,
        Err(error) => return CleanUp::Unknown { vmid, why: error.to_string() },
    };
    // A VM that is not running is stopped all the same; should it fail, destroying tells why.
    let stopped = qm.run(&node, commands::force_stop(vmid), None).await;
    // The stop may have waited for a lock, and the number may be another VM's by now.
    match find(directory, vmid, job) {
        Ok(Some(_)) => {}
        Ok(None) => return CleanUp::Destroyed { vmid, node },
        Err(error) => return CleanUp::Unknown { vmid, why: error.to_string() },
    }
    let destroyed = qm.run(&node, commands::destroy(vmid), None).await;
    match (destroyed, find(directory, vmid, job)) {
        // Should it have failed, somebody else was faster.
        (_, Ok(None)) => CleanUp::Destroyed { vmid, node },
        (Err(error), Ok(Some(_))) => {
            let stop = stopped
                .err()
                .map(|error| format!("; before that, {}", super::problem::chain(&error)));
            let why = format!("{}{}", super::problem::chain(&error), stop.unwrap_or_default());
            CleanUp::Failed { vmid, node, why }
        }
        (Ok(_), Ok(Some(_))) => CleanUp::Failed {
            vmid,
            node,
            why: "qm destroy reported success, but the VM is still there".to_owned(),
        },
        (_, Err(error)) => CleanUp::Unknown { vmid, why: error.to_string() },
    }
}
