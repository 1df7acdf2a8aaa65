//! Lists of messages in the formats of providers and frameworks: which values are of a format, and their messages.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::reader::{Found, ReadOptions, ValueReader, each};
use crate::{
    error::{Error, Result},
    ids::hex,
    message::{
        DEFAULT_SESSION, Message, MessageLine,
        format::{from_anthropic, from_gemini, from_langchain, from_llamaindex, from_mem0, from_openai},
        read_chatgpt,
    },
};

const LANGCHAIN_TYPES: [&str; 6] = ["human", "ai", "system", "tool", "function", "chat"];

pub(super) fn is_chatgpt(value: &Value) -> bool {
    value["mapping"].is_object()
}

pub(super) fn chatgpt(options: &ReadOptions) -> Box<dyn ValueReader> {
    let tool_output = options.tool_output;
    each(move |value, found| {
        let messages = read_chatgpt(&value, tool_output, &mut found.notes);
        found.messages.extend(messages);
    })
}

pub(super) fn is_langchain(value: &Value) -> bool {
    any_message(value, "messages", |message| {
        let kind = message["type"].as_str().unwrap_or_default();
        let is_type = LANGCHAIN_TYPES.contains(&kind) || kind.ends_with("MessageChunk");
        let is_flat = message.get("content").is_some() && (message.get("role").is_none() || kind == "chat");
        let is_dumped = message["lc"].is_number() && message["kwargs"].is_object();
        is_dumped || is_type && (message["data"].is_object() || is_flat)
    })
}

pub(super) fn langchain(options: &ReadOptions) -> Box<dyn ValueReader> {
    let session = options.session.clone();
    each(move |value, found| {
        for line in from_langchain(&list(value, "messages")) {
            let line = line.map(|mut line| {
                if let Some(session) = session.as_ref().filter(|_| line.has_id) {
                    // A history that was copied for another session repeats the ids.
                    line.message.id = format!("{session}/{}", line.message.id);
                }
                line
            });
            found.messages.push(line);
        }
    })
}

pub(super) fn is_llamaindex(value: &Value) -> bool {
    value["store"].is_object()
        || any_message(value, "messages", |message| {
            message["role"].is_string() && (message["blocks"].is_array() || message["additional_kwargs"].is_object())
        })
}

pub(super) fn llamaindex(_: &ReadOptions) -> Box<dyn ValueReader> {
    each(|mut value, found| match value.get_mut("store").map(Value::take) {
        Some(Value::Object(store)) => {
            for (session, messages) in store {
                for line in from_llamaindex(&list(messages, "messages")) {
                    let line = line.map_err(|error| Error::message(format!("store[{session:?}]: {error}")));
                    found.messages.push(line.map(|mut line| {
                        line.message.session.clone_from(&session);
                        line
                    }));
                }
            }
        }
        _ => found.messages.extend(from_llamaindex(&list(value, "messages"))),
    })
}

pub(super) fn is_mem0(value: &Value) -> bool {
    any_message(value, "results", |memory| memory["memory"].is_string())
}

pub(super) fn mem0(_: &ReadOptions) -> Box<dyn ValueReader> {
    each(|value, found| found.messages.extend(from_mem0(&list(value, "results"))))
}

pub(super) fn is_gemini(value: &Value) -> bool {
    value["contents"].is_array()
        || value["candidates"].is_array()
        || any_message(value, "contents", |turn| turn["parts"].is_array() && turn["content"].is_null())
}

pub(super) fn gemini(options: &ReadOptions) -> Box<dyn ValueReader> {
    let is_session_given = options.session.is_some();
    each(move |value, found| conversation(&value, "contents", is_session_given, from_gemini(&value), found))
}

/// Where a line of a batch has a request, and a line of its results an answer or an error.
const ANTHROPIC_BODIES: [&str; 3] = ["/params/messages", "/result/message", "/result/error"];

/// Whether a value has what only Anthropic's format has.
pub(super) fn is_anthropic(value: &Value) -> bool {
    let is_block = |block: &Value| match block["type"].as_str() {
        Some("tool_use" | "thinking" | "redacted_thinking") => true,
        Some("tool_result") => block["tool_use_id"].is_string(),
        Some("image" | "document") => block["source"].is_object(),
        _ => false,
    };
    let has_block = |message: &Value| message["content"].as_array().is_some_and(|blocks| blocks.iter().any(is_block));
    let is_answer = value["type"] == "message" && value["stop_reason"].is_string();
    let has_system = value["messages"].is_array() && !value["system"].is_null();
    let has_body = value["custom_id"].is_string() && ANTHROPIC_BODIES.iter().any(|body| value.pointer(body).is_some());
    is_answer || has_system || has_body || any_message(value, "messages", has_block)
}

pub(super) fn anthropic(options: &ReadOptions) -> Box<dyn ValueReader> {
    let is_session_given = options.session.is_some();
    each(move |value, found| read_anthropic(&value, is_session_given, found))
}

fn read_anthropic(value: &Value, is_session_given: bool, found: &mut Found) {
    let Some(id) = value["custom_id"].as_str() else {
        return conversation(value, "messages", is_session_given, from_anthropic(value), found);
    };
    let [params, message, _] = ANTHROPIC_BODIES.map(|body| value.pointer(body));
    let Some(body) = params.map_or(message, |_| value.get("params")) else {
        return found.notes.push(format!("the request {id:?} failed: {}", value["result"]));
    };
    let first = found.messages.len();
    conversation(body, "messages", true, from_anthropic(body), found);
    for line in found.messages[first..].iter_mut().flatten() {
        id.clone_into(&mut line.message.session);
    }
}

/// Whether a value is a message or a conversation, in one of the forms that [`Chat::of`] knows.
pub(super) fn is_openai(value: &Value) -> bool {
    let is_message = |message: &Value| message["role"].is_string() || is_item(message);
    let is_turn = |turn: &Value| turn["from"].is_string() && turn["value"].is_string();
    let lists = ["messages", "conversation", "conversations", "input", "output"];
    let mut lists = lists.iter().filter_map(|field| value[*field].as_array());
    is_message(value)
        || lists.any(|list| list.iter().any(|value| is_message(value) || is_turn(value)))
        || value["choices"].is_array()
        || value["custom_id"].is_string()
}

fn is_item(value: &Value) -> bool {
    let kind = value["type"].as_str().unwrap_or_default();
    kind == "reasoning" || value["call_id"].is_string() && kind.contains("_call")
}

pub(super) fn openai(options: &ReadOptions) -> Box<dyn ValueReader> {
    let is_session_given = options.session.is_some();
    each(move |value, found| match value {
        Value::Array(values) if values.iter().any(Chat::is_of) => {
            values.into_iter().for_each(|value| Chat::of(value, is_session_given).read(found));
        }
        // A plain message may be of either format, so that only a later one tells.
        Value::Array(ref values) if values.iter().any(is_anthropic) => read_anthropic(&value, is_session_given, found),
        value if is_anthropic(&value) => read_anthropic(&value, is_session_given, found),
        value => Chat::of(value, is_session_given).read(found),
    })
}

/// The messages of a value, and their session if the value is a conversation of its own.
struct Chat {
    session: Option<String>,
    objects: Vec<Value>,
    /// Why there are none.
    failure: Option<String>,
}

impl Chat {
    /// Whether a value is a conversation, and not a message or a list of them.
    fn is_of(value: &Value) -> bool {
        let has_list = ["messages", "conversation", "conversations"].iter().any(|field| value[*field].is_array());
        has_list || value["custom_id"].is_string()
    }

    /// Reads a list of messages; a request or an answer; a line of a file for fine-tuning or for a batch; or a row of the
    /// collections WildChat and ShareGPT.
    fn of(mut value: Value, is_session_given: bool) -> Self {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        if let Some(id) = text("custom_id") {
            let error = &value["error"];
            let failure = (!error.is_null()).then(|| format!("the request {id:?} failed: {error}"));
            let body = value.pointer_mut("/response/body").map(Value::take).unwrap_or_else(|| value["body"].take());
            let objects = if body.is_object() { Chat::of(body, true).objects } else { Vec::new() };
            return Chat { session: Some(id), objects, failure };
        }
        let named = ["conversation_hash", "conversation_id", "id"].into_iter().find_map(text);
        for (field, session) in [
            ("messages", None),
            ("conversation", named.clone()),
            ("conversations", named),
            // A request to the Responses API, and an answer of it.
            ("input", None),
            ("output", None),
        ] {
            if value[field].as_array().is_some_and(|list| list.iter().all(Value::is_object)) {
                let session = session.or_else(|| (!is_session_given).then(|| hash(&value)));
                let Value::Array(objects) = value[field].take() else { unreachable!("it is a list") };
                return Chat { session, objects: objects.into_iter().map(turn).collect(), failure: None };
            }
        }
        // Of several answers to one request, the first.
        if let Some(message) = value.pointer_mut("/choices/0/message") {
            return Chat { session: None, objects: vec![message.take()], failure: None };
        }
        let objects = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        Chat { session: None, objects, failure: None }
    }

    /// Adds the messages.
    fn read(self, found: &mut Found) {
        let Chat { session, objects, failure } = self;
        found.notes.extend(failure);
        let mut index = 0;
        // Each is a message of its own, unless it belongs to the one before.
        for objects in objects.chunk_by(|_, next| next.pointer("/mnemon/of").is_some()) {
            let time = objects[0]["timestamp"].as_str().and_then(|time| time.replacen(' ', "T", 1).parse().ok());
            match from_openai(objects) {
                Ok(messages) => found.messages.extend(messages.into_iter().map(|mut message| {
                    if let Some(session) = session.as_ref().filter(|_| message.session == DEFAULT_SESSION) {
                        message.session.clone_from(session);
                        message.created_at = message.created_at.or(time);
                    }
                    Ok(line(message, objects[0].get("mnemon").is_some()))
                })),
                // The error counts in the chunk alone.
                Err(error) => {
                    let reason = error.to_string().replacen("messages[0]", &format!("messages[{index}]"), 1);
                    found.messages.push(Err(Error::message(reason.replacen("invalid message: ", "", 1))));
                }
            }
            index += objects.len();
        }
    }
}

/// Gives a turn of ShareGPT's form the fields of OpenAI's.
fn turn(mut turn: Value) -> Value {
    let Some(from) = turn["from"].as_str().filter(|_| turn["value"].is_string()) else { return turn };
    let role = match from {
        "human" | "user" => "user",
        "gpt" | "chatgpt" | "bard" | "bing" | "assistant" | "model" | "function_call" => "assistant",
        "observation" | "tool" => "tool",
        other => other,
    };
    json!({"role": role, "content": turn["value"].take()})
}

/// Adds the messages of a conversation in a value that is read as a whole. `turns` is the field with its turns.
fn conversation(value: &Value, turns: &str, is_session_given: bool, messages: Result<Vec<Message>>, found: &mut Found) {
    let session = (value[turns].is_array() && !is_session_given).then(|| hash(value));
    let is_lossless = any_message(value, turns, |turn| turn["mnemon"].is_object());
    match messages {
        Ok(messages) => found.messages.extend(messages.into_iter().map(|mut message| {
            if let Some(session) = session.as_ref().filter(|_| !is_lossless) {
                message.session.clone_from(session);
            }
            Ok(line(message, is_lossless))
        })),
        Err(error) => found.messages.push(Err(error)),
    }
}

fn line(message: Message, has_id: bool) -> MessageLine {
    MessageLine { namespace: None, message, has_id }
}

/// Returns the name of a conversation that has none: the same for the same conversation.
fn hash(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string())[..8])
}

/// Whether a value, or an element of the list in a field of it, is a message.
fn any_message(value: &Value, field: &str, is_message: impl Fn(&Value) -> bool) -> bool {
    match value[field].as_array() {
        Some(messages) => messages.iter().any(is_message),
        None => is_message(value),
    }
}

/// Returns the elements of a list, or of the list in a field, or else the value alone.
fn list(mut value: Value, field: &str) -> Vec<Value> {
    if let Some(inner) = value.get_mut(field).filter(|inner| inner.is_array()) {
        value = inner.take();
    }
    match value {
        Value::Array(values) => values,
        value => vec![value],
    }
}
