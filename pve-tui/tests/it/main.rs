//! The command without a screen, against a server that answers from a script; the real binary in a
//! terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod create;
mod manners;
mod pty;
#[path = "../../../pve-provision/tests/it/scene.rs"]
#[expect(dead_code, reason = "it serves other tests, too")]
mod scene;
#[path = "../../../pve-api/tests/it/server.rs"]
#[expect(dead_code, reason = "it serves other tests, too")]
mod server;
mod trust;

/// What the server's file asks of the crate that it is part of.
mod secrets {
    pub(crate) const TOKEN: &str = "00000000-0000-4000-8000-000000000000";

    pub(crate) fn watch_logs() {}

    pub(crate) fn assert_none_logged() {}
}
