//! Listening, and leaving without breaking a job off.

use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::listener::Peer;
use crate::listener::Port;
use crate::routes::router;

/// For readers that take their last events slowly, once no job runs any more.
const FAREWELL: Duration = Duration::from_secs(10);

/// Opens the port; "all interfaces" is IPv4 alone where the machine has no IPv6.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let opened = TcpListener::bind(address).await;
    let opened = match opened {
        Err(error) if address.ip().is_unspecified() && error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        other => other,
    };
    opened.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })
}

/// Answers requests until it is told to stop, and then until no job runs.
///
/// The first message of `stop` closes the door to new jobs, every further one cancels those that run.
pub async fn serve(
    listener: TcpListener,
    app: App,
    mut stop: mpsc::Receiver<()>,
) -> io::Result<()> {
    let closing = CancellationToken::new();
    let port = Port::new(listener, app.access().clone());
    let service = router(app.clone()).into_make_service_with_connect_info::<Peer>();
    let server =
        axum::serve(port, service).with_graceful_shutdown(closing.clone().cancelled_owned());
    let mut server = tokio::spawn(server.into_future());

    stop.recv().await;
    app.stop();
    let running = app.jobs().running().len();
    tracing::info!(running, "stopping: no new jobs, those that run are finished");
    loop {
        tokio::select! {
            () = app.idle() => break,
            Some(()) = stop.recv() => {
                tracing::warn!("stopping: the jobs that run are cancelled");
                app.cancel_all();
            }
        }
    }
    closing.cancel();
    if let Ok(ended) = tokio::time::timeout(FAREWELL, &mut server).await {
        return ended.map_err(io::Error::other)?;
    }
    tracing::warn!("readers that are still connected are left");
    server.abort();
    Ok(())
}
