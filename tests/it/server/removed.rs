//! What is removed over any surface while the model is asked: its answer brings nothing of it back. The library's table, block
//! by block, is in `forget::at_work`.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{
    Server,
    formation::{config, until, with_model},
    mcp::Client,
};
use crate::support::{
    Db,
    servers::{LlmServer, RecordedRequest, Reply},
};

const RULES: &str = "[[namespaces]]\nblocks = [{ collection = { name = \"items\" } }, { profile = { name = \"profile\" } }, \
    { facts = { name = \"facts\" } }, { summary = { name = \"summary\" } }]\n";
/// Blocks of these rules.
const BLOCKS: usize = 4;

/// The words in a text that a message says.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    let mut words: Vec<String> = words.filter(|word| word.starts_with("secret-")).map(str::to_owned).collect();
    words.dedup();
    words
}

/// How often each word was asked for, and the words that were released.
type Words = (HashMap<String, usize>, HashSet<String>);

/// A model that repeats the words that it is shown, when they are released.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<Words>>);

impl Gate {
    fn answer(&self, request: &RecordedRequest) -> Reply {
        let [asked, shown] = [0, 1].map(|at| request.body["messages"][at]["content"].as_str().unwrap().to_owned());
        let words = words(&shown);
        if let Some(word) = words.first() {
            *self.0.lock().unwrap().0.entry(word.clone()).or_default() += 1;
            let begun = Instant::now();
            while !self.0.lock().unwrap().1.contains(word) && begun.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let answer = if asked.starts_with("You keep a collection") {
            json!({ "insert": words.iter().map(|word| json!({ "text": format!("again {word}.") })).collect::<Vec<_>>() })
        } else if asked.starts_with("You keep a profile") {
            words.into_iter().map(|word| (word, true.into())).collect::<Map<_, _>>().into()
        } else if asked.starts_with("You extract") {
            json!({ "facts": words })
        } else {
            format!("I know {}.", words.join(" ")).into()
        };
        Reply::text(&answer.as_str().map_or_else(|| answer.to_string(), str::to_owned))
    }

    fn asked(&self, word: &str) -> usize {
        self.0.lock().unwrap().0.get(word).copied().unwrap_or_default()
    }

    fn release(&self, word: &str) {
        self.0.lock().unwrap().1.insert(word.to_owned());
    }
}

/// A user of a case, with the message that is removed.
struct User<'s> {
    server: &'s Server,
    /// `users%2FuN`.
    path: String,
    /// The id of the user, `uN`.
    id: String,
}

impl User<'_> {
    fn forget(&self, what: Value) {
        self.ok(self.server.post(&format!("/v1/namespaces/{}/forget", self.path), what));
    }

    fn delete(&self, path: &str) {
        self.ok(self.server.send("DELETE", path, &[], None));
    }

    fn batch(&self, mut operation: Value) {
        operation["namespace"] = format!("users/{}", self.id).into();
        self.ok(self.server.post("/v1/batch", json!({ "operations": [operation] })));
    }

    fn call(&self, tool: &str, mut arguments: Value) {
        arguments["user_id"] = self.id.as_str().into();
        Client { server: self.server }.call(tool, arguments);
    }

    /// The id of the message for mem0's client.
    fn mem0_id(&self) -> String {
        let body = json!({ "filters": { "user_id": self.id } });
        let list = self.server.post("/v3/memories/?page=1&page_size=100", body).body;
        list["results"][0]["id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned()
    }

    #[track_caller]
    fn ok(&self, answer: super::Answer) {
        assert!((200..300).contains(&answer.status), "{}", answer.body);
    }
}

/// A removal of the message `m` in the session `s`, and whether the namespace goes with it.
type Removal = (&'static str, fn(&User<'_>), bool);

const REMOVALS: &[Removal] = &[
    ("forget messages", |user| user.forget(json!({ "by": "messages", "ids": ["m"] })), true),
    ("forget matching", |user| user.forget(json!({ "by": "matching", "filter": { "$id": "m" } })), true),
    ("forget session", |user| user.forget(json!({ "by": "session", "session": "s" })), true),
    ("forget namespace", |user| user.forget(json!({ "by": "namespace" })), true),
    ("forget prefix", |user| user.forget(json!({ "by": "prefix" })), true),
    ("delete message", |user| user.delete(&format!("/v1/namespaces/{}/messages/m", user.path)), false),
    ("delete session", |user| user.delete(&format!("/v1/namespaces/{}/sessions/s", user.path)), false),
    ("delete namespace", |user| user.delete(&format!("/v1/namespaces/{}", user.path)), true),
    ("delete below", |user| user.delete(&format!("/v1/namespaces/{}?below=true", user.path)), true),
    ("batch of messages", |user| user.batch(json!({ "op": "delete_messages", "ids": ["m"] })), false),
    ("batch of a session", |user| user.batch(json!({ "op": "delete_session", "session": "s" })), false),
    (
        "replace",
        |user| {
            let other = json!([{ "id": "m", "role": "user", "content": "I like tea.", "session": "s" }]);
            user.ok(user.server.post(&format!("/v1/namespaces/{}/messages", user.path), json!({ "messages": other })));
        },
        false,
    ),
    ("MCP forget", |user| user.call("forget", json!({ "by": "messages", "ids": ["m"] })), true),
    ("MCP delete_memory", |user| user.call("delete_memory", json!({ "memory_id": "m" })), false),
    ("MCP delete_all_memories", |user| user.call("delete_all_memories", json!({})), true),
    ("MCP update_memory", |user| user.call("update_memory", json!({ "memory_id": "m", "text": "I like tea." })), false),
    ("mem0 delete", |user| user.delete(&format!("/v1/memories/{}/", user.mem0_id())), false),
    ("mem0 delete_all", |user| user.delete(&format!("/v1/memories/?user_id={}", user.id)), true),
    ("mem0 delete_users", |user| user.delete(&format!("/v2/entities/user/{}/", user.id)), true),
    (
        "mem0 update",
        |user| {
            let path = format!("/v1/memories/{}/", user.mem0_id());
            user.ok(user.server.send("PUT", &path, &[], Some(json!({ "text": "I like tea." }))));
        },
        false,
    ),
];

#[test]
fn what_is_removed_while_the_model_is_asked_is_not_formed() {
    let (db, gate) = (Db::new(), Gate::default());
    let llm = LlmServer::new({
        let gate = gate.clone();
        move |request| gate.answer(request)
    });
    let rules = config(&db, RULES);
    let server = with_model(&db, &llm, &["--config", rules.to_str().unwrap()]);
    let mut leaks = Vec::new();
    for (at, (name, remove, takes_the_namespace)) in REMOVALS.iter().enumerate() {
        let (id, word) = (format!("u{at}"), format!("secret-{at}"));
        let user = User { server: &server, path: format!("users%2F{id}"), id };
        let session = format!("/v1/namespaces/{}/sessions/s", user.path);
        let message = json!({ "id": "m", "role": "user", "content": format!("I like {word}.") });
        user.ok(server.post(&format!("{session}/messages"), json!({ "messages": [message] })));
        user.ok(server.send("POST", &format!("{session}/flush"), &[], None));
        until(name, || (gate.asked(&word) >= BLOCKS).then_some(()));
        remove(&user);
        gate.release(&word);
        let namespace = format!("/v1/namespaces/{}", user.path);
        until(name, || {
            let formation = server.get(&format!("{namespace}/formation"));
            let sessions = formation.body["sessions"].as_array().cloned().unwrap_or_default();
            let mut blocks = sessions.iter().flat_map(|session| session["blocks"].as_array().unwrap());
            blocks.all(|block| block["behind"] == 0).then_some(())
        });
        thread::sleep(Duration::from_millis(100));
        let documents = server.post(&format!("{namespace}/documents/search"), json!({ "below": true, "limit": 1000 }));
        let blocks = server.get(&format!("{namespace}/blocks"));
        let formed = format!("{} {}", documents.body, blocks.body);
        if formed.contains(&word) {
            leaks.push(format!("{name}: {formed}"));
        }
        if *takes_the_namespace && server.get(&namespace).status != 404 {
            leaks.push(format!("{name}: the namespace is there again"));
        }
    }
    assert!(leaks.is_empty(), "{} of {}:\n{}", leaks.len(), REMOVALS.len(), leaks.join("\n"));
    drop(server);
    db.assert_sound();
}

/// What mem0's client adds is answered when it is formed. A user who is deleted meanwhile is not there again.
#[test]
fn a_user_who_is_deleted_while_facts_are_inferred_stays_deleted() {
    let (db, gate) = (Db::new(), Gate::default());
    let llm = LlmServer::new({
        let gate = gate.clone();
        move |request| gate.answer(request)
    });
    let server = with_model(&db, &llm, &[]);
    let add = |word: &str| {
        let message = json!({ "role": "user", "content": format!("I like {word}.") });
        server.post("/v3/memories/add/", json!({ "messages": [message], "user_id": "ada" }))
    };
    gate.release("secret-first");
    assert_eq!(add("secret-first").status, 200);
    thread::scope(|scope| {
        // The model is shown the first fact too, and waits for the first word that it reads.
        gate.0.lock().unwrap().1.clear();
        let adding = scope.spawn(|| add("secret-second"));
        until("the model is asked", || (gate.asked("secret-first") == 2).then_some(()));
        assert_eq!(server.send("DELETE", "/v2/entities/user/ada/", &[], None).status, 200);
        gate.release("secret-first");
        gate.release("secret-second");
        let answer = adding.join().unwrap();
        assert_eq!(answer.status, 409, "{}", answer.body);
    });
    for namespace in ["users%2Fada", "users%2Fada%2Ffacts"] {
        assert_eq!(server.get(&format!("/v1/namespaces/{namespace}")).status, 404, "{namespace}");
    }
}
