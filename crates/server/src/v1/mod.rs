//! The project's own routes. A file for each kind of thing; the table of each says what its routes need.

mod blocks;
mod database;
mod documents;
mod forget;
mod map;
mod messages;
mod namespaces;
mod place;
mod recall;
mod schema;
mod sessions;

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::header, response::IntoResponse};
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use self::schema::{IdSchema, KeySchema, NamespaceSchema};
pub(super) use self::{
    documents::options as document_options,
    forget::What,
    recall::explain,
    sessions::{matching, page_of, prompt_for},
};
use super::{
    app::App,
    caller::Right,
    problem::Problem,
    route::{Asker, Route, SchemaOf},
};

pub(super) fn routes() -> Vec<Route> {
    [
        namespaces::routes(),
        messages::routes(),
        sessions::routes(),
        blocks::routes(),
        recall::routes(),
        map::routes(),
        documents::routes(),
        forget::routes(),
        database::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The schema of a parameter in the paths of the routes.
pub(super) fn path_schema(name: &str) -> SchemaOf {
    match name {
        "namespace" => SchemaGenerator::subschema_for::<NamespaceSchema>,
        "key" => SchemaGenerator::subschema_for::<KeySchema>,
        _ => SchemaGenerator::subschema_for::<IdSchema>,
    }
}

pub(super) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// The server is ready while the file can be read.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    app.engine.namespaces(None, None, 1).await?;
    Ok(Json(json!({ "status": "ready" })))
}

/// Metrics are of the whole database.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
) -> Result<impl IntoResponse, Problem> {
    caller.require(Right::Admin)?;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media_type)], app.metrics.text(&app.engine).await?))
}
