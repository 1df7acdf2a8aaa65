//! Conversion between messages and the objects of OpenAI's chat completions, lossless in both directions.
//!
//! Neither form can express everything in the other. Fields of a foreign object that a [`Message`] does not have are
//! kept in `metadata["openai"]`. Fields of a message that an object does not have go into its field `mnemon`, on
//! request.

mod decode;
mod encode;

use serde_json::Value;

#[cfg(doc)]
use super::role::Role;
use super::{
    chat_message::Message,
    content::ContentPart,
    exact::{EXTENSION, ExactReader, NextObject, imported, with_extension},
    fields::{Object, as_object},
};
use crate::error::{Error, Result};
use decode::CommonFields;
pub(super) use decode::decode;
use encode::encode;

/// The key in [`Message::metadata`] of the object that the message was read from. Present if encoding the message would
/// give a different object.
const SOURCE_OBJECT: &str = "openai";

/// Converts messages to objects for a server with OpenAI's chat completions API, with the fields of that API only.
///
/// A message that was read by [`from_openai`] becomes the original object again, unless its role, name or content was
/// changed. Every other message is encoded:
///
/// - Each tool result becomes an object of its own, in order with the objects of the other parts.
/// - Other text of a [`Role::Tool`] message becomes an object of the user, after the results of all calls that were made
///   at once: the API demands that these follow each other.
/// - Media that the format cannot refer to (a video, an image that is neither on the web nor a `data:` URI) become text
///   such as `[video: URI]`.
/// - Characters of a name that the protocol forbids become `_`.
///
/// ```
/// use mnemon::{Message, to_openai};
/// let objects = to_openai(&[Message::user("Where is Ada?")]);
/// assert_eq!(objects, [serde_json::json!({"role": "user", "content": "Where is Ada?"})]);
/// ```
pub fn to_openai(messages: &[Message]) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    // Objects of the user that stand between results.
    let mut held = Vec::new();
    for message in messages {
        let is_result = message.content.iter().any(|part| matches!(part, ContentPart::ToolResult { .. }));
        for object in plain_objects(message) {
            match object.get("role").and_then(Value::as_str) {
                Some("tool" | "function") => objects.push(object.into()),
                Some("user") if is_result => held.push(object.into()),
                _ => {
                    objects.append(&mut held);
                    objects.push(object.into());
                }
            }
        }
    }
    objects.append(&mut held);
    objects
}

/// Converts messages to the objects of [`to_openai`] with an additional field `mnemon`, from which [`from_openai`]
/// restores the same messages.
///
/// The field is meant for files and for programs that pass messages on. Servers may reject it.
pub fn to_openai_lossless(messages: &[Message]) -> Vec<Value> {
    let objects = |message| with_extension(message, SOURCE_OBJECT, plain_objects(message), imported_list);
    messages.iter().flat_map(objects).map(Value::Object).collect()
}

/// Reads messages from the objects of [`to_openai`], [`to_openai_lossless`] or a foreign source.
///
/// An object with the field `mnemon` becomes the message that it was made from. Every other object becomes a new
/// message with a new id, the session `default` and no time:
///
/// - The role `developer` becomes [`Role::System`].
/// - A refusal and the transcript of audio become text.
/// - The call and the result of a function, the older form of tools, have the function's name as their id.
/// - Arguments that are not JSON become a JSON string.
/// - If an object has more information than the message, the object is kept in `metadata["openai"]`.
///
/// A message that is read here may still be refused by [`put`](crate::Engine::put) if it is too large.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value that is not an object, an unknown role, a field of the wrong
/// type, or an object of another provider's format.
///
/// ```
/// use mnemon::{Role, from_openai, to_openai};
/// let objects = [serde_json::json!({"role": "developer", "content": "Be brief."})];
/// let messages = from_openai(&objects)?;
/// assert_eq!((messages[0].role, messages[0].text().as_str()), (Role::System, "Be brief."));
/// assert_eq!(to_openai(&messages), objects);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn from_openai(values: &[Value]) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    let mut reader = ExactReader::default();
    for (index, value) in values.iter().enumerate() {
        let read = as_object(value).and_then(|object| match reader.next(object, imported_list)? {
            NextObject::Restored(messages) => Ok(messages),
            NextObject::Continued => Ok(Vec::new()),
            NextObject::Foreign(object) => Ok(vec![import(&object)?]),
        });
        messages.extend(read.map_err(|reason| Error::message(format!("messages[{index}]: {reason}")))?);
    }
    Ok(messages)
}

/// Converts a message to one or more objects without the field `mnemon`.
fn plain_objects(message: &Message) -> Vec<Object> {
    match message.metadata.get(SOURCE_OBJECT).and_then(Value::as_object) {
        Some(source)
            if !source.contains_key(EXTENSION) && decode(source).is_ok_and(|fields| fields.agree_with(message)) =>
        {
            vec![source.clone()]
        }
        _ => encode(message.role, message.name.as_deref(), &message.content),
    }
}

/// Makes one new message of an object without the field `mnemon`.
pub(super) fn import(object: &Object) -> Result<Message, String> {
    let CommonFields { role, name, content } = decode(object)?;
    let mut message = imported(role, name, content);
    let encoded = encode(role, message.name.as_deref(), &message.content);
    if !matches!(encoded.as_slice(), [encoded] if encoded == object) {
        message.metadata.insert(SOURCE_OBJECT.to_owned(), Value::Object(object.clone()));
    }
    Ok(message)
}

/// The message of [`import`] as a list, as the objects of other providers have several messages.
fn imported_list(object: &Object) -> Result<Vec<Message>, String> {
    Ok(vec![import(object)?])
}
