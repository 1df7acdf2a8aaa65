//! Recall, and why a message was recalled.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::Method,
    response::Response,
};
use mnemon::{Engine, Hit, Hits, JournalEntry, MAX_QUERY_BYTES, Namespace, Query, Replay, Scope, recall::QueryOptions};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    route::{PathNamespace, Route},
    schema::FilterSchema,
};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    bounds::{BoundedFilter, Cost},
    problem::Problem,
};

/// Entries of the journal that are read at a time, each with a question of up to 1 MiB.
const PAGE: usize = 16;
/// The most entries of the journal that are read for one request.
const MAX_ENTRIES: usize = 20_000;
/// The most hits of one recall: fewer than the library allows, because each is sent with its whole message.
pub(super) const MAX_HITS: usize = 1000;
/// Namespaces whose recall takes about as long as others. One of more takes a place for slow requests.
const MAX_LIGHT: u64 = 1000;
/// The most candidates that a reranker orders, which takes it milliseconds for each.
const MAX_RERANKED: usize = 200;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/recall",
            Right::Read,
            "Finds the messages that answer a query.",
            recall,
        )
        .body::<Options>()
        .answer::<Answer>(),
        Route::new(
            Method::POST,
            "/recall",
            Right::Read,
            "Finds the messages of several namespaces that answer a query, as one ranking.",
            recall_in,
        )
        .body::<SeveralOptions>()
        .answer::<Answer>(),
        Route::new(
            Method::GET,
            "/namespaces/{namespace}/messages/{id}/why",
            Right::Read,
            "Returns the latest recall that found the message, and what the same query finds today.",
            why,
        )
        .answer::<WhyAnswer>(),
    ]
}

/// A query and its options, which are those of the library's `Query`.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RecallOptions", deny_unknown_fields, transform = as_read_here)]
struct Options {
    // First, because in the schema `filter` below replaces the library's.
    #[serde(flatten)]
    #[schemars(with = "QueryOptions")]
    options: Map<String, Value>,
    /// The question, up to 1 MiB.
    #[schemars(length(max = MAX_QUERY_BYTES), regex(pattern = r"\S"))]
    query: String,
    /// A filter on metadata and on `$id`, `$session`, `$role` and `$created_at`.
    #[schemars(with = "Option<FilterSchema>")]
    filter: Option<BoundedFilter>,
    /// Return the metadata of the messages. Default: true.
    metadata: Option<bool>,
    /// Milliseconds after which the search ends with what it has. Default and most: the time that a request may take.
    within_ms: Option<u64>,
}

/// Adapts the library's schema of the options: the server finds and reranks fewer hits, and takes null for an option that is
/// not given.
fn as_read_here(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    properties["k"]["maximum"] = MAX_HITS.into();
    properties["rerank"]["maximum"] = MAX_RERANKED.into();
    for (_, property) in properties.iter_mut().filter(|(name, _)| *name != "query") {
        let Some(property) = property.as_object_mut() else { continue };
        // An id may be given twice.
        property.remove("uniqueItems");
        if let Some(kind) = property.get_mut("type").filter(|kind| kind.is_string()) {
            *kind = json!([kind, "null"]);
        } else if let Some(reference) = property.remove("$ref") {
            property.insert("anyOf".to_owned(), json!([{ "$ref": reference }, { "type": "null" }]));
        }
    }
}

impl Options {
    /// Returns the query, which ends within the time that a request may take, and the cost of its filter.
    fn into_query(mut self, app: &App) -> Result<(Query, Cost), Problem> {
        self.options.retain(|_, value| !value.is_null());
        let mut options = QueryOptions::from_json(&self.options)?;
        if !(1..=MAX_HITS).contains(&options.k) {
            return Err(Problem::bad_request(format!("k is not within 1 to {MAX_HITS}")));
        }
        if let Some(candidates) = options.rerank {
            let reason = match (app.reranks, candidates) {
                (false, _) => {
                    Some("this server has no reranker; leave it out, or start the server with --rerank".to_owned())
                }
                (_, 1..=MAX_RERANKED) => None,
                _ => Some(format!("it is not within 1 to {MAX_RERANKED}")),
            };
            reason.map_or(Ok(()), |reason| Err(Problem::bad_request(format!("rerank: {reason}"))))?;
        }
        let (filter, cost) = BoundedFilter::divide(self.filter);
        options.filter = filter;
        let most = app.limits.request_timeout;
        let within = self.within_ms.map_or(most, |milliseconds| Duration::from_millis(milliseconds).min(most));
        let query = Query::with_options(self.query, options).within(within);
        Ok((if self.metadata == Some(false) { query.without_metadata() } else { query }, cost))
    }
}

/// The hits of a recall, best first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecallAnswer")]
struct Answer {
    hits: Vec<Hit>,
    /// The estimated probability that there is something about the query.
    answerability: f32,
    /// Messages that were searched by their words alone, because they are not embedded yet.
    pending: usize,
    /// Whether the time was over before the search was complete.
    cut_short: bool,
    /// Why the query was not embedded, so that words alone found the hits. Null if it was.
    not_embedded: Option<String>,
}

impl From<Hits> for Answer {
    fn from(hits: Hits) -> Self {
        let (answerability, pending, cut_short) = (hits.answerability(), hits.pending(), hits.cut_short());
        let not_embedded = hits.not_embedded().map(str::to_owned);
        Answer { hits: hits.into(), answerability, pending, cut_short, not_embedded }
    }
}

async fn recall(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Json(options): Json<Options>,
) -> Result<Response, Problem> {
    let ((query, cost), reader) = (options.into_query(&app)?, app.reader());
    let hits = app.recall(&reader, &namespace, query, cost).await?;
    app.json(reader, Answer::from(hits)).await
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RecallInOptions", deny_unknown_fields, transform = of_several)]
struct SeveralOptions {
    /// The namespaces. Name one at least, here or in `under`.
    #[serde(default)]
    #[schemars(with = "Vec<Namespace>")]
    namespaces: Vec<String>,
    /// Namespaces, each with all under it.
    #[serde(default)]
    #[schemars(with = "Vec<Namespace>")]
    under: Vec<String>,
    #[serde(flatten)]
    options: Options,
}

/// Leaves out the option that only one namespace can have: an id may be in several.
fn of_several(schema: &mut Schema) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("previous");
    }
}

async fn recall_in(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(input): Json<SeveralOptions>,
) -> Result<Response, Problem> {
    let mut namespaces = input.namespaces.len() as u64;
    for prefix in &input.under {
        namespaces += app.engine.count_namespaces(Some(&caller.namespace(prefix)?)).await?.namespaces;
    }
    let _place = (namespaces > MAX_LIGHT).then(|| app.slow_place()).transpose()?;
    let scope = scope(&caller, &input.namespaces, &input.under)?;
    let ((query, cost), reader) = (input.options.into_query(&app)?, app.reader());
    let hits = app.recall_in(&reader, scope, query, cost).await?;
    app.json(reader, Answer::from(hits)).await
}

fn scope(caller: &Caller, namespaces: &[String], under: &[String]) -> Result<Scope, Problem> {
    if namespaces.is_empty() && under.is_empty() {
        return Err(Problem::bad_request("name the namespaces to ask, in `namespaces` or `under`"));
    }
    let mut scope = Scope::new();
    for namespace in namespaces {
        scope = scope.namespace(&caller.namespace(namespace)?);
    }
    for prefix in under {
        scope = scope.under(&caller.namespace(prefix)?);
    }
    Ok(scope)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Why")]
pub(crate) struct WhyAnswer {
    /// The recall: its question, its options, and the ids and terms of its hits.
    entry: JournalEntry,
    /// What the same question finds today, and what changed.
    replay: Replay,
}

async fn why(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let reader = app.reader();
    let answer = explain(&reader, &namespace, &id).await?;
    app.json(reader, answer).await
}

/// Finds the latest recall in the journal that found a message, and repeats it.
pub(crate) async fn explain(reader: &Engine, namespace: &Namespace, id: &str) -> Result<WhyAnswer, Problem> {
    let (mut before, mut read) = (None, 0);
    while read < MAX_ENTRIES {
        let page = reader.journal(namespace, PAGE, before).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.number);
        read += page.len();
        if let Some(entry) = page.into_iter().find(|entry| entry.hit(id).is_some()) {
            let replay = reader.replay(&entry).await?;
            return Ok(WhyAnswer { entry, replay });
        }
    }
    Err(Problem::not_found("no recall in the journal found this message; recall it first"))
}
