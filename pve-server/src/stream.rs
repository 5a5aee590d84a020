//! A job's log as a stream of server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::http::HeaderName;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use futures_util::stream;
use pve_provision::jobs::Reader;
use tokio::time::Interval;
use tokio::time::MissedTickBehavior;

/// Shorter than the silence that proxies and load balancers commonly end a connection after.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The headers of a stream: neither caches nor proxies may hold it back.
const HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("x-accel-buffering"), "no"),
];

/// Streams the events of `reader`, then `event: close`.
pub(crate) fn events(reader: Reader) -> Response {
    let source = Source { reader: Some(reader), keep_alive: every(KEEP_ALIVE) };
    let body = stream::unfold(source, |mut source| async move {
        let bytes = source.next().await?;
        Some((Ok::<_, Infallible>(bytes), source))
    });
    (HEADERS, Body::from_stream(body)).into_response()
}

fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is due at once.
    interval.reset();
    interval
}

struct Source {
    /// Absent after the end.
    reader: Option<Reader>,
    keep_alive: Interval,
}

impl Source {
    async fn next(&mut self) -> Option<Bytes> {
        let reader = self.reader.as_mut()?;
        tokio::select! {
            biased;
            entry = reader.next() => {
                if let Some(entry) = entry {
                    return Some(entry.sse());
                }
                let number = reader.position();
                self.reader = None;
                Some(Bytes::from(format!("id: {number}\nevent: close\ndata: {{}}\n\n")))
            }
            _ = self.keep_alive.tick() => Some(Bytes::from_static(b": keep-alive\n\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use pve_provision::Kind;
    use pve_provision::Step;
    use pve_provision::jobs::Jobs;

    use super::*;

    #[tokio::test]
    async fn a_silent_stream_is_kept_alive_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let job =
            Jobs::open(directory.path()).unwrap().start(serde_json::Value::Null).await.unwrap();
        let keep_alive = every(Duration::from_millis(1));
        let mut source = Source { reader: Some(job.read_from(0)), keep_alive };
        for _ in 0..2 {
            assert_eq!(source.next().await.unwrap(), ": keep-alive\n\n");
        }

        job.report(Step::CheckingVmid, Kind::Notice("still here".to_owned())).await;
        assert!(source.next().await.unwrap().starts_with(b"id: 0\ndata: "));
        job.end().await;
        assert_eq!(source.next().await.unwrap(), "id: 1\nevent: close\ndata: {}\n\n");
        assert_eq!(source.next().await, None);
    }
}
