//! Creating a VM, and the script that sets it up.

use std::error::Error as _;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use pve_provision::install::Invalid;
use pve_provision::install::PlanError;
use pve_provision::install::Request;

use super::start_job;
use crate::answer::Problem;
use crate::app::App;
use crate::body::JsonBody;
use crate::body::Segment;

impl From<PlanError> for Problem {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Invalid(invalid) => invalid.into(),
            error => {
                let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
                Self::server(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}{why}"))
            }
        }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::input(StatusCode::BAD_REQUEST, invalid)
    }
}

/// `POST /api/vm/install`: starts a job and reads it to its end.
///
/// The job goes on when the reader leaves.
pub(super) async fn install(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let plan = app.installer().plan(Request::parse(&body)?)?;
    let installer = app.installer().clone();
    start_job(&app, plan.describe(), async move |job| installer.run(plan, job).await).await
}

/// `GET /sh/<os>_<version>.sh`: the init script, to read.
pub(super) async fn script(
    State(app): State<App>,
    Segment(file): Segment,
) -> Result<Response, Problem> {
    let unknown = || Problem::input(StatusCode::NOT_FOUND, format!("there is no script '{file}'"));
    let name = file.strip_suffix(".sh").and_then(|name| name.rsplit_once('_'));
    let (os, version) = name.ok_or_else(unknown)?;
    let script = app.installer().init_script(os, version)?.ok_or_else(unknown)?;
    Ok(([(header::CONTENT_TYPE, "text/x-shellscript; charset=utf-8")], script).into_response())
}
