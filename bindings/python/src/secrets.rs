//! `Engine(remove_secrets=True)`: secrets are replaced in messages and values before they are stored.

use std::sync::Arc;

use mnemon::{DocumentOperation, Message, Result};
use mnemon_secrets::Secrets;
use serde_json::{Map, Value};

use crate::values::bad_message;

/// Replaces secrets, if the engine is to.
#[derive(Clone, Default)]
pub(crate) struct SecretRemoval(Option<Arc<Secrets>>);

impl SecretRemoval {
    pub(crate) fn new(is_on: bool) -> Self {
        SecretRemoval(is_on.then(Arc::default))
    }

    pub(crate) fn message(&self, mut message: Message) -> Result<Message> {
        if let Some(secrets) = &self.0 {
            let replaced = secrets.replace_in_message(&mut message);
            replaced.map_err(|error| bad_message(format!("without its secrets it is no message: {error}")))?;
        }
        Ok(message)
    }

    pub(crate) fn messages(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        messages.into_iter().map(|message| self.message(message)).collect()
    }

    pub(crate) fn value(&self, value: Value) -> Value {
        self.field("value", value)
    }

    pub(crate) fn metadata(&self, metadata: Map<String, Value>) -> Map<String, Value> {
        match self.field("metadata", Value::Object(metadata)) {
            Value::Object(metadata) => metadata,
            _ => unreachable!("an object stays one"),
        }
    }

    /// Replaces the secrets in a field of a request: what its fields are called has no meaning there.
    fn field(&self, name: &str, value: Value) -> Value {
        let Some(secrets) = &self.0 else { return value };
        let mut request = Value::Object(Map::from_iter([(name.to_owned(), value)]));
        secrets.replace(&mut request);
        request[name].take()
    }

    /// Replaces the secrets in the arguments of a tool.
    pub(crate) fn arguments(&self, mut arguments: Value) -> Value {
        if let Some(secrets) = &self.0 {
            secrets.replace(&mut arguments);
        }
        arguments
    }

    /// A value that a batch expects is one that was stored, without its secrets.
    pub(crate) fn operation(&self, operation: DocumentOperation) -> Result<DocumentOperation> {
        Ok(match operation {
            DocumentOperation::Put { namespace, key, value, options } => {
                DocumentOperation::Put { namespace, key, value: self.value(value), options }
            }
            DocumentOperation::Expect { namespace, key, value } => {
                DocumentOperation::Expect { namespace, key, value: value.map(|value| self.value(value)) }
            }
            DocumentOperation::PutMessages { namespace, messages } => {
                DocumentOperation::PutMessages { namespace, messages: self.messages(messages)? }
            }
            other => other,
        })
    }
}
