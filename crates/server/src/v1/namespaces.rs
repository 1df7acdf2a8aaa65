//! Namespaces: their list, their counts and their deletion; and forgetting what is in one, with a receipt.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Query, State},
    http::Method,
};
use mnemon::{Forget, IndexStats, Language, Namespace, NamespaceCursor, Receipt, admin::LanguageOrigin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    route::{PathNamespace, Route},
    schema::FilterSchema,
};
use crate::{
    access::{CallerExtension, Right},
    app::App,
    bounds::{self, BoundedFilter},
    problem::Problem,
};

/// Pages of the library that one request reads to find names that contain a text.
const MAX_PAGES: usize = 50;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/namespaces", Right::Read, "Lists namespaces, ordered by their names.", list)
            .query::<ListQuery>()
            .answer::<List>(),
        Route::new(
            Method::GET,
            "/namespaces/{namespace}",
            Right::Read,
            "Returns the counts and the index of a namespace.",
            get,
        )
        .answer::<Info>(),
        Route::new(
            Method::DELETE,
            "/namespaces/{namespace}",
            Right::Forget,
            "Deletes a namespace with everything in it, or with ?below=true all under it.",
            delete,
        )
        .query::<DeleteQuery>()
        .answer::<Deleted>(),
        Route::new(
            Method::PUT,
            "/namespaces/{namespace}/ttl",
            Right::Forget,
            "Sets the time to live of the messages that are put into a namespace from now on.",
            set_ttl,
        )
        .body::<Ttl>()
        .answer::<Ttl>(),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only this namespace and those under it.
    #[schemars(with = "Option<Namespace>")]
    prefix: Option<String>,
    /// Only namespaces whose name contains this text, in any case.
    containing: Option<String>,
    /// Items on a page, 1 to 1000. Default: 100.
    #[schemars(range(min = 1, max = bounds::MAX_LIMIT))]
    limit: Option<usize>,
    /// The `next` of the last page. It stays good if namespaces are deleted meanwhile, that of the cursor too.
    #[schemars(extend("format" = "cursor"))]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NamespaceList")]
struct List {
    namespaces: Vec<Counts>,
    /// The cursor of the next page.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NamespaceInfo")]
struct Counts {
    namespace: Namespace,
    /// Messages, including those in buffers.
    messages: u64,
    sessions: u64,
    documents: u64,
    /// The language in which its texts are analysed, such as `german`.
    #[schemars(with = "String")]
    language: Language,
    /// Where the language is from.
    language_origin: LanguageOrigin,
    /// The time to live of messages in minutes, if it was set.
    ttl_minutes: Option<f64>,
}

async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Query(query): Query<ListQuery>,
) -> Result<Json<List>, Problem> {
    let prefix = caller.list_prefix(query.prefix.as_deref())?;
    let limit = bounds::page_limit(query.limit)?;
    let mut after = query.cursor.as_deref().map(str::parse::<NamespaceCursor>).transpose()?;
    let wanted = query.containing.map(|text| text.to_lowercase());
    let mut namespaces = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = app.engine.namespaces(prefix.as_ref(), after.as_ref(), limit - namespaces.len()).await?;
        let matching = page.namespaces.into_iter().filter(|info| {
            let name = info.namespace.as_str();
            wanted.as_ref().is_none_or(|wanted| name.to_lowercase().contains(wanted))
        });
        namespaces.extend(matching.map(|info| Counts {
            namespace: info.namespace,
            messages: info.messages,
            sessions: info.sessions,
            documents: info.documents,
            language: info.language,
            language_origin: info.language_origin,
            ttl_minutes: info.ttl_minutes,
        }));
        after = page.next;
        if after.is_none() || namespaces.len() == limit {
            break;
        }
    }
    Ok(Json(List { namespaces, next: after.map(|cursor| cursor.to_string()) }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NamespaceDetails")]
struct Info {
    namespace: Namespace,
    /// Of the namespace and those under it.
    messages: u64,
    /// Of the namespace and those under it.
    documents: u64,
    /// Vectors, links, `ef_search` and the estimated recall of the namespace's searches.
    index: IndexStats,
}

async fn get(State(app): State<Arc<App>>, PathNamespace(namespace): PathNamespace) -> Result<Json<Info>, Problem> {
    let totals = app.engine.count_namespaces(Some(&namespace)).await?;
    if totals.namespaces == 0 {
        return Err(Problem::not_found("there is no such namespace"));
    }
    let index = app.engine.index_stats(&namespace).await?;
    Ok(Json(Info { namespace, messages: totals.messages, documents: totals.documents, index }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteQuery {
    /// Delete all namespaces under it too.
    #[serde(default)]
    below: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Deleted {
    /// Number of messages, or of documents, that were deleted.
    pub(super) deleted: u64,
    /// True if the time of the request was over before all was deleted: the same request goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
}

impl Deleted {
    pub(super) fn all(deleted: u64) -> Self {
        Deleted { deleted, more: false }
    }
}

async fn delete(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<Deleted>, Problem> {
    if !query.below {
        return Ok(Json(Deleted::all(app.engine.delete_namespace(&namespace).await?)));
    }
    // Half of the time is for the commit that is under way when it ends.
    let (totals, is_all) = app.engine.delete_namespaces_within(&namespace, app.limits.request_timeout / 2).await?;
    Ok(Json(Deleted { deleted: totals.messages, more: !is_all }))
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["ttl_minutes"]))]
struct Ttl {
    /// Minutes after which a message that is put without `expires_at` expires: a millisecond to a thousand years. `null`: never.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(range(min = 1.0 / 60_000.0, max = 525_960_000.0))]
    ttl_minutes: Option<f64>,
}

async fn set_ttl(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Json(ttl): Json<Ttl>,
) -> Result<Json<Ttl>, Problem> {
    app.engine.set_ttl(&namespace, ttl.ttl_minutes).await?;
    Ok(Json(ttl))
}

pub(super) fn forget_routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/forget",
            Right::Forget,
            "Forgets messages, documents, a session or the namespace, with everything made of them, and returns the receipt.",
            forget,
        )
        .body::<ForgetRequest>()
        .answer::<Receipt>()
        .long(),
    ]
}

/// What is to be forgotten.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(extend("type" = "object"))]
pub(crate) enum ForgetRequest {
    /// The messages with these ids.
    Messages { ids: Vec<String> },
    /// The documents with these keys.
    Documents { keys: Vec<String> },
    /// A session.
    Session { session: String },
    /// The messages that a filter matches.
    Matching {
        #[schemars(with = "FilterSchema")]
        filter: BoundedFilter,
    },
    /// The whole namespace.
    // Braces, because serde ignores unknown fields beside the tag of a variant without them.
    Namespace {},
    /// The namespace and all under it.
    Prefix {},
}

impl ForgetRequest {
    pub(crate) fn into_forget(self, namespace: &Namespace) -> Forget {
        match self {
            ForgetRequest::Messages { ids } => Forget::messages(namespace, ids),
            ForgetRequest::Documents { keys } => Forget::documents(namespace, keys),
            ForgetRequest::Session { session } => Forget::session(namespace, session),
            ForgetRequest::Matching { filter } => Forget::matching(namespace, filter.filter),
            ForgetRequest::Namespace {} => Forget::namespace(namespace),
            ForgetRequest::Prefix {} => Forget::prefix(namespace),
        }
    }
}

async fn forget(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Json(what): Json<ForgetRequest>,
) -> Result<Json<Receipt>, Problem> {
    Ok(Json(app.forget(what.into_forget(&namespace)).await?))
}
