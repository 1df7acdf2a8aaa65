//! Memories that a language model forms: what it costs, what waits for it, and what failed.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::Method,
};
use mnemon::memory::BlockStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    route::{PathNamespace, Route},
    sessions::memory,
};
use crate::{
    access::{DailyLimit, Right},
    app::App,
    bounds::{self, PageQuery},
    formation::Forming,
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
    Ok(Json(Formation { blocks, daily_limits, sessions, next }))
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
    let refining = instructions.clone();
    match (feedback.filter(|feedback| !feedback.trim().is_empty()), version) {
        (Some(feedback), None) => {
            app.formation.check_limits(&namespace)?;
            let said = app.engine.history_before(&namespace, &session, None, SHOWN, bounds::MAX_PAGE_BYTES).await?;
            let said: Vec<_> = said.into_iter().flatten().map(|placed| placed.message).collect();
            memory.change_block(&block, move |state| refining.refine(state, &feedback, &said)).await?;
        }
        (None, Some(version)) => memory.change_block(&block, move |state| refining.revert(state, version)).await?,
        _ => return Err(Problem::bad_request("give one of `feedback`, in words, and `version`")),
    }
    let versions = instructions.versions(&memory.block_state(&block).await?)?;
    let (version, last) = versions.last().expect("a block has a version");
    Ok(Json(Refined { instructions: last.prompt.clone(), version: *version }))
}
