//! Routes about the whole database: embedding what is pending, statistics, the audit, backups, and moving it to another
//! model.

use std::{convert::Infallible, ops::ControlFlow, path::PathBuf, sync::Arc};

use axum::{
    Json,
    extract::{Query, State},
    http::{Method, StatusCode},
    response::{
        Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use mnemon::{
    Audit, Embedder, EngineStats, FlushReport, LinkReport, Model, OnnxEmbedder, OnnxOptions, Precision, ReindexOptions,
    ReindexPhase, ReindexReport, models::GivenVectors,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::UnboundedReceiverStream};

use super::route::Route;
use crate::{
    access::Right,
    app::App,
    bounds::{self, PageQuery},
    problem::Problem,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/flush", Right::Admin, "Embeds all pending messages.", flush)
            .answer::<FlushReport>()
            .long(),
        Route::new(
            Method::POST,
            "/link",
            Right::Admin,
            "Links the vectors of all namespaces that are large enough for a graph, which otherwise is done in the \
             background once they are queried. Useful after very many messages were stored.",
            link,
        )
        .answer::<LinkReport>()
        .long(),
        Route::new(Method::GET, "/stats", Right::Admin, "Returns the model, counts, and the memory in use.", stats)
            .answer::<Stats>(),
        Route::new(
            Method::GET,
            "/audit",
            Right::Admin,
            "Lists what was forgotten, held and purged, oldest first, and whether the receipts are sound.",
            audit,
        )
        .query::<PageQuery>()
        .answer::<AuditAnswer>(),
        Route::new(
            Method::POST,
            "/backup",
            Right::Admin,
            "Copies the database to a new file on the server's machine.",
            backup,
        )
        .body::<Backup>()
        .long(),
        Route::new(
            Method::POST,
            "/reindex",
            Right::Admin,
            "Moves the database to another model or precision while it serves. Sends progress as server-sent events: \
             `progress`, then `done` or `failed`. It ends if the client goes away, and the next one resumes it.",
            reindex,
        )
        .body::<Reindex>()
        .answer::<ReindexEvent>()
        .media_type("text/event-stream")
        .long(),
    ]
}

async fn flush(State(app): State<Arc<App>>) -> Result<Json<FlushReport>, Problem> {
    Ok(Json(app.engine.flush().await?))
}

async fn link(State(app): State<Arc<App>>) -> Result<Json<LinkReport>, Problem> {
    Ok(Json(app.engine.link().await?))
}

#[derive(Serialize, JsonSchema)]
struct Stats {
    version: &'static str,
    /// The model that embeds.
    model: String,
    namespaces: u64,
    messages: u64,
    documents: u64,
    /// Messages that wait for their vectors.
    pending: u64,
    /// The budget and the use of memory, and the loaded namespaces.
    engine: EngineStats,
}

async fn stats(State(app): State<Arc<App>>) -> Result<Json<Stats>, Problem> {
    let totals = app.engine.count_namespaces(None).await?;
    Ok(Json(Stats {
        version: env!("CARGO_PKG_VERSION"),
        model: app.engine.model().name,
        namespaces: totals.namespaces,
        messages: totals.messages,
        documents: totals.documents,
        pending: app.engine.pending().await?,
        engine: app.engine.stats().await?,
    }))
}

/// A page of receipts, and whether the chain of all of them is sound.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Audit")]
struct AuditAnswer {
    /// Whether there are no problems.
    sound: bool,
    #[serde(flatten)]
    audit: Audit,
    /// The cursor of the next page.
    next: Option<String>,
}

async fn audit(State(app): State<Arc<App>>, Query(page): Query<PageQuery>) -> Result<Response, Problem> {
    let first: u64 = bounds::decode_cursor(page.cursor.as_deref())?.unwrap_or_default();
    let end = first.saturating_add(bounds::page_limit(page.limit)? as u64);
    let (audit, entries) = app.engine.audit_part(first..end).await?;
    let next = (end < entries).then(|| bounds::encode_cursor(&end));
    app.json(app.reader(), AuditAnswer { sound: audit.is_sound(), audit, next }).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Backup {
    /// The new file. A relative path begins at the database's folder.
    #[schemars(regex(pattern = r"^[^\x00]+$"))]
    path: PathBuf,
}

async fn backup(State(app): State<Arc<App>>, Json(Backup { path }): Json<Backup>) -> Result<StatusCode, Problem> {
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Problem::bad_request("the path has a NUL character"));
    }
    let path = app.db.parent().unwrap_or(std::path::Path::new(".")).join(path);
    let folder = path.parent().unwrap_or(&path);
    if !folder.is_dir() {
        return Err(Problem::bad_request(format!("there is no folder {}; make it first", folder.display())));
    }
    app.engine.backup(path).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReindexRequest")]
struct Reindex {
    /// The new model: the name of a folder that the server finds, or `static-en-256`. Default: the serving one.
    #[schemars(regex(pattern = r"^[^/\\]+$"))]
    model: Option<String>,
    /// Default: unchanged.
    #[schemars(with = "Option<Precision>")]
    precision: Option<String>,
}

/// An event: its name, and its data, which is JSON.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
enum ReindexEvent {
    Progress(ReindexProgress),
    /// It is over.
    Done {
        report: ReindexReport,
    },
    /// It is over, and the database stays as it was.
    Failed(Problem),
}

/// How far a reindex is.
#[derive(Serialize, JsonSchema)]
struct ReindexProgress {
    /// The phase that runs at present determines what is counted.
    phase: ReindexPhase,
    /// Number done in this phase, including earlier runs.
    done: u64,
    /// Number in total. It grows when messages are put meanwhile.
    total: u64,
    /// The time left in this phase. Null until it can be estimated.
    seconds_left: Option<f64>,
}

async fn reindex(
    State(app): State<Arc<App>>,
    Json(asked): Json<Reindex>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let precision = asked.precision.as_deref().map(str::parse::<Precision>).transpose()?;
    let model = app.engine.model();
    let embedder: Arc<dyn Embedder> = if asked.model.is_none() && model.is_given() {
        Arc::new(GivenVectors::new(&model.name, model.dimension))
    } else {
        let name = asked.model.unwrap_or(model.name);
        // A path would let a client read any folder of the server's machine.
        if name.contains(['/', '\\']) {
            return Err(Problem::bad_request("give the name of a model, not a path"));
        }
        let opened =
            tokio::task::spawn_blocking(move || OnnxEmbedder::open(Model::find(&name)?, OnnxOptions::default())).await;
        let embedder = opened.map_err(anyhow::Error::from).and_then(|opened| Ok(opened?));
        Arc::new(embedder.map_err(|error| Problem::bad_request(format!("{error:#}")))?)
    };
    let mut options = ReindexOptions::default();
    options.precision = precision.or(options.precision);

    let (sender, events) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let progress = sender.clone();
        let report = app.engine.reindex(embedder, options, move |progress_now| {
            let event = ReindexEvent::Progress(ReindexProgress {
                phase: progress_now.phase,
                done: progress_now.done,
                total: progress_now.total,
                seconds_left: progress_now.left.map(|left| left.as_secs_f64()),
            });
            match progress.send(event) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let _ = sender.send(match report.await {
            Ok(report) => ReindexEvent::Done { report },
            Err(error) => ReindexEvent::Failed(error.into()),
        });
    });
    let events = UnboundedReceiverStream::new(events).map(|event| {
        let event = json!(event);
        Ok(Event::default().event(event["event"].as_str().unwrap_or_default()).data(event["data"].to_string()))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}
