//! The tools: descriptions, schemas and implementations. Their names are those of mem0's server where it has them.

use std::sync::LazyLock;

use mnemon::{Error, Forget, Message, MetadataFilter, Namespace, Query, Role, Timestamp};
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations},
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    super::{
        app::App,
        bounds::BoundedFilter,
        caller::{Caller, Right},
        entity::{self, Entity},
        problem::Problem,
        v1,
    },
    text,
};

const MAX_LIMIT: usize = 100;

/// The result of a tool: text for a model, and the same as data.
struct Output {
    text: String,
    data: Value,
}

impl Output {
    /// Data that a model reads as it is.
    fn data(data: Value) -> Self {
        Output { text: data.to_string(), data }
    }

    fn memories(messages: Vec<(Message, Option<f32>)>, more: Value) -> Self {
        let text = text::framed(messages.iter().map(|(message, score)| (message, *score)));
        let memories = messages.into_iter().map(|(message, score)| {
            let mut memory = json!({
                "id": message.id, "memory": message.text(), "session": message.session, "role": message.role,
                "name": message.name, "created_at": message.created_at, "metadata": message.metadata,
            });
            if let Some(score) = score {
                memory["score"] = score.into();
            }
            memory
        });
        let mut data = json!({ "memories": memories.collect::<Vec<_>>() });
        let mut text = text;
        for (name, value) in more.as_object().into_iter().flatten() {
            text += &format!("\n{name}: {value}");
            data[name] = value.clone();
        }
        Output { text, data }
    }
}

/// The effect of a tool on memories.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Reads,
    Adds,
    /// Replaces or deletes; the same call again changes nothing more.
    Destroys,
}

macro_rules! tools {
    ($($name:ident($input:ty): $effect:ident, $right:ident, $description:literal, $example:tt;)+) => {
        fn all() -> Vec<Tool> {
            vec![$(tool::<$input>(stringify!($name), $description, Effect::$effect, json!($example))),+]
        }

        /// Calls a tool. A mistake that the caller could correct is a result that says so; only an unknown tool is an error of the
        /// protocol.
        pub(super) async fn call(
            app: &App,
            caller: &Caller,
            name: &str,
            arguments: JsonObject,
        ) -> Result<CallToolResult, ErrorData> {
            let output = match name {
                $(stringify!($name) => match (caller.require(Right::$right), read::<$input>(arguments)) {
                    (Err(problem), _) | (_, Err(problem)) => Err(problem),
                    (Ok(()), Ok(input)) => $name(app, caller, input).await,
                },)+
                _ => return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None)),
            };
            Ok(match output {
                Ok(Output { text, data }) => {
                    let mut result = CallToolResult::structured(data);
                    result.content = vec![ContentBlock::text(text)];
                    result
                }
                Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.detail)]),
            })
        }
    };
}

tools! {
    add_memory(AddMemory): Adds, Write,
        "Stores something to remember: a text, or the messages of a conversation. It is durable when this returns.",
        { "text": "Ada is allergic to peanuts.", "user_id": "ada" };
    search_memories(SearchMemories): Reads, Read,
        "Finds the memories that answer a question, best first. Ask in full sentences. Judge by their texts whether they \
         answer it: answerability is an estimate, and low for some questions that they do answer.",
        { "query": "What is Ada allergic to?", "user_id": "ada", "limit": 5 };
    get_memories(GetMemories): Reads, Read,
        "Lists memories session by session, in the order in which they were stored.",
        { "user_id": "ada", "limit": 20 };
    get_memory(OneMemory): Reads, Read,
        "Returns a memory by its id.",
        { "memory_id": "0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "user_id": "ada" };
    update_memory(UpdateMemory): Destroys, Write,
        "Replaces the text or the metadata of a memory.",
        { "memory_id": "0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "text": "Ada is allergic to peanuts and to soy.", "user_id": "ada" };
    delete_memory(OneMemory): Destroys, Forget,
        "Deletes a memory. `forget` also removes what was made of it, and returns a receipt.",
        { "memory_id": "0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "user_id": "ada" };
    delete_all_memories(OwnerInput): Destroys, Forget,
        "Deletes all memories of a user, agent or namespace, or of one run. There is no way back.",
        { "user_id": "ada" };
    list_entities(ListEntities): Reads, Read,
        "Lists the users, agents, apps and other namespaces that have memories, with their numbers.",
        {};
    assemble_context(AssembleContext): Reads, Read,
        "Returns recent messages of a conversation and memories that bear on the message to be answered, within a token budget.",
        { "prompt": "Can I bring peanut butter cookies?", "user_id": "ada", "run_id": "monday" };
    remember_document(RememberDocument): Destroys, Write,
        "Stores a JSON value under a key, or replaces it, and makes its texts searchable. It is of a whole user, agent or namespace, \
         not of a run.",
        { "key": "profile", "value": { "name": "Ada", "city": "Porto" }, "user_id": "ada" };
    forget(ForgetMemories): Destroys, Forget,
        "Forgets memories with everything that was made of them, and returns a receipt for the audit. With several ids, such as \
         user_id and run_id, it forgets only what all of them name, or refuses.",
        { "what": { "by": "messages", "ids": ["0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77"] }, "user_id": "ada" };
    why(OneMemory): Reads, Read,
        "Explains why a memory was recalled: the question, its rank and the terms of its score then, and what changed since.",
        { "memory_id": "0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "user_id": "ada" };
}

pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(all);

fn tool<T: JsonSchema>(name: &'static str, description: &'static str, effect: Effect, example: Value) -> Tool {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    schema["examples"] = json!([example]);
    let schema = schema.as_object().cloned().unwrap_or_default();
    let annotations = ToolAnnotations::new()
        .read_only(effect == Effect::Reads)
        .destructive(effect == Effect::Destroys)
        .idempotent(effect != Effect::Adds)
        .open_world(false);
    let output = json!({ "type": "object" }).as_object().cloned().unwrap_or_default();
    Tool::new(name, description, schema).with_annotations(annotations).with_raw_output_schema(output.into())
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    let read = serde_json::from_value(Value::Object(arguments));
    read.map_err(|error| Problem::bad_request(format!("{error}; see the tool's input schema")))
}

fn limit(asked: Option<usize>, default: usize) -> usize {
    asked.unwrap_or(default).clamp(1, MAX_LIMIT)
}

/// A message of a conversation, as a chat API has it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Turn {
    /// `user`, `assistant`, `system` or `tool`.
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddMemory {
    /// The text to remember, in sentences that can be understood alone.
    text: Option<String>,
    /// The messages of a conversation, instead of a text.
    messages: Option<Vec<Turn>>,
    /// Data of yours, by which searches can filter.
    #[serde(default)]
    metadata: Map<String, Value>,
    #[serde(flatten)]
    entity: Entity,
}

async fn add_memory(app: &App, caller: &Caller, input: AddMemory) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let mut messages: Vec<Message> = input.text.into_iter().map(Message::user).collect();
    for turn in input.messages.iter().flatten() {
        messages.push(turn.message()?);
    }
    if messages.is_empty() {
        return Err(Problem::bad_request("give a text, or messages"));
    }
    for message in &mut messages {
        message.metadata.extend(input.metadata.clone());
        input.entity.mark(message);
    }
    let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
    app.engine.put(&namespace, messages).await?;
    Ok(Output::data(json!({ "ids": ids, "namespace": namespace })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchMemories {
    /// The question.
    query: String,
    /// Memories to return, 1 to 100. Default: 10.
    limit: Option<usize>,
    /// A filter on metadata and on `$session`, `$role` and `$created_at`, such as `{"topic": "food"}`.
    #[schemars(with = "Option<Map<String, Value>>")]
    filter: Option<BoundedFilter>,
    /// Return nothing if the answerability of the question, an estimate, is below this, 0 to 1. It is below 0.5 for some
    /// questions that the memories do answer. Default: nothing is left out.
    answerable: Option<f32>,
    #[serde(flatten)]
    entity: Entity,
}

async fn search_memories(app: &App, caller: &Caller, input: SearchMemories) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let mut query = Query::new(input.query).k(limit(input.limit, 10)).within(app.limits.request_timeout());
    let cost = input.filter.as_ref().map(|filter| filter.cost).unwrap_or_default();
    let filters = [input.filter.map(|filter| filter.filter), input.entity.filter()?];
    for filter in filters.into_iter().flatten() {
        query = query.filter(filter);
    }
    if let Some(session) = input.entity.session() {
        query = query.session(session);
    }
    if let Some(least) = input.answerable {
        query = query.answerable(least);
    }
    let hits = app.recall_filtered(&namespace, query, cost).await?;
    app.metrics.recalled(&namespace);
    let more = json!({ "answerability": hits.answerability() });
    Ok(Output::memories(hits.into_iter().map(|hit| (hit.message, Some(hit.score))).collect(), more))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetMemories {
    /// Memories to return, 1 to 100. Default: 50.
    limit: Option<usize>,
    /// The `next` of the last answer.
    cursor: Option<String>,
    #[serde(flatten)]
    entity: Entity,
}

async fn get_memories(app: &App, caller: &Caller, input: GetMemories) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let filter = input.entity.filter()?;
    let page = v1::page_of(
        app,
        &namespace,
        input.entity.session(),
        filter.as_ref(),
        input.cursor.as_deref(),
        limit(input.limit, 50),
    );
    let (messages, next) = page.await?;
    Ok(Output::memories(messages.into_iter().map(|message| (message, None)).collect(), json!({ "next": next })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneMemory {
    /// The id of the memory.
    memory_id: String,
    #[serde(flatten)]
    entity: Entity,
}

fn no_memory() -> Problem {
    Problem::not_found("there is no memory of this id there; check user_id or namespace, too")
}

/// Returns a memory and its namespace. One of another run or agent than those named does not exist.
async fn find(app: &App, caller: &Caller, entity: &Entity, id: &str) -> Result<(Namespace, Message), Problem> {
    let namespace = entity.namespace(caller)?;
    let message = app.engine.get(&namespace, id).await?.ok_or_else(no_memory)?;
    match entity.has(&message)? {
        true => Ok((namespace, message)),
        false => Err(no_memory()),
    }
}

async fn get_memory(app: &App, caller: &Caller, input: OneMemory) -> Result<Output, Problem> {
    let (_, message) = find(app, caller, &input.entity, &input.memory_id).await?;
    Ok(Output::memories(vec![(message, None)], json!({})))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateMemory {
    /// The id of the memory.
    memory_id: String,
    /// The new text. Default: unchanged.
    text: Option<String>,
    /// The new metadata, instead of the old. Default: unchanged.
    metadata: Option<Map<String, Value>>,
    #[serde(flatten)]
    entity: Entity,
}

async fn update_memory(app: &App, caller: &Caller, input: UpdateMemory) -> Result<Output, Problem> {
    let (namespace, mut message) = find(app, caller, &input.entity, &input.memory_id).await?;
    if let Some(metadata) = input.metadata {
        message.metadata = metadata;
    }
    match input.text {
        Some(text) => {
            message.content = Message::user(text).content;
            app.engine.put(&namespace, vec![message.clone()]).await?;
        }
        None => drop(app.engine.set_metadata(&namespace, &message.id, message.metadata.clone()).await?),
    }
    Ok(Output::memories(vec![(message, None)], json!({})))
}

async fn delete_memory(app: &App, caller: &Caller, input: OneMemory) -> Result<Output, Problem> {
    let (namespace, message) = find(app, caller, &input.entity, &input.memory_id).await?;
    match app.engine.delete(&namespace, vec![message.id]).await? {
        0 => Err(no_memory()),
        deleted => Ok(Output::data(json!({ "deleted": deleted }))),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OwnerInput {
    #[serde(flatten)]
    entity: Entity,
}

async fn delete_all_memories(app: &App, caller: &Caller, input: OwnerInput) -> Result<Output, Problem> {
    let _place = app.slow_place()?;
    let Entity { namespace, user_id, agent_id, app_id, run_id } = &input.entity;
    if [namespace, user_id, agent_id, app_id, run_id].iter().all(|id| id.is_none()) {
        return Err(Problem::bad_request(
            "say whose memories to delete: user_id, agent_id, app_id, run_id or namespace",
        ));
    }
    let namespace = input.entity.namespace(caller)?;
    let deleted = match (input.entity.session(), input.entity.filter()?) {
        (session, Some(filter)) => {
            let ids = v1::matching(app, &namespace, session, Some(&filter)).await?;
            app.engine.delete(&namespace, ids).await?
        }
        (Some(session), None) => {
            let messages = app.engine.history(&namespace, session).await?.len() as u64;
            match app.engine.delete_session(&namespace, session).await {
                Ok(()) => messages,
                // There is none, or another request deleted it meanwhile.
                Err(Error::SessionNotFound { .. }) => 0,
                Err(error) => return Err(error.into()),
            }
        }
        (None, None) => app.engine.delete_namespace(&namespace).await?,
    };
    Ok(Output::data(json!({ "deleted": deleted })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListEntities {
    /// The `next` of the last answer.
    cursor: Option<String>,
}

async fn list_entities(app: &App, caller: &Caller, input: ListEntities) -> Result<Output, Problem> {
    let after = input.cursor.map(|cursor| cursor.parse()).transpose()?;
    let page = app.engine.namespaces(caller.prefix(), after.as_ref(), MAX_LIMIT).await?;
    let entities = page.namespaces.into_iter().map(|info| {
        let entity = entity::from_namespace(caller, &info.namespace);
        let (kind, id) = entity.unwrap_or_else(|| ("namespace", info.namespace.to_string()));
        json!({ "type": kind, "id": id, "namespace": info.namespace, "memories": info.messages, "documents": info.documents })
    });
    let next = page.next.map(|cursor| cursor.to_string());
    Ok(Output::data(json!({ "entities": entities.collect::<Vec<_>>(), "next": next })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AssembleContext {
    /// The message to be answered. It is not stored.
    prompt: String,
    /// Memories to recall. Default: 3.
    recall: Option<usize>,
    /// Tokens that the context may have. Default: 30,000.
    token_limit: Option<usize>,
    #[serde(flatten)]
    entity: Entity,
}

async fn assemble_context(app: &App, caller: &Caller, input: AssembleContext) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    let session = input.entity.run_id.clone().unwrap_or_else(|| mnemon::DEFAULT_SESSION.to_owned());
    let prompt = Message::user(input.prompt);
    let prompt = v1::prompt_for(app, namespace, session, prompt, input.recall, input.token_limit).await?;
    // The system message has the recalled memories, in a frame of the library's; others are messages of the conversation.
    let text = prompt.messages.iter().map(|message| match message.role {
        Role::System => message.text(),
        _ => text::framed([(message, None)]),
    });
    let text = text.collect::<Vec<_>>().join("\n");
    let data = json!({ "messages": prompt.messages, "tokens": prompt.tokens, "recalled": prompt.recalled });
    Ok(Output { text, data })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RememberDocument {
    /// The key, unique in the namespace.
    key: String,
    /// The value: any JSON.
    value: Value,
    /// The paths to the texts that are searchable, such as `["name", "notes[*]"]`. Default: the whole value.
    index: Option<Vec<String>>,
    /// Minutes after which the document expires.
    ttl_minutes: Option<f64>,
    #[serde(flatten)]
    entity: Entity,
}

async fn remember_document(app: &App, caller: &Caller, input: RememberDocument) -> Result<Output, Problem> {
    let namespace = input.entity.whole_namespace(caller, "a document is")?;
    let options = v1::document_options(input.index, input.ttl_minutes);
    app.engine.documents(&namespace).put(input.key.clone(), input.value, options).await?;
    Ok(Output::data(json!({ "key": input.key, "namespace": namespace })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetMemories {
    /// The memories to forget.
    what: v1::What,
    #[serde(flatten)]
    entity: Entity,
}

async fn forget(app: &App, caller: &Caller, input: ForgetMemories) -> Result<Output, Problem> {
    let _place = app.slow_place()?;
    let ForgetMemories { what, entity } = input;
    let namespace = entity.namespace(caller)?;
    let what = match what {
        v1::What::Messages { ids } => {
            // One that only a checkpoint has cannot be looked at, so it is forgotten for the whole namespace alone.
            if !entity.is_whole()? {
                for id in &ids {
                    find(app, caller, &entity, id).await?;
                }
            }
            Forget::messages(&namespace, ids)
        }
        v1::What::Session { session } => {
            if entity.session().is_some_and(|run| run != session) || entity.filter()?.is_some() {
                return Err(Problem::bad_request(
                    "a session is forgotten whole: leave out ids beside the one that has the session",
                ));
            }
            Forget::session(&namespace, session)
        }
        v1::What::Matching { filter } => {
            let run = entity.session().map(|run| MetadataFilter::eq("$session", run)).transpose()?;
            let all = [Some(filter.filter), run, entity.filter()?];
            Forget::matching(&namespace, MetadataFilter::all(all.into_iter().flatten()))
        }
        v1::What::Documents { .. } | v1::What::Namespace {} | v1::What::Prefix {} => {
            what.of(&entity.whole_namespace(caller, "this would forget what is")?)
        }
    };
    let receipt = app.engine.forget(what).await?;
    Ok(Output::data(json!({ "receipt": receipt })))
}

async fn why(app: &App, caller: &Caller, input: OneMemory) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    // The journal also explains memories that were deleted since.
    if !input.entity.is_whole()? {
        find(app, caller, &input.entity, &input.memory_id).await?;
    }
    let answer = v1::explain(app, &namespace, &input.memory_id).await?;
    Ok(Output::data(serde_json::to_value(answer).unwrap_or_default()))
}
