//! A Proxmox VE cluster to test against and to play with.

pub mod guest;
mod ssh;
