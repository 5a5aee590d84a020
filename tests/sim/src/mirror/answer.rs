//! Answers a request: looks the path up, lets planted faults have their way, hands over the body.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use futures_util::stream;
use percent_encoding::percent_decode_str;
use tokio::sync::mpsc;

use crate::mirror::Entry;
use crate::mirror::Requested;
use crate::mirror::Shared;
use crate::mirror::body::Pump;
use crate::mirror::date::http_date;
use crate::mirror::fault::Met;

const PORTAL: &str = "<!DOCTYPE html>
<html><head><title>Welcome</title></head>
<body>Please log in to this network.</body></html>
";

pub(crate) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = percent_decode_str(request.uri().path()).decode_utf8_lossy().into_owned();
    let asked = Asked {
        head: request.method() == Method::HEAD,
        range: text(request.headers(), &header::RANGE),
        if_range: text(request.headers(), &header::IF_RANGE),
    };
    let (number, met, entry) = {
        let mut state = shared.state();
        state.requests.push(Requested {
            method: request.method().to_string(),
            path: path.clone(),
            range: asked.range.clone(),
            if_range: asked.if_range.clone(),
            at: SystemTime::now(),
            status: None,
            sent: 0,
        });
        (state.requests.len() - 1, state.faults.meet(&path, asked.head), state.find(&path))
    };
    let response = if asked.head || request.method() == Method::GET {
        respond(&shared, number, &asked, met, entry).await
    } else {
        status(StatusCode::METHOD_NOT_ALLOWED)
    };
    if let Some(request) = shared.state().requests.get_mut(number) {
        request.status = Some(response.status().as_u16());
    }
    response
}

/// What the answer depends on.
struct Asked {
    head: bool,
    range: Option<String>,
    if_range: Option<String>,
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn status(status: StatusCode) -> Response {
    (status, format!("{status}\n")).into_response()
}

async fn respond(
    shared: &Arc<Shared>,
    number: usize,
    asked: &Asked,
    met: Met,
    entry: Option<Entry>,
) -> Response {
    if met.hang {
        std::future::pending::<()>().await;
    }
    if let Some(code) = met.status.and_then(|code| StatusCode::from_u16(code).ok()) {
        return status(code);
    }
    if let Some(place) = met.redirect {
        return (StatusCode::FOUND, [(header::LOCATION, place)]).into_response();
    }
    if met.html {
        return ([(header::CONTENT_TYPE, "text/html")], PORTAL).into_response();
    }
    let Some(mut entry) = entry else { return status(StatusCode::NOT_FOUND) };
    if let Some(mistaken) = entry.mistaken.take().filter(|_| met.other_sums) {
        entry = Entry::of_bytes(mistaken);
    }
    if let Some(percent) = met.short {
        entry.length = entry.length * percent / 100;
    }
    send(shared, number, asked, met, entry).unwrap_or_else(|error| {
        tracing::warn!(%error, "an answer cannot be built");
        status(StatusCode::INTERNAL_SERVER_ERROR)
    })
}

fn send(
    shared: &Arc<Shared>,
    number: usize,
    asked: &Asked,
    met: Met,
    entry: Entry,
) -> Result<Response, axum::http::Error> {
    let date = http_date(entry.modified);
    let is_this = |known: &String| !met.no_validators && (*known == entry.etag || *known == date);
    let wanted = asked
        .range
        .as_deref()
        .filter(|_| !met.no_ranges && asked.if_range.as_ref().is_none_or(is_this));
    let mut response = Response::builder().header(header::CONTENT_TYPE, "application/octet-stream");
    if !met.no_validators {
        response = response.header(header::ETAG, &entry.etag).header(header::LAST_MODIFIED, date);
    }
    if !met.no_ranges {
        response = response.header(header::ACCEPT_RANGES, "bytes");
    }
    let range = match wanted.map_or(Wanted::Whole, |range| Wanted::parse(range, entry.length)) {
        Wanted::Whole => 0..entry.length,
        Wanted::Part(range) => {
            let told = format!("bytes {}-{}/{}", range.start, range.end - 1, entry.length);
            response =
                response.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, told);
            range
        }
        Wanted::Outside => {
            let told = format!("bytes */{}", entry.length);
            response = response
                .status(StatusCode::RANGE_NOT_SATISFIABLE)
                .header(header::CONTENT_RANGE, told);
            return response.body(Body::empty());
        }
    };
    if !met.chunked {
        response = response.header(header::CONTENT_LENGTH, range.end - range.start);
    }
    if asked.head {
        return response.body(Body::empty());
    }
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(
        Pump { shared: Arc::clone(shared), number, met, source: entry.source, range, sender }.run(),
    );
    let body =
        stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    response.body(Body::from_stream(body))
}

/// What a range asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(Range<u64>),
    Outside,
}

impl Wanted {
    /// `bytes=a-b`, `bytes=a-`, `bytes=-n`; anything else counts as nothing.
    fn parse(range: &str, length: u64) -> Self {
        let bounds = |range: &str| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some(match (first, last) {
                ("", count) => length.saturating_sub(count.parse().ok()?)..length,
                (first, "") => first.parse().ok()?..length,
                (first, last) => {
                    first.parse().ok()?..last.parse::<u64>().ok()?.saturating_add(1).min(length)
                }
            })
        };
        match bounds(range) {
            None => Self::Whole,
            Some(range) if range.start < range.end => Self::Part(range),
            Some(_) => Self::Outside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn ranges_are_read_as_http_writes_them() {
        for (text, wanted) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=10-", Wanted::Part(10..100)),
            ("bytes=10-19", Wanted::Part(10..20)),
            ("bytes=90-1000", Wanted::Part(90..100)),
            ("bytes=-5", Wanted::Part(95..100)),
            ("bytes=100-", Wanted::Outside),
            ("lines=1-2", Wanted::Whole),
            ("bytes=a-", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
        ] {
            assert_eq!(Wanted::parse(text, 100), wanted, "{text}");
        }
    }
}
