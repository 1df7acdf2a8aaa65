//! The project's own routes, under `/v1`. Each file has those of one kind of thing, and begins with their table: method,
//! path, the right that a caller needs, and the shapes of query, body and answer. `route` explains a row of it, and
//! `schema` has the shapes of the library's types.

mod batch;
mod database;
mod documents;
mod formation;
mod import;
mod map;
mod memory_tool;
mod messages;
mod namespaces;
mod recall;
mod route;
mod schema;
mod sessions;

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::header, response::IntoResponse};
use serde_json::{Value, json};

pub(crate) use self::{
    documents::options as document_options,
    memory_tool::run as run_memory_tool,
    namespaces::ForgetRequest,
    recall::explain,
    route::{Route, SchemaOf},
    schema::path_schema,
    sessions::{matching, page_of, prompt_for},
};
use crate::{
    access::{CallerExtension, Right},
    app::App,
    problem::Problem,
};

/// The table of all routes.
pub(crate) fn routes() -> Vec<Route> {
    [
        namespaces::routes(),
        messages::routes(),
        import::routes(),
        sessions::routes(),
        messages::block_routes(),
        formation::routes(),
        recall::routes(),
        map::routes(),
        documents::routes(),
        batch::routes(),
        memory_tool::routes(),
        namespaces::forget_routes(),
        database::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Answers 200, and how clients of the socket find out which server it is that runs already.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Json<Value> {
    let removes_secrets = app.secrets.is_some();
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION"), "removes_secrets": removes_secrets }))
}

/// Answers 200 while the database can be read.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    app.engine.check_file()?;
    app.engine.namespaces(None, None, 1).await?;
    let mut ready = json!({ "status": "ready" });
    if let Some(model) = app.formation.model() {
        ready["language_model"] = json!(model);
    }
    Ok(Json(ready))
}

pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
) -> Result<impl IntoResponse, Problem> {
    caller.require(Right::Admin)?;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media_type)], app.metrics.text(&app.engine).await?))
}
