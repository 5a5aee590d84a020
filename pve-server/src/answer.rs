//! Answers that are not a stream: the JSON form of everything that went wrong, and the one line of a
//! caller who is not let in.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use serde::Serialize;

use crate::access::Refused;

/// Why a request is not done.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    message: String,
}

#[derive(Serialize)]
struct Form<'a> {
    success: bool,
    message: &'a str,
}

impl Problem {
    /// What the caller sent cannot be done.
    pub(crate) fn input(status: StatusCode, detail: impl std::fmt::Display) -> Self {
        Self { status, message: format!("please check your input: {detail}") }
    }

    /// The server cannot do it, or not now.
    pub(crate) fn server(status: StatusCode, message: impl std::fmt::Display) -> Self {
        Self { status, message: message.to_string() }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::Token => StatusCode::UNAUTHORIZED,
            Refused::Address(_) | Refused::Host(_) | Refused::Origin(_) => StatusCode::FORBIDDEN,
        };
        Self { status, message: refused.to_string() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let form = Json(Form { success: false, message: &self.message });
        match self.status {
            StatusCode::UNAUTHORIZED => {
                (self.status, [(header::WWW_AUTHENTICATE, "Bearer")], form).into_response()
            }
            status => (status, form).into_response(),
        }
    }
}

/// The specified answer of `POST /api/vm/install` to an address that is not allowed: one `data:` line.
pub(crate) fn refused_stream(refused: &Refused) -> Response {
    #[derive(Serialize)]
    struct Line<'a> {
        step: &'a str,
        status: &'a str,
        message: String,
    }
    let line = Line {
        step: "preparation > checking source IP",
        status: "error",
        message: format!("[-] {refused}"),
    };
    let data = serde_json::to_string(&line).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/event-stream")], format!("data: {data}\n\n")).into_response()
}
