//! Users, agents, apps and runs that have memories.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
};
use mnemon::Namespace;
use serde_json::{Value, json};

use super::{
    super::{
        app::App,
        caller::{Caller, Right},
        entity,
        problem::Problem,
        route::Asker,
    },
    page::PageQuery,
};

/// Namespaces that are read at a time.
const BATCH: usize = 1000;
/// Entities on a page, unless the request says otherwise: the client reads one page, and takes it for all.
const MAX_PAGE_SIZE: usize = 10_000;

pub(super) struct Found {
    pub(super) id: String,
    memories: u64,
}

/// Returns the entities of a kind. Once there are more than so many, it looks for no others.
pub(super) async fn of_kind(app: &App, caller: &Caller, kind: &str, most: usize) -> Result<Vec<Found>, Problem> {
    let folder = entity::folder(caller, kind)?;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = app.engine.namespaces(Some(&folder), after.as_ref(), BATCH).await?;
        for info in page.namespaces.iter().filter(|info| info.messages > 0) {
            if let Some((_, id)) = entity::from_namespace(caller, &info.namespace) {
                found.push(Found { id, memories: info.messages });
            }
        }
        after = page.next;
        if after.is_none() || found.len() > most {
            return Ok(found);
        }
    }
}

/// Returns true if there is a namespace.
pub(super) async fn exists(app: &App, namespace: &Namespace) -> Result<bool, Problem> {
    let page = app.engine.namespaces(Some(namespace), None, 1).await?;
    Ok(page.namespaces.first().is_some_and(|info| info.namespace == *namespace))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Query(query): Query<PageQuery>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Read)?;
    let page = query.page(MAX_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let mut all = Vec::new();
    for (kind, _) in entity::KINDS {
        all.extend(of_kind(&app, &caller, kind, usize::MAX).await?.into_iter().map(|found| (kind, found)));
    }
    let count = all.len();
    let results = page.of(all).map(|(kind, Found { id, memories })| {
        json!({
            "id": id, "name": id, "type": kind, "total_memories": memories,
            "created_at": null, "updated_at": null, "owner": null, "organization": "mnemon", "metadata": null,
        })
    });
    Ok(Json(page.answer("/v1/entities/", count, results.collect())))
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    let namespace = entity::of(&caller, &kind, &id)?;
    if !exists(&app, &namespace).await? {
        return Err(Problem::not_found(format!("there is no {kind} with this id")));
    }
    app.engine.delete_namespace(&namespace).await?;
    Ok(Json(json!({ "message": "Entity deleted successfully!" })))
}
