//! Encoding of messages in Anthropic's format, with the blocks that the API allows for each role.

use serde_json::{Value, json};

use super::call_ids::CallIds;
use crate::message::{
    content::{ContentPart, MediaReference},
    fields::Object,
    turns::{Author, object_arguments},
};

/// Encodes a part as a block. `None` for a blank text, which the API refuses.
pub(super) fn block(ids: &mut CallIds, author: Author, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::ToolCall { id, name, arguments } => {
            Some(json!({"type": "tool_use", "id": ids.of_call(id), "name": name, "input": object_arguments(arguments)}))
        }
        ContentPart::ToolResult { id, content } => {
            Some(json!({"type": "tool_result", "tool_use_id": ids.of_result(id), "content": content}))
        }
        other => {
            let text = match other.media() {
                // Only the user's messages may contain media; elsewhere media become text.
                Some((kind, reference)) => match (author == Author::User).then(|| media(other, reference)).flatten() {
                    Some(media) => return Some(media),
                    None => reference.describe(kind),
                },
                None => other.text().expect("a part that is neither media nor a call has text").to_owned(),
            };
            (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
        }
    }
}

/// Encodes a message of these blocks.
pub(super) fn turn(author: Author, mut blocks: Vec<Value>) -> Object {
    let (role, content) = match author {
        // Answers of the API have arrays of blocks.
        Author::Model => ("assistant", blocks.into()),
        Author::System => ("system", content(blocks)),
        Author::User => {
            blocks.sort_by_key(|block| block["type"] != "tool_result");
            ("user", content(blocks))
        }
    };
    [("role".to_owned(), role.into()), ("content".to_owned(), content)].into_iter().collect()
}

/// Encodes blocks: a single text as a string, unless it has other fields.
pub(super) fn content(blocks: Vec<Value>) -> Value {
    match blocks.as_slice() {
        [block] if *block == json!({"type": "text", "text": block["text"]}) => block["text"].clone(),
        _ => blocks.into(),
    }
}

/// Encodes a reference to media. `None` if the format has no such reference.
fn media(part: &ContentPart, reference: &MediaReference) -> Option<Value> {
    let kind = match part {
        ContentPart::Image(_) => "image",
        ContentPart::File(_) => "document",
        _ => return None,
    };
    let source = match reference.data() {
        Some((media_type, data))
            if kind == "image" && media_type.starts_with("image/") || media_type == "application/pdf" =>
        {
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
        _ if reference.has_scheme(&["https://", "http://"]) => json!({"type": "url", "url": reference.uri}),
        _ if reference.has_scheme(&["file_"]) => json!({"type": "file", "file_id": reference.uri}),
        _ => return None,
    };
    Some(json!({"type": kind, "source": source}))
}
