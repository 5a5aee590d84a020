//! The simulator against the recordings, against the published schema, and as a process.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod api;
mod facts;
mod https;
mod normalise;
mod process;
mod replay;
mod shell;
mod start;
