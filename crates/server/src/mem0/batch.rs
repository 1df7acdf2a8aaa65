//! Updating and deleting several memories. If one is missing, nothing is changed.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Extension, Json, extract::State};
use mnemon::Namespace;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{app::App, caller::Right, problem::Problem, route::Asker},
    id,
    one::{self, Update},
    page::Bytes,
};

const MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Updates {
    memories: Vec<NamedUpdate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedUpdate {
    memory_id: String,
    #[serde(flatten)]
    update: Update,
}

/// Updates memories in one commit.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Json(Updates { memories }): Json<Updates>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Write)?;
    check(memories.len())?;
    let (mut changed, mut bytes) = (Vec::new(), Bytes::default());
    for NamedUpdate { memory_id, update } in memories {
        let mut memory = one::find(&app, &caller, &memory_id).await?;
        update.apply(&mut memory)?;
        bytes.add(&memory.message)?;
        changed.push((memory.namespace, memory.message));
    }
    let number = changed.len();
    app.engine.put_all(changed).await?;
    Ok(Json(json!({ "message": format!("Successfully updated {number} memories") })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Deletions {
    memories: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a memory is named by its id, or by {\"memory_id\": ID}")]
enum Named {
    Object { memory_id: String },
    Id(String),
}

/// Deletes memories, in one commit for each namespace.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Json(Deletions { memories }): Json<Deletions>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    check(memories.len())?;
    let mut ids: BTreeMap<Namespace, Vec<String>> = BTreeMap::new();
    for Named::Object { memory_id: id } | Named::Id(id) in memories {
        let memory = one::find(&app, &caller, &id).await?;
        ids.entry(memory.namespace).or_default().push(memory.message.id);
    }
    let mut deleted = 0;
    for (namespace, ids) in ids {
        deleted += app.engine.delete(&namespace, ids).await?;
    }
    match deleted {
        0 => Err(id::unknown()),
        _ => Ok(Json(json!({ "message": format!("Successfully deleted {deleted} memories") }))),
    }
}

fn check(number: usize) -> Result<(), Problem> {
    match number {
        1..=MAX => Ok(()),
        _ => Err(Problem::bad_request(format!("{number} memories; give 1 to {MAX}"))),
    }
}
