//! The routes, and the door in front of them.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::extract::Request;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware;
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use axum::routing::post;

use crate::access::Refused;
use crate::answer;
use crate::answer::Problem;
use crate::app::App;

mod install;
mod jobs;

const INSTALL: &str = "/api/vm/install";

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route(INSTALL, post(install::install))
        .route("/api/health", get(health))
        .route("/api/jobs", get(jobs::list))
        .route("/api/jobs/{id}", get(jobs::state).delete(jobs::cancel))
        .route("/api/jobs/{id}/events", get(jobs::events))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), door))
        .with_state(app)
}

/// Lets a request in before anything else of it is looked at.
async fn door(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
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
