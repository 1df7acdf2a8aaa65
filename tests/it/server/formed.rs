//! Tests of messages that a model is given without a session's buffer, of instructions that it refines, and of the table of
//! costs in `docs/server.md`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Server,
    formation::{FACTS, config, facts, formation, knows_ada, no_batch_waits, until, with_model},
    mcp::Client,
};
use crate::support::{
    Db, root, sample,
    servers::{LlmServer, RecordedRequest, Reply},
};

const MESSAGES: &str = "/v1/namespaces/users%2Fada/messages";

/// MCP's `add_memory` and `POST .../messages` store at once what sessions buffer, and the model is given it all the same.
#[test]
fn messages_without_a_session_are_formed_too() {
    let (db, llm) = (Db::new(), LlmServer::new(knows_ada));
    let rules = config(&db, "[[namespaces]]\ntoken_limit = 1000\nblocks = [{ collection = { name = \"facts\" } }]\n");
    let arguments = ["--config", rules.to_str().unwrap()];
    let server = with_model(&db, &llm, &arguments);
    let wait = |server: &Server, expected: &[&str]| {
        until("facts", || (facts(server, FACTS) == expected).then_some(()));
    };
    let call = json!({
        "name": "add_memory", "arguments": { "text": "I live in Lyon, and row on Thursdays.", "user_id": "ada" },
    });
    let added = Client { server: &server }.request("tools/call", call)["result"]["structuredContent"].clone();
    wait(&server, &["Ada lives in Lyon.", "Ada rows on Thursdays."]);
    let found = server.post(FACTS, json!({ "query": "Where does Ada live?", "sources": true })).body;
    assert_eq!(found["documents"][0]["sources"], added["ids"], "{found}");
    // They are found by meaning at once, as messages are that no model sees.
    let put = |server: &Server, messages: Value| {
        let put = server.post(MESSAGES, json!({ "messages": messages, "flush": true }));
        assert_eq!(put.status, 200, "{}", put.body);
        put.body
    };
    let moved = json!([{ "id": "m", "role": "user", "content": "I have moved to Porto.", "session": "monday", "created_at": "2026-03-02T18:00:00Z" }]);
    assert_eq!(put(&server, moved.clone())["new"], 1);
    wait(&server, &["Ada lives in Porto.", "Ada rows on Thursdays."]);
    let recalled = server.post("/v1/namespaces/users%2Fada/recall", json!({ "query": "Where is her new home?" })).body;
    assert_eq!((&recalled["pending"], &recalled["hits"].as_array().unwrap().len()), (&json!(0), &2), "{recalled}");
    let batch = json!({ "op": "put_messages", "namespace": "users/ada", "messages": moved });
    let again = server.post("/v1/batch", json!({ "operations": [batch] })).body;
    assert_eq!(again["outcomes"][0]["unchanged"], 1, "{again}");
    // The same message again is nothing new. A changed one is given to no model.
    assert_eq!(put(&server, moved)["unchanged"], 1);
    assert_eq!(
        put(&server, json!([{ "id": "m", "role": "user", "content": "Porto!", "session": "monday" }]))["replaced"],
        1
    );
    // A long put is several batches, of 100 tokens or a message each.
    let long = "We talked about the weather, and it was fine. ".repeat(7);
    let messages: Vec<Value> = (0..5).map(|at| json!({ "role": "user", "content": format!("{at} {long}") })).collect();
    put(&server, json!(messages));
    // What a killed server had not stored of the last answer, it would ask for again.
    until("all batches", || no_batch_waits(&server));
    assert_eq!(llm.requests().len(), 7);
    // None of them comes again.
    drop(server);
    let server = with_model(&db, &llm, &arguments);
    let stopped = json!([{ "role": "user", "content": "I have stopped rowing." }]);
    let batch = json!({ "op": "put_messages", "namespace": "users/ada", "messages": stopped });
    assert_eq!(server.post("/v1/batch", json!({ "operations": [batch] })).status, 200);
    wait(&server, &["Ada lives in Porto."]);
    assert_eq!(llm.requests().len(), 8);
    drop(server);
    db.assert_sound();
}

#[test]
fn instructions_are_refined_by_feedback_and_reverted() {
    let (db, llm) = (
        Db::new(),
        LlmServer::new(|request| match request.number {
            0 => Reply::text("Be brief. Metres, no feet."),
            _ => Reply::error(503, "busy"),
        }),
    );
    let rules =
        config(&db, "[[namespaces]]\nblocks = [{ instructions = { name = \"rules\", text = \"Be brief.\" } }]\n");
    let arguments = ["--config", rules.to_str().unwrap()];
    let server = with_model(&db, &llm, &arguments);
    let session = "/v1/namespaces/users%2Fada/sessions/s";
    let said = json!({ "messages": [{ "role": "assistant", "content": "The boat is 20 feet long." }] });
    assert_eq!(server.post(&format!("{session}/messages"), said).status, 200);
    let refine = |server: &Server, body: Value| server.post(&format!("{session}/refine"), body);
    let refined = refine(&server, json!({ "block": "rules", "feedback": "I do not know feet." }));
    assert_eq!(
        refined.body,
        json!({ "instructions": "Be brief. Metres, no feet.", "version": 1 }),
        "{}",
        refined.status
    );
    let asked = llm.requests()[0].body["messages"][1]["content"].clone();
    for part in ["Be brief.", "20 feet long", "I do not know feet."] {
        assert!(asked.as_str().unwrap().contains(part), "{part}: {asked}");
    }
    let prompt =
        |server: &Server| server.post(&format!("{session}/assemble"), json!({ "prompt": "And?" })).body.to_string();
    assert!(prompt(&server).contains("Metres, no feet."));
    let counts = &formation(&server)["blocks"][0];
    assert_eq!(
        (&counts["kind"], &counts["calls"], &counts["failures"]),
        (&json!("instructions"), &json!(1), &json!(0))
    );
    let reverted = refine(&server, json!({ "block": "rules", "version": 0 }));
    assert_eq!(reverted.body, json!({ "instructions": "Be brief.", "version": 2 }));
    assert!(!prompt(&server).contains("Metres, no feet."));
    for (body, status, part) in [
        (json!({ "block": "rules" }), 400, "give one of `feedback`"),
        (json!({ "block": "rules", "feedback": " " }), 400, "give one of `feedback`"),
        (json!({ "block": "rules", "feedback": "x", "version": 0 }), 400, "give one of `feedback`"),
        (json!({ "block": "facts", "feedback": "x" }), 404, "--config"),
        (json!({ "block": "rules", "version": 3 }), 400, "no version 3"),
        (json!({ "block": "rules", "feedback": "x" }), 503, "model"),
    ] {
        refine(&server, body).assert_problem(status, part);
    }
    drop(server);
    let server = Server::with(&db, &arguments);
    refine(&server, json!({ "block": "rules", "feedback": "x" })).assert_problem(400, "start it with --llm");
    refine(&server, json!({ "block": "rules", "version": 1 }));
    assert!(prompt(&server).contains("Metres, no feet."));
}

/// A model whose answers are as long as those of real ones: for each message of the user that tells something, its first
/// sentence.
fn takes_notes(request: &RecordedRequest) -> Reply {
    let part = |at: usize| request.body["messages"][at]["content"].as_str().unwrap();
    let (instructions, input) = (part(0), part(1));
    let said = input.rsplit_once("onversation:\n").or(input.rsplit_once("New messages:\n")).unwrap().1;
    let sentences = said.lines().filter(|line| line.contains("role='user'")).filter_map(|line| {
        let text = line.split_once('>')?.1;
        let end = text.find(['.', '!', '?', '<'])?;
        (text[end..].starts_with('.') && end > 20).then(|| text[..=end].to_owned())
    });
    let sentences: Vec<String> = sentences.collect();
    let answer = if instructions.starts_with("You keep a collection") {
        json!({ "insert": sentences.iter().map(|text| json!({ "text": text })).collect::<Vec<_>>() }).to_string()
    } else if instructions.starts_with("You keep a profile") {
        let fields = sentences.iter().take(2).enumerate();
        json!(fields.map(|(at, text)| (format!("note_{at}"), text)).collect::<BTreeMap<_, _>>()).to_string()
    } else if instructions.starts_with("You keep the summary") {
        "What was said before stays, and this is new: they spoke of the boat, of work and of the house. ".repeat(8)
    } else {
        json!({ "facts": sentences }).to_string()
    };
    Reply::text(&answer)
}

/// The table of costs in docs/server.md: the sample conversations, by sessions of their own, with all kinds of blocks.
/// MNEMON_UPDATE=1 writes it.
#[test]
fn the_documents_have_what_the_sample_costs() {
    let (db, llm) = (Db::new(), LlmServer::new(takes_notes));
    let rules = config(
        &db,
        "[[namespaces]]\ntoken_limit = 4000\nblocks = [{ collection = { name = \"collection\" } }, { facts = { name = \"facts\" } }, \
         { profile = { name = \"profile\" } }, { summary = { name = \"summary\" } }]\n",
    );
    let server = with_model(&db, &llm, &["--config", rules.to_str().unwrap()]);
    let mut sessions: BTreeMap<[String; 2], Vec<Value>> = BTreeMap::new();
    let mut messages = 0;
    for line in std::fs::read_to_string(sample("messages.jsonl")).unwrap().lines() {
        let mut message: Value = serde_json::from_str(line).unwrap();
        let fields = message.as_object_mut().unwrap();
        let session = ["namespace", "session"].map(|name| fields.remove(name).unwrap().as_str().unwrap().to_owned());
        sessions.entry(session).or_default().push(message);
        messages += 1;
    }
    let path = |namespace: &str| format!("/v1/namespaces/{}", namespace.replace('/', "%2F"));
    let status = |namespace: &str| server.get(&format!("{}/formation?limit=100", path(namespace))).body;
    for ([namespace, session], said) in &sessions {
        let at = format!("{}/sessions/{session}", path(namespace));
        assert_eq!(server.post(&format!("{at}/messages"), json!({ "messages": said })).status, 200);
        assert_eq!(server.send("POST", &format!("{at}/flush"), &[], None).status, 200);
        // One after the other, as they were: the items that a batch is shown are those of the batches before.
        until("the batches", || {
            let sessions = status(namespace)["sessions"].clone();
            let mut blocks =
                sessions.as_array().unwrap().iter().flat_map(|one| one["blocks"].as_array().unwrap().clone());
            blocks.all(|block| block["behind"] == 0).then_some(())
        });
        server.post("/v1/flush", json!({}));
    }
    // Batches, calls, tokens of requests, tokens of answers.
    let mut costs: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    let namespaces: std::collections::BTreeSet<&String> = sessions.keys().map(|[namespace, _]| namespace).collect();
    for namespace in namespaces {
        let listed = server.get(&format!("{}/sessions?limit=100", path(namespace))).body;
        let batches: u64 =
            listed["sessions"].as_array().unwrap().iter().map(|one| one["batches"].as_u64().unwrap()).sum();
        for block in status(namespace)["blocks"].as_array().unwrap() {
            assert_eq!(block["failures"], 0, "{block}");
            let sums = costs.entry(block["kind"].as_str().unwrap().to_owned()).or_default();
            sums[0] += batches;
            for (sum, name) in sums[1..].iter_mut().zip(["calls", "prompt_tokens", "completion_tokens"]) {
                *sum += block[name].as_u64().unwrap();
            }
        }
    }
    let mut table = String::from(
        "| kind of block | batches | calls | tokens in | tokens out | per 100 messages: calls, tokens in, out |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for (kind, [batches, calls, tokens_in, tokens_out]) in &costs {
        // Which items are found for a batch hangs on times, a little.
        let [tokens_in, tokens_out] = [tokens_in, tokens_out].map(|tokens| (tokens + 500) / 1000);
        let each = |number: u64| (100 * number + messages / 2) / messages;
        let [each_calls, each_in, each_out] =
            [each(*calls), each(tokens_in * 1000) / 100, each(tokens_out * 1000) / 100];
        table += &format!(
            "| `{kind}` | {batches} | {calls} | {tokens_in},000 | {tokens_out},000 | {each_calls}; {each_in}00; {each_out}00 |\n"
        );
    }
    let file = root("docs/server.md");
    let text = std::fs::read_to_string(&file).unwrap();
    if std::env::var_os("MNEMON_UPDATE").is_some() {
        let begin = text.find("| kind of block |").expect("the table has a place");
        let end = begin + text[begin..].find("\n\n").unwrap() + 1;
        std::fs::write(&file, [&text[..begin], &table, &text[end..]].concat()).unwrap();
        return;
    }
    assert!(text.contains(&table), "{table}\nMNEMON_UPDATE=1 writes it into {}", file.display());
}
