//! Documents: JSON values under keys.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{Method, StatusCode},
};
use mnemon::{Collection, Document, DocumentOptions, DocumentSearch, MAX_QUERY_BYTES, Namespace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    route::{PathNamespace, Route},
    schema::{FilterSchema, PathSchema},
};
use crate::{
    access::{CallerExtension, Right},
    app::App,
    bounds::{BoundedFilter, MAX_LIMIT},
    problem::Problem,
};

pub(super) fn routes() -> Vec<Route> {
    const ONE: &str = "/namespaces/{namespace}/documents/{key}";
    // A document may have the key `search`. A search is a POST, which no document has, so both have their route.
    const ALL: &str = "/namespaces/{namespace}/documents/search";
    vec![
        Route::new(Method::PUT, ONE, Right::Write, "Stores a JSON value under a key, and indexes its texts.", put)
            .also_at(ALL)
            .body::<Put>(),
        Route::new(Method::GET, ONE, Right::Read, "Returns a document.", get).also_at(ALL).answer::<Document>(),
        Route::new(Method::DELETE, ONE, Right::Forget, "Deletes a document.", delete).also_at(ALL),
        Route::new(
            Method::POST,
            ALL,
            Right::Read,
            "Finds documents by a query, best first, or lists them, the last put first.",
            search,
        )
        .body::<Search>()
        .answer::<Found>(),
    ]
}

/// The document that a path names. The path of a search has no parameter for the key.
#[derive(Deserialize)]
struct Named {
    #[serde(default = "key_of_search")]
    key: String,
}

fn key_of_search() -> String {
    "search".to_owned()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DocumentPut")]
struct Put {
    /// The value: any JSON but null, up to 1 MiB.
    #[schemars(extend("type" = ["object", "array", "string", "number", "boolean"]))]
    value: Value,
    /// The paths to the texts to index. `[]`: none. Default: `["$"]`, the whole value.
    #[schemars(with = "Option<Vec<PathSchema>>", length(max = 32))]
    index: Option<Vec<String>>,
    /// Minutes after which the document expires: a millisecond to a thousand years. Default: never.
    #[schemars(range(min = 1.0 / 60_000.0, max = 525_960_000.0))]
    ttl_minutes: Option<f64>,
}

async fn put(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path(Named { key }): Path<Named>,
    Json(put): Json<Put>,
) -> Result<StatusCode, Problem> {
    let options = options(put.index, put.ttl_minutes);
    app.engine.documents(&namespace).put(key, put.value, options).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) fn options(index: Option<Vec<String>>, ttl_minutes: Option<f64>) -> DocumentOptions {
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
    PathNamespace(namespace): PathNamespace,
    Path(Named { key }): Path<Named>,
) -> Result<Json<Document>, Problem> {
    app.engine.documents(&namespace).get(&key).await?.map(Json).ok_or_else(no_document)
}

async fn delete(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path(Named { key }): Path<Named>,
) -> Result<StatusCode, Problem> {
    match app.engine.documents(&namespace).delete(&key).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_document()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DocumentSearch")]
struct Search {
    /// The question, up to 1 MiB. Default: none, all documents.
    #[schemars(length(max = MAX_QUERY_BYTES))]
    query: Option<String>,
    /// A filter on the values.
    #[schemars(with = "Option<FilterSchema>")]
    filter: Option<BoundedFilter>,
    /// Search the namespaces below this one too.
    #[serde(default)]
    below: bool,
    /// Up to 1000. Default: 10.
    #[schemars(range(max = MAX_LIMIT))]
    limit: Option<usize>,
    /// Return with each document its `sources`: the ids of the messages that a language model made it of, as far as they are
    /// in its namespace or in those above it. They are known of the items of collections.
    #[serde(default)]
    sources: bool,
    /// Documents to leave out at the beginning. With a query, `offset` and `limit` are 10,000 together at most.
    #[serde(default)]
    offset: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FoundDocuments")]
struct Found {
    documents: Vec<FoundDocument>,
}

#[derive(Serialize, JsonSchema)]
struct FoundDocument {
    #[serde(flatten)]
    document: Document,
    /// With `sources` in the search, the ids of the messages of which a language model made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<String>>,
}

async fn search(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    PathNamespace(namespace): PathNamespace,
    Json(input): Json<Search>,
) -> Result<Json<Found>, Problem> {
    let mut search = DocumentSearch::default().below(input.below).offset(input.offset);
    if let Some(limit) = input.limit {
        if limit > MAX_LIMIT {
            return Err(Problem::bad_request(format!("limit is above {MAX_LIMIT}")));
        }
        search = search.limit(limit);
    }
    if let Some(query) = input.query {
        search = search.query(query);
    }
    let found = app.search_documents(&namespace, search, input.filter).await?;
    let mut sources = HashMap::new();
    if input.sources {
        let _place = app.slow_place()?;
        let mut keys: BTreeMap<&Namespace, Vec<String>> = BTreeMap::new();
        for document in &found {
            keys.entry(&document.namespace).or_default().push(document.key.clone());
        }
        for (items, keys) in keys {
            let ends = items.as_str().match_indices('/').map(|(end, _)| end).chain([items.as_str().len()]);
            let above = ends.filter_map(|end| items.as_str()[..end].parse().ok());
            let above: Vec<Namespace> = above.filter(|namespace| caller.sees(namespace)).collect();
            let made_of = Collection::new(&app.engine, items).sources(&keys, &above).await?;
            sources.extend(keys.into_iter().map(|key| (items.clone(), key)).zip(made_of));
        }
    }
    let found = found.into_iter().map(|document| FoundDocument {
        sources: sources.remove(&(document.namespace.clone(), document.key.clone())),
        document,
    });
    Ok(Json(Found { documents: found.collect() }))
}
