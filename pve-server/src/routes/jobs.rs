//! Jobs: the list, one of them, its events, its cancellation.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::Response;
use pve_provision::jobs::CancelReason;
use pve_provision::jobs::Job;
use pve_provision::jobs::State as JobState;
use serde::Serialize;
use serde_json::Value;

use crate::answer::Problem;
use crate::app::App;
use crate::body::Segment;
use crate::stream;

/// A job in an answer.
#[derive(Serialize)]
struct View<'a> {
    id: String,
    /// `running`, `success` or `error`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a Value>,
    #[serde(flatten)]
    state: JobState,
}

impl<'a> View<'a> {
    fn new(id: String, request: Option<&'a Value>, state: JobState) -> Self {
        let status = match (&state.ended, &state.failed) {
            (None, _) => "running",
            (Some(_), None) => "success",
            (Some(_), Some(_)) => "error",
        };
        Self { id, status, request, state }
    }
}

/// `GET /api/jobs`: the jobs that are kept, the newest first.
pub(super) async fn list(State(app): State<App>) -> Response {
    let summaries = app.jobs().list().await;
    let jobs: Vec<View<'_>> = summaries
        .into_iter()
        .map(|summary| View::new(summary.id.to_string(), None, summary.state))
        .collect();
    Json(serde_json::json!({ "count": jobs.len(), "jobs": jobs })).into_response()
}

/// `GET /api/jobs/{id}`: what was asked for and how far it is.
pub(super) async fn state(
    State(app): State<App>,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    let job = find(&app, &id).await?;
    Ok(Json(View::new(id, Some(job.request()), job.state())).into_response())
}

/// `GET /api/jobs/{id}/events`: the events after `Last-Event-ID`, or all.
///
/// A browser comes back after the end and repeats the id of `close`: 204 tells it to stop.
pub(super) async fn events(
    State(app): State<App>,
    Segment(id): Segment,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let job = find(&app, &id).await?;
    let first = match headers.get("last-event-id") {
        None => 0,
        Some(last) => last
            .to_str()
            .ok()
            .and_then(|last| last.trim().parse::<u64>().ok()?.checked_add(1))
            .ok_or_else(|| {
                Problem::input(
                    StatusCode::BAD_REQUEST,
                    "Last-Event-ID must be the number of an event",
                )
            })?,
    };
    let state = job.state();
    if first > state.events {
        return if state.ended.is_some() {
            Ok(StatusCode::NO_CONTENT.into_response())
        } else {
            let detail = format!("Last-Event-ID is beyond the last event, {}", state.events);
            Err(Problem::input(StatusCode::BAD_REQUEST, detail))
        };
    }
    Ok(stream::events(job.read_from(first)))
}

/// `DELETE /api/jobs/{id}`: cancels the job by the rule of the step that it is in.
pub(super) async fn cancel(
    State(app): State<App>,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    let job = find(&app, &id).await?;
    if job.state().ended.is_some() {
        let message = format!("job {id} has ended");
        return Err(Problem::server(StatusCode::CONFLICT, message));
    }
    job.cancel(CancelReason::Requested);
    let view = View::new(id, Some(job.request()), job.state());
    Ok((StatusCode::ACCEPTED, Json(view)).into_response())
}

async fn find(app: &App, id: &str) -> Result<Job, Problem> {
    let unknown = || Problem::input(StatusCode::NOT_FOUND, format!("job '{id}' does not exist"));
    let id = id.parse().ok().ok_or_else(unknown)?;
    app.jobs().get(&id).await.ok_or_else(unknown)
}
