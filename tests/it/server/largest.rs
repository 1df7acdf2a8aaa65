//! The largest answer of each route and tool: its bytes, its time, and the memory that the server takes for it. A route of the
//! description and a tool without a row fail.

use std::{
    fs,
    time::{Duration, Instant},
};

use mnemon::{Config, Durability, Engine};
use serde_json::{Value, json};

use super::{Answer, Server};
use crate::support::{Db, message, namespace};

const NAMESPACE: &str = "/v1/namespaces/users%2Fada";
/// Messages with long metadata, and as many documents with long values.
const ITEMS: usize = 60;
const LONG: usize = 1_000_000;
const AUDITED: usize = 1500;
const USERS: usize = 1500;
/// The most bytes of an answer, and of the memory that one takes.
const MOST_BYTES: usize = 34 << 20;
const MOST_MEMORY: u64 = 320 << 20;

/// The request of an operation of the description that is answered with the most bytes. `None`: its answer has nothing that is stored.
fn of_operation(operation: &str) -> Option<(&'static str, String, Option<Value>)> {
    let within = |path: &str| format!("{NAMESPACE}{path}");
    let gets =
        |key: &str| json!({ "operations": vec![json!({ "op": "get", "namespace": "users/ada", "key": key }); 1000] });
    Some(match operation {
        "get_namespaces" => ("GET", "/v1/namespaces?limit=1000".to_owned(), None),
        "get_namespaces_namespace" => ("GET", within(""), None),
        "get_namespaces_namespace_messages_id" => ("GET", within("/messages/m7"), None),
        "get_namespaces_namespace_messages_id_versions" => ("GET", within("/messages/m7/versions?limit=1000"), None),
        "get_namespaces_namespace_sessions" => ("GET", within("/sessions?limit=1000"), None),
        "get_namespaces_namespace_sessions_session_messages" => {
            ("GET", within("/sessions/s/messages?limit=1000"), None)
        }
        "post_namespaces_namespace_sessions_session_assemble" => {
            let body = json!({ "prompt": "Which bridge is closed?", "recall": 1000, "token_limit": 10_000_000 });
            ("POST", within("/sessions/b/assemble"), Some(body))
        }
        "get_namespaces_namespace_blocks" => ("GET", within("/blocks?limit=1000"), None),
        "get_formation" => ("GET", "/v1/formation?limit=1000".to_owned(), None),
        "get_namespaces_namespace_updates" => ("GET", within("/updates?limit=1000"), None),
        "get_namespaces_namespace_formation" => ("GET", within("/formation?limit=1000"), None),
        "post_namespaces_namespace_recall" => {
            let body = json!({ "query": "Which bridge is closed?", "k": 1000, "unit": "turn" });
            ("POST", within("/recall"), Some(body))
        }
        "post_recall" => {
            ("POST", "/v1/recall".to_owned(), Some(json!({ "query": "bridge", "k": 1000, "under": ["users"] })))
        }
        "get_namespaces_namespace_messages_id_why" => ("GET", within("/messages/m7/why"), None),
        "get_namespaces_namespace_map" => ("GET", within("/map?sample=2000"), None),
        "get_namespaces_namespace_documents_key" => ("GET", within("/documents/d7"), None),
        "post_namespaces_namespace_documents_search" => {
            ("POST", within("/documents/search"), Some(json!({ "below": true, "limit": 1000 })))
        }
        "post_batch" => ("POST", "/v1/batch".to_owned(), Some(gets("objects"))),
        "post_namespaces_namespace_memory_tool" => {
            ("POST", within("/memory_tool"), Some(json!({ "command": "view", "path": "/memories/long.txt" })))
        }
        "get_stats" => ("GET", "/v1/stats".to_owned(), None),
        "get_audit" => ("GET", "/v1/audit?limit=1000".to_owned(), None),
        "metrics" => ("GET", "/metrics".to_owned(), None),
        // An import has the bounds of its own test.
        "post_import"
        | "post_namespaces_namespace_import"
        | "post_namespaces_namespace_messages"
        | "patch_namespaces_namespace_messages_id"
        | "post_namespaces_namespace_sessions_session_messages"
        | "post_namespaces_namespace_sessions_session_flush"
        | "post_namespaces_namespace_sessions_session_retry"
        | "post_namespaces_namespace_sessions_session_refine"
        | "put_namespaces_namespace_documents_key"
        | "put_namespaces_namespace_ttl"
        | "post_formation_retry"
        | "post_namespaces_namespace_updates_undo"
        | "post_flush"
        | "post_link"
        | "post_backup"
        | "post_reindex"
        | "health"
        | "ready"
        | "post_namespaces_namespace_forget" => return None,
        name if name.starts_with("delete_") => return None,
        _ => panic!("{operation} has no row: add the request with the largest answer"),
    })
}

/// The arguments of the call of a tool that is answered with the most bytes.
fn of_tool(tool: &str) -> Option<Value> {
    let user = "ada";
    Some(match tool {
        "search_memories" => {
            json!({ "query": "Which bridge is closed?", "limit": 100, "documents": 10, "user_id": user })
        }
        "get_memories" => json!({ "limit": 100, "user_id": user }),
        "get_memory" => json!({ "memory_id": "m7", "versions": true, "user_id": user }),
        "why" => json!({ "memory_id": "m7", "user_id": user }),
        "get_document" => json!({ "key": "d7", "user_id": user }),
        "get_documents" => json!({ "limit": 100, "user_id": user }),
        "search_documents" => json!({ "query": "closed bridge", "limit": 100, "user_id": user }),
        "list_entities" => json!({}),
        "assemble_context" => {
            json!({ "prompt": "Which bridge is closed?", "recall": 100, "documents": 10, "token_limit": 100_000, "user_id": user })
        }
        "memory" => json!({ "command": "view", "path": "/memories/long.txt", "user_id": user }),
        "add_memory" | "update_memory" | "delete_memory" | "delete_all_memories" | "remember_document" | "forget" => {
            return None;
        }
        _ => panic!("{tool} has no row: add the call with the largest answer"),
    })
}

fn status(server: &Server, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Sends a request, and asserts that its answer is bounded.
fn send(server: &Server, name: &str, (method, path, body): (&str, String, Option<Value>)) -> Answer {
    let before = status(server, "VmRSS:");
    // Resets the peak.
    fs::write(format!("/proc/{}/clear_refs", server.child.id()), "5").unwrap();
    let started = Instant::now();
    let answer = server.send(method, &path, &[("accept", "application/json, text/event-stream")], body);
    let (elapsed, grown) = (started.elapsed(), status(server, "VmHWM:").saturating_sub(before));
    let bytes = answer.body.to_string().len();
    let said = if answer.status == 200 { "" } else { answer.body["detail"].as_str().unwrap_or_default() };
    eprintln!(
        "{name:<54} {bytes:>9} B {:>6.2} s {:>4} MB  {} {said}",
        elapsed.as_secs_f64(),
        grown >> 20,
        answer.status
    );
    assert!(bytes < MOST_BYTES && grown < MOST_MEMORY, "{name}: {bytes} bytes, {grown} bytes of memory");
    assert!(elapsed < Duration::from_secs(60), "{name}: {elapsed:?}");
    assert!([200, 400, 404].contains(&answer.status), "{name}: {} {said}", answer.status);
    answer
}

/// Makes more entries of the audit than a page has, and more users.
fn fill_first(db: &Db) {
    let config = Config::default().durability(Durability::Process);
    let engine = Engine::builder(&db.path).config(config).open().unwrap();
    for at in 0..AUDITED {
        engine.blocking().hold(&namespace("held"), format!("reason {at}")).unwrap();
    }
    let user = |at: usize| namespace(&format!("users/{at:04}{}", "u".repeat(500)));
    let messages = (0..USERS).map(|at| (user(at), message("m", "The bridge is closed.")));
    engine.blocking().put_all(messages.collect()).unwrap();
}

fn fill(server: &Server) {
    let long = "y".repeat(LONG);
    for from in (0..ITEMS).step_by(6) {
        let messages: Vec<Value> = (from..from + 6)
            .map(|at| {
                json!({
                    "role": "user", "content": format!("The bridge number {at} is closed."), "id": format!("m{at}"), "session": "s",
                    "metadata": { "long": long },
                })
            })
            .collect();
        let put = server.post(&format!("{NAMESPACE}/messages"), json!({ "messages": messages }));
        assert_eq!(put.status, 200, "{}", put.body);
        let puts: Vec<Value> = (from..from + 6)
            .map(|at| {
                let value = json!({ "text": format!("closed bridge {at}"), "long": long });
                json!({ "op": "put", "namespace": "users/ada", "key": format!("d{at}"), "value": value, "index": ["text"] })
            })
            .collect();
        assert_eq!(server.post("/v1/batch", json!({ "operations": puts })).status, 200);
    }
    // Short texts with long metadata, in a session's buffer.
    for at in 0..40 {
        let message = json!({ "role": "user", "content": format!("Bridge {at}?"), "metadata": { "long": long } });
        assert_eq!(
            server.post(&format!("{NAMESPACE}/sessions/b/messages"), json!({ "messages": [message] })).status,
            200
        );
    }
    // A version keeps the metadata of its time.
    for at in 0..20 {
        let message = json!({ "role": "user", "content": format!("It was said {at} times."), "id": "m7", "session": "s", "metadata": { "long": long } });
        assert_eq!(server.post(&format!("{NAMESPACE}/messages"), json!({ "messages": [message] })).status, 200);
    }
    // 900 KB of text, and 60 MB in memory.
    let objects: Vec<Value> = vec![json!({ "a": 1 }); 100_000];
    let put = server.send(
        "PUT",
        &format!("{NAMESPACE}/documents/objects"),
        &[],
        Some(json!({ "value": objects, "index": [] })),
    );
    assert_eq!(put.status, 204, "{}", put.body);
    let file = json!({ "command": "create", "path": "/memories/long.txt", "file_text": "line\n".repeat(100_000) });
    assert_eq!(server.post(&format!("{NAMESPACE}/memory_tool"), file).status, 200);
    assert_eq!(server.post("/v1/flush", json!({})).status, 200);
}

#[test]
fn the_largest_answer_of_each_route_and_tool_is_bounded() {
    let db = Db::new();
    fill_first(&db);
    let server = Server::with(&db, &["--keep-versions"]);
    fill(&server);
    let document = server.get("/v1/openapi.json").body;
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    for name in operations.map(|operation| operation["operationId"].as_str().unwrap()) {
        if let Some(request) = of_operation(name) {
            send(&server, name, request);
        }
    }
    let call = |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        ("POST", "/mcp".to_owned(), Some(body))
    };
    let tools = send(&server, "MCP tools/list", call("tools/list", json!({}))).body["result"]["tools"].clone();
    for name in tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()) {
        if let Some(arguments) = of_tool(name) {
            send(&server, &format!("MCP {name}"), call("tools/call", json!({ "name": name, "arguments": arguments })));
        }
    }
    let listed = send(&server, "MCP resources/list", call("resources/list", json!({}))).body;
    for resource in listed["result"]["resources"].as_array().unwrap().iter().take(3) {
        send(&server, "MCP resources/read", call("resources/read", json!({ "uri": resource["uri"] })));
    }
    for (name, path, body) in [
        (
            "mem0 search",
            "/v3/memories/search/",
            json!({ "query": "bridge", "filters": { "user_id": "ada" }, "top_k": 1000 }),
        ),
        ("mem0 list", "/v3/memories/?page_size=200", json!({ "filters": { "user_id": "ada" } })),
    ] {
        send(&server, name, ("POST", path.to_owned(), Some(body)));
    }
    let entities = |query: &str| send(&server, "mem0 entities", ("GET", format!("/v1/entities/{query}"), None)).body;
    let all = entities("");
    assert_eq!((&all["count"], all["results"].as_array().unwrap().len()), (&json!(USERS + 1), USERS + 1));
    let last = entities(&format!("?page_size=100&page={}", USERS / 100 + 1));
    assert_eq!(
        (&last["count"], &last["results"][0]["id"], &last["next"]),
        (&json!(USERS + 1), &json!("ada"), &Value::Null)
    );
}

/// What is over the bytes of an answer is refused with the remedy, and the remedy helps; lists are pages that have everything.
#[test]
fn an_answer_that_is_too_large_is_refused_with_the_remedy_and_a_list_goes_on() {
    let db = Db::new();
    fill_first(&db);
    let server = Server::with(&db, &["--keep-versions"]);
    fill(&server);
    let recall = |body: Value| server.post(&format!("{NAMESPACE}/recall"), body);
    recall(json!({ "query": "bridge", "k": 50 })).assert_problem(400, "ask for fewer messages");
    assert_eq!(recall(json!({ "query": "bridge", "k": 5 })).body["hits"].as_array().unwrap().len(), 5);
    let without = recall(json!({ "query": "bridge", "k": 50, "metadata": false })).body["hits"].clone();
    assert!(without.as_array().unwrap().len() == 50 && without[0].get("metadata").is_none(), "{without}");
    let get = |key: &str| json!({ "op": "get", "namespace": "users/ada", "key": key });
    let batch = |gets: Vec<Value>| server.post("/v1/batch", json!({ "operations": gets }));
    batch(vec![get("d1"); 40]).assert_problem(400, "ask for fewer");
    assert_eq!(batch(vec![get("d1"); 20]).status, 200);
    // Of objects there are fewer, because each takes much more memory than its text.
    batch(vec![get("objects"); 2]).assert_problem(400, "ask for fewer");
    assert_eq!(batch(vec![get("objects")]).status, 200);
    let search = |body: Value| server.post(&format!("{NAMESPACE}/documents/search"), body);
    search(json!({ "query": "closed bridge", "limit": 50 })).assert_problem(400, "ask for fewer");
    assert_eq!(
        search(json!({ "query": "closed bridge", "limit": 20 })).body["documents"].as_array().unwrap().len(),
        20
    );

    for (path, field, all, most) in [
        (format!("{NAMESPACE}/sessions/s/messages"), "messages", ITEMS, 5),
        (format!("{NAMESPACE}/messages/m7/versions"), "versions", 20, 5),
        ("/v1/audit".to_owned(), "entries", AUDITED, 1000),
    ] {
        let (mut found, mut cursor) = (0, String::new());
        loop {
            let page = server.get(&format!("{path}?limit=1000{cursor}")).body;
            let items = page[field].as_array().unwrap().len();
            assert!((1..=most).contains(&items), "{items} on a page of {path}");
            found += items;
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, all, "{path}");
    }
}
