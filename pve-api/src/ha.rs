//! High availability: which guests the cluster keeps running.

use std::fmt;

use crate::client::Client;
use crate::endpoint;
use crate::error::Error;
use crate::error::Result;
use crate::id::Vmid;
use crate::list::List;
use crate::record::record;
use crate::record::words;
use crate::request::Parameters;
use crate::request::Request;

/// The calls below `/cluster/ha`.
#[derive(Debug, Clone, Copy)]
pub struct Ha<'a> {
    pub(crate) client: &'a Client,
}

words! {
    /// What HA is to do with a guest.
    HaState {
        /// Keep it running; this *starts* it.
        Started = "started",
        /// Keep it stopped.
        Stopped = "stopped",
        /// The old word for `started`.
        Enabled = "enabled",
        /// Keep it stopped and do not recover it.
        Disabled = "disabled",
        /// Leave it alone.
        Ignored = "ignored",
    }
}

record! {
    /// A guest under HA.
    HaResource {
        /// Such as `vm:100`.
        "sid" sid: String,
    }
    optional {
        /// `vm` or `ct`.
        "type" kind: String,
        /// What HA is to do with it; missing means `started`.
        "state" state: HaState,
        /// The group to which it is bound, until 8.
        "group" group: String,
        /// What people say about it.
        "comment" comment: String,
        /// How often it is started again on the same node.
        "max_restart" max_restart: u64,
        /// How often it is moved to another node.
        "max_relocate" max_relocate: u64,
        /// Whether it goes back to its favourite node, since 9.
        "failback" failback: bool,
        /// The digest of the configuration.
        "digest" digest: String,
    }
}

record! {
    /// A group of nodes to which guests are bound, until 8.
    HaGroup {
        /// Its name.
        "group" group: String,
    }
    optional {
        /// The nodes and their priorities, such as `pve1:2,pve2`.
        "nodes" nodes: String,
        /// Whether guests stay within the group.
        "restricted" restricted: bool,
        /// What people say about it.
        "comment" comment: String,
        /// The digest of the configuration.
        "digest" digest: String,
        /// Always `group`.
        "type" kind: String,
    }
}

/// A virtual machine as HA names it.
struct Sid(Vmid);

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vm:{}", self.0)
    }
}

impl Ha<'_> {
    /// Lists the guests under HA.
    ///
    /// `GET /cluster/ha/resources`.
    pub async fn resources(&self) -> Result<List<HaResource>> {
        self.client.list(Request::new(&endpoint::HA_LIST, &[])).await
    }

    /// Reads how HA treats a virtual machine; `None` if it does not.
    ///
    /// `GET /cluster/ha/resources/vm:…`.
    pub async fn resource(&self, vmid: Vmid) -> Result<Option<HaResource>> {
        match self.client.get(Request::new(&endpoint::HA_GET, &[&Sid(vmid)])).await {
            Ok(resource) => Ok(Some(resource)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a virtual machine under HA. The state has no default here, since the server's own
    /// would start the machine.
    ///
    /// `POST /cluster/ha/resources`.
    pub async fn add(&self, vmid: Vmid, state: &HaState, comment: Option<&str>) -> Result<()> {
        self.client.done(add(vmid, state, comment)).await
    }

    /// Changes what HA is to do with a virtual machine.
    ///
    /// `PUT /cluster/ha/resources/vm:…`.
    pub async fn set_state(&self, vmid: Vmid, state: &HaState) -> Result<()> {
        self.client.done(set_state(vmid, state)).await
    }

    /// Takes a virtual machine out of HA; it keeps running.
    ///
    /// `DELETE /cluster/ha/resources/vm:…`.
    pub async fn remove(&self, vmid: Vmid) -> Result<()> {
        self.client.done(Request::new(&endpoint::HA_REMOVE, &[&Sid(vmid)])).await
    }

    /// Lists the groups, of which there are none since 9.
    ///
    /// `GET /cluster/ha/groups`.
    pub async fn groups(&self) -> Result<List<HaGroup>> {
        match self.client.list(Request::new(&endpoint::HA_GROUPS, &[])).await {
            Err(Error::Refused { source, .. }) if source.message.contains("migrated to rules") => {
                Ok(List { items: Vec::new(), skipped: Vec::new() })
            }
            result => result,
        }
    }
}

pub(crate) fn add(vmid: Vmid, state: &HaState, comment: Option<&str>) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("sid", Sid(vmid));
    parameters.set("state", state);
    parameters.maybe("comment", comment);
    Request::new(&endpoint::HA_ADD, &[]).with(parameters)
}

pub(crate) fn set_state(vmid: Vmid, state: &HaState) -> Request {
    let mut parameters = Parameters::default();
    parameters.set("state", state);
    Request::new(&endpoint::HA_SET, &[&Sid(vmid)]).with(parameters)
}
