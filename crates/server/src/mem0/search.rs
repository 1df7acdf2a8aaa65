//! Searching memories.

use std::{collections::HashSet, sync::Arc};

use axum::{Extension, Json, extract::State};
use mnemon::{MetadataFilter, Query, Scope};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::{
        app::App,
        bounds::Cost,
        caller::{Caller, Right},
        problem::Problem,
        route::Asker,
    },
    conditions::Conditions,
    fields,
    homes::{self, Homes},
    list,
    memory::Memory,
    time,
};

const TOP_K: usize = 10;
const MAX_TOP_K: usize = 1000;

/// Options of mem0's client that make no difference here: every search is by meaning and by words, and no memory expires.
const IGNORED: [&str; 8] =
    ["rerank", "keyword_search", "show_expired", "version", "output_format", "enable_graph", "org_id", "project_id"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    query: String,
    #[serde(flatten)]
    conditions: Conditions,
    #[serde(alias = "limit")]
    top_k: Option<usize>,
    threshold: Option<f64>,
    fields: Option<Vec<String>>,
    reference_date: Option<Value>,
    latest_only: Option<bool>,
}

struct Found {
    score: f64,
    memory: Memory,
}

pub(super) async fn search(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Json(given): Json<Map<String, Value>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Read)?;
    let search: Search = fields::read(given, &IGNORED)?;
    let filter = search.conditions.filter()?;
    let top_k = search.top_k.unwrap_or(TOP_K);
    if !(1..=MAX_TOP_K).contains(&top_k) {
        return Err(Problem::bad_request(format!("a top_k of {top_k}; give 1 to {MAX_TOP_K}")));
    }
    let mut query = Query::new(&search.query).k(top_k).within(app.limits.request_timeout);
    if let Some(date) = &search.reference_date {
        query = query.now(time::read(date)?);
    }
    let latest_only = search.latest_only.unwrap_or(false);
    let all = homes::of(&app, &caller, &filter).await?;
    let is_merged = all.len() > 1;
    let mut found = Vec::new();
    for homes in &all {
        found.extend(recall(&app, &caller, homes, query.clone(), latest_only).await?);
        // A recall may run on this thread without ever waiting, and the time of the request ends between two of them.
        tokio::task::yield_now().await;
    }
    // A single recall keeps its order, which has near-duplicates last.
    if is_merged {
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    let threshold = search.threshold.unwrap_or(f64::NEG_INFINITY);
    let results = found.iter().filter(|found| found.score >= threshold).take(top_k);
    let results: Vec<Value> = results.map(|found| shown(found, search.fields.as_deref())).collect();
    Ok(Json(json!({ "results": results })))
}

async fn recall(
    app: &App,
    caller: &Caller,
    homes: &Homes,
    query: Query,
    latest_only: bool,
) -> Result<Vec<Found>, Problem> {
    let mut _place = None;
    let cost = Cost::of_conditions(homes.filter.conditions()).map_err(Problem::bad_request)?;
    let query = match homes.filter.for_index() {
        Some(filter) => query.filter(MetadataFilter::try_from(&filter)?),
        // Conditions on parts of texts are none of the index's: the messages are read, and those that match are searched.
        None => {
            _place = Some(app.slow_place()?);
            let mut ids = Vec::new();
            for namespace in &homes.namespaces {
                list::each(app, caller, namespace, &homes.filter, |memory| ids.push(memory.message.id)).await?;
            }
            query.ids(ids)
        }
    };
    let hits = match homes.namespaces.as_slice() {
        [namespace] => {
            let hits = app.recall_filtered(namespace, query, cost).await?;
            app.metrics.recalled(namespace);
            hits
        }
        namespaces => {
            let scope = namespaces.iter().fold(Scope::new(), |scope, namespace| scope.namespace(namespace));
            app.recall_in(scope, query, cost).await?
        }
    };
    let answerability = hits.answerability();
    let superseded: HashSet<String> = hits.iter().flat_map(|hit| hit.supersedes.clone()).collect();
    let only = homes.namespaces.first();
    let found = hits.into_iter().filter_map(|hit| {
        let is_left_out = latest_only && superseded.contains(&hit.message.id);
        let memory = Memory::new(caller, hit.namespace.as_ref().or(only)?, hit.message);
        let found = Found { score: score(hit.score, answerability), memory };
        // The index knows a message's id, but not its namespace, and a category only in a list.
        (!is_left_out && homes.filter.matches(&found.memory)).then_some(found)
    });
    Ok(found.collect())
}

/// A score between 0 and 1, which mem0's clients compare with a threshold. A hybrid score is in the unit of log odds, and
/// compares memories of one search alone; the answerability is low if there is nothing about the query at all.
fn score(hybrid: f32, answerability: f32) -> f64 {
    f64::from(answerability) / (1.0 + (-f64::from(hybrid)).exp())
}

fn shown(found: &Found, fields: Option<&[String]>) -> Value {
    let mut memory = found.memory.to_json();
    memory["score"] = found.score.into();
    if let (Some(fields), Some(memory)) = (fields, memory.as_object_mut()) {
        memory.retain(|name, _| name == "id" || fields.contains(name));
    }
    memory
}
