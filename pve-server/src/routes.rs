//! The routes, and the door in front of them.

use std::io;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::StatusCode;
use axum::http::header;
use axum::middleware;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;
use pve_provision::jobs::Job;
use serde_json::Value;

use crate::access::Refused;
use crate::answer;
use crate::answer::Problem;
use crate::app::App;
use crate::listener::Peer;
use crate::stream;

mod install;
mod jobs;
mod vm;

const INSTALL: &str = "/api/vm/install";

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route(INSTALL, post(install::install))
        .route("/api/health", get(health))
        .route("/api/vm/list", get(vm::list))
        .route("/api/vm/{id}/status", get(vm::status))
        .route("/api/vm/{id}/start", post(vm::start))
        .route("/api/vm/{id}/reboot", post(vm::reboot))
        .route("/api/vm/{id}/stop", post(vm::stop))
        .route("/api/vm/{id}/shutdown", post(vm::shut_down))
        .route("/api/vm/{id}/destroy", post(vm::destroy))
        .route("/api/vm/{id}/set/cpu", post(vm::set_cpu))
        .route("/api/vm/{id}/set/memory", post(vm::set_memory))
        .route("/api/vm/{id}/set/disk", post(vm::set_disk))
        .route("/api/vm/{id}/set/node", post(vm::set_node))
        .route("/api/jobs", get(jobs::list))
        .route("/api/jobs/{id}", get(jobs::state).delete(jobs::cancel))
        .route("/api/jobs/{id}/events", get(jobs::events))
        .route("/sh/{file}", get(install::script))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), door))
        .with_state(app)
}

/// Lets a request in before anything else of it is looked at.
async fn door(
    State(app): State<App>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    match app.access().check(peer.ip(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            tracing::info!(%peer, path = request.uri().path(), %refused, "a request is refused");
            match refused {
                Refused::Address(_) if request.uri().path() == INSTALL => {
                    answer::refused_stream(&refused)
                }
                refused => Problem::from(refused).into_response(),
            }
        }
    }
}

/// Starts a job and answers with its events; the job goes on when the reader leaves.
async fn start_job<Work>(
    app: &App,
    request: Value,
    work: impl FnOnce(Job) -> Work + Send + 'static,
) -> Result<Response, Problem>
where
    Work: Future<Output = ()> + Send + 'static,
{
    let admission = app.admit().ok_or_else(stopping)?;
    let jobs = app.jobs().clone();
    // In a task of its own: who leaves before the log is begun must not leave a job that nobody runs.
    let started = tokio::spawn(async move {
        let job = jobs.start(request).await?;
        admission.run(job.clone(), work(job.clone()));
        Ok(job)
    });
    let job = started.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let job = job.map_err(|error| no_log(&error))?;
    let id = job.id().to_string();
    let headers =
        [(header::LOCATION, format!("/api/jobs/{id}")), (HeaderName::from_static("x-job-id"), id)];
    Ok((headers, stream::events(job.read_from(0))).into_response())
}

fn stopping() -> Problem {
    Problem::server(StatusCode::SERVICE_UNAVAILABLE, "the server stops and takes no new jobs")
}

fn no_log(error: &io::Error) -> Problem {
    tracing::error!(%error, "cannot start a job");
    let message = format!("the job's log cannot be written (STATE_DIR): {error}");
    Problem::server(StatusCode::INTERNAL_SERVER_ERROR, message)
}

async fn health() -> &'static str {
    "ok"
}

async fn no_route(request: Request) -> Problem {
    let detail = format!("there is nothing at {}", request.uri().path());
    Problem::input(StatusCode::NOT_FOUND, detail)
}

async fn wrong_method(request: Request) -> Problem {
    let detail = format!("{} does not take {}", request.uri().path(), request.method());
    Problem::input(StatusCode::METHOD_NOT_ALLOWED, detail)
}

#[cfg(test)]
mod tests;
