//! The form of the values that a language model writes.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Checks a value. The error is the reason.
type Check = fn(&Value) -> Result<(), String>;

/// A description for the model, and the check that each value must pass.
#[derive(Clone)]
pub(super) struct Form {
    pub(super) description: String,
    check: Check,
}

impl Form {
    /// Allows every object.
    pub(super) fn described(description: impl Into<String>) -> Self {
        Form { description: description.into(), check: is_object }
    }

    /// Allows the objects that deserialize as a `T`.
    pub(super) fn of<T: DeserializeOwned>(self) -> Self {
        let check = |value: &Value| {
            is_object(value)?;
            T::deserialize(value).map(drop).map_err(|error| error.to_string())
        };
        Form { check, ..self }
    }

    /// # Errors
    /// The reason why a value does not have this form.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        (self.check)(value)
    }
}

fn is_object(value: &Value) -> Result<(), String> {
    if value.is_object() { Ok(()) } else { Err("it is not a JSON object".to_owned()) }
}
