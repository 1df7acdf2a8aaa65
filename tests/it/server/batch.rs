//! Batches: all changes or none, for callers who may do each of them.

use std::thread;

use serde_json::{Value, json};

use super::{Answer, Server, tokens};
use crate::support::Db;

const BATCH: &str = "/v1/batch";

fn batch(server: &Server, operations: Value) -> Answer {
    server.post(BATCH, json!({ "operations": operations }))
}

#[track_caller]
fn outcomes(server: &Server, operations: Value) -> Value {
    let answer = batch(server, operations);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["outcomes"].clone()
}

fn message(id: &str, session: &str, text: &str) -> Value {
    json!({ "role": "user", "content": text, "id": id, "session": session })
}

/// What two namespaces have: the value of a document, and the ids of the messages of two sessions, if they are there.
fn state(server: &Server) -> Value {
    let ids = |session: &str| -> Value {
        let messages = server.get(&format!("/v1/namespaces/b/sessions/{session}/messages")).body["messages"].clone();
        messages.as_array().map(|all| all.iter().map(|message| message["id"].clone()).collect()).unwrap_or_default()
    };
    json!([server.get("/v1/namespaces/a/documents/d").body["value"], ids("s"), ids("t")])
}

#[test]
fn all_changes_are_one_commit() {
    let db = Db::new();
    let server = Server::start(&db);
    let put = json!([
        { "op": "put", "namespace": "a", "key": "d", "value": { "drink": "green tea", "since": 2019 }, "index": ["drink"] },
        { "op": "put", "namespace": "a/below", "key": "e", "value": { "drink": "coffee" }, "ttl_minutes": 60 },
        { "op": "put_messages", "namespace": "b", "messages": [message("m1", "s", "hello"), message("m2", "s", "again"), message("n1", "t", "x")] },
        { "op": "get", "namespace": "a", "key": "d" },
        { "op": "expect", "namespace": "a", "key": "d", "value": null },
    ]);
    let answer = server.post(BATCH, json!({ "operations": put, "flush": true }));
    // A read shows what was there before.
    let stored = json!({ "new": 3, "replaced": 0, "unchanged": 0 });
    assert_eq!(answer.body, json!({ "outcomes": [{}, {}, stored, { "document": null }, {}] }));
    assert_eq!(server.get("/v1/stats").body["pending"], 0);
    let dated = server.get("/v1/namespaces/b/messages/m1").body;
    assert!(dated["created_at"].is_string(), "{dated}");
    let before = state(&server);
    assert_eq!(before, json!([{ "drink": "green tea", "since": 2019 }, ["m1", "m2"], ["n1"]]));

    let found = outcomes(
        &server,
        json!([
            { "op": "search", "namespace": "a", "query": "what tea?", "below": true, "limit": 1 },
            { "op": "search", "namespace": "a", "below": true, "filter": { "since": { "$gt": 2000 } } },
            { "op": "search", "namespace": "a", "below": true, "offset": 1 },
            { "op": "get", "namespace": "a/below", "key": "e" },
        ]),
    );
    let keys = |found: &Value| -> Vec<String> {
        found["documents"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!([&found[0], &found[1], &found[2]].map(keys), [["d"], ["d"], ["e"]], "{found}");
    assert!(found[0]["documents"][0]["score"].is_number() && found[3]["document"]["expires_at"].is_string(), "{found}");

    // One operation that fails leaves all as it was, wherever it stands.
    let changes = [
        json!({ "op": "put", "namespace": "a", "key": "d", "value": 2 }),
        json!({ "op": "delete", "namespace": "a/below", "key": "e" }),
        json!({ "op": "put_messages", "namespace": "b", "messages": [message("m3", "s", "new"), message("m2", "s", "changed")] }),
        json!({ "op": "delete_messages", "namespace": "b", "ids": ["m1", "unknown"] }),
        json!({ "op": "delete_session", "namespace": "b", "session": "t" }),
    ];
    for (bad, status, part) in [
        (json!({ "op": "expect", "namespace": "a", "key": "d", "value": 7 }), 409, "was changed meanwhile"),
        (json!({ "op": "expect", "namespace": "a", "key": "d", "value": null }), 409, "was changed meanwhile"),
        (json!({ "op": "put", "namespace": "a", "key": "f", "value": null }), 400, "the value is null"),
        (json!({ "op": "put", "namespace": "a", "key": "f", "value": 1, "index": ["a..b"] }), 400, "is not a path"),
        (
            json!({ "op": "put", "namespace": "a", "key": "f", "value": 1, "vectors": [[1.0]] }),
            400,
            "vectors are given",
        ),
        (
            json!({ "op": "put_messages", "namespace": "b", "messages": [message("", "s", "x")] }),
            422,
            "the id is empty",
        ),
    ] {
        for at in [0, changes.len()] {
            let mut operations = changes.to_vec();
            operations.insert(at, bad.clone());
            let answer = batch(&server, json!(operations));
            answer.assert_problem(status, part);
            assert_eq!(
                (answer.body["type"] == "urn:mnemon:document-changed", &state(&server)),
                (status == 409, &before)
            );
            assert_eq!(server.get("/v1/namespaces/b/messages/m2").body["content"], "again");
        }
    }
    let done = json!([{}, { "deleted": true }, { "new": 1, "replaced": 1, "unchanged": 0 }, { "deleted": 1 }, { "deleted": true }]);
    assert_eq!(outcomes(&server, json!(changes)), done);
    assert_eq!(state(&server), json!([2, ["m2", "m3"], null]));
    // Of several changes of one key the last counts; what is not there cannot be deleted.
    let last = json!([
        { "op": "put", "namespace": "a", "key": "d", "value": 3 }, { "op": "put", "namespace": "a", "key": "d", "value": 4 },
        { "op": "delete", "namespace": "a", "key": "none" }, { "op": "delete_session", "namespace": "b", "session": "t" },
        { "op": "delete_messages", "namespace": "nobody", "ids": [] },
    ]);
    assert_eq!(outcomes(&server, last), json!([{}, {}, { "deleted": false }, { "deleted": false }, { "deleted": 0 }]));
    assert_eq!(state(&server)[0], 4);
    assert_eq!(outcomes(&server, json!([])), json!([]));
    drop(server);
    db.assert_sound();
}

#[test]
fn what_was_read_is_replaced_by_one_writer_alone() {
    let db = Db::new();
    let server = Server::start(&db);
    let count = |writer: usize| {
        for _ in 0..5 {
            loop {
                let read = outcomes(&server, json!([{ "op": "get", "namespace": "a", "key": "d" }]));
                let value = read[0]["document"]["value"].clone();
                let next = value.as_u64().unwrap_or(0) + 1;
                let answer = batch(
                    &server,
                    json!([
                        { "op": "expect", "namespace": "a", "key": "d", "value": value },
                        { "op": "put", "namespace": "a", "key": "d", "value": next, "index": [] },
                        { "op": "put_messages", "namespace": "b", "messages": [message(&next.to_string(), "s", &writer.to_string())] },
                    ]),
                );
                match answer.status {
                    200 => break assert_eq!(answer.body["outcomes"][2]["new"], 1),
                    _ => answer.assert_problem(409, "read it again"),
                }
            }
        }
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..6).map(|writer| scope.spawn(move || count(writer))).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!(server.get("/v1/namespaces/a/documents/d").body["value"], 30);
    assert_eq!(server.get("/v1/namespaces/b/sessions").body["sessions"][0]["messages"], 30);
}

/// Reads show all of another batch or nothing, and numbers are expected as numbers, as JavaScript has them.
#[test]
fn reads_see_one_moment() {
    let db = Db::new();
    let server = Server::start(&db);
    let put = |key: &str, value: usize| json!({ "op": "put", "namespace": format!("of/{key}"), "key": key, "value": value, "index": [] });
    let get = |key: &str| json!({ "op": "get", "namespace": format!("of/{key}"), "key": key });
    let mut reads = vec![get("none"); 200];
    reads.insert(0, get("a"));
    reads.extend([get("b"), json!({ "op": "search", "namespace": "of", "below": true })]);
    outcomes(&server, json!([put("a", 0), put("b", 0)]));
    thread::scope(|scope| {
        scope.spawn(|| (1..100).for_each(|value| drop(outcomes(&server, json!([put("a", value), put("b", value)])))));
        for _ in 0..100 {
            let read = outcomes(&server, json!(reads));
            let value = &read[0]["document"]["value"];
            assert_eq!(&read[201]["document"]["value"], value);
            assert!(read[202]["documents"].as_array().unwrap().iter().all(|found| found["value"] == *value), "{read}");
        }
    });
    let expect = |value: Value| json!({ "op": "expect", "namespace": "of/a", "key": "c", "value": value });
    let stored = json!({ "op": "put", "namespace": "of/a", "key": "c", "value": { "sizes": [5.0, -0.0] } });
    outcomes(&server, json!([stored]));
    outcomes(&server, json!([expect(json!({ "sizes": [5, 0] }))]));
    batch(&server, json!([expect(json!({ "sizes": [5, false] }))])).assert_problem(409, "was changed meanwhile");
}

#[test]
fn each_operation_needs_its_right_and_a_namespace_that_the_caller_sees() {
    let db = Db::new();
    let rights = ["read", "write", "forget", "read,write,forget"];
    let options = rights.map(|rights| ["--prefix", "acme", "--rights", rights]);
    let options: Vec<&[&str]> = options.iter().map(|options| &options[..]).collect();
    let (tokens, file) = tokens(db.folder.path(), &options);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    let ask = |token: usize, operations: Value| {
        let token = format!("Bearer {}", tokens[token]);
        server.send("POST", BATCH, &[("authorization", &token)], Some(json!({ "operations": operations })))
    };
    let put = json!({ "op": "put", "namespace": "acme/a", "key": "d", "value": 1 });
    for (operation, right) in [
        (put.clone(), 1),
        (json!({ "op": "get", "namespace": "acme/a", "key": "d" }), 0),
        (json!({ "op": "search", "namespace": "acme", "below": true }), 0),
        (json!({ "op": "expect", "namespace": "acme/a", "key": "d", "value": 1 }), 0),
        (json!({ "op": "put_messages", "namespace": "acme/a", "messages": [message("m", "s", "x")] }), 1),
        (json!({ "op": "delete", "namespace": "acme/a", "key": "none" }), 2),
        (json!({ "op": "delete_messages", "namespace": "acme/a", "ids": ["none"] }), 2),
        (json!({ "op": "delete_session", "namespace": "acme/a", "session": "none" }), 2),
    ] {
        for (token, name) in ["read", "write", "forget"].iter().enumerate() {
            let answer = ask(token, json!([operation]));
            assert_eq!(answer.status, if token == right { 200 } else { 403 }, "{name} {operation}: {}", answer.body);
        }
        assert_eq!(ask(3, json!([operation])).status, 200);
        // A namespace that the caller does not see does not exist, and no other operation of the batch is done.
        for namespace in ["other", "acmes", "nothing"] {
            let mut unseen = operation.clone();
            unseen["namespace"] = json!(namespace);
            let replace = json!({ "op": "put", "namespace": "acme/a", "key": "d", "value": "replaced" });
            for operations in [json!([replace, unseen]), json!([unseen, replace])] {
                ask(3, operations).assert_problem(404, "no such namespace");
            }
        }
    }
    let read = ask(0, json!([{ "op": "get", "namespace": "acme/a", "key": "d" }]));
    assert_eq!(read.body["outcomes"][0]["document"]["value"], 1);
    ask(0, json!([{ "op": "get", "namespace": "acme/a", "key": "d" }, put])).assert_problem(403, "no right to write");
    // A flush works for the whole database.
    for (token, status) in [403, 200, 403, 200].into_iter().enumerate() {
        let token = format!("Bearer {}", tokens[token]);
        let flush = json!({ "operations": [], "flush": true });
        assert_eq!(server.send("POST", BATCH, &[("authorization", &token)], Some(flush)).status, status);
    }
    server.post(BATCH, json!({ "operations": [] })).assert_problem(401, "Authorization");
}

#[test]
fn bad_batches_are_explained() {
    let db = Db::new();
    let server = Server::start(&db);
    let refused = |operations: Value, status: u16, part: &str| batch(&server, operations).assert_problem(status, part);
    let samples = [
        json!({ "op": "get", "namespace": "a", "key": "d" }),
        json!({ "op": "search", "namespace": "a" }),
        json!({ "op": "put", "namespace": "a", "key": "d", "value": 1 }),
        json!({ "op": "delete", "namespace": "a", "key": "d" }),
        json!({ "op": "expect", "namespace": "a", "key": "d", "value": null }),
        json!({ "op": "put_messages", "namespace": "a", "messages": [] }),
        json!({ "op": "delete_messages", "namespace": "a", "ids": [] }),
        json!({ "op": "delete_session", "namespace": "a", "session": "s" }),
    ];
    for sample in &samples {
        assert_eq!(batch(&server, json!([sample])).status, 200, "{sample}");
        let mut unknown = sample.clone();
        unknown["if_match"] = json!(1);
        refused(json!([unknown]), 422, "if_match");
        let mut nameless = sample.clone();
        nameless["namespace"] = json!("a//b");
        refused(json!([nameless]), 400, "invalid namespace");
        for name in sample.as_object().unwrap().keys() {
            let mut missing = sample.clone();
            missing.as_object_mut().unwrap().remove(name);
            refused(json!([missing]), 422, name);
        }
    }
    refused(json!([{ "op": "rename", "namespace": "a" }]), 422, "rename");
    server.post(BATCH, json!({ "operation": [] })).assert_problem(422, "operation");
    refused(json!([{ "op": "put", "namespace": "a", "key": "\n", "value": 1 }]), 400, "control character");
    refused(json!([{ "op": "search", "namespace": "a", "limit": 1001 }]), 400, "limit");
    let many = |number: usize, operation: Value| json!(vec![operation; number]);
    assert_eq!(batch(&server, many(1000, samples[0].clone())).status, 200);
    refused(many(1001, samples[2].clone()), 400, "1001 operations");
    // What one search may ask for, all reads of a batch may together.
    refused(many(101, samples[1].clone()), 400, "1010 documents");
    let ranked = json!({ "op": "search", "namespace": "a", "query": "tea", "limit": 1, "offset": 4999 });
    assert_eq!(batch(&server, many(2, ranked.clone())).status, 200);
    refused(many(3, ranked), 400, "15000 documents");
    let long = json!({ "op": "search", "namespace": "a", "query": "tea ".repeat(100_000) });
    refused(many(3, long), 400, "1200000 bytes");
    let filter = json!({ "$and": vec![json!({ "a": 1 }); 400] });
    let filtered = json!({ "op": "search", "namespace": "a", "filter": filter });
    assert_eq!(batch(&server, many(2, filtered.clone())).status, 200);
    refused(many(3, filtered), 400, "1203 conditions");
    assert_eq!(server.get("/v1/stats").body["documents"], 0);
}

/// Puts that wait until the texts of others are embedded leave half of the places to other requests.
#[test]
fn puts_that_flush_take_half_of_the_places() {
    let db = Db::new();
    let server = Server::with(&db, &["--max-requests", "8"]);
    let long = |at: usize| json!({ "role": "user", "content": format!("word{at} ").repeat(2500) });
    let pending = json!({ "messages": (0..150).map(long).collect::<Vec<_>>() });
    assert_eq!(server.post("/v1/namespaces/a/messages", pending).status, 200);
    let flush = || {
        let put = json!({ "op": "put", "namespace": "b", "key": "d", "value": 1, "index": [] });
        server.post(BATCH, json!({ "operations": [put], "flush": true })).status
    };
    thread::scope(|scope| {
        let flushes: Vec<_> = (0..7).map(|_| scope.spawn(flush)).collect();
        while flushes.iter().any(|flush| !flush.is_finished()) {
            assert_eq!(server.get("/v1/namespaces/a").status, 200);
        }
        // A late one may find a place that is free again.
        let refused = flushes.into_iter().map(|flush| flush.join().unwrap()).filter(|status| *status == 503).count();
        assert!((1..=3).contains(&refused), "{refused}");
    });
}

#[test]
fn a_repeated_batch_is_answered_as_the_first() {
    let db = Db::new();
    let server = Server::start(&db);
    let put = json!({ "operations": [
        { "op": "expect", "namespace": "a", "key": "d", "value": null },
        { "op": "put", "namespace": "a", "key": "d", "value": 1 },
        { "op": "put_messages", "namespace": "a", "messages": [{ "role": "user", "content": "hello" }] },
    ] });
    let send = |key: &str| server.send("POST", BATCH, &[("idempotency-key", key)], Some(put.clone()));
    let first = send("k");
    assert_eq!((first.status, &first.body["outcomes"][2]["new"]), (200, &json!(1)));
    assert_eq!(send("k").body, first.body);
    send("other").assert_problem(409, "was changed meanwhile");
    assert_eq!(server.get("/v1/stats").body["messages"], 1);

    // What is only read takes no place among the answers that are kept, and a large answer takes little.
    let send = |key: &str, operations: Value| {
        server.send("POST", BATCH, &[("idempotency-key", key)], Some(json!({ "operations": operations })))
    };
    let long = json!({ "op": "put", "namespace": "a", "key": "d", "value": "x".repeat(1_000_000), "index": [] });
    let get = json!({ "op": "get", "namespace": "a", "key": "d" });
    assert_eq!(send("reads", json!([get])).body["outcomes"][0]["document"]["value"], 1);
    assert_eq!(send("long", json!([long])).status, 200);
    assert_eq!(send("reads", json!([get])).body["outcomes"][0]["document"]["value"], long["value"]);
    let mut operations = vec![get; 5];
    operations
        .push(json!({ "op": "put_messages", "namespace": "a", "messages": [{ "role": "user", "content": "hello" }] }));
    assert_eq!(send("large", json!(operations)).status, 200);
    send("large", json!(operations)).assert_problem(409, "too large to keep");
    assert_eq!(server.get("/v1/stats").body["messages"], 2);
    assert_eq!(server.send("POST", BATCH, &[("idempotency-key", "k")], Some(put.clone())).body, first.body);
}

#[test]
fn clients_give_the_vectors_of_a_database_that_is_made_so() {
    let db = Db::new();
    let server = Server::with(&db, &["--model", "given:theirs:3"]);
    let path = |key: &str| format!("/v1/namespaces/a/documents/{key}");
    let put = |key: &str, more: Value| {
        let mut body = json!({ "value": { "text": format!("a {key}") }, "index": ["text"], "flush": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.send("PUT", &path(key), &[], Some(body))
    };
    assert_eq!(put("boat", json!({ "vectors": [[0.6, 0.8, 0]] })).status, 204);
    assert_eq!(put("kite", json!({ "vectors": [[4, 3, 0]] })).status, 204);
    assert_eq!(put("bike", json!({})).status, 204);
    let operations = json!([
        { "op": "put", "namespace": "a/below", "key": "raft", "value": { "text": "a raft" }, "vectors": [[0, 0, -1.0]] },
    ]);
    assert_eq!(server.post(BATCH, json!({ "operations": operations, "flush": true })).status, 200);

    let search = |server: &Server, body: Value| server.post("/v1/namespaces/a/documents/search", body);
    let rounded = |found: &Value| -> Vec<(String, f64)> {
        let documents = found["documents"].as_array().unwrap_or_else(|| panic!("{found}")).iter();
        documents
            .map(|one| (one["key"].as_str().unwrap().into(), (one["score"].as_f64().unwrap() * 1e3).round() / 1e3))
            .collect()
    };
    let expected = vec![("kite".to_owned(), 0.8), ("boat".to_owned(), 0.6)];
    let near = json!({ "vector": [1, 0, 0], "limit": 2, "vectors": true });
    let found = search(&server, near.clone()).body;
    assert_eq!(rounded(&found), expected);
    let vector = &found["documents"][0]["vectors"][0];
    assert!((vector[0].as_f64().unwrap() - 0.8).abs() < 1e-3 && vector.as_array().unwrap().len() == 3, "{found}");
    let found = outcomes(
        &server,
        json!([
            { "op": "search", "namespace": "a", "vector": [1, 0, 0], "limit": 2 },
            { "op": "search", "namespace": "a", "vector": [0, 0, -9], "below": true, "limit": 1 },
            { "op": "search", "namespace": "a", "query": "bike", "limit": 1 },
        ]),
    );
    assert_eq!(rounded(&found[0]), expected);
    assert_eq!(rounded(&found[1]), [("raft".to_owned(), 1.0)]);
    assert_eq!(found[2]["documents"][0]["key"], "bike", "{found}");

    for (vectors, part) in [
        ("[[1,0]]", "a vector of 2 components"),
        ("[[1,0,0],[1,0,0]]", "2 vectors for 1 indexed texts"),
        ("[[1e39,0,0]]", "not finite"),
        ("[[1e999,0,0]]", "number out of range"),
    ] {
        let put = format!(r#"{{"value":{{"text":"x"}},"index":["text"],"vectors":{vectors}}}"#);
        let operation = format!(r#"{{"op":"put","namespace":"a","key":"x",{}"#, &put[1..]);
        let vector = vectors.trim_start_matches('[').split(']').next().unwrap();
        let search = format!(r#"{{"vector":[{vector}]}}"#);
        let all = [
            ("PUT", path("x"), put),
            ("POST", BATCH.to_owned(), format!(r#"{{"operations":[{operation}]}}"#)),
            ("POST", "/v1/namespaces/a/documents/search".to_owned(), search),
        ];
        // A search has one vector.
        for (method, path, body) in all.into_iter().take(if part.contains("indexed texts") { 2 } else { 3 }) {
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                server.address,
                body.len()
            );
            Answer::parse(&server.raw((head + &body).as_bytes())).assert_problem(400, part);
        }
    }
    assert_eq!(server.get("/v1/stats").body["documents"], 4);
    drop(server);
    // The database knows that its vectors are given, and by whom.
    let server = Server::start(&db);
    assert_eq!(rounded(&search(&server, near.clone()).body), expected);
    // Another precision needs no model, because there is none.
    let events = server.post("/v1/reindex", json!({ "precision": "i8" })).body;
    assert!(events.as_str().unwrap().contains("event: done"), "{events}");
    let found: Vec<String> = rounded(&search(&server, near).body).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, ["kite", "boat"]);
    drop(server);
    for (model, part) in [
        ("given:ours:3", "theirs"),
        ("given:theirs:4", "theirs"),
        ("given:384", "given:NAME:DIMENSION"),
        ("given:theirs:0", "given:NAME:DIMENSION"),
        ("given::3", "given:NAME:DIMENSION"),
    ] {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--model", model, "--db"];
        let output = super::command(db.folder.path()).args(serve).arg(&db.path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(part), "{model}: {said}");
    }
    // The command converts them to another precision.
    let reindex =
        super::command(db.folder.path()).args(["reindex", "--precision", "f32", "--db"]).arg(&db.path).output();
    let output = reindex.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    db.assert_sound();
}
