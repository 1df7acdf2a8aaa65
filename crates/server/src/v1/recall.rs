//! Recall, and why a message was recalled.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::Method,
};
use mnemon::{Hit, Hits, JournalEntry, MAX_QUERY_BYTES, Namespace, Query, Replay, Role, Scope, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    route::{PathNamespace, Route},
    schema::{FilterSchema, NamespaceSchema, RoleSchema, TimeSchema, TimeUseSchema, UnitSchema},
};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    bounds::{BoundedFilter, Cost},
    problem::Problem,
};

/// Entries of the journal that are read at a time.
const PAGE: usize = 256;
/// The most entries of the journal that are read for one request.
const MAX_ENTRIES: usize = 20_000;
/// The most hits of one recall: fewer than the library allows, because each is sent with its whole message.
pub(super) const MAX_HITS: usize = 1000;
/// Seconds of a half-life: a millisecond to a thousand years.
const MIN_HALF_LIFE: f64 = 0.001;
const MAX_HALF_LIFE: f64 = 31_557_600_000.0;
/// A pattern of the names of ranking strategies.
const STRATEGY: &str = r"^(hybrid|dense|lexical|rrf|reciprocal-rank|weighted:(0(\.[0-9]+)?|1(\.0+)?))$";

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
#[serde(deny_unknown_fields)]
struct Options {
    /// The question, up to 1 MiB.
    #[schemars(length(max = MAX_QUERY_BYTES), regex(pattern = r"\S"))]
    query: String,
    /// Number of messages to find, up to 1000. Default: 10.
    #[schemars(range(min = 1, max = MAX_HITS))]
    k: Option<usize>,
    /// Only messages of this session.
    session: Option<String>,
    /// Only messages of this role.
    #[schemars(with = "Option<RoleSchema>")]
    role: Option<Role>,
    /// Only messages from this time on.
    #[schemars(with = "Option<TimeSchema>")]
    since: Option<Timestamp>,
    /// Only messages before this time.
    #[schemars(with = "Option<TimeSchema>")]
    until: Option<Timestamp>,
    /// Only what was known at this time.
    #[schemars(with = "Option<TimeSchema>")]
    as_of: Option<Timestamp>,
    /// A filter on metadata and on `$id`, `$session`, `$role` and `$created_at`.
    #[schemars(with = "Option<FilterSchema>")]
    filter: Option<BoundedFilter>,
    /// Only the messages with these ids.
    ids: Option<Vec<String>>,
    /// Not the messages with these ids.
    #[serde(default)]
    except: Vec<String>,
    /// `hybrid`, `dense`, `lexical`, `rrf` (reciprocal-rank fusion), or `weighted:0.5`. Default: `hybrid`.
    #[schemars(regex(pattern = STRATEGY))]
    strategy: Option<String>,
    /// Default: `message`.
    #[schemars(with = "Option<UnitSchema>")]
    unit: Option<String>,
    /// `boost` messages of a time that the query names, `filter` by it, or `ignore` it. Default: `boost`.
    #[schemars(with = "Option<TimeUseSchema>")]
    time: Option<String>,
    /// Boosts newer messages; the boost halves with each so many seconds of age, a millisecond to a thousand years.
    #[schemars(range(min = MIN_HALF_LIFE, max = MAX_HALF_LIFE))]
    half_life: Option<f64>,
    /// Maximal marginal relevance: 1 ranks by relevance alone, lower values prefer messages unlike each other.
    #[schemars(range(min = 0, max = 1))]
    diversity: Option<f32>,
    /// No hits if the answerability is below this, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    answerable: Option<f32>,
    /// Do not move near-duplicates to the end.
    #[serde(default)]
    keep_duplicates: bool,
    /// Milliseconds after which the search ends with what it has. Default and most: the time that a request may take.
    within_ms: Option<u64>,
}

impl Options {
    /// Returns the query, which ends within the time that a request may take, and the cost of its filter.
    fn into_query(self, app: &App) -> Result<(Query, Cost), Problem> {
        if self.k.is_some_and(|k| !(1..=MAX_HITS).contains(&k)) {
            return Err(Problem::bad_request(format!("k is not within 1 to {MAX_HITS}")));
        }
        let most = app.limits.request_timeout;
        let within = self.within_ms.map_or(most, |milliseconds| Duration::from_millis(milliseconds).min(most));
        let mut query = Query::new(self.query).except(self.except).within(within);
        macro_rules! set {
            ($($field:ident)*) => { $( if let Some(value) = self.$field { query = query.$field(value); } )* };
        }
        set!(k session role since until as_of ids diversity answerable);
        let (filter, cost) = BoundedFilter::divide(self.filter);
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        if let Some(strategy) = self.strategy {
            query = query.strategy(strategy.parse()?);
        }
        if let Some(unit) = self.unit {
            query = query.unit(unit.parse()?);
        }
        if let Some(time) = self.time {
            query = query.time(time.parse()?);
        }
        if let Some(seconds) = self.half_life {
            if !(MIN_HALF_LIFE..=MAX_HALF_LIFE).contains(&seconds) {
                let detail = format!("a half_life of {seconds} seconds; give {MIN_HALF_LIFE} to {MAX_HALF_LIFE}");
                return Err(Problem::bad_request(detail));
            }
            query = query.half_life(Duration::from_secs_f64(seconds));
        }
        if self.keep_duplicates {
            query = query.keep_duplicates();
        }
        Ok((query, cost))
    }
}

/// The hits of a recall, best first.
#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Each is a message with its `score`, `similarity`, `rank`, `passage` and `breakdown`.
    #[schemars(with = "Vec<Value>")]
    hits: Vec<Hit>,
    /// The estimated probability that there is something about the query.
    answerability: f32,
    /// Messages that were searched by their words alone, because they are not embedded yet.
    pending: usize,
    /// Whether the time was over before the search was complete.
    cut_short: bool,
}

impl From<Hits> for Answer {
    fn from(hits: Hits) -> Self {
        let (answerability, pending, cut_short) = (hits.answerability(), hits.pending(), hits.cut_short());
        Answer { hits: hits.into(), answerability, pending, cut_short }
    }
}

async fn recall(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Json(options): Json<Options>,
) -> Result<Json<Answer>, Problem> {
    let (query, cost) = options.into_query(&app)?;
    Ok(Json(app.recall(&namespace, query, cost).await?.into()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SeveralOptions {
    /// The namespaces. Name one at least, here or in `under`.
    #[serde(default)]
    #[schemars(with = "Vec<NamespaceSchema>")]
    namespaces: Vec<String>,
    /// Namespaces, each with all under it.
    #[serde(default)]
    #[schemars(with = "Vec<NamespaceSchema>")]
    under: Vec<String>,
    #[serde(flatten)]
    options: Options,
}

async fn recall_in(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(input): Json<SeveralOptions>,
) -> Result<Json<Answer>, Problem> {
    let scope = scope(&caller, &input.namespaces, &input.under)?;
    let (query, cost) = input.options.into_query(&app)?;
    Ok(Json(app.recall_in(scope, query, cost).await?.into()))
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
pub(crate) struct WhyAnswer {
    /// The recall: its question, its options, and the ids and terms of its hits.
    #[schemars(with = "Value")]
    entry: JournalEntry,
    /// What the same question finds today, and what changed.
    #[schemars(with = "Value")]
    replay: Replay,
}

async fn why(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<WhyAnswer>, Problem> {
    explain(&app, &namespace, &id).await.map(Json)
}

/// Finds the latest recall in the journal that found a message, and repeats it.
pub(crate) async fn explain(app: &App, namespace: &Namespace, id: &str) -> Result<WhyAnswer, Problem> {
    let (mut before, mut read) = (None, 0);
    while read < MAX_ENTRIES {
        let page = app.engine.journal(namespace, PAGE, before).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.number);
        read += page.len();
        if let Some(entry) = page.into_iter().find(|entry| entry.hit(id).is_some()) {
            let replay = app.engine.replay(&entry).await?;
            return Ok(WhyAnswer { entry, replay });
        }
    }
    Err(Problem::not_found("no recall in the journal found this message; recall it first"))
}
