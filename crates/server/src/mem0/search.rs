//! The memories that a filter matches: searching, listing and deleting them.

use std::{
    cmp::Reverse,
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Json,
    extract::{Query as Parameters, State},
    response::Response,
};
use mnemon::{Engine, Error, MetadataFilter, Namespace, Query, Scope};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    conditions::Conditions,
    facts::Facts,
    fields::{self, PageQuery},
    filter::{Field, Filter, Test},
    homes::{self, Homes},
    memories,
    memory::Memory,
};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::{App, RERANKED},
    bounds::{self, Cost},
    entity::{self, id_name},
    problem::Problem,
};

const TOP_K: usize = 10;
const MAX_TOP_K: usize = 1000;
/// Options of a search that make no difference here: every search is by meaning and by words, and a memory that has
/// expired is gone.
const SEARCH_IGNORED: [&str; 7] =
    ["keyword_search", "show_expired", "version", "output_format", "enable_graph", "org_id", "project_id"];
const PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 200;
/// Memories that are read or deleted at a time.
const BATCH: usize = 1000;
/// The time for which filters are evaluated before other requests have their turn.
const TURN: Duration = Duration::from_millis(5);
/// The parameters of a deletion.
pub(super) const DELETED_BY: [&str; 5] = ["user_id", "agent_id", "app_id", "run_id", "filters"];
/// Options of a list that make no difference here.
const LIST_IGNORED: [&str; 8] =
    ["show_expired", "latest_only", "version", "output_format", "enable_graph", "fields", "org_id", "project_id"];

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
    rerank: Option<bool>,
}

struct Found {
    score: f64,
    memory: Memory,
}

pub(super) async fn search(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(given): Json<Map<String, Value>>,
) -> Result<Response, Problem> {
    caller.require(Right::Read)?;
    let search: Search = fields::read_body(given, &SEARCH_IGNORED)?;
    let filter = search.conditions.filter()?;
    let top_k = search.top_k.unwrap_or(TOP_K);
    if !(1..=MAX_TOP_K).contains(&top_k) {
        return Err(Problem::bad_request(format!("a top_k of {top_k}; give 1 to {MAX_TOP_K}")));
    }
    let mut query = Query::new(&search.query).k(top_k).within(app.limits.request_timeout);
    if search.rerank.unwrap_or(false) && app.reranks && top_k <= RERANKED {
        query = query.rerank(RERANKED);
    }
    if let Some(date) = &search.reference_date {
        query = query.now(fields::read_local_time(date)?);
    }
    let latest_only = search.latest_only.unwrap_or(false);
    let all = homes::find(&app, &caller, &filter).await?;
    let mut is_merged = all.len() > 1;
    let (reader, mut found) = (app.reader(), Vec::new());
    for homes in &all {
        found.extend(recall(&app, &reader, &caller, homes, query.clone(), latest_only).await?);
        for facts in homes.namespaces.iter().filter_map(|home| Facts::of(&app, &reader, home)) {
            is_merged = true;
            let facts = facts.search(&caller, &search.query, &homes.filter, top_k).await?;
            found.extend(facts.into_iter().map(|(hybrid, memory)| Found { score: score(hybrid, 1.0), memory }));
        }
        // A recall may run on this thread without waiting, so the limit of the request's time can end it only here.
        tokio::task::yield_now().await;
    }
    // A single recall keeps its order, which has near-duplicates last.
    if is_merged {
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    let threshold = search.threshold.unwrap_or(f64::NEG_INFINITY);
    let results = found.iter().filter(|found| found.score >= threshold).take(top_k);
    let results: Vec<Value> = results.map(|found| shown(found, search.fields.as_deref())).collect();
    app.json(reader, json!({ "results": results })).await
}

async fn recall(
    app: &App,
    reader: &Engine,
    caller: &Caller,
    homes: &Homes,
    query: Query,
    latest_only: bool,
) -> Result<Vec<Found>, Problem> {
    let mut _place = None;
    let cost = Cost::of_conditions(homes.filter.conditions()).map_err(Problem::bad_request)?;
    let query = match homes.filter.for_index() {
        Some(filter) => query.filter(MetadataFilter::try_from(&filter)?),
        // The index has no conditions on parts of texts. The messages are read, and those that match are searched.
        None => {
            _place = Some(app.slow_place()?);
            let mut ids = Vec::new();
            for namespace in &homes.namespaces {
                each(app, caller, namespace, &homes.filter, |memory| ids.push(memory.message.id)).await?;
            }
            query.ids(ids)
        }
    };
    let hits = match homes.namespaces.as_slice() {
        [namespace] => app.recall(reader, namespace, query, cost).await?,
        namespaces => {
            let scope = namespaces.iter().fold(Scope::new(), |scope, namespace| scope.namespace(namespace));
            app.recall_in(reader, scope, query, cost).await?
        }
    };
    let answerability = hits.answerability();
    let superseded: HashSet<String> = hits.iter().flat_map(|hit| hit.supersedes.clone()).collect();
    let only = homes.namespaces.first();
    let found = hits.into_iter().filter_map(|hit| {
        let is_left_out = latest_only && superseded.contains(&hit.message.id);
        let memory = Memory::new(caller, hit.namespace.as_ref().or(only)?, hit.message);
        let found = Found { score: score(hit.score, answerability), memory };
        // The index compares the ids of messages without their namespaces, and categories only in lists.
        (!is_left_out && homes.filter.matches(&found.memory)).then_some(found)
    });
    Ok(found.collect())
}

/// Returns a score between 0 and 1, which mem0's clients compare with a threshold: the probability of the hybrid score,
/// which is in log odds and compares the memories of one search, times the answerability, which is low if no memory is
/// about the query.
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

/// Lists memories, the newest first. Each page reads all messages of the namespaces, because its answer has their number,
/// but keeps only their ids and times.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Parameters(query): Parameters<PageQuery>,
    Json(given): Json<Map<String, Value>>,
) -> Result<Response, Problem> {
    caller.require(Right::Read)?;
    let page = query.page(PAGE_SIZE, MAX_PAGE_SIZE)?;
    let filter = fields::read_body::<Conditions>(given, &LIST_IGNORED)?.filter()?;
    let all = homes::find(&app, &caller, &filter).await?;
    let mut found = Vec::new();
    for (homes, namespace) in namespaces(&all) {
        each(&app, &caller, namespace, &homes.filter, |memory| {
            found.push((memory.created_at(), memory.namespace, memory.message.id));
        })
        .await?;
        if let Some(facts) = Facts::of(&app, &app.engine, namespace) {
            // The oldest first, as messages are.
            let listed = |fact: Memory| (fact.created_at(), fact.namespace, fact.message.id);
            found.extend(facts.matching(&caller, &homes.filter, listed).await?.into_iter().rev());
        }
    }
    // Of memories with equal times, the later one in its session comes first.
    found.reverse();
    found.sort_by_key(|(created_at, ..)| Reverse(*created_at));
    let count = found.len();
    let (mut results, reader) = (Vec::new(), app.reader());
    for (_, namespace, id) in page.of(found) {
        // A memory that was deleted meanwhile is left out.
        if let Some(memory) = memories::load(&app, &reader, &caller, &namespace, &id).await? {
            results.push(memory.to_json());
        }
    }
    app.json(reader, page.answer("/v3/memories/", count, results)).await
}

fn namespaces(all: &[Homes]) -> impl Iterator<Item = (&Homes, &Namespace)> {
    all.iter().flat_map(|homes| homes.namespaces.iter().map(move |namespace| (homes, namespace)))
}

/// Calls `take` with each memory of a namespace that matches, session by session. Yields now and then, so that other
/// requests are answered meanwhile, and a request whose time is over ends.
async fn each(
    app: &App,
    caller: &Caller,
    namespace: &Namespace,
    filter: &Filter,
    mut take: impl FnMut(Memory),
) -> Result<(), Problem> {
    for info in app.engine.sessions(namespace).await? {
        let mut seen = None;
        loop {
            let part = app.engine.history_after(namespace, &info.session, seen, BATCH, bounds::MAX_PAGE_BYTES).await?;
            let Some(last) = part.last() else { break };
            seen = Some(last.number);
            let mut begun = Instant::now();
            for placed in part {
                let memory = Memory::new(caller, namespace, placed.message);
                if filter.matches(&memory) {
                    take(memory);
                }
                if begun.elapsed() > TURN {
                    tokio::task::yield_now().await;
                    begun = Instant::now();
                }
            }
        }
    }
    Ok(())
}

/// Deletes all memories of a user, agent, app or run, or of all of a kind with `*`. A parameter that is not known is
/// refused, because without it more would be deleted.
pub(super) async fn delete_all(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Parameters(parameters): Parameters<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    let filter = to_delete(&parameters)?;
    let mut is_changed = false;
    for homes in homes::find(&app, &caller, &filter).await? {
        let runs = only_runs(&homes.filter);
        for namespace in &homes.namespaces {
            is_changed |= match &runs {
                _ if homes.filter == Filter::All(Vec::new()) => homes::delete_home(&app, namespace).await?,
                Some(runs) => delete_sessions(&app, namespace, runs).await?,
                None => delete_matching(&app, &caller, namespace, &homes.filter).await?,
            };
            if let Some(facts) = Facts::of(&app, &app.engine, namespace) {
                let matching = facts.matching(&caller, &homes.filter, |fact| fact.message.id).await?;
                is_changed |= facts.delete(matching).await? > 0;
            }
        }
    }
    match is_changed {
        true => Ok(Json(json!({ "message": "Memories deleted successfully!" }))),
        false => Err(Problem::not_found("there are no such memories, so none were deleted")),
    }
}

fn to_delete(parameters: &[(String, String)]) -> Result<Filter, Problem> {
    let mut all = Vec::new();
    for (at, (name, value)) in parameters.iter().enumerate() {
        if parameters[..at].iter().any(|(other, _)| other == name) {
            return Err(Problem::bad_request(format!("{name:?} is given twice; for several ids, give `filters`")));
        }
        match entity::KINDS.iter().find(|(kind, _)| id_name(kind) == *name) {
            Some(_) => all.push(Filter::read(&json!({ name: value }))?),
            None if name == "filters" => {
                let filters = serde_json::from_str(value).ok().or_else(|| fields::read_python(value));
                let filters = filters.ok_or_else(|| Problem::bad_request("filters: this is no JSON"))?;
                all.push(Filter::read(&filters)?);
            }
            None if ["org_id", "project_id"].contains(&name.as_str()) => {}
            None => {
                let detail =
                    format!("{name:?} is not supported here; say whose memories to delete: {}", entity::id_names());
                return Err(Problem::bad_request(detail));
            }
        }
    }
    match all.is_empty() {
        true => Err(Problem::bad_request(format!("say whose memories to delete: {}", entity::id_names()))),
        false => Ok(Filter::All(all)),
    }
}

/// Returns the runs, if a filter names nothing else. They are sessions, which are deleted with their checkpoints.
fn only_runs(filter: &Filter) -> Option<Vec<String>> {
    match filter {
        Filter::All(inner) if inner.len() == 1 => only_runs(&inner[0]),
        Filter::Holds(Field::Entity("run"), Test::In(runs)) => {
            runs.iter().map(|run| run.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// Returns true if any of the sessions existed.
async fn delete_sessions(app: &App, namespace: &Namespace, sessions: &[String]) -> Result<bool, Problem> {
    let mut is_changed = false;
    for session in sessions {
        match app.engine.delete_session(namespace, session).await {
            Ok(()) => is_changed = true,
            Err(Error::SessionNotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_changed)
}

/// Returns true if any memory matched.
async fn delete_matching(app: &App, caller: &Caller, namespace: &Namespace, filter: &Filter) -> Result<bool, Problem> {
    let mut ids = Vec::new();
    each(app, caller, namespace, filter, |memory| ids.push(memory.message.id)).await?;
    let mut deleted = 0;
    for batch in ids.chunks(BATCH) {
        deleted += app.engine.delete(namespace, batch.to_vec()).await?;
    }
    Ok(deleted > 0)
}
