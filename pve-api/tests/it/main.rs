//! The client against a scripted server on loopback, over real TLS.

mod login;
mod secrets;
mod server;
mod session;
mod tasks;
mod transport;
mod trust;
mod upload;
