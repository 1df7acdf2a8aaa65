//! Sessions of Gemini CLI, `~/.gemini/tmp/*/chats/session-*`: one JSON value until 2025, and since then lines that also change and
//! take back what stands before them. So a file is read to its end before its first message is returned.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::{
    reader::{EarlierFiles, Found, ReadOptions, ValueReader},
    said::{Said, filled, moment, text_part},
};
use crate::message::{Role, Timestamp};

/// How texts begin that the program writes in the user's name.
const INSERTED: [&str; 3] = ["<session_context>", "I ran the following shell command:", "<state_snapshot>"];

pub(super) fn is_value(value: &Value) -> bool {
    value["sessionId"].is_string() && value.get("projectHash").is_some()
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    Box::new(Chat { options: options.clone(), ..Chat::default() })
}

#[derive(Default)]
struct Chat {
    options: ReadOptions,
    session: String,
    /// Whether the model asked for the session.
    is_subagent: bool,
    messages: Vec<Value>,
    /// Where each of them is, by its id.
    places: HashMap<String, usize>,
    /// Messages that were taken back. An earlier reading of the file may have returned them.
    gone: Vec<Value>,
    /// The first time of each id: a session that is resumed writes all messages again, with the time of then.
    times: HashMap<String, Option<Timestamp>>,
}

impl Chat {
    /// Takes a message, in the place of one with its id.
    fn take(&mut self, message: Value) {
        let Some(id) = message["id"].as_str().map(str::to_owned) else { return };
        self.times.entry(id.clone()).or_insert_with(|| moment(&message["timestamp"]));
        let place = *self.places.entry(id).or_insert(self.messages.len());
        match self.messages.get_mut(place) {
            Some(one) => *one = message,
            None => self.messages.push(message),
        }
    }

    fn said(&self, message: &Value) -> Option<Said> {
        let role = match message["type"].as_str()? {
            "user" => Role::User,
            "gemini" => Role::Assistant,
            _ => return None,
        };
        // What was typed, before a command of the user's own or the content of files took its place.
        let shown = texts_of(message.get("displayContent").unwrap_or(&message["content"]));
        let is_inserted = role == Role::User && INSERTED.iter().any(|beginning| shown.starts_with(beginning));
        let id = message["id"].as_str()?;
        (!is_inserted).then(|| Said {
            role,
            name: None,
            parts: vec![text_part(shown)],
            time: self.times.get(id).copied().flatten(),
            session: self.session.clone(),
            id: Some(id.to_owned()),
        })
    }
}

impl ValueReader for Chat {
    fn read(&mut self, mut value: Value, _: &mut Found) {
        if let Some(session) = filled(&value["sessionId"]) {
            self.session = session.to_owned();
            self.is_subagent |= value["kind"] == "subagent";
        }
        if let Some(id) = value["$rewindTo"].as_str() {
            let at = self.places.get(id).copied().unwrap_or(self.messages.len());
            for message in self.messages.drain(at..) {
                message["id"].as_str().map(|id| self.places.remove(id));
                self.gone.push(message);
            }
        } else if value["type"].is_string() {
            self.take(value);
            return;
        }
        let set = value.get_mut("$set").and_then(|set| set.get_mut("messages")).map(Value::take);
        let is_set = set.is_some();
        let messages = set.unwrap_or_else(|| value["messages"].take());
        let Value::Array(messages) = messages else { return };
        // What is set anew takes the place of all, but for one with the context alone, which stands before a resumed session.
        if is_set && messages.len() > 1 {
            self.gone.append(&mut self.messages);
            self.places.clear();
        }
        messages.into_iter().for_each(|message| self.take(message));
    }

    fn end(&mut self, _: &mut EarlierFiles) -> VecDeque<Found> {
        let mut found = Found::default();
        if self.is_subagent {
            found.notes.push(format!(
                "session {} is a subagent's, which was asked by the model, and was left out",
                self.session
            ));
        } else {
            let line = |message: &Value| self.said(message)?.into_line(&self.options);
            let kept: HashSet<&str> = self.messages.iter().filter_map(|message| message["id"].as_str()).collect();
            let gone = self.gone.iter().filter(|message| message["id"].as_str().is_some_and(|id| !kept.contains(id)));
            found.removed = gone.filter_map(line).collect();
            found.messages = self.messages.iter().filter_map(line).map(Ok).collect();
        }
        VecDeque::from([found])
    }
}

/// Returns the texts of a content, without the model's thoughts.
fn texts_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
