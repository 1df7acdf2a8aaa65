//! The route of a handler over streamable HTTP.

use std::sync::Arc;

use axum::Router;
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{SessionManager, StreamableHttpServerConfig, StreamableHttpService},
};

use super::super::app::App;

pub(super) fn route(
    handler: impl ServerHandler + Clone,
    sessions: Arc<impl SessionManager>,
    config: StreamableHttpServerConfig,
) -> Router<Arc<App>> {
    Router::new().nest_service("/mcp", StreamableHttpService::new(move || Ok(handler.clone()), sessions, config))
}
