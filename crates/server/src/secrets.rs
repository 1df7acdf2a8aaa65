//! `--remove-secrets`: secrets are replaced in what comes in, and their kinds are counted.
//!
//! Everything stored came in a request or is an answer of the language model. A request over HTTP passes `guard`, a call of a
//! tool over the socket passes `mcp`, and an answer of the model passes `formation::usage`, before anything else is done
//! with it. The messages of a file that is imported pass `v1::import` one by one. So no secret is stored, searched, noted in the journal or given to a model.

use std::sync::Arc;

use mnemon::{Error, Message, format::MessageEdit};
use mnemon_secrets::Secrets;
use serde_json::Value;

use crate::telemetry::RemovedSecrets;

/// Replaces secrets, and counts them.
pub(crate) struct SecretRemoval {
    secrets: Secrets,
    removed: RemovedSecrets,
}

impl SecretRemoval {
    pub(crate) fn new(removed: RemovedSecrets) -> Self {
        SecretRemoval { secrets: Secrets::new(), removed }
    }

    /// Replaces the secrets in a request. Returns true if there were any.
    pub(crate) fn replace(&self, request: &mut Value) -> bool {
        self.count(self.secrets.replace(request))
    }

    /// Replaces the secrets in a body: JSON, or lines of JSON.
    pub(crate) fn replace_in_body(&self, body: &str) -> Option<String> {
        if let Ok(mut value) = serde_json::from_str(body) {
            return self.replace(&mut value).then(|| value.to_string());
        }
        let mut is_changed = false;
        let lines = body.split_inclusive('\n').map(|line| {
            let mut text = line.to_owned();
            is_changed |= match serde_json::from_str(line) {
                Ok(mut value) => {
                    let found = self.replace(&mut value);
                    if found {
                        text = format!("{value}\n");
                    }
                    found
                }
                Err(_) => self.count(self.secrets.replace_in_text(&mut text)),
            };
            text
        });
        let replaced = lines.collect();
        is_changed.then_some(replaced)
    }

    /// Replaces the secrets in a message of the language model.
    ///
    /// # Errors
    /// [`Error::Chat`]: without its secrets it is no message.
    pub(crate) fn replace_in_message(&self, message: &mut Message) -> mnemon::Result<()> {
        let kinds = self.secrets.replace_in_message(message).map_err(|error| Error::Chat {
            reason: format!("the model's answer has secrets, and is no message without them: {error}"),
            transient: false,
            retry_after: None,
            source: None,
        })?;
        self.count(kinds);
        Ok(())
    }

    /// Returns the change of messages of imported files that replaces their secrets.
    pub(crate) fn of_files(self: &Arc<Self>) -> MessageEdit {
        let removal = Arc::clone(self);
        MessageEdit::new(move |message| {
            let kinds = removal.secrets.replace_in_message(message).map_err(|error| Error::InvalidMessage {
                reason: format!("it is no message without its secrets: {error}"),
            })?;
            removal.count(kinds);
            Ok(())
        })
    }

    fn count(&self, kinds: Vec<&'static str>) -> bool {
        kinds.iter().for_each(|kind| self.removed.count(kind));
        !kinds.is_empty()
    }
}
