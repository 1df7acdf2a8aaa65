//! The routes of `/v1`.

use std::time::Duration;

use serde_json::{Value, json};

use super::Server;
use crate::support::Db;

#[test]
fn messages_are_put_found_changed_and_deleted() {
    let db = Db::new();
    let server = Server::start(&db);
    let ids = server.put("acme/ada", &["Ada is allergic to peanuts.", "We row on Thursdays.", "The bridge is closed."]);
    let recall = |query: Value| server.post("/v1/namespaces/acme%2Fada/recall", query);
    let found = recall(json!({ "query": "What is Ada allergic to?", "k": 1 }));
    assert_eq!((found.status, &found.body["hits"][0]["id"]), (200, &json!(ids[0])), "{}", found.body);
    assert!(
        found.body["answerability"].as_f64().unwrap() > 0.5 && found.body["hits"][0]["breakdown"]["dense"].is_number()
    );
    assert!(found.body["not_embedded"].is_null() && found.body["hits"][0]["relevance"].as_f64().unwrap() > 0.1);
    let elephants = "How do elephants sleep?";
    assert_eq!(recall(json!({ "query": elephants, "min_score": 0.1 })).body["hits"], json!([]));
    let recalled = |request: Value| {
        let prompt = server.post("/v1/namespaces/acme%2Fada/sessions/new/assemble", request).body;
        prompt["recalled"].as_array().unwrap().len()
    };
    assert_eq!(recalled(json!({ "prompt": elephants, "min_score": 0.1 })), 0);
    assert_eq!(recalled(json!({ "prompt": elephants, "min_score": 0 })), 3);

    let one = format!("/v1/namespaces/acme%2Fada/messages/{}", ids[1]);
    assert_eq!(server.get(&one).body["content"], "We row on Thursdays.");
    let patched = server.send("PATCH", &one, &[], Some(json!({ "metadata": { "topic": "sport" } })));
    assert_eq!(patched.body["metadata"]["topic"], "sport");
    let filtered = recall(json!({ "query": "anything", "filter": { "topic": "sport" } }));
    assert_eq!(filtered.body["hits"].as_array().unwrap().len(), 1);
    let again = server.post("/v1/recall", json!({ "query": "rowing", "k": 1, "under": ["acme"] }));
    assert_eq!(again.body["hits"][0]["namespace"], "acme/ada", "{}", again.body);

    let why = server.get(&format!("/v1/namespaces/acme%2Fada/messages/{}/why", ids[0]));
    assert_eq!(why.body["entry"]["text"], elephants, "{}", why.body);
    assert_eq!(server.send("DELETE", &one, &[], None).body["deleted"], 1);
    server.send("DELETE", &one, &[], None).assert_problem(404, "no such message");
    server.get(&one).assert_problem(404, "no such message");
}

/// What has expired is in no answer, over `/v1`, MCP and mem0's routes.
#[test]
fn expired_messages_are_in_no_answer() {
    let db = Db::new();
    let server = Server::start(&db);
    let message = |id: &str, expires_at: &str| json!({ "role": "user", "content": format!("the ferry {id}"), "id": id, "expires_at": expires_at });
    let messages = json!([message("gone", "2020-01-01"), message("kept", "2130-01-01"), { "role": "user", "content": "a boat", "id": "endless" }]);
    assert_eq!(server.post("/v1/namespaces/users%2Fada/messages", json!({ "messages": messages })).status, 200);
    let path = |rest: &str| format!("/v1/namespaces/users%2Fada{rest}");
    server.get(&path("/messages/gone")).assert_problem(404, "no such message");
    server.send("DELETE", &path("/messages/gone"), &[], None).assert_problem(404, "no such message");
    assert_eq!(server.get(&path("/messages/kept")).body["expires_at"], "2130-01-01T00:00:00Z");
    assert_eq!(server.get(&path("/messages/endless")).body.get("expires_at"), None);
    let ids = |list: &Value| {
        list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&server.get(&path("/sessions/default/messages")).body["messages"]), ["kept", "endless"]);
    assert_eq!(ids(&server.post(&path("/recall"), json!({ "query": "ferry" })).body["hits"]), ["kept"]);

    let ttl = |minutes: Value| server.send("PUT", &path("/ttl"), &[], Some(json!({ "ttl_minutes": minutes })));
    assert_eq!(ttl(json!(60)).body["ttl_minutes"], 60.0);
    assert_eq!(server.get("/v1/namespaces").body["namespaces"][0]["ttl_minutes"], 60.0);
    let short = json!({ "messages": [{ "role": "user", "content": "soon", "id": "short" }] });
    assert_eq!(server.post(&path("/messages"), short).status, 200);
    assert!(server.get(&path("/messages/short")).body["expires_at"].is_string());
    ttl(json!(0)).assert_problem(400, "a millisecond to a thousand years");
    assert_eq!(ttl(Value::Null).body["ttl_minutes"], Value::Null);

    let mcp = |name: &str, arguments: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        server.send("POST", "/mcp", &[("accept", "application/json, text/event-stream")], Some(request)).body["result"]
            .clone()
    };
    mcp("add_memory", json!({ "text": "a canoe", "user_id": "bob", "expires_at": "2130-01-01T00:00:00Z" }));
    mcp("add_memory", json!({ "text": "a kayak", "user_id": "bob", "expires_at": "2020-01-01" }));
    let memories = mcp("get_memories", json!({ "user_id": "bob" }))["structuredContent"]["memories"].clone();
    assert_eq!((memories.as_array().unwrap().len(), &memories[0]["expires_at"]), (1, &json!("2130-01-01T00:00:00Z")));

    for (text, date) in [("a raft", json!("2130-01-01")), ("a punt", json!("2020-01-01")), ("a skiff", Value::Null)] {
        let add =
            json!({ "messages": [{ "role": "user", "content": text }], "user_id": "eve", "expiration_date": date });
        assert_eq!(server.post("/v3/memories/add", add).status, 200);
    }
    let all = server.post("/v3/memories", json!({ "filters": { "user_id": "eve" } })).body["results"].clone();
    let mut dates: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["memory"].to_string(), one["expiration_date"].to_string()))
        .collect();
    dates.sort();
    let wanted = [("\"a raft\"", "\"2130-01-01\""), ("\"a skiff\"", "null")];
    assert_eq!(dates, wanted.map(|(text, date)| (text.to_owned(), date.to_owned())));
}

#[test]
fn a_server_with_the_option_keeps_versions() {
    let db = Db::new();
    let server = Server::with(&db, &["--keep-versions"]);
    let path = "/v1/namespaces/acme%2Fada/messages";
    let put = |text: &str| {
        let message = json!({ "id": "m", "role": "user", "content": text, "created_at": "2024-05-01T09:30:00Z" });
        assert_eq!(server.post(path, json!({ "messages": [message] })).status, 200);
    };
    let versions = |rest: &str| server.get(&format!("{path}/m/versions{rest}"));
    versions("").assert_problem(404, "no such message");
    put("We row on Thursdays.");
    assert_eq!(versions("").body, json!({ "versions": [], "next": null }));
    let known = mnemon::Timestamp::now();
    ["We row on Fridays.", "We row no more."].into_iter().for_each(put);
    let page = versions("?limit=1").body;
    let found = &page["versions"][0];
    assert_eq!((&found["content"], &found["id"]), (&json!("We row on Thursdays."), &json!("m")));
    assert!(found["until"].as_str().unwrap().parse::<mnemon::Timestamp>().unwrap() > known, "{page}");
    let rest = versions(&format!("?cursor={}", page["next"].as_str().unwrap())).body;
    assert_eq!((&rest["versions"][0]["content"], &rest["next"]), (&json!("We row on Fridays."), &Value::Null));
    // MCP's tool has them after the message as it is, the last first.
    let call =
        json!({ "name": "get_memory", "arguments": { "memory_id": "m", "namespace": "acme/ada", "versions": true } });
    let result = super::mcp::Client { server: &server }.request("tools/call", call)["result"].clone();
    let shown = result["structuredContent"]["memories"].as_array().unwrap();
    let texts: Vec<&Value> = shown.iter().map(|one| &one["memory"]).collect();
    assert_eq!(texts, ["We row no more.", "We row on Fridays.", "We row on Thursdays."], "{result}");
    let until: Vec<bool> = shown.iter().map(|one| one["until"].is_string()).collect();
    assert_eq!(until, [false, true, true], "{result}");
    let query = json!({ "query": "When on Thursdays?", "as_of": known });
    let then = server.post("/v1/namespaces/acme%2Fada/recall", query);
    assert_eq!(then.body["hits"][0]["content"], "We row on Thursdays.", "{}", then.body);
}

/// mem0's history of a memory has the texts that the server kept, and of older updates what is known.
#[test]
fn the_history_of_a_memory_has_its_versions() {
    let db = Db::new();
    let events = |server: &Server, id: &str| -> Vec<[Value; 3]> {
        let answer = server.get(&format!("/v1/memories/{id}/history/"));
        let events = answer.body.as_array().unwrap_or_else(|| panic!("{}", answer.body)).clone();
        events.into_iter().map(|event| ["event", "old_memory", "new_memory"].map(|name| event[name].clone())).collect()
    };
    let update = |server: &Server, id: &str, text: &str| {
        assert_eq!(server.send("PUT", &format!("/v1/memories/{id}/"), &[], Some(json!({ "text": text }))).status, 200);
    };
    let server = Server::start(&db);
    let added = server.post("/v3/memories/add/", json!({ "messages": "one", "user_id": "ada" }));
    let id = added.body["results"][0]["id"].as_str().unwrap().to_owned();
    let first = [json!("ADD"), Value::Null, json!("one")];
    assert_eq!(events(&server, &id), [first]);
    update(&server, &id, "two");
    let old = [[json!("ADD"), Value::Null, Value::Null], [json!("UPDATE"), Value::Null, json!("two")]];
    assert_eq!(events(&server, &id), old);
    drop(server);
    let server = Server::with(&db, &["--keep-versions"]);
    update(&server, &id, "three");
    let kept = [json!("UPDATE"), json!("two"), json!("three")];
    assert_eq!(events(&server, &id), [&old[..], &[kept]].concat());
    let changed = Some(json!({ "metadata": { "a": 1 } }));
    assert_eq!(server.send("PUT", &format!("/v1/memories/{id}/"), &[], changed).status, 200);
    assert_eq!(events(&server, &id).len(), 3, "a change of metadata alone");
}

/// A conversation as a chat API has it.
fn chat() -> Vec<Value> {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"q\": 1}"}});
    vec![
        json!({"role": "developer", "content": "Be brief."}),
        json!({"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://a.org/a.png", "detail": "low"}},
        ]}),
        json!({"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": "a boat"}),
        json!({"role": "assistant", "content": "A boat."}),
    ]
}

#[test]
fn messages_of_openai_are_accepted_wherever_messages_are() {
    let db = Db::new();
    let server = Server::start(&db);
    let mut wanted = chat();
    wanted[2].as_object_mut().unwrap().retain(|name, _| !["refusal", "annotations"].contains(&name.as_str()));
    let openai = |path: &str| -> Vec<Value> {
        let messages: Vec<mnemon::Message> = serde_json::from_value(server.get(path).body["messages"].clone()).unwrap();
        assert!(messages.iter().all(|message| message.created_at.is_some()), "{path}");
        mnemon::to_openai(&messages)
    };
    // By put, with fields of our own beside.
    let messages: Vec<Value> = chat()
        .into_iter()
        .enumerate()
        .map(|(at, mut message)| {
            (message["id"], message["session"]) = (json!(format!("m{at}")), json!("put"));
            message["metadata"] = json!({ "at": at });
            message
        })
        .collect();
    let put = server.post("/v1/namespaces/a/messages", json!({ "messages": messages, "flush": true }));
    assert_eq!(put.body["new"], 5, "{}", put.body);
    assert_eq!(openai("/v1/namespaces/a/sessions/put/messages"), wanted);
    assert_eq!(server.get("/v1/namespaces/a/messages/m3").body["metadata"]["at"], 3);
    // By a session, and as what a prompt answers.
    let path = "/v1/namespaces/a/sessions/buffer/messages";
    assert_eq!(server.post(path, json!({ "messages": chat() })).body["new"], 5);
    assert_eq!(openai(path), wanted);
    let prompt = json!({ "prompt": chat()[1], "recall": 0 });
    let answer = server.post("/v1/namespaces/a/sessions/buffer/assemble", prompt).body;
    assert_eq!(answer["messages"].as_array().unwrap().last().unwrap()["content"][1]["type"], "image", "{answer}");
    // What is in neither form is refused with its place, and nothing is stored.
    for (field, value, reason) in [
        ("content", json!([{ "type": "smell" }]), "content[0]: type \"smell\" is not one of"),
        ("tool_calls", json!({}), "tool_calls is not an array"),
        ("colour", json!("red"), "unknown field `colour`"),
        ("created_at", json!("0000-13-01T00:00:00Z"), "is not an RFC 3339 time"),
    ] {
        let mut message = json!({ "role": "user", "content": "x" });
        message[field] = value;
        let refused = server.post("/v1/namespaces/b/messages", json!({ "messages": [message] }));
        assert!((400..423).contains(&refused.status), "{}", refused.body);
        assert!(refused.body["detail"].as_str().unwrap().contains(reason), "{}", refused.body);
    }
}

#[test]
fn sessions_have_pages_and_prompts() {
    let db = Db::new();
    let server = Server::start(&db);
    let messages: Vec<Value> =
        (0..250).map(|at| json!({ "role": "user", "content": format!("note {at}"), "id": format!("m{at}") })).collect();
    let path = "/v1/namespaces/a/sessions/s1/messages";
    let put = server.post(path, json!({ "messages": messages, "token_limit": 500 }));
    assert_eq!(put.body["new"], 250, "{}", put.body);
    assert!(!put.body["flushed"].as_array().unwrap().is_empty(), "the buffer holds 500 tokens");
    let (mut seen, mut buffered, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = server.get(&format!("{path}?limit=97{cursor}"));
        assert_eq!(page.status, 200, "{}", page.body);
        seen.extend(page.body["messages"].as_array().unwrap().iter().map(|message| message["id"].clone()));
        buffered += page.body["buffered"].as_array().unwrap().len();
        match page.body["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..250).map(|at| json!(format!("m{at}"))).collect::<Vec<_>>());
    assert!((1..250).contains(&buffered), "{buffered}");
    let sessions = server.get("/v1/namespaces/a/sessions").body;
    assert_eq!(
        (&sessions["sessions"][0]["session"], &sessions["sessions"][0]["messages"]),
        (&json!("s1"), &json!(250))
    );

    let prompt = server
        .post("/v1/namespaces/a/sessions/s1/assemble", json!({ "prompt": "Which note is first?", "token_limit": 500 }));
    assert!(prompt.body["tokens"].as_u64().unwrap() <= 500, "{}", prompt.body["tokens"]);
    let last = prompt.body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"], "Which note is first?");

    assert_eq!(server.post("/v1/namespaces/a/sessions/s1/flush", json!({})).status, 200);
    assert_eq!(server.get("/v1/namespaces/a/sessions").body["sessions"][0]["buffered"], 0);
    assert_eq!(server.send("DELETE", "/v1/namespaces/a/sessions/s1", &[], None).status, 204);
    server.get(path).assert_problem(404, "no such session");
}

#[test]
fn namespaces_are_listed_searched_and_deleted() {
    let db = Db::new();
    let server = Server::start(&db);
    for name in ["acme/ada", "acme/bob", "other"] {
        server.put(name, &["hello there"]);
    }
    let names = |query: &str| -> Vec<String> {
        let list = server.get(&format!("/v1/namespaces{query}"));
        assert_eq!(list.status, 200, "{}", list.body);
        list.body["namespaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["namespace"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(""), ["acme/ada", "acme/bob", "other"]);
    assert_eq!(names("?prefix=acme"), ["acme/ada", "acme/bob"]);
    assert_eq!(names("?containing=B"), ["acme/bob"]);
    let first = server.get("/v1/namespaces?limit=2").body;
    let next = first["next"].as_str().unwrap().replace('/', "%2F");
    assert_eq!(names(&format!("?limit=2&cursor={next}")), ["other"]);
    server.get("/v1/namespaces?limit=0").assert_problem(400, "1 to 1000");
    server.get("/v1/namespaces?cursor=x").assert_problem(400, "cursor");
    let info = server.get("/v1/namespaces/acme%2Fada").body;
    assert_eq!((&info["messages"], &info["index"]["vectors"]), (&json!(1), &json!(1)));
    assert_eq!(server.send("DELETE", "/v1/namespaces/acme?below=true", &[], None).body["deleted"], 2);
    assert_eq!(names(""), ["other"]);
    server.get("/v1/namespaces/acme%2Fada").assert_problem(404, "no such namespace");
}

/// A picture has no words: mem0's clients are shown what it is, and a message that says nothing is no memory.
#[test]
fn a_picture_is_no_empty_memory_of_mem0() {
    let db = Db::new();
    let server = Server::start(&db);
    let image =
        |url: &str| json!({ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": url } }] });
    let called = json!({ "id": "c", "type": "function", "function": { "name": "look", "arguments": "{}" } });
    let messages = json!([
        image("https://example.com/boat.png"), image("data:image/png;base64,AAAA"), { "role": "user", "content": "" },
        { "role": "assistant", "content": null, "tool_calls": [called] },
    ]);
    let added = server.post("/v3/memories/add/", json!({ "messages": messages, "user_id": "ada" })).body;
    let expected = ["[image: https://example.com/boat.png]", "[image]", "[call of look]"];
    let memories = |answer: &Value| -> Vec<String> {
        answer["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|memory| memory["memory"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(memories(&added), expected);
    let mut listed = memories(&server.post("/v3/memories/", json!({ "filters": { "user_id": "ada" } })).body);
    listed.reverse();
    assert_eq!(listed, expected);
}

#[test]
fn documents_forgetting_and_the_audit() {
    let db = Db::new();
    let server = Server::start(&db);
    let path = "/v1/namespaces/a/documents/profile";
    let put =
        server.send("PUT", path, &[], Some(json!({ "value": { "name": "Ada", "city": "Porto" }, "index": ["city"] })));
    assert_eq!(put.status, 204);
    assert_eq!(server.get(path).body["value"]["city"], "Porto");
    let found = server.post("/v1/namespaces/a/documents/search", json!({ "query": "Porto" }));
    assert_eq!(found.body["documents"][0]["key"], "profile");

    let ids = server.put("a", &["The code is 1234."]);
    let receipt = server.post("/v1/namespaces/a/forget", json!({ "by": "messages", "ids": ids }));
    assert_eq!(receipt.body["event"]["forgotten"]["messages"], 1, "{}", receipt.body);
    let audit = server.get("/v1/audit").body;
    assert_eq!((&audit["sound"], &audit["entries"][0]["hash"]), (&json!(true), &receipt.body["hash"]));
    assert_eq!(server.send("DELETE", path, &[], None).status, 204);
    server.get(path).assert_problem(404, "no such document");
    server.post("/v1/namespaces/a/forget", json!({ "by": "magic" })).assert_problem(422, "magic");
}

#[test]
fn a_backup_and_a_reindex_with_events() {
    let db = Db::new();
    let server = Server::start(&db);
    server.put("a", &["one thing", "another thing", "a third"]);
    let backup = server.post("/v1/backup", json!({ "path": "copy.redb" }));
    assert_eq!(backup.status, 204, "{}", backup.body);
    server.post("/v1/backup", json!({ "path": "none/copy.redb" })).assert_problem(400, "make it first");
    let copied = mnemon::stats(db.folder.path().join("copy.redb")).unwrap();
    assert_eq!(copied.namespaces.iter().map(|one| one.messages).sum::<u64>(), 3);
    let events = server.post("/v1/reindex", json!({ "precision": "i8" })).body;
    let events = events.as_str().unwrap();
    assert!(events.contains("event: progress") && events.contains("event: done"), "{events}");
    server.post("/v1/reindex", json!({ "model": "../secret" })).assert_problem(400, "not a path");
    let stats = server.get("/v1/stats").body;
    assert_eq!((&stats["messages"], &stats["pending"]), (&json!(3), &json!(0)));
}

/// Logs of agents have them.
#[test]
fn messages_without_text_are_stored() {
    let db = Db::new();
    let server = Server::start(&db);
    let empty = json!([{ "role": "user", "content": "" }, { "role": "assistant", "content": " \n" }, { "role": "user", "content": [] }]);
    let stored = |path: &str| server.get(path).body["messages"].as_array().unwrap().len();
    assert_eq!(server.post("/v1/namespaces/a/messages", json!({ "messages": empty })).body["new"], 3);
    assert_eq!(stored("/v1/namespaces/a/sessions/default/messages"), 3);
    assert_eq!(server.post("/v1/namespaces/b/sessions/s/messages", json!({ "messages": empty })).body["new"], 3);
    assert_eq!(stored("/v1/namespaces/b/sessions/s/messages"), 3);
    let recall = json!({ "query": "anything", "strategy": "lexical" });
    assert_eq!(server.post("/v1/namespaces/a/recall", recall).body["hits"], json!([]));
    // mem0 has no memory of nothing, and takes the others of the same call.
    let messages = json!([{ "role": "user", "content": "" }, { "role": "user", "content": "I like tea" }]);
    let added = server.post("/v3/memories/add", json!({ "messages": messages, "user_id": "ada" }));
    assert_eq!(added.body["results"].as_array().unwrap().len(), 1, "{}", added.body);
}

#[test]
fn bad_requests_are_explained() {
    let db = Db::new();
    let server = Server::start(&db);
    let messages = "/v1/namespaces/a/messages";
    server.post(messages, json!({ "messages": [{ "role": "user" }] })).assert_problem(422, "content");
    server.post(messages, json!({ "message": [] })).assert_problem(422, "message");
    server.post("/v1/namespaces/%2F/messages", json!({ "messages": [] })).assert_problem(400, "invalid namespace");
    server.post("/v1/namespaces/a/recall", json!({ "query": "" })).assert_problem(400, "query");
    server.post("/v1/namespaces/a/recall", json!({ "query": "q", "strategy": "magic" })).assert_problem(400, "magic");
    server.get("/v1/nothing").assert_problem(404, "no such route");
    server.send("PUT", messages, &[], None).assert_problem(405, "the header Allow");
    server
        .send("POST", messages, &[("content-encoding", "gzip")], Some(json!({ "messages": [] })))
        .assert_problem(415, "compressed");
    let no_json = format!(
        "POST {messages} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}",
        server.address
    );
    super::Answer::parse(&server.raw(no_json.as_bytes())).assert_problem(415, "application/json");
}

#[test]
fn a_repeated_request_is_answered_as_the_first() {
    let db = Db::new();
    let server = Server::start(&db);
    let path = "/v1/namespaces/a/messages";
    let send = |key: &str, text: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": text }] });
        server.send("POST", path, &[("idempotency-key", key)], Some(body))
    };
    let (first, second) = (send("k1", "once"), send("k1", "once"));
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_ne!(send("k2", "once").body, first.body);
    send("k1", "something else").assert_problem(422, "another request");
    assert_eq!(server.get("/v1/namespaces/a/sessions").body["sessions"][0]["messages"], 2);
}

#[test]
fn a_terminated_server_keeps_what_it_acknowledged() {
    let db = Db::new();
    let server = Server::start(&db);
    let (address, stopped) = (server.address, std::sync::atomic::AtomicBool::new(false));
    let acknowledged = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let stopped = &stopped;
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    for at in 0.. {
                        let id = format!("{writer}-{at}");
                        if stopped.load(std::sync::atomic::Ordering::Relaxed) || !try_put(address, &id) {
                            break;
                        }
                        acknowledged.push(id);
                    }
                    acknowledged
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let took = server.terminate();
        assert!(took < Duration::from_secs(10), "{took:?}");
        stopped.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(!acknowledged.is_empty());
    db.assert_sound();
    let server = Server::start(&db);
    for id in acknowledged {
        assert_eq!(server.get(&format!("/v1/namespaces/a/messages/{id}")).status, 200, "{id}");
    }
}

/// Puts a message. Returns false if the server did not acknowledge it.
fn try_put(address: std::net::SocketAddr, id: &str) -> bool {
    use std::io::{Read, Write};
    let body = json!({ "messages": [{ "role": "user", "content": "a note", "id": id }] }).to_string();
    let head = format!("POST /v1/namespaces/a/messages HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let request = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let sent = std::net::TcpStream::connect(address).and_then(|mut stream| {
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    sent.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
