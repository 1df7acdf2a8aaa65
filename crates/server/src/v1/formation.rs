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
    formation::Counts,
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
    ]
}

#[derive(Serialize, JsonSchema)]
struct Formation {
    blocks: Vec<Block>,
    /// The limits on the tokens of a day that are about this namespace, each for all namespaces at and under its prefix.
    daily_limits: Vec<DailyLimit>,
    /// The sessions that had something for the blocks.
    sessions: Vec<Session>,
    /// The cursor of the next page of sessions.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FormingBlock")]
struct Block {
    name: String,
    /// `collection`, `profile`, `summary` or `facts`.
    kind: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FormingSession")]
struct Session {
    session: String,
    blocks: Vec<Progress>,
}

/// The progress of a block in a session.
#[derive(Serialize, JsonSchema)]
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
    let blocks: Vec<Block> =
        app.formation.counts(&namespace).into_iter().map(|(name, kind, counts)| Block { name, kind, counts }).collect();
    let mut listed = if blocks.is_empty() { Vec::new() } else { app.engine.sessions(&namespace).await? };
    listed.retain(|info| info.batches > 0);
    let (listed, next) = bounds::page(listed, after.as_ref(), page.limit, |info| info.session.clone(), |_| 0)?;
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
    if !app.formation.counts(&namespace).iter().any(|(name, ..)| *name == block) {
        return Err(Problem::not_found(
            "no block of that name asks a model here; GET .../formation lists those that do",
        ));
    }
    let memory = memory(&app, &namespace, &session, None).await?;
    Ok(Json(Retried { taken: memory.retry_failed(&block).await? }))
}
