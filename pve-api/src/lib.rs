//! Typed access to the Proxmox VE API.

#![warn(missing_docs)]

mod id;

pub use id::InvalidId;
pub use id::NodeName;
pub use id::StorageId;
pub use id::Vmid;
pub use id::Volid;
