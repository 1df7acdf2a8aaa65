//! Claude.ai's data export: conversations, what the model remembers of them, and projects.
//!
//! A message's words are in `content`. Its `text` has a placeholder where tools ran, and the text of a pasted document is in
//! `attachments` alone.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    reader::{Found, ReadOptions, ValueReader, each},
    said::{Said, file_part, filled, moment, text_part},
};
use crate::message::{ContentPart, MessageLine, Role};

/// The parent of a conversation's first message.
const ROOT: &str = "00000000-0000-4000-8000-000000000000";
/// The session of what the model remembers of all conversations.
const MEMORIES: &str = "memories";

pub(super) fn is_value(value: &Value) -> bool {
    value["chat_messages"].is_array() || is_memories(value) || is_project(value) || is_user(value)
}

fn is_memories(value: &Value) -> bool {
    value.get("conversations_memory").is_some()
}

fn is_project(value: &Value) -> bool {
    value.get("prompt_template").is_some() && value["docs"].is_array()
}

fn is_user(value: &Value) -> bool {
    value.get("full_name").is_some() && value.get("email_address").is_some()
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    let options = options.clone();
    each(move |value, found: &mut Found| {
        let said = match () {
            () if is_memories(&value) => memories(&value),
            () if is_project(&value) => project(&value),
            () if is_user(&value) => Vec::new(),
            () => conversation(&value),
        };
        found.messages.extend(said.into_iter().filter_map(|said| said.into_line(&options)).map(Ok::<MessageLine, _>));
    })
}

/// Reads the messages of the branch that the conversation ends with. Older exports do not say which message answers which.
fn conversation(value: &Value) -> Vec<Said> {
    let messages: Vec<&Value> = value["chat_messages"].as_array().into_iter().flatten().collect();
    let session = value["uuid"].as_str().unwrap_or_default();
    let by_id: HashMap<&str, &Value> =
        messages.iter().filter_map(|message| Some((message["uuid"].as_str()?, *message))).collect();
    let parent = |message: &Value| message["parent_message_uuid"].as_str().filter(|id| *id != ROOT).map(str::to_owned);
    let has_parents = messages.iter().any(|message| message["parent_message_uuid"].is_string());
    let last = value["current_leaf_message_uuid"].as_str().and_then(|id| by_id.get(id).copied());
    let mut shown = messages.clone();
    if let Some(last) = last.or(messages.last().copied()).filter(|_| has_parents) {
        shown = vec![last];
        while let Some(before) = parent(shown[shown.len() - 1]).and_then(|id| by_id.get(id.as_str()).copied())
            && shown.len() < messages.len()
        {
            shown.push(before);
        }
        shown.reverse();
    }
    shown.into_iter().map(|message| said(session, message)).collect()
}

fn said(session: &str, message: &Value) -> Said {
    let role = if message["sender"] == "assistant" { Role::Assistant } else { Role::User };
    let texts = message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "text");
    let mut parts: Vec<ContentPart> = texts.filter_map(|block| filled(&block["text"])).map(text_part).collect();
    if !message["content"].is_array() {
        parts.extend(filled(&message["text"]).map(text_part));
    }
    for attachment in message["attachments"].as_array().into_iter().flatten() {
        let name = filled(&attachment["file_name"]).unwrap_or("pasted text");
        parts.push(match filled(&attachment["extracted_content"]) {
            Some(text) => text_part(format!("{name}:\n{text}")),
            None => file_part(name),
        });
    }
    parts.extend(
        message["files"].as_array().into_iter().flatten().filter_map(|file| filled(&file["file_name"])).map(file_part),
    );
    let id = filled(&message["uuid"]).map(str::to_owned);
    Said { role, name: None, parts, time: moment(&message["created_at"]), session: session.to_owned(), id }
}

/// Reads what the model wrote about the person from all conversations, and from those of each project.
fn memories(value: &Value) -> Vec<Said> {
    let account = value["account_uuid"].as_str().unwrap_or("all");
    let all = filled(&value["conversations_memory"]).map(|text| (account, text));
    let projects = value["project_memories"].as_object().into_iter().flatten();
    let projects = projects.filter_map(|(project, text)| Some((project.as_str(), filled(text)?)));
    all.into_iter()
        .chain(projects)
        .map(|(of, text)| Said { role: Role::Assistant, id: Some(of.to_owned()), ..Said::by_user(MEMORIES, text) })
        .collect()
}

/// Reads what the person wrote for a project: its description, its instructions and its documents.
fn project(value: &Value) -> Vec<Said> {
    let session = value["uuid"].as_str().unwrap_or_default();
    let time = moment(&value["created_at"]);
    let written = ["description", "prompt_template"].into_iter().filter_map(|field| {
        let text = filled(&value[field])?;
        Some(Said { id: Some(field.to_owned()), time, ..Said::by_user(session, text) })
    });
    let docs = value["docs"].as_array().into_iter().flatten().filter_map(|doc| {
        let text = filled(&doc["content"])?;
        let name = filled(&doc["filename"]).unwrap_or("document");
        let time = moment(&doc["created_at"]).or(time);
        let id = filled(&doc["uuid"]).map(str::to_owned);
        Some(Said { id, time, ..Said::by_user(session, format!("{name}:\n{text}")) })
    });
    written.chain(docs).collect()
}
