//! Accepts connections and serves HTTP/1.1 on them, with a bound on their number and on the time for a request's head.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use crate::body::Lingering;
use crate::peer::Peer;

/// Longest time for a request's head; also the life of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a request's head at most; also the read buffer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Pause after a failed accept, such as "too many open files".
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to close at the end.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// Serves until `stop` turns true, then closes: idle connections at once, busy ones after their answer.
pub async fn serve(listener: TcpListener, router: Router, connections_max: usize, mut stop: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    loop {
        let accepted = async {
            let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, Peer(address)),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // small answers go out at once; if the socket refuses, it is only slower
        let _ = stream.set_nodelay(true);
        let service = router.clone().map_request(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.map(Lingering::new)
        });
        let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // broken connections are the peer's affair
            let _ = connection.await;
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(CLOSE_WAIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not close in time");
    }
}
