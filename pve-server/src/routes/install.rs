//! Creating a VM.

use axum::extract::State;
use axum::http::HeaderName;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use pve_provision::install::Invalid;
use pve_provision::install::Request;
use pve_provision::jobs::Job;

use crate::answer::Problem;
use crate::app::App;
use crate::body::JsonBody;
use crate::stream;

/// `POST /api/vm/install`: starts a job and reads it to its end.
///
/// The job goes on when the reader leaves.
pub(super) async fn install(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let request = Request::parse(&body).map_err(invalid)?;
    let plan = app.installer().plan(request).map_err(invalid)?;
    let admission = app.admit().ok_or_else(stopping)?;
    let job = app.jobs().start(plan.describe()).await.map_err(|error| no_log(&error))?;
    let installer = app.installer().clone();
    let running = job.clone();
    admission.run(job.clone(), async move { installer.run(plan, running).await });
    Ok(stream_of(&job))
}

/// The stream of a job that this request has started.
fn stream_of(job: &Job) -> Response {
    let id = job.id().to_string();
    let headers =
        [(header::LOCATION, format!("/api/jobs/{id}")), (HeaderName::from_static("x-job-id"), id)];
    (headers, stream::events(job.read_from(0))).into_response()
}

fn invalid(invalid: Invalid) -> Problem {
    Problem::input(StatusCode::BAD_REQUEST, invalid)
}

fn stopping() -> Problem {
    Problem::server(StatusCode::SERVICE_UNAVAILABLE, "the server stops and takes no new jobs")
}

fn no_log(error: &std::io::Error) -> Problem {
    tracing::error!(%error, "cannot start a job");
    let message = format!("the job's log cannot be written (STATE_DIR): {error}");
    Problem::server(StatusCode::INTERNAL_SERVER_ERROR, message)
}
