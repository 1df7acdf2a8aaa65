//! Documents: JSON values under keys.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{Method, StatusCode},
    response::Response,
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

/// The most components of the vectors of one answer, which are about 12 bytes each.
const MAX_COMPONENTS: usize = 1 << 20;

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
    #[serde(flatten)]
    document: NewDocument,
    /// Embed all pending texts before the answer, so that this document is found by meaning, too. Default: false.
    #[serde(default)]
    flush: bool,
}

/// A document to store under a key.
#[derive(Deserialize, JsonSchema)]
pub(super) struct NewDocument {
    /// The value: any JSON but null, up to 1 MiB.
    #[schemars(extend("type" = ["object", "array", "string", "number", "boolean"]))]
    value: Value,
    /// The paths to the texts to index. `[]`: none. Default: `["$"]`, the whole value.
    #[schemars(with = "Option<Vec<PathSchema>>", length(max = 32))]
    index: Option<Vec<String>>,
    /// Minutes after which the document expires: a millisecond to a thousand years. Default: never.
    #[schemars(range(min = 1.0 / 60_000.0, max = 525_960_000.0))]
    ttl_minutes: Option<f64>,
    /// The vectors of the indexed texts that are not blank, one for each, in their order. Only in a database of given vectors,
    /// where the default is none: the texts are found by their words alone.
    vectors: Option<Vec<Vec<f32>>>,
}

impl NewDocument {
    pub(super) fn divide(self) -> (Value, DocumentOptions) {
        let options = options(self.index, self.ttl_minutes);
        (self.value, options.vectors(self.vectors.unwrap_or_default()))
    }
}

async fn put(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path(Named { key }): Path<Named>,
    Json(put): Json<Put>,
) -> Result<StatusCode, Problem> {
    let _flush = app.flush_place(put.flush)?;
    let (value, options) = put.document.divide();
    app.engine.documents(&namespace).put(key, value, options).await?;
    if put.flush {
        app.engine.flush().await?;
    }
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
) -> Result<Response, Problem> {
    let reader = app.reader();
    let document = reader.documents(&namespace).get(&key).await?.ok_or_else(no_document)?;
    app.json(reader, document).await
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

/// A search among the documents of a namespace.
#[derive(Deserialize, JsonSchema)]
pub(super) struct SearchFields {
    /// The question, up to 1 MiB. Default: none, all documents.
    #[schemars(length(max = MAX_QUERY_BYTES))]
    pub(super) query: Option<String>,
    /// The vector of the question, which is then not embedded. Without a question, documents are ranked by their cosines alone.
    vector: Option<Vec<f32>>,
    /// A filter on the values.
    #[schemars(with = "Option<FilterSchema>")]
    filter: Option<BoundedFilter>,
    /// Search the namespaces below this one too.
    #[serde(default)]
    below: bool,
    /// Up to 1000. Default: 10.
    #[schemars(range(max = MAX_LIMIT))]
    limit: Option<usize>,
    /// Documents to leave out at the beginning. With a query or a vector, `offset` and `limit` are 10,000 together at most.
    #[serde(default)]
    offset: usize,
}

impl SearchFields {
    /// Divides a search into that of the library and its filter.
    pub(super) fn divide(self) -> Result<(DocumentSearch, Option<BoundedFilter>), Problem> {
        let mut search = DocumentSearch::default().below(self.below).offset(self.offset);
        (search.query, search.vector) = (self.query, self.vector);
        if let Some(limit) = self.limit {
            if limit > MAX_LIMIT {
                return Err(Problem::bad_request(format!("limit is above {MAX_LIMIT}")));
            }
            search = search.limit(limit);
        }
        Ok((search, self.filter))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DocumentSearch")]
struct Search {
    #[serde(flatten)]
    search: SearchFields,
    /// Return with each document its `sources`: the ids of the messages that a language model made it of, as far as they are
    /// in its namespace or in those above it. They are known of the items of collections.
    #[serde(default)]
    sources: bool,
    /// Return with each document the stored `vectors` of its indexed texts, in any order; texts that are pending have none.
    #[serde(default)]
    vectors: bool,
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
    /// With `vectors` in the search, those of its indexed texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<Vec<Vec<f32>>>,
}

async fn search(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    PathNamespace(namespace): PathNamespace,
    Json(input): Json<Search>,
) -> Result<Response, Problem> {
    let (search, filter) = input.search.divide()?;
    let reader = app.reader();
    let found = app.search_documents(&reader, &namespace, search, filter).await?;
    let _place = (input.sources || input.vectors).then(|| app.slow_place()).transpose()?;
    let mut sources = HashMap::new();
    if input.sources {
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
    let (mut documents, mut components) = (Vec::with_capacity(found.len()), 0);
    for document in found {
        let sources = sources.remove(&(document.namespace.clone(), document.key.clone()));
        let mut vectors = None;
        if input.vectors {
            let read = app.engine.documents(&document.namespace).vectors(vec![document.key.clone()]).await?.pop();
            components += read.iter().flatten().map(Vec::len).sum::<usize>();
            if components > MAX_COMPONENTS {
                return Err(Problem::bad_request(format!(
                    "the vectors of these documents have more than {MAX_COMPONENTS} components; lower the limit"
                )));
            }
            vectors = read;
        }
        documents.push(FoundDocument { document, sources, vectors });
    }
    app.json(reader, Found { documents }).await
}
