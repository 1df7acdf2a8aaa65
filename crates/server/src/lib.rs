//! The server of mnemon: one process that serves a database over HTTP and MCP to many clients.
//!
//! It uses the public API of the library alone. A request passes `guard`, which knows who asks and what they may do, and
//! then one of the surfaces: `v1`, the project's own routes, `mem0`, those of mem0's client, or `mcp`, the Model Context
//! Protocol, over HTTP and over a Unix socket. The command line is the command's, `mnemon serve`: it makes [`Settings`].
//!
//! - A request reaches only namespaces under the prefix of its token. Any other namespace does not exist for it.
//! - What was acknowledged is durable: an answer is sent after the commit.
//! - Memory is bounded, whatever clients do: connections, requests at a time, bodies, filters and times have limits.
//! - `/health` is answered and a signal is obeyed, whatever clients do: work that takes long runs where others do not wait for it.
//! - Logs have no content of memories and no tokens.

#![forbid(unsafe_code)]

mod app;
mod bounds;
mod caller;
mod crowd;
mod cursor;
mod entity;
mod guard;
mod idempotency;
pub mod json_rpc;
mod listen;
mod mcp;
mod mem0;
mod metrics;
mod openapi;
mod origin;
mod page;
mod problem;
mod route;
mod routes;
mod settings;
#[cfg(unix)]
pub mod socket;
#[cfg(not(unix))]
#[path = "socket_elsewhere.rs"]
mod socket;
mod telemetry;
mod tokens;
mod v1;

use std::{fmt, path::Path, sync::Arc, thread, time::Duration};

use anyhow::Context;
use mnemon::Engine;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::{app::App, listen::Listener, telemetry::Telemetry, tokens::Tokens};
pub use self::{
    caller::Right,
    settings::{Limits, Notice, Settings},
    tokens::NewToken,
};

/// The time that requests have to finish after a signal, before their connections are closed.
const GRACE: Duration = Duration::from_secs(8);
/// The time that the engine has then to end what it does for them.
const CLOSING: Duration = Duration::from_millis(1500);

/// A server whose settings are read and valid.
pub struct Server {
    settings: Settings,
    tokens: Option<Tokens>,
    tls: Option<TlsAcceptor>,
    telemetry: Telemetry,
    notify: fn(&Notice),
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Server {
    /// Reads the tokens and the certificate, and starts the log. `notify` is told what the operator should know.
    ///
    /// # Errors
    /// A file cannot be read or is not valid.
    pub fn new(settings: Settings, notify: fn(&Notice)) -> anyhow::Result<Self> {
        let tokens = settings.tokens.as_deref().map(|file| Tokens::read(file, settings.limits.rate)).transpose()?;
        let tls = settings.tls.as_ref().map(|(certificate, key)| listen::tls(certificate, key)).transpose()?;
        let telemetry = telemetry::start(settings.json_log, notify)?;
        Ok(Server { settings, tokens, tls, telemetry, notify })
    }

    /// Serves the engine of this database until SIGTERM, SIGINT or the idle time ends the server. It finishes the requests
    /// that it took, and closes the database.
    ///
    /// # Errors
    /// The server cannot listen, or start its threads.
    pub fn run(self, engine: Engine, db: &Path) -> anyhow::Result<()> {
        let Server { settings, tokens, tls, telemetry, notify } = self;
        let runtime = runtime().context("starting the threads of the server")?;
        let served = runtime.block_on(serve(engine.clone(), db, &settings, tokens, tls, notify));
        // Connections that are still open end here. What they had asked the engine for is finished before its last handle is
        // dropped.
        runtime.shutdown_timeout(Duration::from_millis(100));
        drop(engine);
        telemetry.end();
        served
    }
}

async fn serve(
    engine: Engine,
    db: &Path,
    settings: &Settings,
    tokens: Option<Tokens>,
    tls: Option<TlsAcceptor>,
    notify: fn(&Notice),
) -> anyhow::Result<()> {
    let listener = match settings.listen {
        None => None,
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            Some(bound.with_context(|| format!("listening on {address}"))?)
        }
    };
    let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let app = Arc::new(App::new(engine, db, tokens, address, settings));
    let stop = CancellationToken::new();
    // Over TCP the server does without its socket, which `mnemon mcp` alone needs.
    let (socket, no_socket) = match socket::bind(db) {
        Ok(socket) => (socket, None),
        Err(error) if address.is_some() => (None, Some(error)),
        Err(error) => return Err(error),
    };
    listen::end_at_signal(stop.clone(), GRACE + CLOSING)?;
    if let Some(address) = address {
        let scheme = if tls.is_some() { "https" } else { "http" };
        notify(&Notice::Listening(format!("{scheme}://{address}")));
    }
    if let Some(error) = no_socket {
        notify(&Notice::Warning(format!(
            "there is no socket for `mnemon mcp`, which cannot find this server: {error:#}"
        )));
    }
    if let Some(time) = settings.idle {
        let (app, stop) = (Arc::clone(&app), stop.clone());
        tokio::spawn(async move {
            app.idle(time).await;
            tracing::info!("the server ends: nobody is connected");
            stop.cancel();
        });
    }
    let http = listener.map(|listener| Listener { app: Arc::clone(&app), listener, tls }.run(stop.clone()));
    let http = tokio::spawn(async move {
        if let Some(http) = http {
            http.await;
        }
    });
    let mcp = tokio::spawn(mcp::serve_socket(Arc::clone(&app), socket, stop.clone()));
    stop.cancelled().await;
    let _ = tokio::time::timeout(GRACE, async { tokio::join!(http, mcp) }).await;
    Ok(())
}

/// Twice as many threads as processors: half of them may be in a recall, see [`App::recall`], and the others serve.
fn runtime() -> std::io::Result<Runtime> {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}
