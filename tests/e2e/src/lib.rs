//! x
pub mod bench;
pub mod client;
pub mod docs;
pub mod programs;
pub mod real;
pub mod recorder;
pub mod redact;
pub mod rig;
pub mod server;
pub mod sse;
pub mod wizard;
