//! Adding memories.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use mnemon::{Message, Role, Timestamp, from_openai};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    super::{
        app::App,
        caller::Right,
        entity::{self, Entity, mark},
        problem::Problem,
        route::Asker,
    },
    fields,
    filter::Filter,
    memory::{Memory, UPDATED_AT},
    time,
};

/// Options of mem0's client that make no difference here: most are of the extraction of facts, and nothing is extracted.
const IGNORED: [&str; 14] = [
    "infer",
    "includes",
    "excludes",
    "custom_categories",
    "custom_instructions",
    "agent_custom_instructions",
    "structured_data_schema",
    "async_mode",
    "enable_graph",
    "version",
    "output_format",
    "org_id",
    "project_id",
    "source",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    messages: Value,
    user_id: Option<String>,
    agent_id: Option<String>,
    app_id: Option<String>,
    run_id: Option<String>,
    /// The ids again: the client's typed options have them here.
    filters: Option<Value>,
    metadata: Option<Map<String, Value>>,
    timestamp: Option<Value>,
    expiration_date: Option<Value>,
    #[serde(default)]
    immutable: Option<bool>,
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    Extension(caller): Asker,
    Json(given): Json<Map<String, Value>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Write)?;
    let add: Add = fields::read(given, &IGNORED)?;
    if add.expiration_date.is_some() {
        return Err(no_expiry());
    }
    if add.immutable == Some(true) {
        return Err(Problem::bad_request(
            "immutable memories are not supported; give a token without the right to write",
        ));
    }
    let entity = entity_of(&add)?;
    let namespace = entity.namespace(&caller)?;
    let created_at = add.timestamp.as_ref().map_or_else(|| Ok(Timestamp::now()), time::read)?;
    let mut messages = messages(add.messages)?;
    let metadata = add.metadata.unwrap_or_default();
    for message in &mut messages {
        message.created_at = Some(created_at);
        message.metadata.extend(metadata.clone());
        message.metadata.remove(UPDATED_AT);
        for (kind, id) in entity.ids() {
            if id.is_some() {
                message.metadata.remove(&mark(kind));
            }
        }
        entity.mark(message);
    }
    let added = messages.clone();
    if !messages.is_empty() {
        app.engine.put(&namespace, messages).await?;
    }
    let results = added.into_iter().map(|message| {
        let mut memory = Memory::new(&caller, &namespace, message).to_json();
        memory["event"] = "ADD".into();
        memory
    });
    Ok(Json(json!({ "results": results.collect::<Vec<_>>() })))
}

pub(super) fn no_expiry() -> Problem {
    Problem::bad_request("expiration_date is not supported: memories are kept until they are deleted; leave it out")
}

/// Returns whose the memories are.
fn entity_of(add: &Add) -> Result<Entity, Problem> {
    let mut entity = match &add.filters {
        Some(filters) => Filter::read(filters)?.entity()?,
        None => Entity::default(),
    };
    for (named, id) in [
        (&mut entity.user_id, &add.user_id),
        (&mut entity.agent_id, &add.agent_id),
        (&mut entity.app_id, &add.app_id),
        (&mut entity.run_id, &add.run_id),
    ] {
        if id.is_some() {
            named.clone_from(id);
        }
    }
    let given: Vec<&String> = entity.ids().into_iter().filter_map(|(_, id)| id.as_ref()).collect();
    match given.is_empty() {
        true => Err(Problem::bad_request(format!("say whose memory it is: give {}", names()))),
        false if given.iter().any(|id| *id == "*") => {
            Err(Problem::bad_request("the id * stands for all; give another"))
        }
        false => Ok(entity),
    }
}

/// The names of the ids, for errors.
pub(super) fn names() -> String {
    entity::KINDS.map(|(kind, _)| mark(kind)).join(", ").replace(", run_id", " or run_id")
}

/// Reads messages as OpenAI's API has them. Those of the system are instructions, not memories; mem0 leaves them out, too.
fn messages(given: Value) -> Result<Vec<Message>, Problem> {
    let given = match given {
        Value::String(text) => vec![json!({ "role": "user", "content": text })],
        Value::Array(messages) => messages,
        message => vec![message],
    };
    let mut messages = from_openai(&given)?;
    messages.retain(|message| message.role != Role::System);
    Ok(messages)
}
