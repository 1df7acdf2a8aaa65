//! The dearest request of each route and tool: its time, and the memory that the server takes for it. A route of the
//! description and a tool without a row fail.
//!
//! MNEMON_DEAREST=1 makes the bodies almost as large as the server takes them. The bounds are generous, because the server is a debug
//! build beside other tests; the table says more.

use std::{
    fs,
    io::{Read, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Answer, Server, openapi};
use crate::support::Db;

const NAMESPACE: &str = "/v1/namespaces/users%2Fada";
/// Messages of the namespace, and the keys of the metadata of each.
const MESSAGES: usize = 1000;
const KEYS: usize = 40;
const LONGEST: Duration = Duration::from_secs(45);
const MOST: u64 = 1 << 30;

/// A request: its method, its path and its body.
type Request = (&'static str, String, Option<Value>);

/// Bytes of a large body.
fn large() -> usize {
    if std::env::var("MNEMON_DEAREST").is_ok_and(|value| value != "0") { 7 << 20 } else { 256 << 10 }
}

/// Messages as large together as a body.
fn messages() -> Value {
    let text = "What was said, and said again. ".repeat(30);
    let number = large() / (text.len() + 64);
    (0..number)
        .map(|at| json!({ "role": "user", "content": format!("{at} {text}"), "id": format!("new-{at}") }))
        .collect()
}

/// A filter with as many conditions as are allowed, on more paths than have columns.
fn filter() -> Value {
    let conditions = (0..499).map(|at| json!({ format!("k{}", at % KEYS): { "$ne": -1 - (at as i64) } }));
    json!({ "$and": conditions.collect::<Vec<Value>>() })
}

fn mem0_filter() -> Value {
    let conditions =
        (0..300).map(|at| json!({ "metadata": { format!("k{}", at % KEYS): { "ne": -1 - (at as i64) } } }));
    let part = json!({ "keywords": { "icontains": "said" } });
    let all: Vec<Value> = [json!({ "user_id": "ada" }), part].into_iter().chain(conditions).collect();
    json!({ "AND": all })
}

fn question() -> String {
    "When was it said that the bridge is closed? ".repeat((60 << 10) / 44)
}

/// The dearest request of an operation of the description. Those that delete come last.
fn of_operation(operation: &str) -> Request {
    let long_text = "word ".repeat(large().min(1 << 20) / 5 - 100);
    let within = |path: &str| format!("{NAMESPACE}{path}");
    match operation {
        "get_namespaces" => ("GET", "/v1/namespaces?containing=nothing&limit=1000".to_owned(), None),
        "get_namespaces_namespace" => ("GET", within(""), None),
        "post_namespaces_namespace_messages" => {
            ("POST", within("/messages"), Some(json!({ "messages": messages(), "flush": true })))
        }
        "post_import" => {
            let line = json!({ "namespace": "imported", "role": "user", "content": long_text[..900_000.min(long_text.len())] });
            ("POST", "/v1/import".to_owned(), Some(line))
        }
        "post_namespaces_namespace_import" => ("POST", within("/import?flush=true"), Some(messages())),
        "get_namespaces_namespace_messages_id" => ("GET", within("/messages/m7"), None),
        "get_namespaces_namespace_messages_id_versions" => ("GET", within("/messages/m7/versions?limit=1000"), None),
        "patch_namespaces_namespace_messages_id" => (
            "PATCH",
            within("/messages/m7"),
            Some(json!({ "metadata": { "a": long_text[..900_000.min(long_text.len())] } })),
        ),
        "get_namespaces_namespace_sessions" => ("GET", within("/sessions?limit=1000"), None),
        "get_namespaces_namespace_sessions_session_messages" => {
            ("GET", within("/sessions/s/messages?limit=1000"), None)
        }
        "post_namespaces_namespace_sessions_session_messages" => {
            ("POST", within("/sessions/t/messages"), Some(json!({ "messages": messages_of("t") })))
        }
        "post_namespaces_namespace_sessions_session_flush" => ("POST", within("/sessions/t/flush"), None),
        "post_namespaces_namespace_sessions_session_assemble" => {
            let body = json!({ "prompt": question(), "recall": 1000, "token_limit": 10_000_000 });
            ("POST", within("/sessions/t/assemble"), Some(body))
        }
        "get_namespaces_namespace_blocks" => ("GET", within("/blocks?limit=1000"), None),
        "get_formation" => ("GET", "/v1/formation?limit=1000".to_owned(), None),
        "post_formation_retry" => ("POST", "/v1/formation/retry".to_owned(), Some(json!({}))),
        "get_namespaces_namespace_updates" => ("GET", within("/updates?limit=1000"), None),
        "post_namespaces_namespace_updates_undo" => {
            ("POST", within("/updates/undo"), Some(json!({ "id": "no such update" })))
        }
        "get_namespaces_namespace_formation" => ("GET", within("/formation?limit=1000"), None),
        "post_namespaces_namespace_sessions_session_retry" => {
            ("POST", within("/sessions/t/retry"), Some(json!({ "block": "facts" })))
        }
        "post_namespaces_namespace_sessions_session_refine" => {
            ("POST", within("/sessions/t/refine"), Some(json!({ "block": "rules", "feedback": long_text })))
        }
        "post_namespaces_namespace_recall" => {
            let body = json!({ "query": question(), "k": 1000, "filter": filter(), "diversity": 0.5, "unit": "turn" });
            ("POST", within("/recall"), Some(body))
        }
        "post_recall" => {
            let body = json!({ "query": question(), "k": 1000, "filter": filter(), "under": ["users"] });
            ("POST", "/v1/recall".to_owned(), Some(body))
        }
        "get_namespaces_namespace_messages_id_why" => ("GET", within("/messages/m7/why"), None),
        "get_namespaces_namespace_map" => ("GET", within("/map?sample=2000"), None),
        "put_namespaces_namespace_documents_key" => {
            ("PUT", within("/documents/d"), Some(json!({ "value": long_text })))
        }
        "get_namespaces_namespace_documents_key" => ("GET", within("/documents/d"), None),
        "post_namespaces_namespace_documents_search" => {
            let body = json!({ "query": question(), "filter": filter(), "below": true, "limit": 1000 });
            ("POST", within("/documents/search"), Some(body))
        }
        "post_batch" => {
            let conditions: Vec<Value> = filter()["$and"].as_array().unwrap()[..49].to_vec();
            let search = json!({
                "op": "search", "namespace": "users/ada", "query": &question()[..6000], "filter": { "$and": conditions },
                "below": true, "limit": 100,
            });
            let put = json!({ "op": "put", "namespace": "users/ada", "key": "e", "value": long_text[..100_000] });
            let put_messages = json!({ "op": "put_messages", "namespace": "users/ada", "messages": messages_of("b") });
            let operations: Vec<Value> = vec![search; 10].into_iter().chain([put, put_messages]).collect();
            ("POST", "/v1/batch".to_owned(), Some(json!({ "operations": operations, "flush": true })))
        }
        "post_namespaces_namespace_memory_tool" => {
            let body = json!({ "command": "create", "path": "/memories/long.txt", "file_text": long_text });
            ("POST", within("/memory_tool"), Some(body))
        }
        "put_namespaces_namespace_ttl" => ("PUT", within("/ttl"), Some(json!({ "ttl_minutes": 525_600 }))),
        "post_flush" => ("POST", "/v1/flush".to_owned(), None),
        "post_link" => ("POST", "/v1/link".to_owned(), None),
        "get_stats" => ("GET", "/v1/stats".to_owned(), None),
        "get_audit" => ("GET", "/v1/audit".to_owned(), None),
        "post_backup" => ("POST", "/v1/backup".to_owned(), Some(json!({ "path": "copy.redb" }))),
        "post_reindex" => ("POST", "/v1/reindex".to_owned(), Some(json!({ "precision": "i8" }))),
        "health" => ("GET", "/health".to_owned(), None),
        "ready" => ("GET", "/ready".to_owned(), None),
        "metrics" => ("GET", "/metrics".to_owned(), None),
        "delete_namespaces_namespace_documents_key" => ("DELETE", within("/documents/d"), None),
        "delete_namespaces_namespace_messages_id" => ("DELETE", within("/messages/m1"), None),
        "delete_namespaces_namespace_messages" => {
            let ids: Vec<String> = (0..2000).map(|at| format!("m{at}")).collect();
            ("DELETE", within(&format!("/messages?ids={}", ids[..1000].join(","))), None)
        }
        "post_namespaces_namespace_forget" => {
            ("POST", within("/forget"), Some(json!({ "by": "matching", "filter": filter() })))
        }
        "delete_namespaces_namespace_sessions_session" => ("DELETE", within("/sessions/t"), None),
        "delete_namespaces_namespace" => ("DELETE", "/v1/namespaces/users?below=true".to_owned(), None),
        _ => panic!("{operation} has no row: add the dearest request of it"),
    }
}

fn messages_of(session: &str) -> Value {
    let mut messages = messages();
    for message in messages.as_array_mut().unwrap() {
        message["id"] = json!(format!("{session}-{}", message["id"].as_str().unwrap()));
        message["session"] = json!(session);
    }
    messages
}

/// The arguments of the dearest call of a tool.
fn of_tool(tool: &str) -> Value {
    let user = "ada";
    match tool {
        "add_memory" => {
            let turns: Vec<Value> = messages()
                .as_array()
                .unwrap()
                .iter()
                .take(1000)
                .map(|message| json!({ "role": "user", "content": message["content"] }))
                .collect();
            json!({ "messages": turns, "user_id": user })
        }
        "search_memories" => {
            json!({ "query": question(), "limit": 100, "documents": 10, "filter": filter(), "user_id": user })
        }
        "get_memories" => json!({ "limit": 100, "user_id": user, "agent_id": "nobody" }),
        "get_memory" | "why" => json!({ "memory_id": "m7", "user_id": user }),
        "get_document" => json!({ "key": "d", "user_id": user }),
        "get_documents" => json!({ "limit": 100, "user_id": user }),
        "search_documents" => json!({ "query": question(), "limit": 100, "filter": filter(), "user_id": user }),
        "update_memory" => {
            json!({ "memory_id": "m9", "text": "word ".repeat(large().min(1 << 20) / 5 - 100), "user_id": user })
        }
        "list_entities" => json!({}),
        "assemble_context" => {
            json!({ "prompt": question(), "recall": 100, "documents": 10, "token_limit": 100_000, "user_id": user, "run_id": "t" })
        }
        "memory" => json!({ "command": "view", "path": "/memories/long.txt", "user_id": user }),
        "remember_document" => {
            json!({ "key": "d", "value": "word ".repeat(large().min(1 << 20) / 5 - 100), "user_id": user })
        }
        "delete_memory" => json!({ "memory_id": "m8", "user_id": user }),
        "forget" => json!({ "by": "matching", "filter": filter(), "user_id": user, "run_id": "nothing" }),
        "delete_all_memories" => json!({ "user_id": user, "agent_id": "nobody" }),
        _ => panic!("{tool} has no row: add the dearest call of it"),
    }
}

fn of_mem0() -> Vec<Request> {
    let turns = messages();
    vec![
        ("GET", "/v1/ping/".to_owned(), None),
        ("POST", "/v3/memories/add/".to_owned(), Some(json!({ "messages": turns, "user_id": "ada" }))),
        (
            "POST",
            "/v3/memories/search/".to_owned(),
            Some(json!({ "query": question(), "filters": mem0_filter(), "top_k": 1000 })),
        ),
        ("POST", "/v3/memories/?page_size=10".to_owned(), Some(json!({ "filters": mem0_filter() }))),
        ("GET", "/v1/entities/".to_owned(), None),
        ("DELETE", "/v1/memories/?user_id=ada&agent_id=nobody".to_owned(), None),
    ]
}

/// Answers of a server whose memory is looked at.
struct Measured<'a> {
    server: &'a Server,
    rows: Vec<(String, Duration, u64, u16)>,
}

impl Measured<'_> {
    fn send(&mut self, name: &str, (method, path, body): Request) -> Answer {
        let before = self.memory("VmRSS:");
        // Resets the peak.
        fs::write(format!("/proc/{}/clear_refs", self.server.child.id()), "5").unwrap();
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.server.address,
            body.len()
        );
        let mut stream = self.server.connect();
        stream.set_read_timeout(Some(4 * LONGEST)).unwrap();
        let started = Instant::now();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let (elapsed, grown) = (started.elapsed(), self.memory("VmHWM:").saturating_sub(before));
        let answer = Answer::parse(&String::from_utf8_lossy(&answer));
        openapi::assert_described(method, &path, &answer);
        eprintln!("{name:<58} {:>7.2} s {:>6} MB  {}", elapsed.as_secs_f64(), grown >> 20, answer.status);
        self.rows.push((name.to_owned(), elapsed, grown, answer.status));
        answer
    }

    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
    }
}

#[test]
fn the_dearest_request_of_each_route_and_tool_is_bounded() {
    let db = Db::new();
    let server = Server::start(&db);
    let message = |at: usize| {
        let metadata: serde_json::Map<String, Value> =
            (0..KEYS).map(|key| (format!("k{key}"), json!(at % (7 + key)))).collect();
        json!({ "role": "user", "content": format!("note {at}: it was said that the bridge is closed"), "id": format!("m{at}"), "session": "s", "metadata": metadata })
    };
    for from in (0..MESSAGES).step_by(500) {
        let batch: Vec<Value> = (from..from + 500).map(message).collect();
        let put = server.post(&format!("{NAMESPACE}/messages"), json!({ "messages": batch }));
        assert_eq!(put.status, 200, "{}", put.body);
    }
    assert_eq!(server.post("/v1/flush", json!({})).status, 200);
    // `why` explains a recall.
    let found = server.post(&format!("{NAMESPACE}/recall"), json!({ "query": "note 7", "ids": ["m7"] }));
    assert_eq!(found.body["hits"][0]["id"], "m7", "{}", found.body);
    let mut measured = Measured { server: &server, rows: Vec::new() };
    let document = server.get("/v1/openapi.json").body;
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let mut operations: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    // What stores comes before what reads, and what deletes last, the whole namespace at the end.
    operations.sort_by_key(|name| (*name == "delete_namespaces_namespace", std::cmp::Reverse(*name)));
    let (reading, deleting): (Vec<&str>, Vec<&str>) =
        operations.into_iter().partition(|name| of_operation(name).0 != "DELETE" && !name.ends_with("_forget"));
    for name in reading {
        measured.send(name, of_operation(name));
    }
    let call = |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        ("POST", "/mcp".to_owned(), Some(body))
    };
    let tools = measured.send("MCP tools/list", call("tools/list", json!({}))).body["result"]["tools"].clone();
    for tool in tools.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let answer = measured
            .send(&format!("MCP {name}"), call("tools/call", json!({ "name": name, "arguments": of_tool(name) })));
        // A recall is noted a while after it, so there may be nothing to explain yet.
        assert!(answer.body["result"]["isError"] != true || name == "why", "{name}: {}", answer.body);
    }
    for name in ["resources/list", "prompts/list"] {
        measured.send(&format!("MCP {name}"), call(name, json!({})));
    }
    for request in of_mem0() {
        let name = format!("mem0 {} {}", request.0, request.1.split('?').next().unwrap());
        measured.send(&name, request);
    }
    for name in deleting {
        measured.send(name, of_operation(name));
    }
    let rows = measured.rows;
    let (_, longest, ..) = rows.iter().max_by_key(|row| row.1).unwrap();
    let (_, _, most, _) = rows.iter().max_by_key(|row| row.2).unwrap();
    assert!(*longest < LONGEST && *most < MOST, "{longest:?} {most} bytes");
    let failed: Vec<_> = rows.iter().filter(|row| row.3 >= 500 || row.3 == 400 || row.3 == 422).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
