//! `mnemon serve`: one process that serves a database to many clients.
//!
//! The server uses the public API of the library alone. A request passes `guard`, which knows who asks and what they may
//! do, and then one of the surfaces: `v1`, the project's own routes, `mem0`, those of mem0's client, or `mcp`, the Model
//! Context Protocol, over HTTP and over a Unix socket.
//!
//! - A request reaches only namespaces under the prefix of its token. Any other namespace does not exist for it.
//! - What was acknowledged is durable: an answer is sent after the commit.
//! - Memory is bounded, whatever clients do: connections, requests at a time, bodies, filters and times have limits.
//! - `/health` is answered and a signal is obeyed, whatever clients do: work that takes long runs where others do not wait for it.
//! - Logs have no content of memories and no tokens.

mod app;
mod bounds;
mod caller;
mod crowd;
mod cursor;
mod entity;
mod guard;
mod idempotency;
pub(crate) mod json_rpc;
mod limits;
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
#[cfg(unix)]
pub(crate) mod socket;
#[cfg(not(unix))]
#[path = "socket_elsewhere.rs"]
mod socket;
mod telemetry;
pub(crate) mod tokens;
mod v1;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, thread, time::Duration};

use anyhow::Context;
use mnemon::IndexKind;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use self::{app::App, limits::Limits, listen::Listener, tokens::Tokens};
use crate::{input, key, memory_options::MemoryOptions, output::Format, status::Status, stderr, usage};

/// The time that requests have to finish after a signal, before their connections are closed.
const GRACE: Duration = Duration::from_secs(8);
/// The time that the engine has then to end what it does for them.
const CLOSING: Duration = Duration::from_millis(1500);

/// Serve a database over HTTP and MCP until a signal stops it.
///
/// The server listens on loopback, without tokens, unless told otherwise: /v1 is documented at /v1/openapi.json, MCP is at
/// /mcp, and /health, /ready and /metrics say how it is. On Unix it also listens on a socket of its own, where `mnemon
/// mcp` finds it. SIGTERM and SIGINT let it finish what it took, and close the database.
///
/// Another address than a loopback one needs --tokens, because everyone who reaches it could read all memories. docs/server.md
/// has the routes, the file of tokens, and examples.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database. It is created if it is missing.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The model of a new database, a folder or a name. Default: that of the database, or else static-en-256.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The address and port to listen on. Port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411", conflicts_with = "private")]
    listen: SocketAddr,
    /// Listen on the Unix socket alone, for `mnemon mcp` of this user.
    #[arg(long)]
    private: bool,
    /// End after so many seconds without a connection. Default: never.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle: Option<u64>,
    /// The file of tokens, in TOML. With it every request needs a token. `mnemon token` makes one.
    #[arg(long, value_name = "FILE", conflicts_with = "private")]
    tokens: Option<PathBuf>,
    /// A name under which clients reach this server, beside its address and localhost; any number of times. Requests that
    /// name another host are refused, so that a page in a browser cannot reach the server by a name of its own.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The certificate chain, in PEM. With --tls-key, connections are encrypted.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    memory: MemoryOptions,
    /// Note recalls in the journal, which keeps the last N. `why` explains them.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = usage::within(0..=10_000_000))]
    journal: usize,
    /// Serve the fixture of MCP's conformance suite at /mcp instead of the memory. Only debug builds have this.
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    conformance_fixture: bool,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let tokens = args.tokens.as_deref().map(|file| Tokens::read(file, args.limits.rate)).transpose()?;
    if !args.private {
        usage::ensure(
            args.listen.ip().is_loopback() || tokens.is_some(),
            format!(
                "{} is not a loopback address: give --tokens, or whoever reaches it reads all memories",
                args.listen
            ),
        )?;
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(listen::tls(certificate, key)?),
        _ => None,
    };
    let telemetry = telemetry::start(format)?;
    let mut config = input::config(IndexKind::Auto);
    config.journal = args.journal;
    args.memory.set(&mut config);
    key::set(&mut config)?;
    let engine = input::engine(&args.db, args.model.as_deref(), config, true)?;

    let runtime = runtime().context("starting the threads of the server")?;
    let served = runtime.block_on(async {
        let listener = match args.private {
            true => None,
            false => {
                let bound = TcpListener::bind(args.listen).await;
                Some(bound.with_context(|| format!("listening on {}", args.listen))?)
            }
        };
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let app = App::new(engine.clone(), &args.db, tokens, address, &args.host, &args.limits);
        #[cfg(debug_assertions)]
        let app = app.with_fixture(args.conformance_fixture);
        let app = Arc::new(app);
        let stop = CancellationToken::new();
        // Over TCP the server does without its socket, which `mnemon mcp` alone needs.
        let (socket, no_socket) = match socket::bind(&args.db) {
            Ok(socket) => (socket, None),
            Err(error) if address.is_some() => (None, Some(error)),
            Err(error) => return Err(error),
        };
        listen::end_at_signal(stop.clone(), GRACE + CLOSING)?;
        if let Some(address) = address {
            let scheme = if tls.is_some() { "https" } else { "http" };
            stderr::print(
                &format!("listening on {scheme}://{address}"),
                || serde_json::json!({ "listening": format!("{scheme}://{address}") }),
            );
        }
        if let Some(error) = no_socket {
            let detail = format!("there is no socket for `mnemon mcp`, which cannot find this server: {error:#}");
            stderr::print(&format!("warning: {detail}"), || serde_json::json!({ "warning": detail }));
        }
        if let Some(seconds) = args.idle {
            let (app, stop) = (Arc::clone(&app), stop.clone());
            tokio::spawn(async move {
                app.idle(Duration::from_secs(seconds)).await;
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
        anyhow::Ok(())
    });
    // Connections that are still open end here. What they had asked the engine for is finished before its last handle is dropped.
    runtime.shutdown_timeout(Duration::from_millis(100));
    drop(engine);
    telemetry.end();
    served?;
    Ok(Status::SUCCESS)
}

/// Twice as many threads as processors: half of them may be in a recall, see [`App::recall`], and the others serve.
fn runtime() -> std::io::Result<Runtime> {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}
