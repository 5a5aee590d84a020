//! A Proxmox VE cluster to test against and to play with.
//!
//! The simulator is cut along calls, as the real thing is: `call` answers one API
//! call against one `World`; `qm`, `pvesm` and `pvesh` are an argument parser and a
//! printer over it (`cli`). It is written from facts and judged by recordings and shares no
//! type with the clients that are tested against it.
//!
//! What a call does outside the world (a guest that boots, a disk that is written) leaves it as an
//! [`Effect`](effect::Effect); the process applies it.

pub mod effect;
pub mod guest;
pub mod mirror;
pub mod node_ssh;
pub mod real;
pub mod ssh;
#[cfg(test)]
mod testing;
