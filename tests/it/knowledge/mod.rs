//! Profiles and collections that a language model keeps up to date, on a real engine, with a model that follows a
//! script.

mod blocks;
mod collection;
mod kills;
mod profile;

use std::{
    collections::VecDeque,
    future::ready,
    sync::{Arc, Mutex},
};

use mnemon::{
    ChatAnswer, ChatFuture, ChatModel, ChatRequest, Collection, DocumentSearch, Engine, Error, Message, Profile, Result,
};
use serde_json::{Value, json};

use crate::support::{Db, namespace};

/// A model that gives these answers in turn and keeps the requests. An answer may be an error.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Result<String>>>,
    requests: Mutex<Vec<ChatRequest>>,
}

impl ChatModel for Script {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(ready(self.chat_blocking(request)))
    }

    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front().expect("the script has an answer");
        answer.map(|text| Message::assistant(text).into())
    }
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Result<String>>) -> Arc<Self> {
        Arc::new(Script { answers: Mutex::new(answers.into_iter().collect()), requests: Mutex::default() })
    }

    /// The texts of the user messages of all requests.
    fn asked(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.messages[1].text()).collect()
    }
}

fn script<const N: usize>(answers: [Value; N]) -> Arc<Script> {
    Script::new(answers.map(|answer| Ok(answer.to_string())))
}

fn says(text: &str) -> Arc<Script> {
    Script::new([Ok(text.to_owned())])
}

fn unavailable() -> Error {
    Error::Chat { reason: "it is down".into(), transient: true, retry_after: None, source: None }
}

fn said(text: &str) -> Vec<Message> {
    vec![Message::user(text)]
}

fn facts(engine: &Engine) -> Collection {
    Collection::new(engine, &namespace("acme/user-42/facts"))
}

fn profile(engine: &Engine) -> Profile {
    Profile::new(engine, &namespace("acme/user-42"), "profile")
}

/// The texts of all items of a collection, sorted.
fn texts(collection: &Collection) -> Vec<String> {
    let items = collection.blocking().search(DocumentSearch::default().limit(1_000_000)).unwrap();
    let mut texts: Vec<String> = items.iter().map(|item| item.value["text"].as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

/// An object nested 10,000 deep. Made without `json!`, which copies values recursively.
fn deep() -> Value {
    let nested = (0..10_000).fold(Value::Null, |value, _| Value::Array(vec![value]));
    Value::Object([("text".to_owned(), nested)].into_iter().collect())
}
