//! Lists of messages in the formats of providers and frameworks: which values are of a format, and their messages.

use serde_json::Value;

use super::reader::{Found, ReadOptions, ValueReader, each};
use crate::{
    error::{Error, Result},
    message::{
        DEFAULT_SESSION, Message, MessageLine,
        format::{from_anthropic, from_chatgpt, from_gemini, from_langchain, from_llamaindex, from_mem0, from_openai},
    },
};

const LANGCHAIN_TYPES: [&str; 6] = ["human", "ai", "system", "tool", "function", "chat"];

pub(super) fn is_chatgpt(value: &Value) -> bool {
    value["mapping"].is_object()
}

pub(super) fn chatgpt(_: &ReadOptions) -> Box<dyn ValueReader> {
    each(|value, found| found.messages.extend(from_chatgpt(&value)))
}

pub(super) fn is_langchain(value: &Value) -> bool {
    any_message(value, "messages", |message| {
        let kind = message["type"].as_str().unwrap_or_default();
        let is_type = LANGCHAIN_TYPES.contains(&kind) || kind.ends_with("MessageChunk");
        let is_flat = message.get("content").is_some() && message.get("role").is_none();
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

pub(super) fn gemini(_: &ReadOptions) -> Box<dyn ValueReader> {
    each(|value, found| conversation(from_gemini(&value), found))
}

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
    is_answer || has_system || any_message(value, "messages", has_block)
}

pub(super) fn anthropic(_: &ReadOptions) -> Box<dyn ValueReader> {
    each(|value, found| conversation(from_anthropic(&value), found))
}

pub(super) fn is_openai(value: &Value) -> bool {
    any_message(value, "messages", |message| message["role"].is_string())
}

pub(super) fn openai(_: &ReadOptions) -> Box<dyn ValueReader> {
    each(|value, found| {
        let objects = list(value, "messages");
        let mut index = 0;
        // Each is a message of its own, unless it belongs to the one before.
        for objects in objects.chunk_by(|_, next| next.pointer("/mnemon/of").is_some()) {
            match from_openai(objects) {
                Ok(messages) => found.messages.extend(messages.into_iter().map(|message| line(message, &objects[0]))),
                // The error counts in the chunk alone.
                Err(error) => {
                    let reason = error.to_string().replacen("messages[0]", &format!("messages[{index}]"), 1);
                    found.messages.push(Err(Error::message(reason.replacen("invalid message: ", "", 1))));
                }
            }
            index += objects.len();
        }
    })
}

/// Adds the messages of a conversation that is read as a whole.
fn conversation(messages: Result<Vec<Message>>, found: &mut Found) {
    match messages {
        Ok(messages) => found.messages.extend(messages.into_iter().map(|message| line(message, &Value::Null))),
        Err(error) => found.messages.push(Err(error)),
    }
}

/// Returns a message that was read from an object, which names its id if it is of the lossless form.
fn line(message: Message, object: &Value) -> Result<MessageLine> {
    let has_id = message.session != DEFAULT_SESSION || object.get("mnemon").is_some();
    Ok(MessageLine { namespace: None, message, has_id })
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
