//! Listing memories, and deleting those of an entity.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Json,
    extract::{Query, State},
};
use mnemon::{Error, Namespace};
use serde_json::{Map, Value, json};

use super::{
    super::{
        app::App,
        caller::{Caller, Right},
        entity::{self, mark},
        problem::Problem,
        route::Asker,
    },
    add,
    conditions::Conditions,
    entities, fields,
    filter::{Field, Filter, Test},
    homes::{self, Homes},
    memory::Memory,
    page::{Bytes, PageQuery},
    python,
};

const PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 200;
/// Memories that are deleted in one commit.
const BATCH: usize = 1000;
/// The time that filters are evaluated before other requests have their turn.
const TURN: Duration = Duration::from_millis(5);
/// The parameters by which memories are deleted.
pub(super) const DELETED_BY: [&str; 5] = ["user_id", "agent_id", "app_id", "run_id", "filters"];
/// Options of mem0's client that make no difference here.
const IGNORED: [&str; 8] =
    ["show_expired", "latest_only", "version", "output_format", "enable_graph", "fields", "org_id", "project_id"];

/// Lists memories, the newest first. Each page reads all messages of the namespaces, because it has their number, but keeps
/// only where they are.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Query(query): Query<PageQuery>,
    Json(given): Json<Map<String, Value>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Read)?;
    let page = query.page(PAGE_SIZE, MAX_PAGE_SIZE)?;
    let filter = fields::read::<Conditions>(given, &IGNORED)?.filter()?;
    let all = homes::of(&app, &caller, &filter).await?;
    let mut found = Vec::new();
    for (homes, namespace) in namespaces(&all) {
        each(&app, &caller, namespace, &homes.filter, |memory| {
            found.push((memory.created_at(), namespace, memory.message.id));
        })
        .await?;
    }
    // Of equal times the later in its session comes first.
    found.reverse();
    found.sort_by_key(|(created_at, ..)| std::cmp::Reverse(*created_at));
    let count = found.len();
    let (mut results, mut bytes) = (Vec::new(), Bytes::default());
    for (_, namespace, id) in page.of(found) {
        // One that was deleted meanwhile is left out.
        if let Some(message) = app.engine.get(namespace, &id).await? {
            bytes.add(&message)?;
            results.push(Memory::new(&caller, namespace, message).to_json());
        }
    }
    Ok(Json(page.answer("/v3/memories/", count, results)))
}

fn namespaces(all: &[Homes]) -> impl Iterator<Item = (&Homes, &Namespace)> {
    all.iter().flat_map(|homes| homes.namespaces.iter().map(move |namespace| (homes, namespace)))
}

/// Calls a function with each memory of a namespace that matches, session by session. It yields, so that other requests are
/// answered meanwhile, and a request whose time is over ends.
pub(super) async fn each(
    app: &App,
    caller: &Caller,
    namespace: &Namespace,
    filter: &Filter,
    mut take: impl FnMut(Memory),
) -> Result<(), Problem> {
    for info in app.engine.sessions(namespace).await? {
        let messages = app.engine.history(namespace, &info.session).await?;
        let mut begun = Instant::now();
        for message in messages {
            let memory = Memory::new(caller, namespace, message);
            if filter.matches(&memory) {
                take(memory);
            }
            if begun.elapsed() > TURN {
                tokio::task::yield_now().await;
                begun = Instant::now();
            }
        }
    }
    Ok(())
}

/// Deletes all memories of a user, agent, app or run, or of all of a kind with `*`. A parameter that is not known is refused,
/// because without it more would be deleted.
pub(super) async fn delete_all(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    let filter = to_delete(&parameters)?;
    let mut is_changed = false;
    for homes in homes::of(&app, &caller, &filter).await? {
        let runs = only_runs(&homes.filter);
        for namespace in &homes.namespaces {
            is_changed |= match &runs {
                _ if homes.filter == Filter::All(Vec::new()) => {
                    let exists = entities::exists(&app, namespace).await?;
                    app.engine.delete_namespace(namespace).await?;
                    exists
                }
                Some(runs) => delete_sessions(&app, namespace, runs).await?,
                None => delete_matching(&app, &caller, namespace, &homes.filter).await?,
            };
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
        match entity::KINDS.iter().find(|(kind, _)| mark(kind) == *name) {
            Some(_) => all.push(Filter::read(&json!({ name: value }))?),
            None if name == "filters" => {
                let filters = serde_json::from_str(value).ok().or_else(|| python::read(value));
                let filters = filters.ok_or_else(|| Problem::bad_request("filters: this is no JSON"))?;
                all.push(Filter::read(&filters)?);
            }
            None if ["org_id", "project_id"].contains(&name.as_str()) => {}
            None => {
                let detail = format!("{name:?} is not supported here; say whose memories to delete: {}", add::names());
                return Err(Problem::bad_request(detail));
            }
        }
    }
    match all.is_empty() {
        true => Err(Problem::bad_request(format!("say whose memories to delete: {}", add::names()))),
        false => Ok(Filter::All(all)),
    }
}

/// Returns the runs, if they are all that a filter names: they are sessions, and are deleted with their checkpoints.
fn only_runs(filter: &Filter) -> Option<Vec<String>> {
    match filter {
        Filter::All(inner) if inner.len() == 1 => only_runs(&inner[0]),
        Filter::Holds(Field::Entity("run"), Test::In(runs)) => {
            runs.iter().map(|run| run.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// Returns true if there was one of the sessions.
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

/// Returns true if there was a memory that matches.
async fn delete_matching(app: &App, caller: &Caller, namespace: &Namespace, filter: &Filter) -> Result<bool, Problem> {
    let mut ids = Vec::new();
    each(app, caller, namespace, filter, |memory| ids.push(memory.message.id)).await?;
    let mut deleted = 0;
    for batch in ids.chunks(BATCH) {
        deleted += app.engine.delete(namespace, batch.to_vec()).await?;
    }
    Ok(deleted > 0)
}
