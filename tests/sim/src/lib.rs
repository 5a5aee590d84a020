//! A Proxmox VE cluster to test against and to play with.
//!
//! The simulator is cut along calls, as the real thing is: [`call`](call::call) answers one API
//! call against one [`World`](world::World). It is written from facts and judged by recordings
//! and shares no type with the clients that are tested against it.
//!
//! What a call does outside the world (a guest that boots, a disk that is written) leaves it as an
//! [`Effect`](effect::Effect); the process, [`Sim`], applies it: to acted [`guest`]s or real ones.
//! A [`mirror`] serves the cloud images.

pub mod call;
pub mod cli;
pub mod effect;
pub mod face;
pub mod guest;
pub mod https;
pub mod mirror;
pub mod node_ssh;
pub mod real;
pub mod schema;
pub mod sim;
pub mod ssh;
#[cfg(test)]
mod testing;
pub mod world;

pub use sim::Account;
pub use sim::Config;
pub use sim::Sim;
