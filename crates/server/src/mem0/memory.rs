//! A memory: a message, and whose it is.
//!
//! mem0's client names a memory by an id alone. Here the id contains the namespace and the id of the message in it, so that
//! no index of ids is needed. It is no secret and no permission: a caller who gives one must be allowed to see the
//! namespace.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use mnemon::{ContentPart, DEFAULT_SESSION, Message, Namespace, Timestamp};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::fields;
use crate::{
    access::Caller,
    entity::{self, id_name},
    problem::Problem,
};

/// The key in the metadata of a message for the time of its last update, in microseconds since 1970.
pub(super) const UPDATED_AT: &str = "mem0_updated_at";
pub(super) const CATEGORIES: &str = "categories";
/// The separator of namespace and message in an id. No namespace has this character.
const SEPARATOR: char = '\n';

pub(super) struct Memory {
    pub(super) namespace: Namespace,
    /// The kind and the id of the entity that the namespace stands for.
    home: Option<(&'static str, String)>,
    pub(super) message: Message,
    /// True for a document that a model made, which is shown as a message.
    pub(super) is_fact: bool,
}

impl Memory {
    pub(super) fn new(caller: &Caller, namespace: &Namespace, message: Message) -> Self {
        let home = entity::from_namespace(caller, namespace);
        Memory { namespace: namespace.clone(), home, message, is_fact: false }
    }

    /// Returns a fact of a home, which is a document of the namespace `facts` with this key and text.
    pub(super) fn of_fact(
        caller: &Caller,
        home: &Namespace,
        facts: &Namespace,
        (key, text): (String, &str),
        mut metadata: Map<String, Value>,
        (created_at, updated_at): (Timestamp, Timestamp),
    ) -> Self {
        if updated_at > created_at {
            metadata.insert(UPDATED_AT.to_owned(), updated_at.as_micros().into());
        }
        let mut message = Message::user(text).with_id(key).at(created_at);
        message.metadata = metadata;
        Memory { namespace: facts.clone(), is_fact: true, ..Memory::new(caller, home, message) }
    }

    /// Returns the metadata of a fact as it is stored: without the time of its change, which the document has.
    pub(super) fn stored_metadata(&self) -> Map<String, Value> {
        let mut metadata = self.message.metadata.clone();
        metadata.remove(UPDATED_AT);
        metadata
    }

    pub(super) fn id(&self) -> String {
        write_id(&self.namespace, &self.message.id)
    }

    /// Returns the id of the user, agent, app or run whose memory this is.
    pub(super) fn entity(&self, kind: &str) -> Option<&str> {
        let home = self.home.as_ref().filter(|(home, _)| *home == kind).map(|(_, id)| id.as_str());
        let marked = || self.message.metadata.get(&id_name(kind)).and_then(Value::as_str);
        let session =
            || Some(self.message.session.as_str()).filter(|session| kind == "run" && *session != DEFAULT_SESSION);
        home.or_else(marked).or_else(session)
    }

    pub(super) fn created_at(&self) -> Option<i64> {
        self.message.created_at.map(Timestamp::as_micros)
    }

    pub(super) fn updated_at(&self) -> Option<i64> {
        self.message.metadata.get(UPDATED_AT).and_then(Value::as_i64).or_else(|| self.created_at())
    }

    pub(super) fn is_updated(&self) -> bool {
        self.message.metadata.contains_key(UPDATED_AT)
    }

    /// Returns the categories that the metadata of the memory names.
    pub(super) fn categories(&self) -> Vec<&Value> {
        match self.message.metadata.get(CATEGORIES) {
            Some(Value::Array(categories)) => categories.iter().collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(category) => vec![category],
        }
    }

    /// Returns the metadata without the marks of this server.
    pub(super) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.message.metadata.clone();
        metadata.retain(|key, _| !is_reserved(key));
        metadata
    }

    /// Replaces the metadata, except for the marks.
    pub(super) fn set_metadata(&mut self, given: Map<String, Value>) {
        let marks = &mut self.message.metadata;
        marks.retain(|key, _| is_reserved(key));
        marks.extend(given.into_iter().filter(|(key, _)| !is_reserved(key)));
    }

    /// Returns the memory as mem0 shows it.
    pub(super) fn to_json(&self) -> Value {
        let text = text_of(&self.message);
        let hash: String = Sha256::digest(&text)[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut memory = json!({
            "id": self.id(),
            "memory": text,
            "hash": hash,
            "metadata": self.metadata(),
            "categories": self.categories(),
            "role": self.message.role,
            "actor_id": self.message.name,
            "created_at": self.message.created_at,
            "updated_at": self.updated_at().and_then(Timestamp::from_micros),
            "expiration_date": self.message.expires_at.map(fields::expiration_date),
        });
        for (kind, _) in entity::KINDS {
            memory[id_name(kind)] = self.entity(kind).into();
        }
        memory
    }
}

/// Returns the text of a message. Of one without a text, such as a picture, it is what the message has instead; empty for nothing.
pub(super) fn text_of(message: &Message) -> String {
    let text = message.text();
    if !text.trim().is_empty() {
        return text;
    }
    let media = |kind: &str, uri: &str| match uri.starts_with("data:") {
        true => format!("[{kind}]"),
        false => format!("[{kind}: {uri}]"),
    };
    let parts = message.content.iter().filter_map(|part| match part {
        ContentPart::ToolCall { name, .. } => Some(format!("[call of {name}]")),
        ContentPart::Image(reference) => Some(media("image", &reference.uri)),
        ContentPart::Audio(reference) => Some(media("audio", &reference.uri)),
        ContentPart::Video(reference) => Some(media("video", &reference.uri)),
        ContentPart::File(reference) => Some(media("file", &reference.uri)),
        _ => None,
    });
    parts.collect::<Vec<_>>().join(" ")
}

pub(super) fn is_reserved(key: &str) -> bool {
    key == UPDATED_AT || entity::KINDS.iter().any(|(kind, _)| key.strip_suffix("_id") == Some(*kind))
}

pub(super) fn write_id(namespace: &Namespace, message: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{namespace}{SEPARATOR}{message}"))
}

/// Returns the namespace and the id of the message, or `None` for an id that this server did not write.
pub(super) fn read_id(id: &str) -> Option<(Namespace, String)> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    let (namespace, message) = text.split_once(SEPARATOR)?;
    Some((namespace.parse().ok()?, message.to_owned()))
}

/// Same as [`read_id`]. A memory that the caller may not see does not exist.
pub(super) fn seen(caller: &Caller, id: &str) -> Result<(Namespace, String), Problem> {
    read_id(id).filter(|(namespace, _)| caller.sees(namespace)).ok_or_else(unknown)
}

pub(super) fn unknown() -> Problem {
    Problem::not_found("there is no memory with this id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back() {
        let namespace: Namespace = "users/Zoë %2F 1".parse().unwrap();
        let id = write_id(&namespace, "a\nb");
        assert_eq!(read_id(&id), Some((namespace, "a\nb".to_owned())));
        for foreign in ["", "x", "0198f2d1-6f3a-7c3e-9d62-3b8f6c1f0a77", "YQ", "Cg"] {
            assert_eq!(read_id(foreign), None, "{foreign}");
        }
    }
}
