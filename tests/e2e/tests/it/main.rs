//! What crosses crates: the server against the simulated cluster.

#![expect(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod documents;
mod durability;
mod examples;
mod flow;
mod install;
mod scenarios;
mod scripts;
mod specification;
mod tui;
mod wizard;
