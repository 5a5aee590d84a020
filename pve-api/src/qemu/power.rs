//! Starting, stopping, destroying.

use std::time::Duration;

use super::Qemu;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::Upid;
use crate::id::Vmid;
use crate::request::Endpoint;
use crate::request::Parameters;
use crate::request::Request;

/// How a machine is shut down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// How long it has; otherwise the `down` of its configuration, or 60 s.
    pub timeout: Option<Duration>,
    /// Whether it is stopped when it has not shut down by then.
    pub force_stop: bool,
}

/// How a machine is destroyed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destroy {
    /// Whether it is also taken out of HA, backups, replication and firewall; a machine under HA is
    /// not destroyed otherwise.
    pub purge: bool,
    /// Whether volumes that carry its number, but stand in no configuration, are removed, too.
    pub unreferenced_disks: bool,
}

impl Qemu<'_> {
    /// Starts the machine.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/status/start`. The answer is a task, which fails when the
    /// machine runs already. Right after a stop the machine's lock may be held for up to 30 s.
    pub async fn start(&self) -> Result<Upid> {
        self.client.get(self.request(&endpoint::QEMU_START)).await
    }

    /// Pulls the machine's plug.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/status/stop`. The answer is a task, which succeeds also when
    /// the machine is stopped already.
    pub async fn stop(&self) -> Result<Upid> {
        self.client.get(self.request(&endpoint::QEMU_STOP)).await
    }

    /// Asks the system inside to shut down.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/status/shutdown`. The answer is a task.
    pub async fn shutdown(&self, how: &Shutdown) -> Result<Upid> {
        self.client.get(shutdown(self.node, self.vmid, &endpoint::QEMU_SHUTDOWN, how)).await
    }

    /// Asks the system inside to shut down, and starts it again with its pending changes.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/status/reboot`. The answer is a task; a machine that does not
    /// run is an error.
    pub async fn reboot(&self, timeout: Option<Duration>) -> Result<Upid> {
        let how = Shutdown { timeout, force_stop: false };
        self.client.get(shutdown(self.node, self.vmid, &endpoint::QEMU_REBOOT, &how)).await
    }

    /// Destroys the machine with its disks; it must be stopped.
    ///
    /// `DELETE /nodes/{node}/qemu/{vmid}`. The answer is a task; whether the machine is locked shows
    /// there only.
    pub async fn destroy(&self, how: &Destroy) -> Result<Upid> {
        self.client.get(destroy(self.node, self.vmid, how)).await
    }
}

pub(crate) fn shutdown(
    node: &NodeName,
    vmid: Vmid,
    endpoint: &'static Endpoint,
    how: &Shutdown,
) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("timeout", how.timeout.map(|timeout| timeout.as_secs()));
    parameters.switch("forceStop", how.force_stop);
    Request::new(endpoint, &[node, &vmid]).with(parameters)
}

pub(crate) fn destroy(node: &NodeName, vmid: Vmid, how: &Destroy) -> Request {
    let mut parameters = Parameters::default();
    parameters.switch("purge", how.purge);
    parameters.switch("destroy-unreferenced-disks", how.unreferenced_disks);
    Request::new(&endpoint::QEMU_DESTROY, &[node, &vmid]).with(parameters)
}
