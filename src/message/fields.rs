//! Reads fields of JSON objects, for the formats of providers.
//!
//! An error is the text of the reason. It does not name the object's position, which the caller adds.

use serde_json::{Map, Value};

use super::{
    chat_message::{ContentPart, MediaReference, Role},
    timestamp::Timestamp,
};
use crate::error::Error;

pub(super) type Object = Map<String, Value>;

/// The result of reading a field, with the reason as its error.
pub(super) type Result<T> = std::result::Result<T, String>;

pub(super) fn as_object(value: &Value) -> Result<&Object> {
    value.as_object().ok_or_else(|| "expected a JSON object".to_owned())
}

/// Reads each object of a list separately. Errors begin with `list` and the index.
pub(super) fn read_each<T>(
    values: &[Value],
    list: &'static str,
    read: impl Fn(&Object) -> Result<T>,
) -> impl Iterator<Item = crate::error::Result<T>> {
    values.iter().enumerate().map(move |(index, value)| {
        let line = as_object(value).and_then(&read);
        line.map_err(|reason| Error::message(format!("{list}[{index}]: {reason}")))
    })
}

pub(super) fn inner<'o>(object: &'o Object, field: &str) -> Result<&'o Object> {
    object.get(field).and_then(Value::as_object).ok_or_else(|| format!("{field} is not an object"))
}

/// Returns the text of a field, which must not be missing or null.
pub(super) fn required<'o>(object: &'o Object, field: &str) -> Result<&'o str> {
    text(object, field)?.ok_or_else(|| format!("{field} is missing"))
}

/// Returns the text of a field; `None` if the field is missing or null.
pub(super) fn text<'o>(object: &'o Object, field: &str) -> Result<Option<&'o str>> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{field} is not a string")),
    }
}

pub(super) fn role(name: &str) -> Result<Role> {
    name.parse().map_err(|error| match error {
        Error::InvalidMessage { reason } => reason,
        error => error.to_string(),
    })
}

/// Returns the time in a field with seconds since 1970; `None` if the field is missing or null.
pub(super) fn seconds(object: &Object, field: &str) -> Result<Option<Timestamp>> {
    let Some(value) = object.get(field).filter(|value| !value.is_null()) else { return Ok(None) };
    let time = value.as_f64().and_then(|seconds| Timestamp::from_micros((seconds * 1e6).round() as i64));
    time.map(Some).ok_or_else(|| format!("{field} is not a time in seconds since 1970"))
}

/// Returns the fields of an object that are not in `read` and not empty.
pub(super) fn unread(object: &Object, read: &[&str]) -> Object {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let unread = object.iter().filter(|(field, value)| !read.contains(&field.as_str()) && !is_empty(value));
    unread.map(|(field, value)| (field.clone(), value.clone())).collect()
}

pub(crate) fn text_part(text: &str) -> ContentPart {
    ContentPart::Text { text: text.to_owned() }
}

/// Creates a reference to a URI whose media type is unknown or part of the URI.
pub(super) fn reference(uri: impl Into<String>) -> MediaReference {
    MediaReference { uri: uri.into(), media_type: None }
}

/// Cuts a text to at most so many bytes, and says so.
pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(bytes));
        text.push_str(&format!("\n[{} of {whole} bytes]", text.len()));
    }
    text
}

/// Joins the texts of `content` into one tool result, followed by the other parts.
pub(super) fn tool_result(id: &str, content: Vec<ContentPart>) -> Vec<ContentPart> {
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for part in content {
        match part {
            ContentPart::Text { text } => texts.push(text),
            other => others.push(other),
        }
    }
    let result = ContentPart::ToolResult { id: id.to_owned(), content: texts.join("\n") };
    std::iter::once(result).chain(others).collect()
}
