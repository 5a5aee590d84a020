//! Makes virtual machines on Proxmox VE that are finished when it says so.
//!
//! Front-ends start a job and read its log; this crate knows nothing of HTTP routes or screens.

#![warn(missing_docs)]

pub mod create;
mod event;
pub mod install;
pub mod jobs;
mod lease;
mod step;

pub use event::Event;
pub use event::Kind;
pub use event::Left;
pub use event::Stream;
pub use event::Wire;
pub use lease::Lease;
pub use lease::Leases;
pub use step::Interruptible;
pub use step::OnFailure;
pub use step::Step;
