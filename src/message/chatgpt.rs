//! Reads the conversations of ChatGPT's data export.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    chat_message::{ContentPart, Message, Role},
    extension::imported,
    fields::{Object, Result, as_object, cut, inner, reference, required, role, seconds, text, text_part},
    json_line::MessageLine,
};
use crate::{error::Error, ids::hex};

/// The key in [`Message::metadata`] of the title, the model and the recipient.
const SOURCE: &str = "chatgpt";
/// The session of what a person wrote about himself for all conversations, each of which repeats it.
const INSTRUCTIONS: &str = "custom-instructions";
/// The name of the tool in which some models wrote their thoughts.
const THOUGHTS: &str = "a8km123";

/// Reads a conversation of ChatGPT's data export, which is one element of its file `conversations.json`.
///
/// The conversation is a tree with a branch for each regenerated answer and each edited question. The function reads the
/// branch that ChatGPT shows, from `current_node` to the root. It leaves out messages that ChatGPT hides, the model's
/// thoughts, and messages without content or with content of an unknown type without text. The session is the
/// conversation's id. A message's id is preceded by the conversation's (`CONVERSATION/MESSAGE`), because a conversation that
/// was branched off or shared repeats the ids of another. The names of attached files are texts such as `[file: plan.pdf]`.
/// The custom instructions that a conversation names are a message of the user in the session `custom-instructions`, whose id
/// is computed from the text. `metadata["chatgpt"]` has the title, the model, and the recipient if it is a tool.
///
/// Each message is read separately, as by [`from_langchain`](crate::from_langchain). After an error in the tree, the
/// messages before that place are missing.
///
/// # Errors
/// [`Error::InvalidMessage`] with the ids of the conversation and the message, for a value of another form.
pub fn from_chatgpt(conversation: &Value) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    read_chatgpt(conversation, usize::MAX, &mut Vec::new()).into_iter()
}

/// Same as [`from_chatgpt`], with at most so many bytes of each call and output of a tool. 0: they are left out. Adds a note
/// for each message that is left out because its type is unknown.
pub(crate) fn read_chatgpt(
    conversation: &Value,
    tool_output: usize,
    notes: &mut Vec<String>,
) -> Vec<crate::error::Result<MessageLine>> {
    let id = ["conversation_id", "id"].into_iter().find_map(|field| conversation.get(field)?.as_str());
    let failed = move |reason| Error::message(format!("conversation {:?}: {reason}", id.unwrap_or_default()));
    let read = read(conversation, tool_output, notes).unwrap_or_else(|reason| vec![Err(reason)]);
    read.into_iter().map(|line| line.map_err(failed)).collect()
}

fn read(conversation: &Value, tool_output: usize, notes: &mut Vec<String>) -> Result<Vec<Result<MessageLine>>> {
    let conversation = as_object(conversation)?;
    let session = match text(conversation, "conversation_id")? {
        Some(id) => id,
        None => required(conversation, "id")?,
    };
    let conversation_of = Conversation { session, title: text(conversation, "title")?, tool_output };
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
                    match as_object(message).and_then(|message| conversation_of.read(message)) {
                        Ok(Read::Message(line)) => lines.push(Ok(*line)),
                        Ok(Read::Nothing) => {}
                        Ok(Read::Unknown(kind)) => notes.push(format!(
                            "conversation {session:?}: a message was left out: its content of the type {kind:?} has no text"
                        )),
                        Err(reason) => lines.push(Err(failed(reason))),
                    }
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

/// What the messages of a conversation have in common, and how they are read.
struct Conversation<'c> {
    session: &'c str,
    title: Option<&'c str>,
    tool_output: usize,
}

enum Read {
    Message(Box<MessageLine>),
    /// The message is hidden, or has no content.
    Nothing,
    /// The message has content of an unknown type without text.
    Unknown(String),
}

impl Conversation<'_> {
    fn read(&self, object: &Object) -> Result<Read> {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let content = inner(object, "content")?;
        let created_at = seconds(object, "create_time")?;
        if let Some(instructions) =
            instructions(content).or_else(|| instructions(metadata["user_context_message_data"].as_object()?))
        {
            let mut message = imported(Role::User, None, vec![text_part(&instructions)]);
            let hash = hex(&Sha256::digest(&instructions)[..16]);
            message.id = format!("{INSTRUCTIONS}/{hash}");
            INSTRUCTIONS.clone_into(&mut message.session);
            return Ok(Read::Message(Box::new(MessageLine { namespace: None, message, has_id: true })));
        }
        let author = inner(object, "author")?;
        let role = role(required(author, "role")?)?;
        let name = text(author, "name")?.filter(|name| !name.is_empty());
        let is_thought = role == Role::Tool && (name == Some(THOUGHTS) || metadata["initial_text"] == "Reasoning");
        let is_hidden = metadata["is_visually_hidden_from_conversation"] == true
            || object.get("weight").and_then(Value::as_f64) == Some(0.0);
        if is_hidden || is_thought {
            return Ok(Read::Nothing);
        }
        let recipient = object.get("recipient").filter(|recipient| **recipient != json!("all") && !recipient.is_null());
        // What the model noted about the person for all conversations is no call of a tool.
        let is_note = recipient.is_some_and(|recipient| recipient == "bio");
        let is_call = recipient.is_some() || content.get("content_type").is_some_and(|kind| kind == "code");
        let is_tool = role == Role::Tool || role == Role::Assistant && is_call && !is_note;
        if is_tool && self.tool_output == 0 {
            return Ok(Read::Nothing);
        }
        let Some(mut parts) = read_content(content)? else {
            let kind = required(content, "content_type")?;
            return Ok(Read::Unknown(kind.to_owned()));
        };
        if is_tool {
            for part in &mut parts {
                if let ContentPart::Text { text } = part {
                    *text = cut(std::mem::take(text), self.tool_output);
                }
            }
        }
        for attachment in metadata["attachments"].as_array().into_iter().flatten() {
            parts.extend(attachment["name"].as_str().map(|name| text_part(&format!("[file: {name}]"))));
        }
        if parts.is_empty() {
            return Ok(Read::Nothing);
        }
        let id = text(object, "id")?;
        let mut source = Object::new();
        let fields = [
            ("title", self.title.map(Value::from)),
            ("model", metadata.get("model_slug").cloned()),
            ("recipient", recipient.cloned()),
        ];
        for (key, value) in fields {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                source.insert(key.to_owned(), value);
            }
        }
        let session = self.session;
        let mut message = Message { session: session.to_owned(), ..imported(role, name.map(str::to_owned), parts) };
        message.id = id.map_or(message.id, |id| format!("{session}/{id}"));
        message.created_at = created_at;
        if !source.is_empty() {
            message.metadata.insert(SOURCE.to_owned(), source.into());
        }
        Ok(Read::Message(Box::new(MessageLine { namespace: None, message, has_id: id.is_some() })))
    }
}

/// Returns what a person wrote about himself, and how he wants to be answered.
fn instructions(object: &Object) -> Option<String> {
    let texts = ["user_profile", "user_instructions", "about_user_message", "about_model_message"];
    let texts = texts.iter().filter_map(|field| object.get(*field)?.as_str()).map(|text| {
        // ChatGPT puts it into a sentence of its own.
        text.split("```").nth(1).unwrap_or(text).trim()
    });
    let text = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(text)
}

/// Reads the parts of a message that are not blank. Returns `None` for content of an unknown type without text.
fn read_content(content: &Object) -> Result<Option<Vec<ContentPart>>> {
    let kind = required(content, "content_type")?;
    if matches!(kind, "thoughts" | "reasoning_recap" | "user_editable_context" | "model_editable_context") {
        return Ok(Some(Vec::new()));
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
            // Code, the output of tools and quoted web pages have a text instead of parts.
            let texts = ["text", "result", "output_str"].map(|field| content.get(field).and_then(Value::as_str));
            let Some(text) = texts.into_iter().flatten().next() else { return Ok(None) };
            parts.push(text_part(text));
        }
    }
    parts.retain(|part| part.text().is_none_or(|text| !text.trim().is_empty()));
    Ok(Some(parts))
}

/// Reads a part that is not a string: a reference to a file of the export, or the transcript of a recording.
fn read_asset(value: &Value) -> Result<Option<ContentPart>> {
    let part = as_object(value)?;
    if let Some(transcript) = text(part, "text")? {
        return Ok(Some(text_part(transcript)));
    }
    let kind = text(part, "content_type")?.unwrap_or_default();
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
