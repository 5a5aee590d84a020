//! An event in a log, together with its form for readers over HTTP.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::event::Event;

/// An event in a log.
#[derive(Debug)]
pub struct Entry {
    /// The event.
    pub event: Event,
    sse: OnceLock<Bytes>,
}

impl Entry {
    pub(super) const fn new(event: Event) -> Self {
        Self { event, sse: OnceLock::new() }
    }

    /// The event as a finished server-sent event.
    ///
    /// It is put together once, for the first who asks; all others share the bytes.
    pub fn sse(&self) -> Bytes {
        let make = || {
            let data = serde_json::to_string(&self.event.wire()).unwrap_or_default();
            Bytes::from(format!("id: {}\ndata: {data}\n\n", self.event.number))
        };
        self.sse.get_or_init(make).clone()
    }
}
