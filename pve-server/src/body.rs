//! Reading what a request says, with everything that can be wrong with it in the one error form.

use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use futures_util::StreamExt;
use serde_json::Map;
use serde_json::Value;

use crate::answer::Problem;

/// More than any request needs.
const LIMIT: usize = 1 << 20;
/// A body beyond the limit is read on to here, so that its sender sees the answer and not a broken connection.
const READ_ON: usize = 64 << 20;
/// For a whole body, however slowly it comes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A body that says it is JSON; an empty one need not say so.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let says_json = says_json(&head.headers);
        let wrong_type = || {
            let wanted = "the body must be JSON, with the header 'Content-Type: application/json'";
            Problem::input(StatusCode::UNSUPPORTED_MEDIA_TYPE, wanted)
        };
        if says_json == Some(false) {
            return Err(wrong_type());
        }
        let read = tokio::time::timeout(PATIENCE, read(body)).await.unwrap_or_else(|_| {
            Err(Problem::input(StatusCode::REQUEST_TIMEOUT, "the body did not come within 60 s"))
        });
        let bytes = read?;
        if says_json.is_none() && !bytes.is_empty() {
            return Err(wrong_type());
        }
        Ok(Self(bytes))
    }
}

/// The fields of a JSON object.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(wrong("the body is not a JSON object")),
            Err(error) => Err(wrong(format!("the body is not JSON: {error}"))),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Problem> {
        self.field(name, "a text", Value::as_str)
    }

    /// A whole number; one beyond 64 bits is the last on its side.
    pub(crate) fn integer(&self, name: &str) -> Result<i64, Problem> {
        #[expect(clippy::cast_possible_truncation, reason = "beyond the range it saturates")]
        self.field(name, "a whole number", |value| {
            let float = value.as_f64().filter(|float| float.fract() == 0.0);
            value.as_i64().or_else(|| float.map(|float| float as i64))
        })
    }

    /// `true` or `false`; one that is missing is off.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, Problem> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(_) => self.field(name, "true or false", Value::as_bool),
        }
    }

    fn field<'a, T>(
        &'a self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Problem> {
        let value = self.0.get(name).filter(|value| !value.is_null());
        let value =
            value.ok_or_else(|| wrong(format!("{name} is missing; it must be {wanted}")))?;
        read(value).ok_or_else(|| wrong(format!("{name} must be {wanted}")))
    }
}

fn wrong(what: impl std::fmt::Display) -> Problem {
    Problem::input(StatusCode::BAD_REQUEST, what)
}

/// Whether the headers say that the body is JSON; nothing when they say nothing.
fn says_json(headers: &HeaderMap) -> Option<bool> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    Some(essence.eq_ignore_ascii_case("application/json"))
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    let mut chunks = body.into_data_stream();
    let mut whole = Vec::new();
    let mut length = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            Problem::input(StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))
        })?;
        length += chunk.len();
        if length <= LIMIT {
            whole.extend_from_slice(&chunk);
        } else {
            whole = Vec::new();
        }
        if length > READ_ON {
            break;
        }
    }
    if length > LIMIT {
        return Err(Problem::input(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 1 MiB"));
    }
    Ok(whole.into())
}

/// The part of a path that names what is meant.
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(Problem::input(StatusCode::BAD_REQUEST, "the path is not UTF-8")),
        }
    }
}
