//! The operations of the matrix with their arguments, and the model that says what each returns and leaves behind.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

pub(super) const QUESTION: &str = "When is my rowing lesson?";
pub(super) const LESSON: &str = "I moved my rowing lesson to Thursday morning.";

/// One operation. Each surface has its own way to ask for the `action` with the `argument`.
#[derive(Clone, Serialize)]
pub(super) struct Operation {
    pub(super) action: &'static str,
    pub(super) argument: Value,
    /// True if it needs to write, and so is refused where nothing can be written.
    pub(super) changes: bool,
    /// True if the namespace is under a legal hold.
    pub(super) held: bool,
    /// True if it is about the whole file: it runs after the others, and alone.
    pub(super) whole: bool,
}

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Refusal {
    /// Another process writes to the file.
    Locked,
    /// The file was opened for reading.
    ReadOnly,
    LegalHold,
    /// Postgres does not answer.
    Unavailable,
    /// Postgres was asked to commit, and did not answer.
    OutcomeUnknown,
    /// The name is taken, or a call of the same kind runs.
    Exists,
    /// There is no such thing. Surfaces differ in whether this is an error, so it equals an empty answer.
    NotFound,
    /// What the model knows nothing of: always a difference.
    Other(String),
}

pub(super) type Answer = Result<Value, Refusal>;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StoredMessage {
    pub(super) id: String,
    pub(super) role: String,
    pub(super) text: String,
    pub(super) topic: Option<String>,
}

/// What a namespace has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Model {
    pub(super) sessions: BTreeMap<String, Vec<StoredMessage>>,
    pub(super) documents: BTreeMap<String, Value>,
    pub(super) held: bool,
}

/// The operations, in the order in which they run.
pub(super) fn operations() -> Vec<Operation> {
    let message = |id, session, text| json!({ "id": id, "session": session, "role": "user", "content": text });
    let reads = [
        ("get", json!("m1")),
        ("get", json!("nope")),
        ("history", json!("monday")),
        ("history", json!("nope")),
        ("sessions", Value::Null),
        ("namespaces", Value::Null),
        ("recall", json!(QUESTION)),
        ("recall_several", json!(QUESTION)),
        ("assemble", json!({ "session": "monday", "prompt": QUESTION })),
        ("document_get", json!("likes")),
        ("document_get", json!("nope")),
        ("document_search", json!("rowing")),
        ("blocks", Value::Null),
        ("holds", Value::Null),
        ("journal", Value::Null),
        ("export", Value::Null),
        ("audit", Value::Null),
        ("stats", Value::Null),
        ("index_stats", Value::Null),
    ];
    let changes = [
        ("put", message("m4", "tuesday", "Her bakery sells rye bread.")),
        ("put", message("m1", "monday", "My rowing lesson is on Friday.")),
        ("import_files", message("m7", "tuesday", "The bakery opens in June.")),
        ("put_session", message("m5", "monday", "I sold my bicycle.")),
        ("sync", message("m6", "monday", "I bought a boat.")),
        ("update_text", json!({ "id": "m1", "content": "My rowing lesson is on Sunday." })),
        ("set_metadata", json!({ "id": "m1", "topic": "sport" })),
        ("set_metadata", json!({ "id": "nope", "topic": "sport" })),
        ("delete", json!("m1")),
        ("delete", json!("nope")),
        ("delete_session", json!("monday")),
        ("delete_session", json!("nope")),
        ("delete_namespace", Value::Null),
        ("delete_prefix", Value::Null),
        ("forget", json!({ "by": "messages", "ids": ["m1"] })),
        ("forget", json!({ "by": "messages", "ids": ["nope"] })),
        ("forget", json!({ "by": "documents", "keys": ["likes"] })),
        ("forget", json!({ "by": "session", "session": "monday" })),
        ("forget", json!({ "by": "matching", "filter": { "$session": "monday" } })),
        ("forget", json!({ "by": "namespace" })),
        ("document_put", json!({ "key": "dislikes", "value": { "food": "anise" } })),
        ("document_delete", json!("likes")),
        ("document_delete", json!("nope")),
        ("copy_session", json!({ "from": "monday", "to": "friday" })),
        ("fork", json!({ "from": "monday", "to": "saturday" })),
        ("clear", json!("monday")),
        ("checkpoint", json!("monday")),
        ("flush_session", json!("monday")),
        ("import", Value::Null),
        ("hold", json!("a lawsuit")),
        ("set_language", json!("german")),
        ("set_ttl", json!(60.0)),
    ];
    let held = [
        ("delete", json!("m1")),
        ("delete_session", json!("monday")),
        ("delete_namespace", Value::Null),
        ("forget", json!({ "by": "messages", "ids": ["m1"] })),
        ("forget", json!({ "by": "namespace" })),
        ("clear", json!("monday")),
        ("document_delete", json!("likes")),
        ("release", Value::Null),
    ];
    let whole = [
        ("flush", Value::Null, true),
        ("link", Value::Null, true),
        ("verify", Value::Null, false),
        ("backup", Value::Null, false),
        ("reindex", Value::Null, true),
        ("rollback", Value::Null, true),
        ("drop_previous", Value::Null, true),
        ("purge", Value::Null, true),
    ];
    let operation = |changes: bool, held: bool| {
        move |(action, argument)| Operation { action, argument, changes, held, whole: false }
    };
    let mut all: Vec<Operation> = reads.into_iter().map(operation(false, false)).collect();
    all.extend(changes.into_iter().map(operation(true, false)));
    all.extend(held.into_iter().map(operation(true, true)));
    all.extend(whole.into_iter().map(|(action, argument, changes)| Operation {
        action,
        argument,
        changes,
        held: false,
        whole: true,
    }));
    all
}

impl Operation {
    /// A text of the argument, or of a field of it.
    pub(super) fn text(&self, field: &str) -> &str {
        self.argument.get(field).unwrap_or(&self.argument).as_str().unwrap_or_default()
    }

    pub(super) fn name(&self) -> String {
        let held = if self.held { " under a hold" } else { "" };
        match &self.argument {
            Value::Null => format!("{}{held}", self.action),
            argument => format!("{} {argument}{held}", self.action),
        }
    }
}

impl Model {
    /// What every namespace has at first, but in a new database.
    pub(super) fn fixture(held: bool) -> Self {
        let message = |id: &str, role: &str, text: &str| StoredMessage {
            id: id.into(),
            role: role.into(),
            text: text.into(),
            topic: None,
        };
        let monday =
            vec![message("m1", "user", LESSON), message("m2", "assistant", "Noted: rowing on Thursday morning.")];
        let tuesday = vec![message("m3", "user", "My sister's bakery opens in June.")];
        let sessions = [("monday".to_owned(), monday), ("tuesday".to_owned(), tuesday)].into();
        Model { sessions, documents: [("likes".to_owned(), json!({ "sport": "rowing" }))].into(), held }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.documents.is_empty()
    }

    fn find(&mut self, id: &str) -> Option<&mut StoredMessage> {
        self.sessions.values_mut().flatten().find(|message| message.id == id)
    }

    /// Texts of all messages, sorted.
    pub(super) fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.sessions.values().flatten().map(|message| message.text.clone()).collect();
        texts.sort();
        texts
    }

    /// Removes the messages that `goes` names; returns how many.
    fn remove(&mut self, goes: impl Fn(&str, &StoredMessage) -> bool) -> usize {
        let before = self.texts().len();
        for (session, messages) in &mut self.sessions {
            messages.retain(|message| !goes(session, message));
        }
        self.sessions.retain(|_, messages| !messages.is_empty());
        before - self.texts().len()
    }

    /// Does an operation. An error changes nothing.
    pub(super) fn apply(&mut self, operation: &Operation) -> Answer {
        let destroys = ["delete", "forget", "clear", "document_delete"];
        if self.held && destroys.iter().any(|prefix| operation.action.starts_with(prefix)) {
            return Err(Refusal::LegalHold);
        }
        let text = operation.text("");
        Ok(match operation.action {
            "get" => self.find(text).map_or(Value::Null, |message| json!(message.text)),
            "history" => json!(
                self.sessions
                    .get(text)
                    .map_or(Vec::new(), |messages| { messages.iter().map(|message| message.text.clone()).collect() })
            ),
            "sessions" => json!(self.sessions.keys().collect::<Vec<_>>()),
            "namespaces" => json!(self.texts().len()),
            "recall" | "recall_several" => self.find("m1").map_or(Value::Null, |message| json!(message.text)),
            "assemble" => json!(self.find("m1").is_some()),
            "document_get" => self.documents.get(text).cloned().unwrap_or_default(),
            "document_search" => json!(self.documents.keys().collect::<Vec<_>>()),
            "blocks" => json!([]),
            "holds" => json!(self.held),
            "export" | "backup" => json!(self.texts()),
            "put" | "import_files" | "put_session" | "sync" => {
                self.put(&operation.argument);
                Value::Null
            }
            "update_text" => match self.find(operation.text("id")) {
                Some(message) => {
                    message.text = operation.text("content").into();
                    json!(true)
                }
                None => return Err(Refusal::NotFound),
            },
            "set_metadata" => match self.find(operation.text("id")) {
                Some(message) => {
                    message.topic = Some(operation.text("topic").into());
                    json!(true)
                }
                None => return Err(Refusal::NotFound),
            },
            "delete" => json!(self.remove(|_, message| message.id == text)),
            "delete_session" => match self.remove(|session, _| session == text) {
                0 => return Err(Refusal::NotFound),
                _ => Value::Null,
            },
            "clear" => json!(self.remove(|session, _| session == text)),
            "delete_namespace" | "delete_prefix" => {
                *self = Model::default();
                Value::Null
            }
            "forget" => self.forget(&operation.argument),
            "document_put" => {
                self.documents.insert(operation.text("key").into(), operation.argument["value"].clone());
                Value::Null
            }
            "document_delete" => match self.documents.remove(text) {
                Some(_) => Value::Null,
                None => return Err(Refusal::NotFound),
            },
            "copy_session" | "fork" => {
                let Some(messages) = self.sessions.get(operation.text("from")).cloned() else {
                    return Err(Refusal::NotFound);
                };
                if self.sessions.contains_key(operation.text("to")) {
                    return Err(Refusal::Exists);
                }
                self.sessions.insert(operation.text("to").into(), messages);
                Value::Null
            }
            "checkpoint" if !self.sessions.contains_key(text) => return Err(Refusal::NotFound),
            "import" if !self.is_empty() => return Err(Refusal::Exists),
            "import" => {
                *self = Model::fixture(self.held);
                Value::Null
            }
            "hold" => {
                self.held = true;
                Value::Null
            }
            "release" if !self.held => return Err(Refusal::NotFound),
            "release" => {
                self.held = false;
                Value::Null
            }
            // They answer, and leave what a namespace has as it is.
            _ => Value::Null,
        })
    }

    fn put(&mut self, message: &Value) {
        let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
        match self.find(&text("id")) {
            Some(stored) => stored.text = text("content"),
            None => self.sessions.entry(text("session")).or_default().push(StoredMessage {
                id: text("id"),
                role: text("role"),
                text: text("content"),
                topic: None,
            }),
        }
    }

    fn forget(&mut self, what: &Value) -> Value {
        let names = |field: &str, name: &str| {
            what[field].as_array().is_some_and(|names| names.iter().any(|given| given == name))
        };
        let session = what["session"].as_str().or_else(|| what["filter"]["$session"].as_str());
        json!(match what["by"].as_str() {
            Some("messages") => self.remove(|_, message| names("ids", &message.id)),
            Some("documents") => {
                let before = self.documents.len();
                self.documents.retain(|key, _| !names("keys", key));
                before - self.documents.len()
            }
            Some("session" | "matching") => self.remove(|of, _| Some(of) == session),
            _ => {
                let count = self.texts().len() + self.documents.len();
                *self = Model::default();
                count
            }
        })
    }
}

/// Whether an answer is the expected one. "There is no such thing" is the same as an answer that has nothing.
pub(super) fn agree(answer: &Answer, expected: &Answer) -> bool {
    let is_nothing = |answer: &Answer| match answer {
        Err(refusal) => *refusal == Refusal::NotFound,
        Ok(value) => value.is_null() || *value == json!(0) || *value == json!(false) || *value == json!([]),
    };
    answer == expected || is_nothing(answer) && is_nothing(expected)
}
