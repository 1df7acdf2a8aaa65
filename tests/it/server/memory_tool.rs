//! Claude's memory tool over HTTP and MCP. The commands themselves are tested in `memory_tool`.

use serde_json::{Value, json};

use super::{Server, mcp::Client, tokens};
use crate::support::Db;

const ROUTE: &str = "/v1/namespaces/users%2Fada/memory_tool";

fn create(path: &str, text: &str) -> Value {
    json!({ "command": "create", "path": path, "file_text": text })
}

#[test]
fn a_session_over_http_and_mcp_has_the_same_files() {
    let db = Db::new();
    let server = Server::start(&db);
    let post = |input: Value| {
        let answer = server.post(ROUTE, input.clone());
        assert_eq!(answer.status, 200, "{input}: {}", answer.body);
        (answer.body["content"].as_str().unwrap().to_owned(), answer.body["is_error"].as_bool().unwrap())
    };
    let client = Client { server: &server };
    let call = |mut input: Value| {
        input["user_id"] = json!("ada");
        let result = client.request("tools/call", json!({ "name": "memory", "arguments": input }))["result"].clone();
        let content = result["content"][0]["text"].as_str().unwrap().to_owned();
        let is_error = result["isError"] == true;
        assert!(is_error || result["structuredContent"] == json!({ "content": content }), "{result}");
        (content, is_error)
    };
    assert_eq!(
        post(create("/memories/a/b.txt", "<one>\n")),
        ("File created successfully at: /memories/a/b.txt".to_owned(), false)
    );
    let view = json!({ "command": "view", "path": "/memories/a/b.txt" });
    let shown = "Here's the content of /memories/a/b.txt with line numbers:\n     1\t<one>\n     2\t";
    let exists = "Error: File /memories/a/b.txt already exists";
    for ask in [&post as &dyn Fn(Value) -> (String, bool), &call] {
        assert_eq!(ask(view.clone()), (shown.to_owned(), false));
        assert_eq!(ask(create("/memories/a/b.txt", "")), (exists.to_owned(), true));
        assert!(ask(json!({ "command": "rename", "old_path": "/memories/a" })).1);
    }
    let moved = call(json!({ "command": "rename", "old_path": "/memories/a", "new_path": "/memories/c" }));
    assert_eq!(moved.0, "Successfully renamed /memories/a to /memories/c");
    assert!(
        post(json!({ "command": "view", "path": "/memories" }))
            .0
            .ends_with("\n6B\t/memories/c/\n6B\t/memories/c/b.txt")
    );

    for (body, field) in [
        (json!({ "command": "read", "path": "/memories" }), "read"),
        (json!({ "command": "view", "path": 5 }), "path"),
        (json!({ "command": "view", "path": "/memories", "paths": 1 }), "paths"),
        (json!({ "command": "view", "path": "/memories", "view_range": "1-2" }), "view_range"),
        (json!({ "path": "/memories" }), "command"),
    ] {
        let answer = server.post(ROUTE, body.clone());
        assert_eq!(answer.status, 422, "{body}: {}", answer.body);
        assert!(answer.body["detail"].as_str().unwrap().contains(field), "{}", answer.body);
        assert!(call(body).1);
    }
    assert!(
        call(json!({ "command": "view", "path": "/memories", "run_id": "monday" }))
            .0
            .contains("a file is of a whole namespace")
    );

    // The same key gets the answer of the first time, not that the file exists.
    let again = || server.send("POST", ROUTE, &[("idempotency-key", "k")], Some(create("/memories/once", "x"))).body;
    assert_eq!((again()["is_error"].clone(), again()["is_error"].clone()), (json!(false), json!(false)));
}

#[test]
fn files_are_found_by_the_searches_of_a_model() {
    let db = Db::new();
    let server = Server::start(&db);
    server.put("users/ada", &["I met Tom on Monday."]);
    server.post(ROUTE, create("/memories/food.md", "Ada is allergic to peanuts."));
    let document = json!({ "value": { "name": "Ada" } });
    server.send("PUT", "/v1/namespaces/users%2Fada/documents/profile", &[], Some(document));
    let client = Client { server: &server };
    let call = |name: &str, arguments: Value| {
        client.request("tools/call", json!({ "name": name, "arguments": arguments }))["result"]["structuredContent"]
            .clone()
    };
    let question = "Is Ada allergic to peanuts?";
    let found = call("search_memories", json!({ "query": question, "user_id": "ada" }));
    let [profile, file] = &found["documents"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&profile["key"], &profile["namespace"]), (&json!("profile"), &json!(null)), "{found}");
    assert_eq!((&file["key"], &file["namespace"]), (&json!("food.md"), &json!("users/ada/memories")), "{found}");
    let read = call("get_document", json!({ "key": file["key"], "namespace": file["namespace"] }));
    assert_eq!(read["documents"][0]["value"]["text"], "Ada is allergic to peanuts.", "{read}");
    let context = call("assemble_context", json!({ "prompt": question, "user_id": "ada" }));
    assert_eq!(context["documents"], json!(["profile", "food.md"]));
    assert!(context["context"].as_str().unwrap().contains("allergic to peanuts"), "{context}");
    let one = call("search_memories", json!({ "query": question, "user_id": "ada", "documents": 1 }));
    assert_eq!(one["documents"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!(call("search_memories", json!({ "query": "peanuts", "user_id": "bob" }))["documents"], json!(null));
    let search = |below: bool| {
        let body = json!({ "query": "peanuts", "below": below });
        server.post("/v1/namespaces/users%2Fada/documents/search", body).body["documents"].clone()
    };
    assert_eq!(search(true)[0]["key"], "food.md");

    let forget = json!({ "by": "prefix" });
    assert_eq!(server.post("/v1/namespaces/users%2Fada/forget", forget).status, 200);
    let view = server.post(ROUTE, json!({ "command": "view", "path": "/memories" })).body;
    assert!(view["content"].as_str().unwrap().ends_with("0B\t/memories"), "{view}");
    assert_eq!(search(true), json!([]));
}

#[test]
fn each_command_needs_its_right() {
    let db = Db::new();
    let rights = ["read", "read,write", "read,write,forget", "write,forget"];
    let options = rights.map(|rights| ["--prefix", "users", "--rights", rights]);
    let options: Vec<&[&str]> = options.iter().map(|options| &options[..]).collect();
    let (tokens, file) = tokens(db.folder.path(), &options);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    let ask = |token: usize, path: &str, body: Value| {
        let token = format!("Bearer {}", tokens[token]);
        server.send(
            "POST",
            path,
            &[("authorization", &token), ("accept", "application/json, text/event-stream")],
            Some(body),
        )
    };
    let edit = json!({ "command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "x" });
    let insert = json!({ "command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "y" });
    for (input, needed) in [
        (create("/memories/a", "x"), 1),
        (json!({ "command": "view", "path": "/memories/a" }), 0),
        (edit, 1),
        (insert, 1),
        (json!({ "command": "rename", "old_path": "/memories/a", "new_path": "/memories/b" }), 1),
        (json!({ "command": "delete", "path": "/memories/b" }), 2),
    ] {
        for token in 0..needed {
            assert_eq!(ask(token, ROUTE, input.clone()).status, 403, "{input}");
            let mut arguments = input.clone();
            arguments["namespace"] = json!("users/ada");
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "memory", "arguments": arguments } });
            let result = ask(token, "/mcp", call).body["result"].clone();
            assert!(result["content"][0]["text"].as_str().unwrap().contains("no right to"), "{result}");
        }
        assert_eq!(ask(3, ROUTE, input.clone()).status, 403, "no command without the right to read");
        let answer = ask(needed, ROUTE, input.clone());
        assert_eq!((answer.status, &answer.body["is_error"]), (200, &json!(false)), "{input}: {}", answer.body);
    }
    let other = "/v1/namespaces/other/memory_tool";
    assert_eq!(ask(2, other, json!({ "command": "view", "path": "/memories" })).status, 404);
}
