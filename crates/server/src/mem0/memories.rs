//! Adding memories, and reading, changing and deleting them by their ids: one, or several in a batch.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension, Json,
    extract::{Path, State},
    response::Response,
};
use mnemon::{Engine, Message, Namespace, Role, Timestamp, from_openai};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::{
    facts::{self, Facts},
    fields,
    filter::Filter,
    memory::{self, Memory, UPDATED_AT},
};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    entity::{self, Entity, id_name},
    problem::Problem,
};

/// Memories of a batch.
const MAX_BATCH: usize = 1000;
/// Options of adding that make no difference here: most are about how facts are extracted.
const IGNORED: [&str; 13] = [
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
    /// The ids, where the client's typed options have them.
    filters: Option<Value>,
    metadata: Option<Map<String, Value>>,
    timestamp: Option<Value>,
    expiration_date: Option<Value>,
    #[serde(default)]
    immutable: Option<bool>,
    /// False: the messages are stored as they are. Otherwise a language model makes facts of them, if the namespace has one.
    infer: Option<bool>,
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(given): Json<Map<String, Value>>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Write)?;
    let add: Add = fields::read_body(given, &IGNORED)?;
    if add.immutable == Some(true) {
        return Err(Problem::bad_request(
            "immutable memories are not supported; give a token without the right to write",
        ));
    }
    let entity = entity_of(&add)?;
    let namespace = entity.namespace(&caller)?;
    let created_at = add.timestamp.as_ref().map_or_else(|| Ok(Timestamp::now()), fields::read_time)?;
    let expires_at = fields::read_expiration_date(&add.expiration_date.unwrap_or_default())?;
    let mut messages = messages(add.messages)?;
    let mut metadata = add.metadata.unwrap_or_default();
    metadata.retain(|name, _| !memory::is_reserved(name));
    if let Some(facts) = Facts::of(&app, &app.engine, &namespace).filter(|_| add.infer != Some(false)) {
        refuse_expiry_of_facts(expires_at)?;
        messages.iter_mut().for_each(|message| message.created_at = Some(created_at));
        metadata.extend(facts::other_ids(&entity));
        return infer(app, caller, facts, messages, metadata).await;
    }
    for message in &mut messages {
        (message.created_at, message.expires_at) = (Some(created_at), expires_at);
        message.metadata.extend(metadata.clone());
        message.metadata.remove(UPDATED_AT);
        for (kind, id) in entity.ids() {
            if id.is_some() {
                message.metadata.remove(&id_name(kind));
            }
        }
        entity.note_ids(message);
    }
    let added = messages.clone();
    if !messages.is_empty() {
        let put = tokio::time::timeout(app.limits.request_timeout, app.engine.put(&namespace, messages));
        put.await.map_err(|_| Problem::timed_out())??;
    }
    let results = added.into_iter().map(|message| {
        let mut memory = Memory::new(&caller, &namespace, message).to_json();
        memory["event"] = "ADD".into();
        memory
    });
    Ok(Json(json!({ "results": results.collect::<Vec<_>>() })))
}

/// Lets a language model change the facts of a home, and answers with what it changed. The request has one of the places
/// for slow ones until the model has answered, even if the client goes away.
async fn infer(
    app: Arc<App>,
    caller: Arc<Caller>,
    facts: Facts,
    messages: Vec<Message>,
    metadata: Map<String, Value>,
) -> Result<Json<Value>, Problem> {
    let limit = app.formation.longest_inference() + app.limits.request_timeout;
    let inference = tokio::spawn(async move {
        let _place = app.slow_place()?;
        facts.infer(&app, &caller, &messages, &metadata).await
    });
    let inferred = tokio::time::timeout(limit, inference).await.map_err(|_| Problem::timed_out())?;
    let results = inferred.unwrap_or_else(|_| Err(Problem::from(mnemon::Error::Closed)))?;
    Ok(Json(json!({ "results": results })))
}

fn refuse_expiry_of_facts(expires_at: Option<Timestamp>) -> Result<(), Problem> {
    match expires_at {
        None => Ok(()),
        Some(_) => Err(Problem::bad_request(
            "a memory that a model makes does not expire: leave expiration_date out, or add the memory with infer=False",
        )),
    }
}

/// Returns whose the memories are: the ids beside the messages, and those of `filters` that are not there.
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
        true => Err(Problem::bad_request(format!("say whose memory it is: give {}", entity::id_names()))),
        false if given.iter().any(|id| *id == "*") => {
            Err(Problem::bad_request("the id * stands for all; give another"))
        }
        false => Ok(entity),
    }
}

/// Reads messages in OpenAI's format. Those of the system are left out, as mem0 does: they are instructions, not memories. So are those
/// in which nothing is said.
fn messages(given: Value) -> Result<Vec<Message>, Problem> {
    let given = match given {
        Value::String(text) => vec![json!({ "role": "user", "content": text })],
        Value::Array(messages) => messages,
        message => vec![message],
    };
    let mut messages = from_openai(&given)?;
    messages.retain(|message| message.role != Role::System && !memory::text_of(message).is_empty());
    Ok(messages)
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.require(Right::Read)?;
    let reader = app.reader();
    let memory = find(&app, &reader, &caller, &id).await?;
    app.json(reader, memory.to_json()).await
}

async fn find(app: &App, reader: &Engine, caller: &Caller, id: &str) -> Result<Memory, Problem> {
    let (namespace, id) = memory::seen(caller, id)?;
    load(app, reader, caller, &namespace, &id).await?.ok_or_else(memory::unknown)
}

/// Returns a message of a namespace, or a fact if these are facts.
pub(super) async fn load(
    app: &App,
    reader: &Engine,
    caller: &Caller,
    namespace: &Namespace,
    id: &str,
) -> Result<Option<Memory>, Problem> {
    match Facts::at(app, reader, caller, namespace) {
        Some(facts) => facts.get(caller, id).await,
        None => Ok(reader.get(namespace, id).await?.map(|message| Memory::new(caller, namespace, message))),
    }
}

/// The parts of a memory to replace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Update {
    text: Option<String>,
    /// The new metadata, instead of the old.
    metadata: Option<Map<String, Value>>,
    timestamp: Option<Value>,
    /// The last day of the memory; null: it does not expire.
    #[serde(default, deserialize_with = "given")]
    expiration_date: Option<Value>,
}

/// Reads a field that is given, be it null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Update {
    /// Changes a memory, and does not store it.
    pub(super) fn apply(self, memory: &mut Memory) -> Result<(), Problem> {
        if let Some(date) = self.expiration_date {
            memory.message.expires_at = fields::read_expiration_date(&date)?;
            refuse_expiry_of_facts(memory.message.expires_at.filter(|_| memory.is_fact))?;
        }
        if memory.is_fact && self.timestamp.is_some() {
            return Err(Problem::bad_request(
                "the time of a memory that a model made cannot be changed; leave timestamp out",
            ));
        }
        if let Some(metadata) = self.metadata {
            memory.set_metadata(metadata);
        }
        if let Some(text) = self.text {
            memory.message.content = Message::user(text).content;
        }
        if let Some(timestamp) = self.timestamp {
            memory.message.created_at = Some(fields::read_time(&timestamp)?);
        }
        memory.message.metadata.insert(UPDATED_AT.to_owned(), Timestamp::now().as_micros().into());
        Ok(())
    }
}

pub(super) async fn update(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Path(id): Path<String>,
    Json(update): Json<Update>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Write)?;
    let mut memory = find(&app, &app.engine, &caller, &id).await?;
    let is_metadata_alone = update.text.is_none() && update.timestamp.is_none() && update.expiration_date.is_none();
    update.apply(&mut memory)?;
    let Memory { namespace, message, .. } = &memory;
    match is_metadata_alone {
        _ if memory.is_fact => put_facts(&app, &caller, std::slice::from_ref(&memory)).await?,
        true if !app.engine.set_metadata(namespace, &message.id, message.metadata.clone()).await? => {
            return Err(memory::unknown());
        }
        true => {}
        false => drop(app.engine.put(namespace, vec![message.clone()]).await?),
    }
    let mut answer = memory.to_json();
    answer["text"] = answer["memory"].clone();
    Ok(Json(answer))
}

/// Stores changed facts, in one commit.
async fn put_facts(app: &App, caller: &Caller, memories: &[Memory]) -> Result<(), Problem> {
    let put = |memory: &Memory| Some(Facts::at(app, &app.engine, caller, &memory.namespace)?.changed(memory));
    app.engine.document_batch(memories.iter().filter_map(put).collect()).await?;
    Ok(())
}

/// Deletes memories of a namespace by their ids in it. Returns how many there were.
pub(super) async fn delete_in(
    app: &App,
    caller: &Caller,
    namespace: &Namespace,
    ids: Vec<String>,
) -> Result<u64, Problem> {
    match Facts::at(app, &app.engine, caller, namespace) {
        Some(facts) => facts.delete(ids).await,
        None => Ok(app.engine.delete(namespace, ids).await?),
    }
}

/// Deletes a memory. `delete_linked` makes no difference: no memory is linked to another.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    let (namespace, message) = memory::seen(&caller, &id)?;
    match delete_in(&app, &caller, &namespace, vec![message]).await? {
        0 => Err(memory::unknown()),
        _ => Ok(Json(json!({ "message": "Memory deleted successfully!" }))),
    }
}

/// Returns the events of a memory: that it was added, and its updates. Of the updates before the server kept versions, the
/// last alone is known, and not the text before it.
pub(super) async fn history(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.require(Right::Read)?;
    let reader = app.reader();
    let memory = find(&app, &reader, &caller, &id).await?;
    let versions = reader.versions(&memory.namespace, &memory.message.id).await?;
    let (changes, mut states): (Vec<Timestamp>, Vec<Memory>) = versions
        .into_iter()
        .map(|version| (version.until, Memory::new(&caller, &memory.namespace, version.message)))
        .unzip();
    states.push(memory);
    let mut events = Vec::new();
    let mut add = |memory: &Memory, old: Option<String>, text: Option<String>, time: Option<Timestamp>| {
        let (event, id) = match events.len() {
            0 => ("ADD", format!("{}-add", memory.id())),
            1 => ("UPDATE", format!("{}-update", memory.id())),
            number => ("UPDATE", format!("{}-update-{number}", memory.id())),
        };
        events.push(json!({
            "id": id,
            "memory_id": memory.id(),
            "input": text.iter().map(|text| json!({ "role": memory.message.role, "content": text })).collect::<Vec<_>>(),
            "old_memory": old,
            "new_memory": text,
            "event": event,
            "user_id": memory.entity("user"),
            "metadata": memory.metadata(),
            "created_at": time,
            "updated_at": time,
        }));
    };
    let first = &states[0];
    let text = Some(memory::text_of(&first.message));
    let [created_at, updated_at] = [first.created_at(), first.updated_at()].map(|at| Timestamp::from_micros(at?));
    match first.is_updated() {
        true => {
            add(first, None, None, created_at);
            add(first, None, text, updated_at);
        }
        false => add(first, None, text, created_at),
    }
    for (pair, at) in states.windows(2).zip(changes) {
        add(&pair[1], Some(memory::text_of(&pair[0].message)), Some(memory::text_of(&pair[1].message)), Some(at));
    }
    app.json(reader, events).await
}

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

/// Updates several memories: messages in one commit, and facts in another. If one is missing, nothing is changed.
pub(super) async fn update_batch(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(Updates { memories }): Json<Updates>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Write)?;
    check_batch(memories.len())?;
    let (mut changed, reader) = (Vec::new(), app.reader());
    for NamedUpdate { memory_id, update } in memories {
        let mut memory = find(&app, &reader, &caller, &memory_id).await?;
        update.apply(&mut memory)?;
        changed.push(memory);
    }
    let number = changed.len();
    let (facts, messages): (Vec<Memory>, Vec<Memory>) = changed.into_iter().partition(|memory| memory.is_fact);
    if !messages.is_empty() {
        app.engine.put_all(messages.into_iter().map(|memory| (memory.namespace, memory.message)).collect()).await?;
    }
    if !facts.is_empty() {
        put_facts(&app, &caller, &facts).await?;
    }
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

/// Deletes several memories, in one commit for each namespace. If one is missing, nothing is deleted.
pub(super) async fn delete_batch(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(Deletions { memories }): Json<Deletions>,
) -> Result<Json<Value>, Problem> {
    caller.require(Right::Forget)?;
    check_batch(memories.len())?;
    let mut ids: BTreeMap<Namespace, Vec<String>> = BTreeMap::new();
    for Named::Object { memory_id: id } | Named::Id(id) in memories {
        let memory = find(&app, &app.engine, &caller, &id).await?;
        ids.entry(memory.namespace).or_default().push(memory.message.id);
    }
    let mut deleted = 0;
    for (namespace, ids) in ids {
        deleted += delete_in(&app, &caller, &namespace, ids).await?;
    }
    match deleted {
        0 => Err(memory::unknown()),
        _ => Ok(Json(json!({ "message": format!("Successfully deleted {deleted} memories") }))),
    }
}

fn check_batch(number: usize) -> Result<(), Problem> {
    match number {
        1..=MAX_BATCH => Ok(()),
        _ => Err(Problem::bad_request(format!("{number} memories; give 1 to {MAX_BATCH}"))),
    }
}
