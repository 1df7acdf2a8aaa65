//! Tokens, hosts and rates.

use std::process::Stdio;

use serde_json::json;

use super::{Answer, Server, command, tokens};
use crate::support::Db;

fn with_token(server: &Server, token: &str, method: &str, path: &str, body: Option<serde_json::Value>) -> Answer {
    server.send(method, path, &[("authorization", &format!("Bearer {token}"))], body)
}

#[test]
fn a_token_reaches_only_its_prefix_and_its_rights() {
    let db = Db::new();
    let options: &[&[&str]] = &[
        &["--rights", "read,write,forget,admin"],
        &["--prefix", "acme", "--rights", "read,write"],
        &["--prefix", "acme", "--rights", "read"],
    ];
    let (tokens, file) = tokens(db.folder.path(), options);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    let [admin, writer, reader] = [&tokens[0], &tokens[1], &tokens[2]];
    let put = |token: &str, namespace: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": "hello" }] });
        with_token(&server, token, "POST", &format!("/v1/namespaces/{namespace}/messages"), Some(body))
    };
    assert_eq!(put(admin, "other").status, 200);
    assert_eq!(put(writer, "acme%2Fada").status, 200);
    put(reader, "acme%2Fada").assert_problem(403, "no right to write");
    // `acmes` begins with the same letters, and is another namespace.
    for namespace in ["other", "acmes", "acme-2", "nothing"] {
        put(writer, namespace).assert_problem(404, "no such namespace");
        let paths = ["", "/sessions", "/sessions/s/messages", "/messages/m", "/messages/m/why", "/documents/d", "/map"];
        for path in paths {
            with_token(&server, reader, "GET", &format!("/v1/namespaces/{namespace}{path}"), None)
                .assert_problem(404, "");
        }
    }
    let recall = json!({ "query": "hello", "under": ["other"] });
    with_token(&server, reader, "POST", "/v1/recall", Some(recall)).assert_problem(404, "no such namespace");
    let list = with_token(&server, reader, "GET", "/v1/namespaces", None).body;
    assert_eq!(list["namespaces"].as_array().unwrap().len(), 1, "{list}");
    with_token(&server, reader, "GET", "/v1/stats", None).assert_problem(403, "no right to admin");
    with_token(&server, writer, "GET", "/metrics", None).assert_problem(403, "no right to admin");
    with_token(&server, writer, "DELETE", "/v1/namespaces/acme", None).assert_problem(403, "no right to forget");
    assert_eq!(with_token(&server, admin, "GET", "/v1/stats", None).body["messages"], 2);

    server.get("/v1/namespaces").assert_problem(401, "Authorization");
    with_token(&server, "mnemon_wrong", "GET", "/v1/namespaces", None).assert_problem(401, "Authorization");
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200), "probes need no token");
    let stored = std::fs::read_to_string(&file).unwrap();
    let entries: String = stored.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(tokens.iter().all(|token| !entries.contains(token.trim_start_matches("mnemon_"))), "hashes alone are kept");
}

/// A client of MCP without a token asks where it may get one. There is no such place, so it must not find an error there.
#[test]
fn without_a_token_there_are_no_routes_beside_those_that_want_one() {
    let db = Db::new();
    let (tokens, file) = tokens(db.folder.path(), &[&["--rights", "read"]]);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    for path in [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/register",
        "/nothing",
        "/v1/nothing",
    ] {
        server.get(path).assert_problem(404, "no such route");
        with_token(&server, &tokens[0], "GET", path, None).assert_problem(404, "no such route");
        with_token(&server, "mnemon_wrong", "GET", path, None).assert_problem(401, "Authorization");
    }
    server.send("POST", "/register", &[], Some(json!({}))).assert_problem(404, "no such route");
    for path in ["/v1/namespaces", "/v1/stats", "/metrics", "/v1/memories/x/"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    let refused = server.send("POST", "/mcp", &[], Some(json!({})));
    assert!(refused.status == 401 && refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
}

#[test]
fn tools_keep_to_the_prefix_of_the_token() {
    let db = Db::new();
    let (tokens, file) = tokens(db.folder.path(), &[&["--prefix", "acme", "--rights", "read,write"]]);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    let call = |name: &str, arguments: serde_json::Value| {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        let headers =
            [("authorization", &*format!("Bearer {}", tokens[0])), ("accept", "application/json, text/event-stream")];
        server.send("POST", "/mcp", &headers, Some(call)).body["result"].clone()
    };
    let own = call("add_memory", json!({ "text": "a fact", "user_id": "ada" }));
    assert_eq!(own["structuredContent"]["namespace"], "acme/users/ada", "{own}");
    for (name, arguments) in [
        ("search_memories", json!({ "query": "a fact" })),
        ("get_document", json!({ "key": "d" })),
        ("get_documents", json!({})),
        ("search_documents", json!({ "query": "a fact" })),
        ("remember_document", json!({ "key": "d", "value": 1 })),
    ] {
        let mut arguments = arguments;
        arguments["namespace"] = json!("other");
        let foreign = call(name, arguments);
        assert_eq!(
            (&foreign["isError"], &foreign["content"][0]["text"]),
            (&json!(true), &json!("there is no such namespace")),
            "{name}"
        );
    }
    let forbidden = call("forget", json!({ "by": "namespace", "user_id": "ada" }));
    assert_eq!(forbidden["isError"], true);
}

#[test]
fn pages_of_other_sites_are_refused() {
    let db = Db::new();
    let server = Server::with(&db, &["--host", "memory.example"]);
    let status = |headers: &[(&str, &str)]| server.send("GET", "/v1/namespaces", headers, None).status;
    let own = server.address.to_string();
    assert_eq!(status(&[("host", "localhost:80")]), 200);
    assert_eq!(status(&[("host", "memory.example")]), 200);
    assert_eq!(status(&[("host", "attacker.example")]), 403, "DNS rebinding");
    assert_eq!(status(&[("host", "localhost.attacker.example")]), 403);
    assert_eq!(status(&[("host", "")]), 403);
    assert_eq!(status(&[("host", &own), ("origin", &format!("http://{own}"))]), 200);
    assert_eq!(status(&[("host", &own), ("origin", "https://attacker.example")]), 403);
    assert_eq!(status(&[("host", &own), ("origin", "null")]), 403);
    // Whoever passes requests on may have looked at another one of two.
    for headers in [
        &[("host", own.as_str()), ("host", "attacker.example")][..],
        &[("host", "attacker.example"), ("host", own.as_str())],
        &[("host", own.as_str()), ("host", own.as_str())],
        &[("host", own.as_str()), ("authorization", "Bearer a"), ("authorization", "Bearer b")],
        &[("host", own.as_str()), ("idempotency-key", "a"), ("idempotency-key", "b")],
    ] {
        server.send("GET", "/v1/namespaces", headers, None).assert_problem(400, "twice");
    }
    let twice = [("host", own.as_str()), ("origin", &*format!("http://{own}")), ("origin", "https://attacker.example")];
    server.send("GET", "/v1/namespaces", &twice, None).assert_problem(400, "origin");
    let answer = server.send("OPTIONS", "/v1/namespaces", &[("origin", &format!("http://{own}"))], None);
    assert!(!answer.head.contains("access-control-allow"), "{}", answer.head);
    assert!(answer.head.contains("x-content-type-options: nosniff"), "{}", answer.head);
}

#[test]
fn too_many_requests_are_told_to_wait() {
    let db = Db::new();
    let (tokens, file) = tokens(db.folder.path(), &[&["--rate", "5"]]);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    let answers: Vec<Answer> =
        (0..20).map(|_| with_token(&server, &tokens[0], "GET", "/v1/namespaces", None)).collect();
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(answers[0].status == 200 && !refused.is_empty());
    assert!(refused.iter().all(|answer| answer.head.contains("retry-after: ")));
}

#[test]
fn an_open_address_needs_tokens() {
    let db = Db::new();
    let runtime = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], part: &str| {
        let mut command = command(runtime.path());
        let output =
            command.arg("serve").arg("--db").arg(&db.path).args(arguments).stdout(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(part), "{text}");
    };
    refused(&["--listen", "0.0.0.0:0"], "not a loopback address");
    refused(&["--tokens", "missing.toml"], "missing.toml");
    let bad = db.folder.path().join("bad.toml");
    std::fs::write(&bad, "[[token]]\nname = \"x\"\nsha256 = \"12\"\nrights = [\"read\"]\n").unwrap();
    refused(&["--tokens", bad.to_str().unwrap()], "64 hexadecimal digits");
    std::fs::write(&bad, "").unwrap();
    refused(&["--tokens", bad.to_str().unwrap()], "mnemon token");
}
