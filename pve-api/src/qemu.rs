//! Virtual machines.

use crate::client::Client;
use crate::id::NodeName;
use crate::id::Vmid;
use crate::request::Endpoint;
use crate::request::Request;

pub use agent::AgentAddress;
pub use agent::AgentInterface;
pub use cloudinit::CiPassword;
pub use cloudinit::CloudInitFile;
pub use config::Bios;
pub use config::OsType;
pub use config::QemuConfig;
pub use config::ScsiController;
pub use create::ConfigUpdate;
pub use create::Create;
pub use migrate::LocalDisk;
pub use migrate::Migrate;
pub use migrate::MigrationCheck;
pub use power::Destroy;
pub use power::Shutdown;
pub use status::HaOfGuest;
pub use status::PendingValue;
pub use status::QemuState;
pub use status::QemuStatus;
pub use status::QemuSummary;
pub use tags::Tags;

mod agent;
mod cloudinit;
mod config;
mod create;
mod migrate;
mod power;
mod send;
mod status;
mod tags;

#[cfg(test)]
pub(crate) use agent::interfaces_answer;
#[cfg(test)]
pub(crate) use cloudinit::dump;
#[cfg(test)]
pub(crate) use create::config;
#[cfg(test)]
pub(crate) use create::create;
#[cfg(test)]
pub(crate) use create::resize;
#[cfg(test)]
pub(crate) use create::update;
#[cfg(test)]
pub(crate) use migrate::check;
#[cfg(test)]
pub(crate) use migrate::migrate;
#[cfg(test)]
pub(crate) use power::destroy;
#[cfg(test)]
pub(crate) use power::shutdown;

/// The calls below `/nodes/{node}/qemu/{vmid}`.
#[derive(Debug, Clone, Copy)]
pub struct Qemu<'a> {
    pub(crate) client: &'a Client,
    pub(crate) node: &'a NodeName,
    pub(crate) vmid: Vmid,
}

impl<'a> Qemu<'a> {
    /// The machine's number.
    pub fn vmid(&self) -> Vmid {
        self.vmid
    }

    /// The node that is asked, which must be the one that has the machine.
    pub fn node(&self) -> &'a NodeName {
        self.node
    }

    fn request(&self, endpoint: &'static Endpoint) -> Request {
        Request::new(endpoint, &[self.node, &self.vmid])
    }
}
