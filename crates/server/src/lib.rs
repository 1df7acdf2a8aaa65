//! The server of mnemon: one process that serves a database over HTTP and MCP to many clients.
//!
//! It uses the public API of the library alone. The command `mnemon serve` makes [`Settings`] from its arguments, and runs
//! a [`Server`]. A request goes this way:
//!
//! 1. `listen` accepts the connection, bounds how many there are, and reads the head of the request. `socket` does so for
//!    clients of the Unix socket, who are the owner, and speak HTTP or MCP.
//! 2. `guard` checks the host, finds the caller of the token, and takes the request from its rate (`access`). It reads the
//!    body within its limits; a file, which may be larger, is read by its route.
//! 3. The route requires a right of the caller, and a place among the requests that run (`app`). A long request takes one
//!    of the places for those; any other has a limit of time. A change under `/v1` that was answered before gets the same
//!    answer, if it has the same `Idempotency-Key` (`idempotency`).
//! 4. One of the surfaces answers: `v1`, the project's own routes, which `openapi` describes; `mem0`, the routes of mem0's
//!    client; or `mcp`, the Model Context Protocol. They share the bounds of filters and pages (`bounds`), mem0's names for
//!    whose a memory is (`entity`), and errors (`problem`).
//!
//! With a language model, `formation` gives sessions the memory blocks of their namespace, which ask it in the background.
//!
//! These hold throughout:
//!
//! - A request reaches only namespaces under the prefix of its token. Any other namespace does not exist for it.
//! - An answer is sent after the commit, so what was acknowledged is durable.
//! - Memory is bounded, whatever clients do: connections, requests at a time, bodies, filters and times have limits.
//! - `/health` is answered and a signal is obeyed, whatever clients do: no request waits for the long work of another.
//! - Logs have no content of memories and no tokens.

#![forbid(unsafe_code)]

mod access;
mod app;
mod bounds;
mod entity;
mod formation;
mod guard;
mod idempotency;
pub mod json_rpc;
mod listen;
mod mcp;
mod mem0;
mod openapi;
mod page;
mod problem;
mod secrets;
mod sent;
mod settings;
#[cfg(unix)]
pub mod socket;
mod telemetry;
mod v1;
mod waiting_batches;

use std::{any::Any, fmt, path::Path, sync::Arc, thread, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderName, HeaderValue, Method, header},
    middleware,
    routing::get,
};
use mnemon::Engine;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_http::{catch_panic::CatchPanicLayer, cors::CorsLayer};

use self::{
    access::Tokens,
    app::App,
    formation::Plan,
    listen::Listener,
    problem::Problem,
    socket::{ClaimError, Note, Socket},
    telemetry::Telemetry,
};
pub use self::{
    access::{NewToken, Right},
    settings::{Limits, Llm, Notice, Settings},
};

/// The time that requests have to finish after a signal. Then their connections are closed.
const GRACE: Duration = Duration::from_secs(8);
/// The time that the engine has after that to finish what those requests asked it for.
const CLOSING: Duration = Duration::from_millis(1500);

/// A server whose settings were read and are valid. It does not listen yet.
pub struct Server {
    settings: Settings,
    tokens: Option<Tokens>,
    plan: Plan,
    origins: Vec<HeaderValue>,
    tls: Option<TlsAcceptor>,
    telemetry: Telemetry,
    notify: fn(&Notice),
    /// Where clients of this machine find the server, if they can.
    note: Option<Arc<Note>>,
}

/// Reads the tokens and the configuration of `settings`, and says in words what they mean.
///
/// # Errors
/// A file cannot be read or is not valid.
pub fn check(settings: &Settings) -> anyhow::Result<String> {
    let tokens = settings.tokens.as_deref().map(|file| Tokens::read(file, settings.limits.rate)).transpose()?;
    let mut text = Plan::read(settings.llm.as_ref(), settings.config.as_deref())?.describe(settings.llm.as_ref());
    for limit in tokens.iter().flat_map(Tokens::daily_limits) {
        let subject = limit.prefix.map_or("in all namespaces".to_owned(), |prefix| format!("at and under {prefix:?}"));
        text += &format!("\nUp to {} tokens of the model a day (UTC) {subject}.", limit.tokens_per_day);
    }
    Ok(text)
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Server {
    /// Reads the tokens, the configuration and the certificate, and starts the log. The server calls `notify` with what its operator should
    /// know.
    ///
    /// # Errors
    /// A file cannot be read or is not valid.
    pub fn new(settings: Settings, notify: fn(&Notice)) -> anyhow::Result<Self> {
        let tokens = settings.tokens.as_deref().map(|file| Tokens::read(file, settings.limits.rate)).transpose()?;
        let plan = Plan::read(settings.llm.as_ref(), settings.config.as_deref())?;
        let origins = settings.origins.iter().map(|origin| access::origin(origin)).collect::<Result<_, _>>()?;
        let tls = settings.tls.as_ref().map(|(certificate, key)| listen::tls(certificate, key)).transpose()?;
        let telemetry = telemetry::start(settings.json_log, notify)?;
        Ok(Server { settings, tokens, plan, origins, tls, telemetry, notify, note: None })
    }

    /// Becomes the one server of a database on this machine, before the database is opened.
    ///
    /// # Errors
    /// Another server of the database runs; or clients of this machine could not find this one, and it has no others.
    pub fn claim(&mut self, db: &Path) -> anyhow::Result<()> {
        if cfg!(not(unix)) {
            return Ok(());
        }
        match Note::claim(db) {
            Ok(note) => self.note = Some(Arc::new(note)),
            Err(ClaimError::Failed(error)) if self.settings.listen.is_some() => warn_of_no_socket(self.notify, &error),
            Err(ClaimError::Taken(error) | ClaimError::Failed(error)) => return Err(error),
        }
        Ok(())
    }

    /// Serves the engine of the database at `db` until SIGTERM, SIGINT, SIGHUP or the idle time ends the server, or, if it
    /// does not listen on TCP, until the database's file is moved, removed or replaced. The server finishes the requests
    /// that it took, and drops the engine.
    ///
    /// # Errors
    /// The server cannot listen, or start its threads.
    pub fn run(self, engine: Engine, db: &Path) -> anyhow::Result<()> {
        let Server { settings, tokens, plan, origins, tls, telemetry, notify, note } = self;
        let runtime = runtime().context("starting the threads of the server")?;
        let served =
            runtime.block_on(serve(engine.clone(), db, &settings, (tokens, plan, origins), tls, note.as_ref(), notify));
        // Connections that are still open end here. The engine finishes what they asked it for before its last handle is
        // dropped.
        runtime.shutdown_timeout(Duration::from_millis(100));
        drop(engine);
        // Until now, whoever starts another server waits for the end of this one.
        drop(note);
        telemetry.end();
        served
    }
}

async fn serve(
    engine: Engine,
    db: &Path,
    settings: &Settings,
    (tokens, plan, origins): (Option<Tokens>, Plan, Vec<HeaderValue>),
    tls: Option<TlsAcceptor>,
    note: Option<&Arc<Note>>,
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
    let app = Arc::new(App::new(engine, db, tokens, plan, origins, address, settings));
    let stop = CancellationToken::new();
    // A server that listens on TCP goes on without its socket, which only `mnemon mcp` needs.
    let (socket, no_socket) = match note.map(Socket::bind).transpose() {
        Ok(socket) => (socket, None),
        Err(error) if address.is_some() => (None, Some(error)),
        Err(error) => return Err(error),
    };
    listen::end_at_signal(stop.clone(), settings.ends_at_hang_up, GRACE + CLOSING)?;
    if let Some(address) = address {
        let scheme = if tls.is_some() { "https" } else { "http" };
        notify(&Notice::Listening(format!("{scheme}://{address}")));
    }
    if let Some(error) = no_socket {
        warn_of_no_socket(notify, &error);
    }
    if let Some(time) = settings.idle {
        let (app, stop) = (Arc::clone(&app), stop.clone());
        tokio::spawn(async move {
            app.idle(time).await;
            tracing::info!("the server ends: nobody is connected");
            stop.cancel();
        });
    }
    tokio::spawn(waiting_batches::run(Arc::clone(&app)));
    let (surfaces, router) = (TaskTracker::new(), router(&app));
    if let Some(listener) = listener {
        let router = router.clone();
        surfaces.spawn(Listener { app: Arc::clone(&app), listener, tls, router }.run(stop.clone()));
    }
    if let Some(socket) = socket {
        let stop = stop.clone();
        surfaces.spawn(async move {
            if !socket.serve(app, router, stop.clone()).await && address.is_none() {
                stop.cancel();
            }
        });
    }
    stop.cancelled().await;
    surfaces.close();
    let _ = tokio::time::timeout(GRACE, surfaces.wait()).await;
    Ok(())
}

fn warn_of_no_socket(notify: fn(&Notice), error: &anyhow::Error) {
    notify(&Notice::Warning(format!(
        "there is no socket for `mnemon mcp` and `mnemon hook`, which cannot find this server: {error:#}"
    )));
}

/// Starts twice as many threads as there are processors: half of them may be in a recall, see [`App::recall`], and the
/// others serve.
fn runtime() -> std::io::Result<Runtime> {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

/// Returns the routes of all surfaces. `openapi` describes the same table of `/v1`.
///
/// Each `layer` and `route_layer` is around those that were added before it, so a request meets the last one first.
fn router(app: &Arc<App>) -> Router {
    let fast = middleware::from_fn_with_state(Arc::clone(app), guard::in_fast_place);
    let slow = middleware::from_fn_with_state(Arc::clone(app), guard::in_slow_place);
    let within_time = middleware::from_fn_with_state(Arc::clone(app), guard::within_time);
    let mut router = Router::new();
    for route in v1::routes() {
        let mut handler = route.handler;
        if route.keeps_answer {
            handler = handler.route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::keep_answer));
        }
        if route.query.is_none() {
            handler = handler.route_layer(middleware::from_fn(guard::without_query));
        }
        if route.body.is_none() {
            handler = handler.route_layer(middleware::from_fn(guard::without_body));
        }
        handler = match (route.takes_file, route.is_long) {
            // It has places of its own, because its client may be slow.
            (true, _) => handler,
            (_, true) => handler.route_layer(slow.clone()),
            (_, false) => handler.route_layer(within_time.clone()).route_layer(fast.clone()),
        };
        if let Some(right) = route.right {
            let require = move |request, next| guard::require(right, request, next);
            handler = handler.route_layer(middleware::from_fn(require));
        }
        for path in [Some(route.path), route.also_at].into_iter().flatten() {
            router = router.route(&format!("/v1{path}"), handler.clone());
        }
    }
    let of_the_server = Router::new()
        .route("/", get(page::served))
        .route("/v1/openapi.json", get(openapi::served))
        .route("/ready", get(v1::ready))
        .route("/metrics", get(v1::metrics))
        .route_layer(fast);
    let router = router
        .route("/health", get(v1::health))
        .merge(of_the_server)
        .merge(mcp::http(app))
        .merge(mem0::routes(app))
        .fallback(|| async { Problem::no_route() })
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::map_response(guard::as_problem))
        .layer(CatchPanicLayer::custom(|_: Box<dyn Any + Send + 'static>| guard::panicked()))
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard::guard))
        .with_state(Arc::clone(app));
    // Browsers ask what pages may send without a token, so this is before the guard.
    match app.hosts.origins.is_empty() {
        true => router,
        false => router.layer(cors(app.hosts.origins.clone())),
    }
}

/// Tells browsers what pages of these origins may send.
fn cors(origins: Vec<HeaderValue>) -> CorsLayer {
    let session = ["mcp-protocol-version", "mcp-session-id"].map(HeaderName::from_static);
    let own = [header::AUTHORIZATION, header::CONTENT_TYPE, HeaderName::from_static(idempotency::HEADER)];
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(own.into_iter().chain(session).collect::<Vec<_>>())
        .max_age(Duration::from_secs(600))
}

/// Systems without Unix sockets: nothing is bound, and `mnemon mcp` says so.
#[cfg(not(unix))]
mod socket {
    use std::{path::Path, sync::Arc};

    use axum::Router;
    use tokio_util::sync::CancellationToken;

    use crate::app::App;

    pub(crate) enum Note {}

    pub(crate) enum Socket {}

    pub(crate) enum ClaimError {
        Taken(anyhow::Error),
        Failed(anyhow::Error),
    }

    impl Note {
        pub(crate) fn claim(_: &Path) -> Result<Self, ClaimError> {
            Err(ClaimError::Failed(anyhow::anyhow!("this system has no Unix sockets")))
        }
    }

    impl Socket {
        pub(crate) fn bind(note: &Arc<Note>) -> anyhow::Result<Self> {
            match **note {}
        }

        pub(crate) async fn serve(self, _: Arc<App>, _: Router, _: CancellationToken) -> bool {
            match self {}
        }
    }
}
