//! Memories that a language model forms: what it costs, what waits for it, and what failed.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    http::Method,
    response::Response,
};
use mnemon::{
    Collection, Error,
    knowledge::{CollectionUpdate, UndoReport},
    memory::{BlockStatus, FailedBatch},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    route::{PathNamespace, Route},
    sessions::memory,
};
use crate::{
    access::{CallerExtension, DailyLimit, Right},
    app::App,
    bounds::{self, PageQuery},
    formation::{Forming, ModelState},
    problem::Problem,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/namespaces/{namespace}/formation",
            Right::Read,
            "Returns the memory blocks of a namespace that ask a language model: what they took since the server started, and session \
             by session what waits for them and what failed.",
            get,
        )
        .query::<PageQuery>()
        .answer::<Formation>(),
        Route::new(
            Method::GET,
            "/formation",
            Right::Read,
            "Returns whether the language model answers, and the batches that memory blocks gave up, of all namespaces.",
            overview,
        )
        .query::<PageQuery>()
        .answer::<Overview>(),
        Route::new(
            Method::POST,
            "/formation/retry",
            Right::Write,
            "Hands all batches over again that memory blocks gave up, in the background: of all namespaces, or of those under a prefix.",
            retry_all,
        )
        .body::<RetryAll>()
        .answer::<HandedOver>(),
        Route::new(
            Method::GET,
            "/namespaces/{namespace}/updates",
            Right::Read,
            "Lists the updates of a collection that a language model made, the last first, with the values that items had before. The \
             namespace is that of the items, such as `users/ada/facts`.",
            updates,
        )
        .query::<UpdatesQuery>()
        .answer::<Updates>(),
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/updates/undo",
            Right::Write,
            "Takes an update of a collection back: deletes the items that it inserted, and gives the others the values that they had \
             before. Items that were changed since stay as they are.",
            undo,
        )
        .body::<Undo>()
        .answer::<UndoReport>(),
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/sessions/{session}/retry",
            Right::Write,
            "Hands a memory block those batches of a session again that it gave up after three failures.",
            retry,
        )
        .body::<Retry>()
        .answer::<Retried>()
        .long(),
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/sessions/{session}/refine",
            Right::Write,
            "Has the language model write a block of instructions anew, from feedback on what was said last in the session. Or \
             returns to an earlier version.",
            refine,
        )
        .body::<Refine>()
        .answer::<Refined>()
        .long(),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Formation {
    blocks: Vec<Forming>,
    /// Whether the language model answers; null without one.
    model: Option<ModelState>,
    /// The limits on the tokens of a day that are about this namespace, each for all namespaces at and under its prefix.
    daily_limits: Vec<DailyLimit>,
    /// The sessions that had something for the blocks.
    sessions: Vec<Session>,
    /// The cursor of the next page of sessions.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FormingSession")]
struct Session {
    session: String,
    blocks: Vec<Progress>,
}

/// The progress of a block in a session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BlockProgress")]
struct Progress {
    name: String,
    /// Batches that it has not taken yet.
    behind: u64,
    /// Batches that it gave up.
    failed: Vec<Failure>,
    /// Why it failed last, while it waits to be tried again.
    retrying: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchFailure")]
struct Failure {
    batch: u32,
    reason: String,
}

impl From<BlockStatus> for Progress {
    fn from(status: BlockStatus) -> Self {
        let failed = status.failed.into_iter().map(|(batch, reason)| Failure { batch, reason }).collect();
        Progress { name: status.name, behind: status.behind, failed, retrying: status.retrying }
    }
}

async fn get(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(page): Query<PageQuery>,
) -> Result<Json<Formation>, Problem> {
    let after: Option<String> = bounds::decode_cursor(page.cursor.as_deref())?;
    let blocks = app.formation.forming(&namespace);
    let mut listed = if blocks.is_empty() { Vec::new() } else { app.engine.sessions(&namespace).await? };
    listed.retain(|info| info.batches > 0);
    let (listed, next) = bounds::page(listed, after.as_ref(), page.limit, |info| info.session.clone())?;
    let mut sessions = Vec::new();
    for info in listed {
        let memory = memory(&app, &namespace, &info.session, None).await?;
        let blocks = memory.status().await?.into_iter().map(Progress::from).collect();
        sessions.push(Session { session: info.session, blocks });
    }
    let daily_limits = app.formation.limits(&namespace);
    Ok(Json(Formation { blocks, model: app.formation.model(), daily_limits, sessions, next }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FormationOverview")]
struct Overview {
    /// Whether the language model answers; null without one.
    model: Option<ModelState>,
    /// The batches that memory blocks gave up.
    failed: Vec<FailedBatch>,
    /// The cursor of the next page of these.
    next: Option<String>,
}

async fn overview(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Query(page): Query<PageQuery>,
) -> Result<Json<Overview>, Problem> {
    let after: Option<(String, String, String, u32)> = bounds::decode_cursor(page.cursor.as_deref())?;
    let mut failed = app.reader().failed_batches(caller.list_prefix(None)?.as_ref()).await?;
    let key = |failed: &FailedBatch| {
        (failed.namespace.to_string(), failed.session.clone(), failed.block.clone(), failed.batch)
    };
    failed.sort_by_cached_key(key);
    let (failed, next) = bounds::page(failed, after.as_ref(), page.limit, key)?;
    Ok(Json(Overview { model: app.formation.model(), failed, next }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RetryAll {
    /// Only this namespace and those under it.
    #[schemars(with = "Option<mnemon::Namespace>")]
    prefix: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct HandedOver {
    /// Batches that are handed over.
    batches: u64,
}

async fn retry_all(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(RetryAll { prefix }): Json<RetryAll>,
) -> Result<Json<HandedOver>, Problem> {
    let failed = app.engine.retry_failed_batches(caller.list_prefix(prefix.as_deref())?.as_ref()).await?;
    let batches = failed.len() as u64;
    for FailedBatch { namespace, session, .. } in failed {
        app.formation.look_at(namespace, session, Duration::ZERO);
    }
    Ok(Json(HandedOver { batches }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdatesQuery {
    /// Updates to list, 1 to 1000. Default: 100.
    #[schemars(range(min = 1, max = bounds::MAX_LIMIT))]
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CollectionUpdates")]
struct Updates {
    updates: Vec<CollectionUpdate>,
}

async fn updates(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(query): Query<UpdatesQuery>,
) -> Result<Response, Problem> {
    let reader = app.reader();
    let collection = Collection::new(&reader, &namespace);
    let updates = collection.updates(bounds::page_limit(query.limit)?).await?;
    app.json(reader, Updates { updates }).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UndoUpdate")]
struct Undo {
    /// The id of the update.
    id: String,
}

async fn undo(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Json(Undo { id }): Json<Undo>,
) -> Result<Json<UndoReport>, Problem> {
    let undone = Collection::new(&app.engine, &namespace).undo(&id).await;
    Ok(Json(undone.map_err(|error| match error {
        Error::InvalidQuery { .. } => {
            Problem::not_found("there is no update of this id that is to be undone; list its updates")
        }
        error => error.into(),
    })?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Retry {
    /// The name of the block.
    block: String,
}

#[derive(Serialize, JsonSchema)]
struct Retried {
    /// Batches that the block took this time.
    taken: u64,
}

async fn retry(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
    Json(Retry { block }): Json<Retry>,
) -> Result<Json<Retried>, Problem> {
    if !app.formation.forming(&namespace).iter().any(|forming| forming.name == block) {
        return Err(Problem::not_found(
            "no block of that name asks a model here; GET .../formation lists those that do",
        ));
    }
    let memory = memory(&app, &namespace, &session, None).await?;
    Ok(Json(Retried { taken: memory.retry_failed(&block).await? }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Refine {
    /// The name of the block.
    block: String,
    /// The change that is wanted, such as `Too long: one sentence is enough.`
    feedback: Option<String>,
    /// The version to return to, instead of feedback: 0 is the text of the configuration. The last 100 are kept.
    version: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Refined {
    /// The instructions from now on.
    instructions: String,
    /// Their number. A version that is returned to gets a new one.
    version: usize,
}

/// Messages of the session that the model is shown with the feedback.
const SHOWN: usize = 20;

async fn refine(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
    Json(Refine { block, feedback, version }): Json<Refine>,
) -> Result<Json<Refined>, Problem> {
    let instructions = app.formation.instructions(&namespace, &block).ok_or_else(|| {
        Problem::not_found("no block of instructions has that name here; --config says which blocks there are")
    })?;
    let memory = memory(&app, &namespace, &session, None).await?;
    let (version, last) = match (feedback.filter(|feedback| !feedback.trim().is_empty()), version) {
        (Some(feedback), None) => {
            app.formation.check_limits(&namespace)?;
            memory.refine(&instructions, feedback, SHOWN).await?
        }
        (None, Some(version)) => {
            let reverting = instructions.clone();
            memory.change_block(&block, move |state| reverting.revert(state, version)).await?;
            let mut versions = instructions.versions(&memory.block_state(&block).await?)?;
            versions.pop().expect("a block has a version")
        }
        _ => return Err(Problem::bad_request("give one of `feedback`, in words, and `version`")),
    };
    Ok(Json(Refined { instructions: last.prompt, version }))
}
