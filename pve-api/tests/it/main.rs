//! The client against a scripted server on loopback, over real TLS.

#![expect(clippy::unwrap_used, reason = "all of it is test code, also where no test is")]

mod guide;
mod login;
mod secrets;
mod send;
mod server;
mod session;
mod tasks;
mod transport;
mod trust;
mod upload;
