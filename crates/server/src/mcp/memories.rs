//! The tools of memories, which are the messages of namespaces.

use mnemon::{
    Message, Namespace, Query, Timestamp,
    message::{Source, TimeZone},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    answer::{Item, Kind, MAX_BYTES, Output, page_length},
    documents,
    input::{Answerable, DocumentLimit, Limit, MinScore, Offset},
};
use crate::{
    access::Caller,
    app::{App, RERANKED},
    bounds::BoundedFilter,
    entity::{self, Entity},
    problem::Problem,
    v1,
};

/// Messages that one call adds.
const MAX_MESSAGES: usize = 1000;
/// Entities on a page.
const ENTITIES: usize = 100;
/// Hits of a recall that `why` shows besides the memory in question, and the most bytes of its question and of its options.
const EXPLAINED: usize = 5;
const EXPLAINED_BYTES: usize = 4000;

/// A message of a conversation, as a chat API has it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Turn {
    /// Who said it. `developer` is stored as `system`, `function` as `tool`.
    #[schemars(extend("enum" = ["user", "assistant", "system", "tool", "developer", "function"]))]
    role: String,
    /// A text, or an array of parts.
    #[serde(default)]
    content: Value,
    /// The speaker's name.
    name: Option<String>,
    /// Calls of tools, in OpenAI's form.
    tool_calls: Option<Vec<Map<String, Value>>>,
    /// The id of the call that the message is the result of.
    tool_call_id: Option<String>,
}

impl Turn {
    fn message(&self) -> Result<Message, Problem> {
        let read = serde_json::to_value(self).and_then(serde_json::from_value::<Message>);
        let message = read.map_err(|error| Problem::bad_request(error.to_string()))?;
        Ok(message.at(Timestamp::now()))
    }
}

/// A memory to add: either `text` or `messages`, and the ids of the user, agent or run that it belongs to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddMemory {
    /// The text to remember, in sentences that can be understood alone.
    text: Option<String>,
    /// The messages of a conversation, instead of a text. Up to 1,000.
    #[schemars(length(min = 1, max = 1000))]
    messages: Option<Vec<Turn>>,
    /// Says whose words the memory is. Default: the role decides; a text is the user's.
    #[schemars(with = "Option<String>", extend("enum" = ["user", "assistant", "tool", "web", "import"]))]
    source: Option<Source>,
    /// Ids of memories whose place this one takes: searches no longer return them.
    #[serde(default)]
    supersedes: Vec<String>,
    /// Data of yours, by which searches can filter.
    #[serde(default)]
    metadata: Map<String, Value>,
    /// The time at which it is to be forgotten, such as `2030-12-31T09:30:00Z`. Default: never.
    #[schemars(with = "Option<String>")]
    expires_at: Option<Timestamp>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn add_memory(app: &App, caller: &Caller, input: AddMemory) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let mut messages = match (input.text, input.messages) {
        (Some(text), None) => vec![Message::user(not_blank(text)?)],
        (None, Some(turns)) if (1..=MAX_MESSAGES).contains(&turns.len()) => {
            turns.iter().map(Turn::message).collect::<Result<_, Problem>>()?
        }
        (None, Some(turns)) => {
            let reason = format!("{} messages; give 1 to {MAX_MESSAGES} in a call", turns.len());
            return Err(Problem::bad_request(reason));
        }
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request(
                "both `text` and `messages`; give one of them, and nothing is said twice",
            ));
        }
        (None, None) => return Err(Problem::bad_request("nothing to remember: give `text`, or `messages`")),
    };
    for message in &mut messages {
        message.expires_at = input.expires_at;
        message.metadata.extend(input.metadata.clone());
        if let Some(source) = input.source {
            *message = message.clone().from_source(source);
        }
        for id in &input.supersedes {
            *message = message.clone().supersedes(id);
        }
        input.entity.note_ids(message);
    }
    let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
    app.put(&namespace, messages).await?;
    Ok(Output::data(json!({ "ids": ids, "namespace": namespace })))
}

fn not_blank(text: String) -> Result<String, Problem> {
    match text.trim().is_empty() {
        true => Err(Problem::bad_request("`text` is empty: say what to remember")),
        false => Ok(text),
    }
}

/// A question, and whose memories are searched.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchMemories {
    /// The question.
    query: String,
    /// Memories to return. Default: 10.
    limit: Option<Limit>,
    /// Documents to return besides. Default: 3, and none with `run_id`, `filter`, `answerable` or `min_score`, which documents have not.
    documents: Option<DocumentLimit>,
    /// A filter on metadata and on `$session`, `$role`, `$source` and `$created_at`, such as `{"topic": "food"}`.
    #[schemars(with = "Option<Map<String, Value>>")]
    filter: Option<BoundedFilter>,
    /// Return also memories that a later one supersedes, see `supersedes` of add_memory. Default: false.
    #[serde(default)]
    include_superseded: bool,
    /// The time zone of the days that the question names, such as `Europe/Berlin` or `+02:00`. Default: that of the server.
    #[schemars(with = "Option<String>")]
    time_zone: Option<TimeZone>,
    /// Return no memory if the answerability of the question, an estimate, is below this. It is below 0.5 for some questions that
    /// the memories do answer. Default: nothing is left out.
    answerable: Option<Answerable>,
    /// Return only memories of at least this relevance, an estimate of how likely they are evidence: 0.05 leaves out most of what
    /// has nothing to do with the question. Default: nothing is left out.
    min_score: Option<MinScore>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn search_memories(app: &App, caller: &Caller, input: SearchMemories) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let has_narrowed = !input.entity.is_whole()? || input.filter.is_some();
    let has_narrowed = has_narrowed || input.answerable.is_some() || input.min_score.is_some();
    let documents = input.documents.map_or(if has_narrowed { 0 } else { 3 }, |limit| limit.0);
    let reader = app.reader();
    let documents = documents::found(app, &reader, &namespace, &input.query, documents, true).await?;
    let limit = input.limit.map_or(10, |limit| limit.0);
    let mut query = Query::new(input.query).k(limit).within(app.limits.request_timeout);
    let (filter, cost) = BoundedFilter::divide(input.filter);
    for filter in filter.into_iter().chain(input.entity.filter()?) {
        query = query.filter(filter);
    }
    if let Some(session) = input.entity.session() {
        query = query.session(session);
    }
    if input.include_superseded {
        query = query.include_superseded();
    }
    if let Some(zone) = input.time_zone {
        query = query.time_zone(zone);
    }
    if app.reranks && limit <= RERANKED {
        query = query.rerank(RERANKED);
    }
    if let Some(Answerable(least)) = input.answerable {
        query = query.answerable(least as f32);
    }
    if let Some(MinScore(least)) = input.min_score {
        query = query.min_score(least as f32);
    }
    let hits = app.recall(&reader, &namespace, query, cost).await?;
    let answerability = hits.answerability();
    let not_embedded = hits.not_embedded().map(str::to_owned);
    let memories: Vec<Item> = hits.into_iter().map(|hit| Item::listed(hit.message, Some(hit.score))).collect();
    let of_documents = if documents.is_empty() { 0 } else { MAX_BYTES / 5 };
    let mut output =
        Output::ranking(Kind::Memory, &memories, MAX_BYTES - of_documents).with("answerability", answerability);
    if let Some(reason) = not_embedded {
        output = output.with("not_embedded", reason);
    }
    Ok(match documents.is_empty() {
        true => output,
        false => output.and(Output::ranking(Kind::Document, &documents, of_documents)),
    })
}

/// Whose memories are listed, and which page of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetMemories {
    /// Memories on a page; there are fewer on it if they are long. Default: 50.
    limit: Option<Limit>,
    /// The `next` of the last answer.
    cursor: Option<String>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn get_memories(app: &App, caller: &Caller, input: GetMemories) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let filter = input.entity.filter()?;
    let page = |limit| {
        let (session, cursor) = (input.entity.session(), input.cursor.as_deref());
        v1::page_of(app, &namespace, session, filter.as_ref(), cursor, limit)
    };
    let (messages, mut next) = page(input.limit.map_or(50, |limit| limit.0)).await?;
    let mut items: Vec<Item> = messages.into_iter().map(|message| Item::listed(message, None)).collect();
    let fitting = page_length(&items);
    if fitting < items.len() {
        let shorter = page(fitting).await?;
        (items, next) = (shorter.0.into_iter().map(|message| Item::listed(message, None)).collect(), shorter.1);
    }
    Ok(Output::page(Kind::Memory, &items).with("next", next))
}

/// A memory, and whose it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneMemory {
    /// The id of the memory.
    memory_id: String,
    #[serde(flatten)]
    entity: Entity,
}

fn no_memory() -> Problem {
    Problem::not_found("there is no memory of this id there; check user_id or namespace, too")
}

/// Returns a memory and its namespace. One of another run or agent than those named does not exist.
pub(super) async fn find(
    app: &App,
    caller: &Caller,
    entity: &Entity,
    id: &str,
) -> Result<(Namespace, Message), Problem> {
    let namespace = entity.namespace(caller)?;
    let message = app.engine.get(&namespace, id).await?.ok_or_else(no_memory)?;
    match entity.has(&message)? {
        true => Ok((namespace, message)),
        false => Err(no_memory()),
    }
}

/// A memory, whose it is, and where to begin in a long one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetMemory {
    /// The id of the memory.
    memory_id: String,
    /// The byte of its text from which to return it, as the `cut` of a long one says. Default: 0.
    offset: Option<Offset>,
    /// Return also what it was before its changes, each with the time `until` which it was so: the memory as it is, and then
    /// the last version first. Only a server with --keep-versions keeps them. Default: false.
    #[serde(default)]
    versions: bool,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn get_memory(app: &App, caller: &Caller, input: GetMemory) -> Result<Output, Problem> {
    let (namespace, message) = find(app, caller, &input.entity, &input.memory_id).await?;
    if input.versions {
        let versions = app.reader().versions(&namespace, &input.memory_id).await?.into_iter().rev();
        let versions = versions.map(|version| Item::whole(version.message).with("until", version.until.to_string()));
        let all: Vec<Item> = [Item::whole(message)].into_iter().chain(versions).collect();
        return Ok(Output::ranking(Kind::Memory, &all, MAX_BYTES));
    }
    Ok(Output::one(&Item::whole(message), input.offset.map_or(0, |offset| offset.0)))
}

/// A memory, whose it is, and its new text, its new metadata, or both.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateMemory {
    /// The id of the memory.
    memory_id: String,
    /// The new text. Default: unchanged.
    text: Option<String>,
    /// The new metadata, instead of the old. Default: unchanged.
    metadata: Option<Map<String, Value>>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn update_memory(app: &App, caller: &Caller, input: UpdateMemory) -> Result<Output, Problem> {
    if input.text.is_none() && input.metadata.is_none() {
        return Err(Problem::bad_request("nothing to change: give `text`, `metadata`, or both"));
    }
    let text = input.text.map(not_blank).transpose()?;
    let (namespace, mut message) = find(app, caller, &input.entity, &input.memory_id).await?;
    if let Some(metadata) = input.metadata {
        message.metadata = metadata;
    }
    match text {
        Some(text) => {
            message.content = Message::user(text).content;
            app.engine.put(&namespace, vec![message.clone()]).await?;
        }
        None => drop(app.engine.set_metadata(&namespace, &message.id, message.metadata.clone()).await?),
    }
    Ok(Output::one(&Item::whole(message), 0))
}

pub(super) async fn delete_memory(app: &App, caller: &Caller, input: OneMemory) -> Result<Output, Problem> {
    let (namespace, message) = find(app, caller, &input.entity, &input.memory_id).await?;
    match app.engine.delete(&namespace, vec![message.id]).await? {
        0 => Err(no_memory()),
        deleted => Ok(Output::data(json!({ "deleted": deleted }))),
    }
}

/// A page of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListEntities {
    /// The `next` of the last answer.
    cursor: Option<String>,
}

pub(super) async fn list_entities(app: &App, caller: &Caller, input: ListEntities) -> Result<Output, Problem> {
    let after = input.cursor.map(|cursor| cursor.parse()).transpose()?;
    let mut page = app.engine.namespaces(caller.prefix(), after.as_ref(), ENTITIES).await?;
    let mut sum = 0;
    let fitting = page.namespaces.iter().take_while(|info| {
        // An entry has the name of the namespace twice, escaped.
        sum += 2 * json!(info.namespace).to_string().len() + 80;
        sum <= MAX_BYTES
    });
    let fitting = fitting.count().max(1);
    if fitting < page.namespaces.len() {
        page = app.engine.namespaces(caller.prefix(), after.as_ref(), fitting).await?;
    }
    let entities = page.namespaces.into_iter().map(|info| {
        let entity = entity::from_namespace(caller, &info.namespace);
        let (kind, id) = entity.unwrap_or_else(|| ("namespace", info.namespace.to_string()));
        json!({ "type": kind, "id": id, "namespace": info.namespace, "memories": info.messages, "documents": info.documents })
    });
    let next = page.next.map(|cursor| cursor.to_string());
    Ok(Output::data(json!({ "entities": entities.collect::<Vec<_>>(), "next": next })))
}

pub(super) async fn why(app: &App, caller: &Caller, input: OneMemory) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    // The journal also explains memories that were deleted since.
    if !input.entity.is_whole()? {
        find(app, caller, &input.entity, &input.memory_id).await?;
    }
    let explained = v1::explain(&app.reader(), &namespace, &input.memory_id).await;
    let explained = explained.map_err(|problem| match problem.status().as_u16() {
        404 => Problem::not_found(
            "no search has found this memory; find it with search_memories, and ask again after a second",
        ),
        _ => problem,
    })?;
    let mut answer = serde_json::to_value(explained).unwrap_or_default();
    for hits in ["/entry/hits", "/replay/hits"] {
        if let Some(Value::Array(hits)) = answer.pointer_mut(hits) {
            let mut others = 0;
            hits.retain(|hit| {
                others += 1;
                others <= EXPLAINED || hit["id"] == *input.memory_id
            });
        }
    }
    for field in ["/entry/text", "/entry/options"] {
        if let Some(value) = answer.pointer_mut(field)
            && let bytes @ EXPLAINED_BYTES.. = value.to_string().len()
        {
            *value = json!(format!("left out: {bytes} bytes"));
        }
    }
    Ok(Output::data(answer))
}
