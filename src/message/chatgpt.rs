//! Reads the conversations of ChatGPT's data export.

use serde_json::{Value, json};

use super::{
    chat_message::{ContentPart, Message},
    extension::imported,
    fields::{Object, Result, as_object, inner, reference, required, role, seconds, text, text_part},
    json_line::MessageLine,
};
use crate::error::Error;

/// The key in [`Message::metadata`] of the title, the model and the recipient.
const SOURCE: &str = "chatgpt";

/// Reads a conversation of ChatGPT's data export, which is one element of its file `conversations.json`.
///
/// The conversation is a tree with a branch for each regenerated answer and each edited question. The function reads the
/// branch that ChatGPT shows, from `current_node` to the root. It leaves out messages that ChatGPT hides, the model's
/// thoughts, and messages without content. The session is the conversation's id. A message's id is preceded by the
/// conversation's (`CONVERSATION/MESSAGE`), because a conversation that was branched off or shared repeats the ids of
/// another. `metadata["chatgpt"]` has the title, the model, and the recipient if it is a tool.
///
/// Each message is read separately, as by [`from_langchain`](crate::from_langchain). After an error in the tree, the
/// messages before that place are missing.
///
/// # Errors
/// [`Error::InvalidMessage`] with the ids of the conversation and the message, for a value of another form, and for
/// content of an unknown type without text.
pub fn from_chatgpt(conversation: &Value) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    let id = ["conversation_id", "id"].into_iter().find_map(|field| conversation.get(field)?.as_str());
    let failed = move |reason| Error::message(format!("conversation {:?}: {reason}", id.unwrap_or_default()));
    let read = read(conversation).unwrap_or_else(|reason| vec![Err(reason)]);
    read.into_iter().map(move |line| line.map_err(failed))
}

fn read(conversation: &Value) -> Result<Vec<Result<MessageLine>>> {
    let conversation = as_object(conversation)?;
    let session = match text(conversation, "conversation_id")? {
        Some(id) => id,
        None => required(conversation, "id")?,
    };
    let title = text(conversation, "title")?;
    let mapping = inner(conversation, "mapping")?;
    let mut next = Some(required(conversation, "current_node")?);
    let mut lines = Vec::new();
    let mut nodes = 0;
    while let Some(id) = next {
        let failed = |reason: String| format!("mapping[{id:?}]: {reason}");
        nodes += 1;
        let parent = match mapping.get(id).and_then(Value::as_object) {
            None => Err("it is missing, or not an object".to_owned()),
            Some(_) if nodes > mapping.len() => Err("its parents form a circle".to_owned()),
            Some(node) => {
                if let Some(message) = node.get("message").filter(|message| !message.is_null()) {
                    let line = as_object(message).and_then(|message| read_message(message, session, title));
                    lines.extend(line.map_err(failed).transpose());
                }
                text(node, "parent")
            }
        };
        next = parent.unwrap_or_else(|reason| {
            lines.push(Err(failed(reason)));
            None
        });
    }
    lines.reverse();
    Ok(lines)
}

/// Reads a message. Returns `None` for a message that is left out.
fn read_message(object: &Object, session: &str, title: Option<&str>) -> Result<Option<MessageLine>> {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let is_hidden = metadata.and_then(|metadata| metadata.get("is_visually_hidden_from_conversation"));
    if is_hidden == Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let author = inner(object, "author")?;
    let role = role(required(author, "role")?)?;
    let content = read_content(inner(object, "content")?)?;
    if content.is_empty() {
        return Ok(None);
    }
    let name = text(author, "name")?.filter(|name| !name.is_empty());
    let id = text(object, "id")?;
    let mut source = Object::new();
    let model = metadata.and_then(|metadata| metadata.get("model_slug"));
    let recipient = object.get("recipient").filter(|recipient| **recipient != json!("all"));
    for (key, value) in
        [("title", title.map(Value::from)), ("model", model.cloned()), ("recipient", recipient.cloned())]
    {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            source.insert(key.to_owned(), value);
        }
    }
    let mut message = Message { session: session.to_owned(), ..imported(role, name.map(str::to_owned), content) };
    message.id = id.map_or(message.id, |id| format!("{session}/{id}"));
    message.created_at = seconds(object, "create_time")?;
    if !source.is_empty() {
        message.metadata.insert(SOURCE.to_owned(), source.into());
    }
    Ok(Some(MessageLine { namespace: None, message, has_id: id.is_some() }))
}

/// Reads the parts of a message that are not blank.
fn read_content(content: &Object) -> Result<Vec<ContentPart>> {
    let kind = required(content, "content_type")?;
    if matches!(kind, "thoughts" | "reasoning_recap" | "user_editable_context" | "model_editable_context") {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    match content.get("parts") {
        Some(Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                let part = match value {
                    Value::String(text) => Some(text_part(text)),
                    Value::Null => None,
                    value => read_asset(value).map_err(|reason| format!("parts[{index}]: {reason}"))?,
                };
                parts.extend(part);
            }
        }
        _ => {
            // Code, tool output and quoted web pages have a text instead of parts.
            let texts = ["text", "result"].map(|field| content.get(field).and_then(Value::as_str));
            let Some(text) = texts.into_iter().flatten().next() else {
                return Err(format!("content of the unknown type {kind:?}, without text"));
            };
            parts.push(text_part(text));
        }
    }
    parts.retain(|part| part.text().is_none_or(|text| !text.trim().is_empty()));
    Ok(parts)
}

/// Reads a part that is not a string: a reference to a file of the export, or the transcript of a recording.
fn read_asset(value: &Value) -> Result<Option<ContentPart>> {
    let part = as_object(value)?;
    if let Some(transcript) = text(part, "text")? {
        return Ok(Some(text_part(transcript)));
    }
    let kind = required(part, "content_type")?;
    let pointer = |part: &Object| text(part, "asset_pointer").map(|pointer| pointer.map(reference));
    Ok(match kind {
        "image_asset_pointer" => pointer(part)?.map(ContentPart::Image),
        "audio_asset_pointer" => pointer(part)?.map(ContentPart::Audio),
        // Only the sound is read here: the transcript is a separate part.
        "real_time_user_audio_video_asset_pointer" => part
            .get("audio_asset_pointer")
            .and_then(Value::as_object)
            .map_or(Ok(None), pointer)?
            .map(ContentPart::Audio),
        _ => pointer(part)?.map(ContentPart::File),
    })
}
