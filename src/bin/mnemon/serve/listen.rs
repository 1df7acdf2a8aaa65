//! Accepting connections, and the limits of each.
//!
//! The loop is our own because `axum::serve` has no limit of connections, of the time of a head, and of the time that a
//! client takes to read.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{app::App, routes};

/// The time that a client has for the head of a request, and that a connection may be idle.
const HEAD: Duration = Duration::from_secs(20);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time that a client may read nothing of what was sent to it.
const STALLED: Duration = Duration::from_secs(30);
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The wait after an error of accepting, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Listener {
    pub(super) app: Arc<App>,
    pub(super) listener: TcpListener,
    pub(super) tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Serves connections until it is stopped, and then the requests that have begun.
    pub(super) async fn run(self, stop: CancellationToken) {
        let router = routes::router(&self.app);
        let free = Arc::new(Semaphore::new(self.app.limits.max_connections));
        let connections = TaskTracker::new();
        loop {
            let accepted = async {
                let place = Arc::clone(&free).acquire_owned().await.expect("the semaphore is never closed");
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                () = stop.cancelled() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (router, tls, stop) = (router.clone(), self.tls.clone(), stop.clone());
            let connected = self.app.connected();
            connections.spawn(async move {
                let _open = (place, connected);
                match tls {
                    None => serve(stream, router, stop).await,
                    Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => serve(stream, router, stop).await,
                        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    },
                }
            });
        }
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: axum::Router,
    stop: CancellationToken,
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(STALLED));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD_BYTES);
    let connection = protocol.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Cancels the token when a signal comes, or when nobody was connected for the given time.
pub(super) async fn ended(app: Arc<App>, idle: Option<Duration>, stop: CancellationToken) {
    let idle = async {
        match idle {
            Some(time) => app.idle(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = signalled() => tracing::info!("a signal ends the server"),
        () = idle => tracing::info!("the server ends: nobody is connected"),
    }
    stop.cancel();
}

#[cfg(unix)]
async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match (terminate, interrupt) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn signalled() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Reads a certificate chain and its key.
pub(super) fn tls(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| anyhow!("{}: {error}", certificate.display()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| anyhow!("{}: {error}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{}: the certificate and the key do not match", certificate.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
