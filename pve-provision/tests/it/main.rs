//! The wizard's flow against a server that answers from a script.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod flow;
mod load;
mod lost;
mod rest;
mod scene;
#[path = "../../../pve-api/tests/it/server.rs"]
#[expect(dead_code, reason = "it serves other tests, too")]
mod server;

/// What the server's file asks of the crate that it is part of.
mod secrets {
    pub(crate) const TOKEN: &str = "00000000-0000-4000-8000-000000000000";

    pub(crate) fn watch_logs() {}

    pub(crate) fn assert_none_logged() {}
}
