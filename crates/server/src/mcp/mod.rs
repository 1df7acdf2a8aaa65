//! The Model Context Protocol: over streamable HTTP at `/mcp`, and over the Unix socket, which `mnemon mcp` connects to its
//! client's stdio. The protocol is rmcp's; a handler of ours says what the server has.

mod answer;
mod context;
mod documents;
#[cfg(debug_assertions)]
mod fixture;
mod forget;
mod handler;
mod input;
mod memories;
mod prompts;
mod resources;
mod tools;
mod transport;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{Method, Response, StatusCode},
    middleware::{self, Next},
    response::IntoResponse,
};
#[cfg(unix)]
use futures_util::StreamExt;
use rmcp::{
    ServiceExt,
    transport::streamable_http_server::{StreamableHttpServerConfig, session::never::NeverSessionManager},
};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
#[cfg(unix)]
use tokio_util::{
    io::{ReaderStream, StreamReader},
    task::TaskTracker,
};

pub(super) use self::handler::Handler;
use super::{app::App, guard, json_rpc, problem::Problem, socket::Socket};

/// The route of MCP over HTTP: without sessions of the protocol, so that a client may go on after the server was started anew.
pub(super) fn http(app: &Arc<App>) -> Router<Arc<App>> {
    let config = StreamableHttpServerConfig::default()
        // The guard has checked the host, and the origin against it.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(app.limits.max_body);
    #[cfg(debug_assertions)]
    if app.serves_fixture {
        return fixture::http(config);
    }
    let config = config.with_legacy_session_mode(false).with_json_response(true);
    let limit = middleware::from_fn_with_state(Arc::clone(app), guard::within_time);
    let place = middleware::from_fn_with_state(Arc::clone(app), guard::in_fast_place);
    transport::route(Handler::new(Arc::clone(app)), Arc::new(NeverSessionManager::default()), config)
        .layer(middleware::from_fn(answered))
        .layer(limit)
        .layer(place)
}

/// Answers a body that is no message of the protocol.
async fn answered(request: Request, next: Next) -> Result<Response<Body>, Problem> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(|error| Problem::bad_request(error.to_string()))?;
    match json_rpc::message(&body) {
        Ok(_) => Ok(next.run(Request::from_parts(head, Body::from(body))).await),
        Err(error) => Ok((StatusCode::BAD_REQUEST, Json(error)).into_response()),
    }
}

/// Serves the clients of the Unix socket until the server stops, and then the calls that have begun.
#[cfg(unix)]
pub(super) async fn serve_socket(app: Arc<App>, socket: Option<Socket>, stop: CancellationToken) {
    let Some(socket) = socket else { return };
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        if let Ok((stream, _)) = accepted {
            connections.spawn(serve_client(Arc::clone(&app), stream, stop.clone()));
        }
    }
    drop(socket);
    connections.close();
    connections.wait().await;
}

/// Serves a client until it goes, or the server stops: then nothing more is read of it, and what was read is answered.
#[cfg(unix)]
async fn serve_client(app: Arc<App>, stream: UnixStream, stop: CancellationToken) {
    let _open = app.connected();
    let (reader, writer) = stream.into_split();
    let reader = StreamReader::new(Box::pin(ReaderStream::new(reader).take_until(stop.cancelled_owned())));
    // A client that goes away before it has introduced itself is none of our business.
    let Ok(service) = Handler::new(app).serve((reader, writer)).await else { return };
    let _ = service.waiting().await;
}

#[cfg(not(unix))]
pub(super) async fn serve_socket(_: Arc<App>, _: Option<Socket>, _: CancellationToken) {}
