//! [`Fields`]: what a filter is evaluated on, a JSON object and the message that it belongs to; and the paths to a value in
//! them.

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    message::{Message, Role, Source, Timestamp},
};

/// A JSON object, and the message whose metadata it is, if it is metadata.
pub(crate) trait Fields {
    fn object(&self) -> &Map<String, Value>;

    /// Returns the value of a field of the message; `None` if there is no message, or it has no such value.
    fn of_message(&self, field: MessageField) -> Option<Value>;
}

/// A field of a message beside its metadata. A path names it with `$`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MessageField {
    Id,
    Session,
    Role,
    /// Whose words it is, see [`Source`].
    Source,
    /// Its value is the number of microseconds since 1970.
    CreatedAt,
}

impl MessageField {
    const NAMES: [(&str, Self); 5] = [
        ("$id", Self::Id),
        ("$session", Self::Session),
        ("$role", Self::Role),
        ("$source", Self::Source),
        ("$created_at", Self::CreatedAt),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, field)| *field == self).expect("each field is listed").0
    }

    /// Returns the value of the field in a message with these.
    pub(crate) fn value(
        self,
        id: &str,
        session: &str,
        role: Role,
        created_at: Option<i64>,
        metadata: &Map<String, Value>,
    ) -> Option<Value> {
        match self {
            MessageField::Id => Some(id.into()),
            MessageField::Session => Some(session.into()),
            MessageField::Role => Some(role.as_str().into()),
            MessageField::Source => Source::of(metadata, role).map(|source| source.as_str().into()),
            MessageField::CreatedAt => created_at.map(Value::from),
        }
    }

    /// Returns the value to compare the field with, or the values. Times may be given as text.
    ///
    /// # Errors
    /// [`Error::InvalidFilter`]: a text that is no time; an unknown role or source.
    pub(super) fn operand(self, operand: Value) -> Result<Value> {
        match operand {
            Value::Array(operands) => operands.into_iter().map(|operand| self.single(operand)).collect(),
            operand => self.single(operand),
        }
    }

    fn single(self, operand: Value) -> Result<Value> {
        let fault = |error: Error| Error::filter(format!("{}: {error}", self.name()));
        match (self, operand) {
            (MessageField::CreatedAt, Value::String(time)) => {
                Ok(time.parse::<Timestamp>().map_err(fault)?.as_micros().into())
            }
            (MessageField::Source, Value::String(source)) => {
                Ok(source.parse::<Source>().map_err(fault)?.as_str().into())
            }
            (MessageField::Role, Value::String(role)) => Ok(role.parse::<Role>().map_err(fault)?.as_str().into()),
            (_, operand) => Ok(operand),
        }
    }
}

impl Fields for Map<String, Value> {
    fn object(&self) -> &Map<String, Value> {
        self
    }

    fn of_message(&self, _: MessageField) -> Option<Value> {
        None
    }
}

impl Fields for Message {
    fn object(&self) -> &Map<String, Value> {
        &self.metadata
    }

    fn of_message(&self, field: MessageField) -> Option<Value> {
        field.value(&self.id, &self.session, self.role, self.created_at.map(Timestamp::as_micros), &self.metadata)
    }
}

/// The way to a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldPath {
    /// The path leads from a JSON object to a value inside of it.
    Within(Vec<Step>),
    /// The path leads to a field of the message whose metadata the object is.
    OfMessage(MessageField),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The step to the value under a key of an object.
    Key(String),
    /// The step to an element of an array, counted from 0.
    Index(usize),
}

impl FieldPath {
    pub(super) fn parse(text: &str) -> Result<Self> {
        if let Some(field) = MessageField::named(text) {
            return Ok(FieldPath::OfMessage(field));
        }
        let steps = steps(text).map_err(|reason| {
            Error::filter(format!(
                "{text:?} is not a path: {reason}; a path is keys joined by dots, such as \"user.name\", with indices in \
                 brackets (\"tags[0]\") and other keys in quotes and brackets (\"[\\\"a.b\\\"].c\")"
            ))
        })?;
        Ok(FieldPath::Within(steps))
    }

    /// Returns this path followed by another.
    ///
    /// # Errors
    /// [`Error::InvalidFilter`]: one of both is a field of a message.
    pub(super) fn join(&self, rest: FieldPath) -> Result<Self> {
        match (self, rest) {
            (FieldPath::Within(steps), FieldPath::Within(rest)) => {
                Ok(FieldPath::Within(steps.iter().cloned().chain(rest).collect()))
            }
            (path, rest) => Err(Error::filter(format!("there is no {rest} inside of {path}"))),
        }
    }

    /// Returns the value that the path leads to.
    pub(crate) fn find<'a>(&self, fields: &'a dyn Fields) -> Option<Cow<'a, Value>> {
        let steps = match self {
            FieldPath::OfMessage(field) => return fields.of_message(*field).map(Cow::Owned),
            FieldPath::Within(steps) => steps,
        };
        let (Step::Key(first), rest) = steps.split_first()? else { return None };
        let found = rest.iter().try_fold(fields.object().get(first)?, |value, step| match step {
            Step::Key(key) => value.as_object()?.get(key),
            Step::Index(index) => value.as_array()?.get(*index),
        });
        found.map(Cow::Borrowed)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = match self {
            FieldPath::OfMessage(field) => return f.write_str(field.name()),
            FieldPath::Within(steps) => steps,
        };
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Key(key) if check_plain(key).is_err() => write!(f, "[{}]", Value::from(key.as_str()))?,
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Parses a path. The error is the reason alone.
fn steps(text: &str) -> Result<Vec<Step>, &'static str> {
    let mut steps = Vec::new();
    let dotted = format!(".{text}");
    let mut rest = match text.strip_prefix('$') {
        Some(rest) if rest.starts_with(['.', '[']) => rest,
        _ if text.starts_with('[') => text,
        _ => &dotted,
    };
    while !rest.is_empty() {
        let (step, end) = match rest.as_bytes()[0] {
            b'.' => {
                let end = rest[1..].find(['.', '[']).map_or(rest.len(), |end| 1 + end);
                check_plain(&rest[1..end])?;
                (Step::Key(rest[1..end].to_owned()), end)
            }
            b'[' => bracket(rest)?,
            _ => return Err("after a bracket a dot or another bracket must follow"),
        };
        steps.push(step);
        rest = &rest[end..];
    }
    Ok(steps)
}

/// Parses `[0]` or `["key"]` at the beginning of a text. Returns the position after it.
fn bracket(text: &str) -> Result<(Step, usize), &'static str> {
    let inner = &text[1..];
    let (step, end) = if inner.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let key = keys.next().and_then(|key| key.ok()).ok_or("a key in quotes is not a JSON string")?;
        (Step::Key(key), keys.byte_offset())
    } else {
        let end = inner.find(|c: char| !c.is_ascii_digit()).unwrap_or(inner.len());
        let index = inner[..end].parse().map_err(|_| "in brackets is neither an index nor a key in quotes")?;
        (Step::Index(index), end)
    };
    match inner[end..].starts_with(']') {
        true => Ok((step, end + 2)),
        false => Err("a bracket is not closed"),
    }
}

fn check_plain(key: &str) -> Result<(), &'static str> {
    if key.is_empty() {
        Err("a key is empty")
    } else if key.starts_with('$') {
        Err("a key that begins with $ must be in quotes")
    } else if key.contains(|c: char| c.is_control() || matches!(c, '.' | '[' | ']' | '"')) {
        Err("a key with a bracket, a quotation mark or a control character must be in quotes")
    } else {
        Ok(())
    }
}
