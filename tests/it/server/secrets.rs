//! `--remove-secrets`: every way into the database, and clients that ask for it of a server without it. The forms of secrets are
//! tested in the package `mnemon-secrets`.

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use serde_json::{Value, json};

use super::{
    Server, command,
    formation::{FACTS, facts, until, with_model},
    mcp::Client,
};
use crate::support::{
    Db,
    servers::{LlmServer, RecordedRequest, Reply},
};

/// A key that is none, put together here so that no scanner takes it for one.
fn key(number: usize) -> String {
    format!("sk-{}", format!("a{number}B3dE5gH").repeat(4))
}

/// A model that repeats what it was told in an earlier life: its answers have keys that no request had.
fn knows_keys(request: &RecordedRequest) -> Reply {
    let text = format!("The key is {} and the card {}.", key(90), "4111 1111 1111 1111");
    match request.body["messages"][0]["content"].as_str() {
        Some(system) if system.starts_with("You keep a collection") => {
            Reply::text(&json!({ "insert": [{ "text": text }] }).to_string())
        }
        _ => Reply::text(&text),
    }
}

/// Returns what a client of the Unix socket is answered that sends these messages of MCP.
fn over_the_socket(server: &Server, db: &Db, arguments: &[&str], calls: &[Value]) -> (Option<i32>, String, String) {
    let mut command = command(server.runtime.path());
    command.arg("mcp").arg("--db").arg(&db.path).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let first = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    let second = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let mut stdin = child.stdin.take().unwrap();
    for message in [&first, &second].into_iter().chain(calls) {
        // A shim that refuses its server reads nothing.
        let _ = writeln!(stdin, "{message}");
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn tool(id: u64, name: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

#[test]
fn no_way_into_the_database_leads_past_the_removal() {
    let (db, llm) = (Db::new(), LlmServer::new(knows_keys));
    let server = with_model(&db, &llm, &["--remove-secrets"]);
    let message = |number: usize| json!({ "role": "user", "content": format!("My key is\t{}.", key(number)) });
    let ok = |method: &str, path: &str, body: Value| {
        let answer = server.send(method, path, &[], Some(body));
        assert!(answer.status < 300, "{method} {path}: {}", answer.body);
        answer.body
    };
    ok("POST", "/v1/namespaces/a/messages", json!({ "messages": [message(1)] }));
    let arguments = json!({ "command": format!("export\nKEY={}\n", key(2)) }).to_string();
    let call = json!({ "role": "assistant", "content": [{ "type": "tool_call", "id": "c", "name": "run", "arguments": arguments }] });
    ok("POST", "/v1/namespaces/a/messages", json!({ "messages": [call] }));
    let third = key(3);
    let (begin, end) = third.split_at(12);
    let parts = json!([{ "type": "text", "text": begin }, { "type": "text", "text": end }]);
    ok("POST", "/v1/namespaces/a/messages", json!({ "messages": [{ "role": "user", "content": parts }] }));
    let metadata = json!({ key(4): 1, "card": 4_111_111_111_111_111_u64, "headers": { "Authorization": format!("Bearer {}", key(5)) } });
    ok(
        "POST",
        "/v1/namespaces/a/messages",
        json!({ "messages": [{ "role": "user", "content": "x", "metadata": metadata }] }),
    );
    ok("POST", "/v1/namespaces/a/sessions/s/messages", json!({ "messages": [message(6)] }));
    ok("PUT", "/v1/namespaces/a/documents/k", json!({ "value": { "text": key(7) } }));
    let operations = json!([
        { "op": "put", "namespace": "a", "key": "l", "value": { "text": key(8) } },
        { "op": "put_messages", "namespace": "a", "messages": [message(9)] },
    ]);
    ok("POST", "/v1/batch", json!({ "operations": operations }));
    let file = json!({ "command": "create", "path": "/memories/keys.md", "file_text": key(10) });
    ok("POST", "/v1/namespaces/a/memory_tool", file);
    ok("POST", "/v3/memories/add/", json!({ "messages": [message(11)], "user_id": "bob", "infer": false }));
    ok("POST", "/v1/namespaces/a/recall", json!({ "query": key(12) }));
    let client = Client { server: &server };
    let add = |number: usize| json!({ "text": format!("My key is {}.", key(number)), "user_id": "bob" });
    let added = client.request("tools/call", json!({ "name": "add_memory", "arguments": add(13) }));
    assert_ne!(added["result"]["isError"], true, "{added}");
    let (code, answers, said) =
        over_the_socket(&server, &db, &["--remove-secrets"], &[tool(1, "add_memory", &add(14))]);
    assert!(code == Some(0) && answers.contains("\"id\":1"), "{answers} {said}");
    // What the model answers.
    ok(
        "POST",
        "/v1/namespaces/users%2Fada/sessions/s/messages",
        json!({ "messages": [{ "role": "user", "content": "Hello." }] }),
    );
    assert!(server.send("POST", "/v1/namespaces/users%2Fada/sessions/s/flush", &[], None).status < 300);
    let formed = until("a fact", || facts(&server, FACTS).first().cloned());
    assert_eq!(formed, "The key is [key removed] and the card [card removed].");
    let asked = llm.requests();
    let metrics = server.get("/metrics").body.to_string();
    assert!(metrics.contains("mnemon_secrets_removed_total"), "{metrics}");
    server.terminate();
    let file = std::fs::read(&db.path).unwrap();
    let has = |text: &str| file.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    for number in (1..15).chain([90]) {
        let body = &key(number)[12..];
        assert!(!has(body), "the key {number} is in the file");
        assert!(asked.iter().all(|request| !request.body.to_string().contains(body)), "the model was given {number}");
    }
    assert!(has("[key removed]") && !has("4111111111111111"));
}

#[test]
fn a_server_that_keeps_secrets_is_refused_by_clients_that_want_them_removed() {
    let db = Db::new();
    let server = Server::start(&db);
    let (code, answers, said) =
        over_the_socket(&server, &db, &["--remove-secrets"], &[tool(1, "add_memory", &json!({ "text": key(1) }))]);
    assert!(code == Some(1) && said.contains("runs without --remove-secrets"), "{code:?} {answers} {said}");
    assert!(!answers.contains("\"result\""), "{answers}");
    let mut hook = command(server.runtime.path());
    hook.arg("hook").arg("--db").arg(&db.path).arg("--remove-secrets");
    let mut hook = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let event = json!({ "hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": "/", "prompt": key(1) });
    write!(hook.stdin.take().unwrap(), "{event}").unwrap();
    let mut said = String::new();
    BufReader::new(hook.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(hook.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("runs without --remove-secrets"), "{said}");
    // Without the option they go on, as they do with a server that removes them.
    let add = tool(1, "add_memory", &json!({ "text": "x", "user_id": "ada" }));
    let (code, answers, said) = over_the_socket(&server, &db, &[], &[add]);
    assert!(code == Some(0) && answers.contains("\"id\":1"), "{answers} {said}");
}
