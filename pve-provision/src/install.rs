//! The install flow: from a cloud image to a VM that can be logged into.
//!
//! A request is parsed, planned against the limits, and carried out step by step; every step is
//! reported in the job's log. Commands are run on this node, by ssh on the node that has the VM.

mod allocate;
mod baseline;
mod check;
mod clean_up;
mod commands;
mod exec;
mod flow;
mod held;
mod installer;
mod operation;
mod password;
mod plan;
mod problem;
mod public_key;
mod pve_directory;
mod qm;
mod ready;
mod request;
mod script;
mod settings;
mod ssh;
mod ssh_key;
mod storage;
mod sweep;

pub use baseline::CpuLevel;
pub use check::Findings;
pub use installer::Installer;
pub use operation::Found;
pub use operation::Inventory;
pub use operation::Node;
pub use operation::Operation;
pub use operation::OperationError;
pub use operation::Vm;
pub use plan::Plan;
pub use request::Invalid;
pub use request::PlanError;
pub use request::Request;
pub use settings::Gateway;
pub use settings::Limits;
pub use settings::Patience;
pub use settings::Settings;
pub use sweep::Stray;
