//! Proxmox VE's Create VM wizard for a terminal and for scripts.
//!
//! Everything that knows anything of virtual machines is in `pve_provision::create`; this crate
//! asks, shows and remembers servers.

pub mod connect;
pub mod headless;
pub mod profile;
pub mod prompt;
