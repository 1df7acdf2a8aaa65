//! [`Fields`]: a filter is evaluated on a JSON object and on the message that it belongs to.

use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    message::{Message, Role, Timestamp},
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
    /// Its value is the number of microseconds since 1970.
    CreatedAt,
}

impl MessageField {
    const NAMES: [(&str, Self); 4] =
        [("$id", Self::Id), ("$session", Self::Session), ("$role", Self::Role), ("$created_at", Self::CreatedAt)];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, field)| *field == self).expect("each field is listed").0
    }

    /// Returns the value of the field in a message with these.
    pub(crate) fn value(self, id: &str, session: &str, role: Role, created_at: Option<i64>) -> Option<Value> {
        match self {
            MessageField::Id => Some(id.into()),
            MessageField::Session => Some(session.into()),
            MessageField::Role => Some(role.as_str().into()),
            MessageField::CreatedAt => created_at.map(Value::from),
        }
    }

    /// Returns the value to compare the field with, or the values. Times may be given as text.
    ///
    /// # Errors
    /// [`Error::InvalidFilter`]: a text that is no time; an unknown role.
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
        field.value(&self.id, &self.session, self.role, self.created_at.map(Timestamp::as_micros))
    }
}
