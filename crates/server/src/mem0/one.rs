//! A memory by its id.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
};
use mnemon::{Message, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::{
        app::App,
        caller::{Caller, Right},
        problem::Problem,
        route::Asker,
    },
    add, id,
    memory::{Memory, UPDATED_AT},
    time,
};

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Read)?;
    Ok(Json(find(&app, &caller, &id).await?.to_json()))
}

pub(super) async fn find(app: &App, caller: &Caller, id: &str) -> Result<Memory, Problem> {
    let (namespace, message) = id::seen(caller, id)?;
    let message = app.engine.get(&namespace, &message).await?.ok_or_else(id::unknown)?;
    Ok(Memory::new(caller, &namespace, message))
}

/// The parts of a memory to replace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Update {
    text: Option<String>,
    /// The new metadata, instead of the old.
    metadata: Option<Map<String, Value>>,
    timestamp: Option<Value>,
    /// Null clears it, and there is never one.
    expiration_date: Option<Value>,
}

impl Update {
    /// Changes a memory that is not stored yet.
    pub(super) fn apply(self, memory: &mut Memory) -> Result<(), Problem> {
        if self.expiration_date.is_some() {
            return Err(add::no_expiry());
        }
        if let Some(metadata) = self.metadata {
            memory.set_metadata(metadata);
        }
        if let Some(text) = self.text {
            memory.message.content = Message::user(text).content;
        }
        if let Some(timestamp) = self.timestamp {
            memory.message.created_at = Some(time::read(&timestamp)?);
        }
        memory.message.metadata.insert(UPDATED_AT.to_owned(), Timestamp::now().as_micros().into());
        Ok(())
    }
}

pub(super) async fn update(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Path(id): Path<String>,
    Json(update): Json<Update>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Write)?;
    let mut memory = find(&app, &caller, &id).await?;
    let is_metadata_alone = update.text.is_none() && update.timestamp.is_none();
    update.apply(&mut memory)?;
    let Memory { namespace, message, .. } = &memory;
    match is_metadata_alone {
        true if !app.engine.set_metadata(namespace, &message.id, message.metadata.clone()).await? => {
            return Err(id::unknown());
        }
        true => {}
        false => drop(app.engine.put(namespace, vec![message.clone()]).await?),
    }
    let mut answer = memory.to_json();
    answer["text"] = answer["memory"].clone();
    Ok(Json(answer))
}

/// Deletes a memory. `delete_linked` makes no difference: no memory is linked to another.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    let (namespace, message) = id::seen(&caller, &id)?;
    match app.engine.delete(&namespace, vec![message]).await? {
        0 => Err(id::unknown()),
        _ => Ok(Json(json!({ "message": "Memory deleted successfully!" }))),
    }
}

/// Returns that the memory was added, and that it was updated. Texts that were replaced are not kept.
pub(super) async fn history(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Read)?;
    let memory = find(&app, &caller, &id).await?;
    let text = Some(memory.message.text());
    let event = |event: &str, text: Option<String>, time: Option<i64>| {
        let time = time.and_then(Timestamp::from_micros);
        json!({
            "id": format!("{}-{}", memory.id(), event.to_lowercase()),
            "memory_id": memory.id(),
            "input": text.iter().map(|text| json!({ "role": memory.message.role, "content": text })).collect::<Vec<_>>(),
            "old_memory": null,
            "new_memory": text,
            "event": event,
            "user_id": memory.entity("user"),
            "metadata": memory.metadata(),
            "created_at": time,
            "updated_at": time,
        })
    };
    let events = match memory.is_updated() {
        true => vec![event("ADD", None, memory.created_at()), event("UPDATE", text, memory.updated_at())],
        false => vec![event("ADD", text, memory.created_at())],
    };
    Ok(Json(events.into()))
}
