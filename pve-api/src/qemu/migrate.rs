//! Moving a machine to another node.

use serde_json::Value;

use super::Qemu;
use crate::endpoint;
use crate::error::Result;
use crate::id::NodeName;
use crate::id::StorageId;
use crate::id::Upid;
use crate::id::Vmid;
use crate::id::Volid;
use crate::record::record;
use crate::request::Parameters;
use crate::request::Request;

record! {
    /// What stands in the way of a migration.
    MigrationCheck {
        /// Whether the machine runs: then only an online migration moves it.
        "running" running: bool,
    }
    optional {
        /// The nodes to which it can go as it is.
        "allowed_nodes" allowed_nodes: Vec<NodeName>,
        /// The other nodes, with what is missing there.
        "not_allowed_nodes" not_allowed_nodes: Value,
        /// The disks that only its node has; they must be copied.
        "local_disks" local_disks: Vec<LocalDisk>,
        /// The devices of the node that it uses; they cannot be moved.
        "local_resources" local_resources: Vec<String>,
        /// The names of mapped devices that it uses.
        "mapped-resources" mapped_resources: Vec<String>,
        /// About those devices.
        "mapped-resource-info" mapped_resource_info: Value,
        /// Whether the state of connections can be moved, since 9.
        "has-dbus-vmstate" has_dbus_vmstate: bool,
        /// What HA moves with it.
        "dependent-ha-resources" dependent_ha_resources: Vec<String>,
    }
}

record! {
    /// A disk that only its node has.
    LocalDisk {
        /// The volume.
        "volid" volid: Volid,
    }
    optional {
        /// Its key, such as `scsi0`.
        "drivename" key: String,
        /// Its size in bytes.
        "size" size: u64,
        /// Whether it is a CD.
        "cdrom" cdrom: bool,
        /// Whether the storage is the same on all nodes.
        "shared" shared: bool,
        /// Whether it is plugged in.
        "is_attached" attached: bool,
        /// Whether it holds the data for cloud-init.
        "is_cloudinit" cloudinit: bool,
        /// Whether it is the TPM's.
        "is_tpmstate" tpm: bool,
        /// Whether it is not plugged in.
        "is_unused" unused: bool,
        /// Whether it holds a sleeping machine's memory.
        "is_vmstate" vm_state: bool,
        /// Whether replication includes it.
        "replicate" replicate: bool,
    }
}

/// How a machine is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrate {
    /// Where to; not where it is.
    pub target: NodeName,
    /// Whether it keeps running; needed for a machine that runs.
    pub online: bool,
    /// Whether disks that only its node has are copied; needed for an online migration with such.
    pub with_local_disks: bool,
    /// The storage to which disks are copied; otherwise the one of the same name.
    pub target_storage: Option<StorageId>,
}

impl Qemu<'_> {
    /// Looks what stands in the way of a migration, to `target` or at all.
    ///
    /// `GET /nodes/{node}/qemu/{vmid}/migrate`.
    pub async fn check_migration(&self, target: Option<&NodeName>) -> Result<MigrationCheck> {
        self.client.get(check(self.node, self.vmid, target)).await
    }

    /// Moves the machine to another node.
    ///
    /// `POST /nodes/{node}/qemu/{vmid}/migrate`. The answer is a task; afterwards the machine
    /// answers on its new node only.
    pub async fn migrate(&self, how: &Migrate) -> Result<Upid> {
        self.client.get(migrate(self.node, self.vmid, how)).await
    }
}

pub(crate) fn check(node: &NodeName, vmid: Vmid, target: Option<&NodeName>) -> Request {
    let mut parameters = Parameters::default();
    parameters.maybe("target", target);
    Request::new(&endpoint::QEMU_MIGRATE_CHECK, &[node, &vmid]).with(parameters)
}

pub(crate) fn migrate(node: &NodeName, vmid: Vmid, how: &Migrate) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("target", &how.target);
    parameters.switch("online", how.online);
    parameters.switch("with-local-disks", how.with_local_disks);
    parameters.maybe("targetstorage", how.target_storage.as_ref());
    Request::new(&endpoint::QEMU_MIGRATE, &[node, &vmid]).with(parameters)
}
