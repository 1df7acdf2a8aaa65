//! Messages, and the states of memory blocks, which are made of messages.
//!
//! Blocks of the configuration are listed here, and those of programs that link the library.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::Method,
    response::Response,
};
use mnemon::{Message, MessageVersion, PutReport, StoredBlock, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    namespaces::Deleted,
    route::{PathNamespace, Route},
    schema::MessageInputSchema,
};
use crate::{
    access::Right,
    app::App,
    bounds::{self, PageQuery},
    problem::Problem,
};

pub(super) fn routes() -> Vec<Route> {
    const ALL: &str = "/namespaces/{namespace}/messages";
    const ONE: &str = "/namespaces/{namespace}/messages/{id}";
    vec![
        Route::new(Method::POST, ALL, Right::Write, "Stores messages durably, in order, in one commit.", put)
            .body::<Put>()
            .answer::<PutAnswer>(),
        Route::new(Method::GET, ONE, Right::Read, "Returns a message.", get).answer::<Message>(),
        Route::new(
            Method::GET,
            "/namespaces/{namespace}/messages/{id}/versions",
            Right::Read,
            "Lists what a message was before each change of its text, role or name, oldest first. Only a server with \
             --keep-versions keeps versions.",
            versions,
        )
        .query::<PageQuery>()
        .answer::<Versions>(),
        Route::new(Method::PATCH, ONE, Right::Write, "Replaces the metadata of a message.", set_metadata)
            .body::<Metadata>()
            .answer::<Message>(),
        Route::new(Method::DELETE, ONE, Right::Forget, "Deletes a message.", delete_one).answer::<Deleted>(),
        Route::new(Method::DELETE, ALL, Right::Forget, "Deletes the messages with these ids.", delete)
            .query::<DeleteQuery>()
            .answer::<Deleted>(),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MessagesPut")]
struct Put {
    #[schemars(with = "Vec<MessageInputSchema>")]
    messages: Vec<Message>,
    /// Embed all pending messages before the answer, so that these are found by meaning, too. Default: false.
    #[serde(default)]
    flush: bool,
}

#[derive(Serialize, JsonSchema)]
struct PutAnswer {
    /// The ids of the messages, in order.
    ids: Vec<String>,
    #[serde(flatten)]
    report: PutReport,
}

async fn put(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Json(mut put): Json<Put>,
) -> Result<Json<PutAnswer>, Problem> {
    let _flush = app.flush_place(put.flush)?;
    date(&mut put.messages);
    let ids = put.messages.iter().map(|message| message.id.clone()).collect();
    let report = app.put(&namespace, put.messages).await?;
    if put.flush {
        app.engine.flush().await?;
    }
    Ok(Json(PutAnswer { ids, report }))
}

/// Gives messages without a time the present one.
pub(super) fn date(messages: &mut [Message]) {
    for message in messages {
        message.created_at = message.created_at.or_else(|| Some(Timestamp::now()));
    }
}

pub(super) fn no_message() -> Problem {
    Problem::not_found("there is no such message")
}

async fn get(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let reader = app.reader();
    let message = reader.get(&namespace, &id).await?.ok_or_else(no_message)?;
    app.json(reader, message).await
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessageVersions")]
struct Versions {
    versions: Vec<MessageVersion>,
    /// The cursor of the next page.
    next: Option<String>,
}

async fn versions(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, id)): Path<(String, String)>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let reader = app.reader();
    let after: Option<i64> = bounds::decode_cursor(page.cursor.as_deref())?;
    app.engine.get(&namespace, &id).await?.ok_or_else(no_message)?;
    let (after, limit) = (after.and_then(Timestamp::from_micros), bounds::page_limit(page.limit)?);
    let versions = reader.version_page(&namespace, &id, after, limit, bounds::MAX_PAGE_BYTES).await?;
    // There is another page unless there is no version after the last one.
    let last = versions.last().map(|version| version.until);
    let more = reader.version_page(&namespace, &id, last, 1, 0).await?;
    let next = last.filter(|_| !more.is_empty()).map(|last| bounds::encode_cursor(&last.as_micros()));
    app.json(reader, Versions { versions, next }).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Metadata {
    metadata: Map<String, Value>,
}

async fn set_metadata(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, id)): Path<(String, String)>,
    Json(Metadata { metadata }): Json<Metadata>,
) -> Result<Json<Message>, Problem> {
    if !app.engine.set_metadata(&namespace, &id, metadata).await? {
        return Err(no_message());
    }
    app.engine.get(&namespace, &id).await?.map(Json).ok_or_else(no_message)
}

async fn delete_one(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<Deleted>, Problem> {
    match app.engine.delete(&namespace, vec![id]).await? {
        0 => Err(no_message()),
        deleted => Ok(Json(Deleted::all(deleted))),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteQuery {
    /// The ids, separated by commas. Unknown ones are ignored.
    ids: String,
}

async fn delete(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(DeleteQuery { ids }): Query<DeleteQuery>,
) -> Result<Json<Deleted>, Problem> {
    let ids = ids.split(',').map(str::to_owned).collect();
    Ok(Json(Deleted::all(app.engine.delete(&namespace, ids).await?)))
}

pub(super) fn block_routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/namespaces/{namespace}/blocks",
            Right::Read,
            "Lists what memory blocks have made: session by session, and then what all sessions share.",
            blocks,
        )
        .query::<PageQuery>()
        .answer::<Blocks>(),
    ]
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BlockList")]
struct Blocks {
    blocks: Vec<StoredBlock>,
    /// The cursor of the next page.
    next: Option<String>,
}

async fn blocks(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let after: Option<(bool, String, String)> = bounds::decode_cursor(page.cursor.as_deref())?;
    let key = |(session, name): &(Option<String>, String)| {
        (session.is_none(), session.clone().unwrap_or_default(), name.clone())
    };
    let mut names = app.engine.block_names(&namespace).await?;
    names.sort_by_cached_key(key);
    let limit = bounds::page_limit(page.limit)?;
    let first = after.map_or(0, |after| names.partition_point(|name| key(name) <= after));
    let (mut blocks, mut bytes, mut next) = (Vec::new(), 0, None);
    let mut rest = names[first..].iter();
    for (session, name) in rest.by_ref() {
        // One that was deleted since is left out.
        let Some(block) = app.engine.block(&namespace, session.as_deref(), name).await? else { continue };
        bytes += block.state.to_string().len();
        blocks.push(block);
        if blocks.len() == limit || bytes >= bounds::MAX_PAGE_BYTES {
            next = (rest.len() > 0).then(|| bounds::encode_cursor(&key(&(session.clone(), name.clone()))));
            break;
        }
    }
    app.json(app.reader(), Blocks { blocks, next }).await
}
