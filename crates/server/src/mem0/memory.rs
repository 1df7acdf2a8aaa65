//! A memory: a message, with whose it is.

use mnemon::{DEFAULT_SESSION, Message, Namespace, Timestamp};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    super::{
        caller::Caller,
        entity::{self, mark},
    },
    id,
};

/// The key in the metadata of a message for the time of its last update, in microseconds since 1970.
pub(super) const UPDATED_AT: &str = "mem0_updated_at";
pub(super) const CATEGORIES: &str = "categories";

pub(super) struct Memory {
    pub(super) namespace: Namespace,
    /// Who the namespace stands for.
    home: Option<(&'static str, String)>,
    pub(super) message: Message,
}

impl Memory {
    pub(super) fn new(caller: &Caller, namespace: &Namespace, message: Message) -> Self {
        let home = entity::from_namespace(caller, namespace);
        Memory { namespace: namespace.clone(), home, message }
    }

    pub(super) fn id(&self) -> String {
        id::write(&self.namespace, &self.message.id)
    }

    /// The id of the user, agent, app or run whose memory this is.
    pub(super) fn entity(&self, kind: &str) -> Option<&str> {
        let home = self.home.as_ref().filter(|(home, _)| *home == kind).map(|(_, id)| id.as_str());
        let marked = || self.message.metadata.get(&mark(kind)).and_then(Value::as_str);
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

    /// The categories that the memory was given in its metadata.
    pub(super) fn categories(&self) -> Vec<&Value> {
        match self.message.metadata.get(CATEGORIES) {
            Some(Value::Array(categories)) => categories.iter().collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(category) => vec![category],
        }
    }

    /// The metadata without the marks of this server.
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

    /// The memory as mem0 shows it.
    pub(super) fn to_json(&self) -> Value {
        let text = self.message.text();
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
        });
        for (kind, _) in entity::KINDS {
            memory[mark(kind)] = self.entity(kind).into();
        }
        memory
    }
}

fn is_reserved(key: &str) -> bool {
    key == UPDATED_AT || entity::KINDS.iter().any(|(kind, _)| key.strip_suffix("_id") == Some(*kind))
}
