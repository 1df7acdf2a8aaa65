//! Documents: JSON values under keys.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{Method, StatusCode},
};
use mnemon::{Document, DocumentOptions, DocumentSearch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    super::{app::App, bounds::BoundedFilter, caller::Right, cursor::MAX_LIMIT, problem::Problem, route::Route},
    place::Place,
    schema::AnyObject,
};

pub(super) fn routes() -> Vec<Route> {
    const ONE: &str = "/namespaces/{namespace}/documents/{key}";
    vec![
        Route::new(Method::PUT, ONE, Right::Write, "Stores a JSON value under a key, and indexes its texts.", put)
            .body::<Put>(),
        Route::new(Method::GET, ONE, Right::Read, "Returns a document.", get).answer::<AnyObject>(),
        Route::new(Method::DELETE, ONE, Right::Forget, "Deletes a document.", delete),
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/documents/search",
            Right::Read,
            "Finds documents by a query, best first, or lists them, the last put first.",
            search,
        )
        .body::<Search>()
        .answer::<Found>(),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Put {
    /// The value: any JSON.
    value: Value,
    /// The paths to the texts to index, up to 32. `[]`: none. Default: `["$"]`, the whole value.
    index: Option<Vec<String>>,
    /// Minutes after which the document expires.
    ttl_minutes: Option<f64>,
}

async fn put(
    State(app): State<Arc<App>>,
    Place(namespace): Place,
    Path((_, key)): Path<(String, String)>,
    Json(put): Json<Put>,
) -> Result<StatusCode, Problem> {
    let options = options(put.index, put.ttl_minutes);
    app.engine.documents(&namespace).put(key, put.value, options).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(in super::super) fn options(index: Option<Vec<String>>, ttl_minutes: Option<f64>) -> DocumentOptions {
    let mut options = DocumentOptions::default();
    if let Some(index) = index {
        options = options.index(index);
    }
    if let Some(minutes) = ttl_minutes {
        options = options.ttl_minutes(minutes);
    }
    options
}

fn no_document() -> Problem {
    Problem::not_found("there is no such document")
}

async fn get(
    State(app): State<Arc<App>>,
    Place(namespace): Place,
    Path((_, key)): Path<(String, String)>,
) -> Result<Json<Document>, Problem> {
    app.engine.documents(&namespace).get(&key).await?.map(Json).ok_or_else(no_document)
}

async fn delete(
    State(app): State<Arc<App>>,
    Place(namespace): Place,
    Path((_, key)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    match app.engine.documents(&namespace).delete(&key).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_document()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// The question. Default: none, all documents.
    query: Option<String>,
    /// A filter on the values, with at most 1,000 conditions, and 10,000 values in its lists.
    #[schemars(with = "Option<Value>")]
    filter: Option<BoundedFilter>,
    /// Search the namespaces below this one too.
    #[serde(default)]
    below: bool,
    /// Up to 1000. Default: 10.
    limit: Option<usize>,
    /// Documents to leave out at the beginning.
    #[serde(default)]
    offset: usize,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    #[schemars(with = "Vec<Value>")]
    documents: Vec<Document>,
}

async fn search(
    State(app): State<Arc<App>>,
    Place(namespace): Place,
    Json(input): Json<Search>,
) -> Result<Json<Found>, Problem> {
    let mut search = DocumentSearch::default().below(input.below).offset(input.offset);
    let cost = input.filter.as_ref().map(|filter| filter.cost).unwrap_or_default();
    let _place = cost.is_heavy().then(|| app.slow_place()).transpose()?;
    if let Some(limit) = input.limit {
        if limit > MAX_LIMIT {
            return Err(Problem::bad_request(format!("limit is above {MAX_LIMIT}")));
        }
        search = search.limit(limit);
    }
    if let Some(query) = input.query {
        search = search.query(query);
    }
    if let Some(BoundedFilter { filter, .. }) = input.filter {
        search = search.filter(filter);
    }
    Ok(Json(Found { documents: app.engine.documents(&namespace).search(search).await? }))
}
