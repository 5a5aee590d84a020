//! A web server for the files of the built image: the mirror of the node, the packages of the guests.

use std::path::PathBuf;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;
use tokio::fs::File;
use tokio::net::TcpListener;
use tokio_util::io::ReaderStream;

use super::network::GATEWAY;

/// Serves `directory` on the gateway's address for as long as the runtime lives.
pub(super) async fn start(directory: PathBuf) -> anyhow::Result<()> {
    let listener = TcpListener::bind((GATEWAY, 80)).await.context("cannot serve the image")?;
    let router = Router::new()
        .route("/{file}", get(|state, Path(file): Path<PathBuf>| send(state, file)))
        .route("/packages/{file}", get(package))
        .with_state(directory);
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(())
}

async fn package(directory: State<PathBuf>, Path(file): Path<PathBuf>) -> Response {
    send(directory, PathBuf::from("packages").join(file)).await
}

async fn send(State(directory): State<PathBuf>, file: PathBuf) -> Response {
    let Ok(file) = File::open(directory.join(file)).await else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match file.metadata().await {
        Ok(metadata) if metadata.is_file() => {
            let length = [(header::CONTENT_LENGTH, metadata.len())];
            (length, Body::from_stream(ReaderStream::new(file))).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
