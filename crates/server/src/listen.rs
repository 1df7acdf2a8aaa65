//! Accepting connections, and the limits of each.
//!
//! The loop is our own because `axum::serve` does not limit the number of connections, the time for the head of a request,
//! and the time in which a client reads its answer.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow};
use axum::Router;
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
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
use tower::ServiceExt;

use crate::{
    app::{App, Crowd, Place},
    sent::Connection,
};

/// The time that a client has for the head of a request, which includes the time that its connection is idle.
const HEAD: Duration = Duration::from_secs(20);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time for which a client may read nothing of its answer.
const STALLED: Duration = Duration::from_secs(30);
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The pause after a connection could not be accepted, as with too many open files.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// Files that the engine, clients of the Unix socket and the language model may need beside those that are open at the start.
#[cfg(unix)]
const RESERVED: usize = 16;

pub(crate) struct Listener {
    pub(crate) app: Arc<App>,
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
}

impl Listener {
    /// Serves connections until `stop`, and then finishes the requests that have begun.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let free = Arc::new(Semaphore::new(self.app.limits.max_connections.min(openable())));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    self.app.idle_connections.oust_oldest();
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            if free.available_permits() == 0 {
                self.app.idle_connections.oust_oldest();
            }
            let place = tokio::select! {
                place = Arc::clone(&free).acquire_owned() => place.expect("the semaphore is never closed"),
                () = stop.cancelled() => break,
            };
            let (router, tls, stop) = (self.router.clone(), self.tls.clone(), stop.clone());
            let connected = self.app.connected();
            let idle = Idle::new(&self.app.idle_connections);
            connections.spawn(async move {
                let _open = (place, connected);
                let ousted = idle.ousted.clone();
                let served = async {
                    match tls {
                        None => serve(stream, router, stop, Some(idle)).await,
                        Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                            Ok(Ok(stream)) => serve(stream, router, stop, Some(idle)).await,
                            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                            Err(_) => tracing::debug!("a TLS handshake took too long"),
                        },
                    }
                };
                tokio::select! {
                    () = served => {}
                    () = ousted.cancelled() => tracing::debug!("a connection made room for another"),
                }
            });
        }
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }
}

/// Returns how many connections the process may open beside the files that it has open and a reserve for others.
#[cfg(unix)]
fn openable() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let open = std::fs::read_dir("/dev/fd").map_or(RESERVED, Iterator::count);
    let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    most.saturating_sub(open + RESERVED).max(1)
}

#[cfg(not(unix))]
fn openable() -> usize {
    usize::MAX
}

/// A connection, with its place in the crowd of those that are waited for while it has no request.
pub(crate) struct Idle {
    crowd: Arc<Crowd>,
    ousted: CancellationToken,
    place: Mutex<Option<Place>>,
}

impl Idle {
    fn new(crowd: &Arc<Crowd>) -> Arc<Self> {
        let idle = Idle { crowd: Arc::clone(crowd), ousted: CancellationToken::new(), place: Mutex::default() };
        idle.begin();
        Arc::new(idle)
    }

    fn begin(&self) {
        self.set(Some(self.crowd.enter(self.ousted.clone())));
    }

    fn end(&self) {
        self.set(None);
    }

    fn set(&self, place: Option<Place>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// Serves a connection until `stop`. `idle` is its place among those that may be closed for another.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    stop: CancellationToken,
    idle: Option<Arc<Idle>>,
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(STALLED));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD_BYTES);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let (router, idle) = (router.clone(), idle.clone());
        if let Some(idle) = &idle {
            request.extensions_mut().insert(Connection(idle.ousted.clone()));
        }
        async move {
            idle.iter().for_each(|idle| idle.end());
            let answered = router.oneshot(request).await;
            // An answer without a known size is made while it is read, as the progress of a reindex is: not interrupted.
            if answered.as_ref().is_ok_and(|answer| answer.body().size_hint().exact().is_some()) {
                idle.iter().for_each(|idle| idle.begin());
            }
            answered
        }
    });
    let connection = protocol.serve_connection(TokioIo::new(Box::pin(stream)), service);
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

/// Cancels the token when a signal comes, SIGHUP only if it is one of them, and ends the process after `at_most` if it has not ended by then.
///
/// The wait is on a thread of its own, so that no work of the server can delay it. A process that is ended loses nothing
/// that it acknowledged. When this function returns, the signals are caught.
pub(crate) fn end_at_signal(stop: CancellationToken, with_hang_up: bool, at_most: Duration) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (caught, is_caught) = mpsc::sync_channel(1);
    let wait = move || {
        runtime.block_on(async {
            let signals = Signals::catch(with_hang_up);
            let _ = caught.send(signals.is_ok());
            match signals {
                Ok(signals) => signals.received().await,
                Err(error) => {
                    tracing::warn!(%error, "signals are not caught, so they end the server at once");
                    std::future::pending().await
                }
            }
        });
        tracing::info!("a signal ends the server");
        stop.cancel();
        thread::sleep(at_most);
        tracing::warn!("the server ends although requests are running");
        std::process::exit(0)
    };
    thread::Builder::new().name("mnemon-signals".to_owned()).spawn(wait)?;
    let _ = is_caught.recv();
    Ok(())
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// `None`: the server is to outlive its terminal.
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn catch(with_hang_up: bool) -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: with_hang_up.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    async fn received(self) {
        let Signals { mut terminate, mut interrupt, mut hang_up } = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            Some(()) = async { hang_up.as_mut()?.recv().await } => {}
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn catch(_: bool) -> std::io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Signals)
    }

    async fn received(mut self) {
        self.0.recv().await;
    }
}

/// Reads a certificate chain and its key.
pub(crate) fn tls(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
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
