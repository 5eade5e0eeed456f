//! Accepts connections, with TLS or without, and serves HTTP/1.1. Bounds the number of connections and the time for a
//! request's head. Refuses requests that do not name their server once.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

use crate::tls::Tls;
use crate::web::body::Lingering;
use crate::web::host;
use crate::web::peer::Peer;

/// Timeout for a request's head, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest head of a request, in bytes. Also the size of the read buffer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Pause after a failed accept, such as "too many open files".
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Timeout for connections to close when the node stops.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until `stop` is true. Then closes idle connections at once, and busy connections after their answer.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
) {
    let router = router.layer(from_fn(with_host));
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
        // send small answers at once (no Nagle's algorithm); an error here only means slower answers
        let _ = stream.set_nodelay(true);
        let (builder, router, watcher) = (builder.clone(), router.clone(), graceful.watcher());
        let (tls, stopped) = (tls.as_ref().map(Tls::acceptor), stop.clone());
        tokio::spawn(async move {
            match tls {
                None => converse(&builder, stream, peer, router, watcher).await,
                Some(tls) => {
                    if let Some(stream) = shake_hands(tls, stream, stopped).await {
                        converse(&builder, stream, peer, router, watcher).await;
                    }
                }
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(CLOSE_WAIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not close in time");
    }
}

/// Makes the TLS handshake of a connection and returns the TLS stream. `None`: the handshake failed, timed out, or the
/// node stops.
async fn shake_hands(
    tls: TlsAcceptor,
    stream: TcpStream,
    mut stopped: watch::Receiver<bool>,
) -> Option<TlsStream<TcpStream>> {
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    tokio::select! {
        stream = handshake => stream.ok()?.inspect_err(|error| tracing::debug!(%error, "no TLS handshake")).ok(),
        _ = stopped.wait_for(|stop| *stop) => None,
    }
}

/// Refuses a request without a valid `Host` as the HTTP library refuses what is not HTTP: without a body, and with the end
/// of the connection.
async fn with_host(request: Request, next: Next) -> Response {
    if host::is_named_once(&request) {
        return next.run(request).await;
    }
    (StatusCode::BAD_REQUEST, [(header::CONNECTION, "close")]).into_response()
}

/// Serves one connection until it closes.
async fn converse(
    builder: &http1::Builder,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    watcher: Watcher,
) {
    let service = router.map_request(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.map(Lingering::new)
    });
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // an error here only means that the peer broke the connection
    let _ = watcher.watch(connection).await;
}
