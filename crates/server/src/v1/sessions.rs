//! Sessions: conversations with a short-term buffer, whose older turns become long-term memory.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{Method, StatusCode},
    response::Response,
};
use mnemon::{
    AssembleRequest, Engine, Memory, MemoryReport, Message, MetadataFilter, Namespace, PlacedMessage, Prompt,
    SessionInfo,
    format::{to_anthropic, to_gemini, to_openai},
    memory::InsertMethod,
    message::TimeZone,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Value, json};

use super::{
    messages::date,
    recall::MAX_HITS,
    route::{PathNamespace, Route},
    schema::{IdSchema, MessageInputSchema, PromptSchema},
};
use crate::{
    access::Right,
    app::{self, App},
    bounds::{self, PageQuery},
    problem::Problem,
};

pub(super) fn routes() -> Vec<Route> {
    const ALL: &str = "/namespaces/{namespace}/sessions";
    const ONE: &str = "/namespaces/{namespace}/sessions/{session}";
    const MESSAGES: &str = "/namespaces/{namespace}/sessions/{session}/messages";
    vec![
        Route::new(Method::GET, ALL, Right::Read, "Lists the sessions of a namespace, ordered by their ids.", list)
            .query::<PageQuery>()
            .answer::<List>(),
        Route::new(
            Method::DELETE,
            ONE,
            Right::Forget,
            "Deletes a session with its messages, vectors and checkpoints.",
            delete,
        ),
        Route::new(Method::GET, MESSAGES, Right::Read, "Lists the messages of a session, in order.", messages)
            .query::<MessagesQuery>()
            .answer::<Messages>(),
        Route::new(
            Method::POST,
            MESSAGES,
            Right::Write,
            "Appends messages to a session's buffer. When it is over its budget, whole turns move to long-term memory.",
            put,
        )
        .body::<Put>()
        .answer::<MemoryReport>(),
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/sessions/{session}/flush",
            Right::Write,
            "Moves the messages of a session's buffer to long-term memory.",
            flush,
        )
        .answer::<Flushed>(),
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/sessions/{session}/assemble",
            Right::Read,
            "Makes a prompt of recent messages and recalled ones, within a token budget.",
            assemble,
        )
        .body::<Assemble>()
        .answer::<Assembled>(),
    ]
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SessionList")]
struct List {
    sessions: Vec<SessionInfo>,
    /// The cursor of the next page.
    next: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Query(page): Query<PageQuery>,
) -> Result<Json<List>, Problem> {
    let after: Option<String> = bounds::decode_cursor(page.cursor.as_deref())?;
    let limit = bounds::page_limit(page.limit)?;
    let mut sessions = app.engine.session_page(&namespace, after.as_deref(), limit + 1).await?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| more).map(|last| bounds::encode_cursor(&last.session));
    Ok(Json(List { sessions, next }))
}

async fn delete(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    app.engine.delete_session(&namespace, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SessionMessages")]
struct Messages {
    messages: Vec<Message>,
    /// The ids of those that are in the buffer: they are found by their words, and have no vectors yet.
    buffered: Vec<String>,
    /// The cursor of the next page.
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessagesQuery {
    /// Items on a page, 1 to 1000. Default: 100.
    #[schemars(range(min = 1, max = bounds::MAX_LIMIT))]
    limit: Option<usize>,
    /// The `next` of the last page. It stays good if items are deleted meanwhile, that of the cursor too.
    #[schemars(extend("format" = "cursor"))]
    cursor: Option<String>,
    /// Instead of a page, the last so many messages, 1 to 1000; fewer if they are too long for one answer. The first of them is the
    /// `before` of those that come before them.
    #[schemars(range(min = 1, max = bounds::MAX_LIMIT))]
    last: Option<usize>,
    /// With `last`: the id of a message of the session, before which they come.
    #[schemars(with = "Option<IdSchema>")]
    before: Option<String>,
}

async fn messages(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
    Query(query): Query<MessagesQuery>,
) -> Result<Response, Problem> {
    let MessagesQuery { limit, cursor, last, before } = query;
    let reader = app.reader();
    let found = match last {
        Some(last) if limit.is_none() && cursor.is_none() => {
            last_messages(&reader, &namespace, &session, last, before.as_deref()).await?
        }
        None if before.is_none() => messages_page(&reader, &namespace, session, PageQuery { limit, cursor }).await?,
        _ => {
            return Err(Problem::bad_request(
                "give `last`, and perhaps `before`, for the messages at the end of a session, or `limit` and `cursor` for a page",
            ));
        }
    };
    app.json(reader, found).await
}

async fn last_messages(
    reader: &Engine,
    namespace: &Namespace,
    session: &str,
    last: usize,
    before: Option<&str>,
) -> Result<Messages, Problem> {
    let (limit, bytes) = (bounds::page_limit(Some(last))?, bounds::MAX_PAGE_BYTES);
    let found = reader.history_before(namespace, session, before, limit, bytes).await?;
    let found = found.filter(|found| !found.is_empty() || before.is_some()).ok_or_else(no_session)?;
    Ok(Messages::new(found, None))
}

impl Messages {
    fn new(found: Vec<PlacedMessage>, next: Option<String>) -> Self {
        let buffered = found.iter().filter(|placed| placed.is_buffered);
        let buffered = buffered.map(|placed| placed.message.id.clone()).collect();
        Messages { buffered, messages: found.into_iter().map(|placed| placed.message).collect(), next }
    }
}

fn no_session() -> Problem {
    Problem::not_found("there is no such session")
}

async fn messages_page(
    reader: &Engine,
    namespace: &Namespace,
    session: String,
    page: PageQuery,
) -> Result<Messages, Problem> {
    let after: Option<Position> = bounds::decode_cursor(page.cursor.as_deref())?;
    if after.as_ref().is_some_and(|(of, _)| *of != session) {
        return Err(bounds::foreign_cursor());
    }
    let (limit, bytes) = (bounds::page_limit(page.limit)?, bounds::MAX_PAGE_BYTES);
    let after = after.map(|(_, number)| number);
    let messages = reader.history_after(namespace, &session, after, limit, bytes).await?;
    let Some(last) = messages.last().map(|last| last.number) else {
        return if after.is_none() { Err(no_session()) } else { Ok(Messages::new(messages, None)) };
    };
    // A page is the last one if nothing comes after it.
    let more = reader.history_after(namespace, &session, Some(last), 1, 0).await?;
    let next: Option<Position> = (!more.is_empty()).then_some((session, last));
    Ok(Messages::new(messages, next.as_ref().map(bounds::encode_cursor)))
}

/// A cursor: the session of a message, and its number.
type Position = (String, u64);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SessionPut")]
struct Put {
    #[schemars(with = "Vec<MessageInputSchema>")]
    messages: Vec<Message>,
    /// Tokens that the buffer and the memory in prompts may have. Default: 30,000.
    #[schemars(range(min = 1))]
    token_limit: Option<usize>,
}

async fn put(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
    Json(mut put): Json<Put>,
) -> Result<Json<MemoryReport>, Problem> {
    date(&mut put.messages);
    let memory = memory(&app, &namespace, &session, put.token_limit).await?;
    // If the client goes away, the messages are stored all the same.
    app.formation.put(&namespace, &session);
    let report = memory.put(put.messages).await;
    // A failed flush follows messages that are stored.
    app.formation.put(&namespace, &session);
    Ok(Json(report?))
}

#[derive(Serialize, JsonSchema)]
struct Flushed {
    /// The ids of the messages that moved.
    flushed: Vec<String>,
}

async fn flush(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
) -> Result<Json<Flushed>, Problem> {
    let memory = memory(&app, &namespace, &session, None).await?;
    Ok(Json(Flushed { flushed: memory.flush().await? }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Assemble {
    /// The message to be answered, which is not stored: a text of the user, or a message.
    #[schemars(with = "PromptSchema")]
    #[serde(deserialize_with = "prompt")]
    prompt: Message,
    /// Messages to recall, up to 1000. Default: 3.
    #[schemars(range(max = MAX_HITS))]
    recall: Option<usize>,
    /// The least relevance of the best message, 0 to 1, below which none is recalled. Default: an answerability of 0.3 decides.
    #[schemars(range(min = 0, max = 1))]
    min_score: Option<f32>,
    /// Tokens that the prompt may have. Default: 30,000.
    #[schemars(range(min = 1))]
    token_limit: Option<usize>,
    /// The provider for whose API the answer has the messages a second time, as `request`.
    to: Option<Provider>,
    /// Where the memory is put: with `system` all after the system message's text, with `user` all before the text of the last
    /// message of the user, with `split` there what is recalled for this prompt and the rest in the system message, so that a
    /// provider's prompt cache keeps the system message and the history. Default: `system`.
    #[serde(default)]
    insert: InsertMethod,
    /// The time zone of the days that the prompt names, such as `Europe/Berlin` or `+02:00`. Default: that of the server.
    time_zone: Option<TimeZone>,
    /// The id of the last message of the session that the model's context no longer holds, after a compaction of it: recent
    /// messages up to it are not in the prompt, and are recalled as those of other sessions are.
    #[schemars(with = "Option<IdSchema>")]
    after: Option<String>,
}

/// A provider of models.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Provider {
    OpenAi,
    Anthropic,
    Gemini,
}

impl Provider {
    /// Returns the fields of a request that have these messages.
    fn request(self, messages: &[Message]) -> Value {
        match self {
            Provider::OpenAi => json!({ "messages": to_openai(messages) }),
            Provider::Anthropic => to_anthropic(messages),
            Provider::Gemini => to_gemini(messages),
        }
    }
}

/// A prompt, and the fields of a request to a provider's API that have its messages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Prompt")]
struct Assembled {
    #[serde(flatten)]
    prompt: Prompt,
    /// The fields of the provider's request, if `to` was given: OpenAI's `messages`, Anthropic's `messages` and `system`, or Gemini's `contents` and `systemInstruction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
}

/// Reads a text of the user or a message. An untagged enum would do so too, but its errors do not say what is wrong with a
/// message.
fn prompt<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(Message::user(text)),
        message => serde_json::from_value(message).map_err(de::Error::custom),
    }
}

async fn assemble(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Path((_, session)): Path<(String, String)>,
    Json(input): Json<Assemble>,
) -> Result<Response, Problem> {
    if input.recall.is_some_and(|recall| recall > MAX_HITS) {
        return Err(Problem::bad_request(format!("recall is above {MAX_HITS}")));
    }
    let reader = app.reader();
    let mut request = AssembleRequest::new(input.prompt);
    if let Some(k) = input.recall {
        request = request.recall(k);
    }
    if let Some(least) = input.min_score {
        request = request.min_score(least);
    }
    if let Some(zone) = input.time_zone {
        request = request.time_zone(zone);
    }
    if let Some(id) = input.after {
        request = request.after(id);
    }
    let prompt = prompt_for(&app, &reader, namespace, session, request, input.token_limit, input.insert).await?;
    let request = input.to.map(|provider| provider.request(&prompt.messages));
    app.json(reader, Assembled { prompt, request }).await
}

pub(crate) async fn prompt_for(
    app: &App,
    reader: &Engine,
    namespace: Namespace,
    session: String,
    request: AssembleRequest,
    token_limit: Option<usize>,
    insert: InsertMethod,
) -> Result<Prompt, Problem> {
    let memory = memory_of(app, reader, &namespace, &session, token_limit, insert).await?;
    Ok(memory.assemble(request).await?)
}

/// Opens the memory of a session, with the blocks of its namespace.
pub(super) async fn memory(
    app: &App,
    namespace: &Namespace,
    session: &str,
    token_limit: Option<usize>,
) -> Result<Memory, Problem> {
    memory_of(app, &app.engine, namespace, session, token_limit, InsertMethod::default()).await
}

async fn memory_of(
    app: &App,
    reader: &Engine,
    namespace: &Namespace,
    session: &str,
    token_limit: Option<usize>,
    insert: InsertMethod,
) -> Result<Memory, Problem> {
    let builder = app.formation.memory(reader, namespace, session, token_limit)?.insert_method(insert);
    app::blocking(move || builder.open()).await
}

/// Returns a page of those messages of a namespace, or of one session of it, whose metadata the filter matches, session by
/// session, and the cursor of the next page.
pub(crate) async fn page_of(
    app: &App,
    namespace: &Namespace,
    session: Option<&str>,
    filter: Option<&MetadataFilter>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<(Vec<Message>, Option<String>), Problem> {
    let after: Option<Position> = bounds::decode_cursor(cursor)?;
    let sessions: Vec<String> = match session {
        Some(session) => vec![session.to_owned()],
        None => app.engine.sessions(namespace).await?.into_iter().map(|info| info.session).collect(),
    };
    let (mut found, mut bytes, mut last): (Vec<Message>, _, Option<Position>) = (Vec::new(), 0, None);
    for session in sessions {
        if after.as_ref().is_some_and(|(last, _)| session < *last) {
            continue;
        }
        let mut seen = after.as_ref().filter(|(last, _)| *last == session).map(|(_, number)| *number);
        loop {
            let part = app.engine.history_after(namespace, &session, seen, limit + 1, bounds::MAX_PAGE_BYTES).await?;
            let Some(end) = part.last() else { break };
            seen = Some(end.number);
            for PlacedMessage { number, message, .. } in part {
                if filter.is_some_and(|filter| !filter.matches(&Value::Object(message.metadata.clone()))) {
                    continue;
                }
                bytes += bounds::message_bytes(&message);
                if found.len() == limit || bytes > bounds::MAX_PAGE_BYTES && !found.is_empty() {
                    return Ok((found, last.as_ref().map(bounds::encode_cursor)));
                }
                last = Some((session.clone(), number));
                found.push(message);
            }
        }
    }
    Ok((found, None))
}

/// Returns the ids of all messages of a namespace, or of one session of it, that a filter matches.
pub(crate) async fn matching(
    app: &App,
    namespace: &Namespace,
    session: Option<&str>,
    filter: Option<&MetadataFilter>,
) -> Result<Vec<String>, Problem> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = page_of(app, namespace, session, filter, cursor.as_deref(), bounds::MAX_LIMIT).await?;
        ids.extend(page.0.into_iter().map(|message| message.id));
        match page.1 {
            Some(next) => cursor = Some(next),
            None => return Ok(ids),
        }
    }
}
