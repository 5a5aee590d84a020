//! Making a machine and changing its configuration.

use super::Qemu;
use super::QemuConfig;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::PoolId;
use crate::id::StorageId;
use crate::id::Upid;
use crate::id::Vmid;
use crate::node::Node;
use crate::request::Endpoint;
use crate::request::Parameters;
use crate::request::Request;

/// A virtual machine to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// Its number. Taken meanwhile, the call gives [`Error::AlreadyExists`], or its task fails
    /// with [`TaskFailure::already_exists`].
    ///
    /// [`Error::AlreadyExists`]: crate::Error::AlreadyExists
    /// [`TaskFailure::already_exists`]: crate::TaskFailure::already_exists
    pub vmid: Vmid,
    /// Its configuration. Empty texts are left out.
    pub config: QemuConfig,
    /// The pool into which it is put.
    pub pool: Option<PoolId>,
    /// Whether it is started. That is a task of its own, and its failure does not show in this one.
    pub start: bool,
    /// Whether it is put under HA, since 9.1. A failure of that shows in the task's log only.
    pub ha_managed: bool,
    /// The storage that is taken where a disk names none.
    pub storage: Option<StorageId>,
}

impl Create {
    /// A machine with this number and configuration, not started.
    pub fn new(vmid: Vmid, config: QemuConfig) -> Self {
        Self { vmid, config, pool: None, start: false, ha_managed: false, storage: None }
    }

    /// The parameters as they are sent.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.set("vmid", self.vmid);
        self.config.send(&mut parameters, |_| ());
        parameters.maybe("pool", self.pool.as_ref());
        parameters.maybe("storage", self.storage.as_ref());
        parameters.switch("ha-managed", self.ha_managed);
        parameters.switch("start", self.start);
        parameters
    }
}

/// A change of a machine's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigUpdate {
    /// What is to be set. Empty texts are removed, since the server cannot be sent one.
    pub set: QemuConfig,
    /// The keys that are to be removed, such as `net1`.
    pub delete: Vec<String>,
    /// The pending changes that are to be taken back.
    pub revert: Vec<String>,
    /// The digest of the configuration as it was read: somebody else's change in between gives
    /// [`Error::Changed`](crate::Error::Changed).
    pub digest: Option<String>,
    /// Whether volumes that nothing else names are removed with their keys.
    pub force: bool,
}

impl ConfigUpdate {
    /// A change that sets keys.
    pub fn set(set: QemuConfig) -> Self {
        Self { set, ..Self::default() }
    }

    /// The parameters as they are sent.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::default();
        let mut delete = self.delete.clone();
        self.set.send(&mut parameters, |key| delete.push(key.to_owned()));
        let list = |keys: &[String]| (!keys.is_empty()).then(|| keys.join(","));
        parameters.maybe("delete", list(&delete));
        parameters.maybe("revert", list(&self.revert));
        parameters.maybe("digest", self.digest.as_ref());
        // Alone it would be refused.
        parameters.switch("force", self.force && !delete.is_empty());
        parameters
    }
}

impl Node<'_> {
    /// Makes a virtual machine.
    ///
    /// `POST /nodes/{node}/qemu`. The answer is a task: the machine is there only once that has
    /// ended. A task that fails leaves nothing behind.
    pub async fn create(&self, machine: &Create) -> Result<Upid> {
        self.client.get(create(self.name, machine)).await
    }
}

impl Qemu<'_> {
    /// Reads the configuration as it will be after the next start.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/config`.
    pub async fn config(&self) -> Result<QemuConfig> {
        self.client.get(config(self.node, self.vmid, false)).await
    }

    /// Reads the configuration as it is in effect.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/config?current=1`.
    pub async fn active_config(&self) -> Result<QemuConfig> {
        self.client.get(config(self.node, self.vmid, true)).await
    }

    /// Changes the configuration and waits for it. What a running machine cannot change becomes
    /// pending.
    ///
    /// `PUT /nodes/{node}/qemu/{vmid}/config`. For changes that take less than 30 s: no new disks
    /// from images.
    pub async fn set_config(&self, change: &ConfigUpdate) -> Result<()> {
        self.client.done(update(self.node, self.vmid, &endpoint::QEMU_CONFIG_PUT, change)).await
    }

    /// Changes the configuration in a task.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/config`.
    pub async fn start_config(&self, change: &ConfigUpdate) -> Result<Upid> {
        self.client.get(update(self.node, self.vmid, &endpoint::QEMU_CONFIG_POST, change)).await
    }

    /// Grows a disk to `size`, such as `32G`, or by it, such as `+10G`.
    ///
    /// `PUT /nodes/{node}/qemu/{vmid}/resize`. The answer is a task, and only the task says that a
    /// disk is missing or would shrink.
    pub async fn resize(&self, disk: &str, size: &str) -> Result<Upid> {
        self.client.get(resize(self.node, self.vmid, disk, size)).await
    }
}

pub(crate) fn create(node: &NodeName, machine: &Create) -> Request {
    Request::new(&endpoint::QEMU_CREATE, &[node]).with(machine.parameters())
}

pub(crate) fn config(node: &NodeName, vmid: Vmid, active: bool) -> Request {
    let mut parameters = Parameters::default();
    parameters.switch("current", active);
    Request::new(&endpoint::QEMU_CONFIG, &[node, &vmid]).with(parameters)
}

pub(crate) fn update(
    node: &NodeName,
    vmid: Vmid,
    endpoint: &'static Endpoint,
    change: &ConfigUpdate,
) -> Request {
    Request::new(endpoint, &[node, &vmid]).with(change.parameters())
}

pub(crate) fn resize(node: &NodeName, vmid: Vmid, disk: &str, size: &str) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("disk", disk);
    parameters.set("size", size);
    Request::new(&endpoint::QEMU_RESIZE, &[node, &vmid]).with(parameters)
}
