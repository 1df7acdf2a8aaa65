//! A field that a route or a tool does not know is refused: it could narrow what a request destroys. Each route of the
//! description and each tool has its row, and a new one without fails.

use serde_json::{Value, json};

use super::{Answer, Server, mcp::Client};
use crate::support::Db;

/// The name of the unknown field.
const UNKNOWN: &str = "dry_run";

/// Starts a server whose namespace `a` has a message `m1` in the session `s`, a message `m2` in another, and a document `d`.
pub(super) fn filled(db: &Db) -> Server {
    let server = Server::start(db);
    let message = |id: &str, session: &str| json!({ "role": "user", "content": "hello", "id": id, "session": session });
    let put = json!({ "messages": [message("m1", "s"), message("m2", "t")], "flush": true });
    assert_eq!(server.post("/v1/namespaces/a/messages", put).status, 200);
    let put = server.send("PUT", "/v1/namespaces/a/documents/d", &[], Some(json!({ "value": "a document" })));
    assert_eq!(put.status, 204);
    server
}

fn assert_nothing_changed(server: &Server, after: &str) {
    let stats = server.get("/v1/stats").body;
    assert_eq!((&stats["messages"], &stats["documents"]), (&json!(2), &json!(1)), "after {after}");
}

/// A body of an operation of the description, which it accepts.
pub(super) fn body(operation: &str) -> Value {
    match operation {
        "post_namespaces_namespace_messages" => json!({ "messages": [{ "role": "user", "content": "x", "id": "m1" }] }),
        "patch_namespaces_namespace_messages_id" => json!({ "metadata": {} }),
        "post_namespaces_namespace_sessions_session_messages" => {
            json!({ "messages": [{ "role": "user", "content": "x", "id": "m1" }] })
        }
        "post_namespaces_namespace_sessions_session_assemble" => {
            json!({ "prompt": { "role": "user", "content": "x" } })
        }
        "post_namespaces_namespace_sessions_session_retry" => json!({ "block": "facts" }),
        "post_namespaces_namespace_sessions_session_refine" => json!({ "block": "rules", "version": 0 }),
        "post_namespaces_namespace_updates_undo" => json!({ "id": "u" }),
        "post_formation_retry" => json!({ "prefix": "a" }),
        "post_namespaces_namespace_recall" => json!({ "query": "x", "filter": { "a": { "$eq": 1 } } }),
        "post_recall" => json!({ "query": "x", "under": ["a"] }),
        "put_namespaces_namespace_documents_key" => json!({ "value": 1 }),
        "post_batch" => json!({ "operations": [{ "op": "get", "namespace": "a", "key": "d" }] }),
        "post_namespaces_namespace_documents_search" => json!({ "filter": { "a": { "$eq": 1 } } }),
        "post_namespaces_namespace_forget" => json!({ "by": "messages", "ids": ["m1"] }),
        "post_namespaces_namespace_memory_tool" => json!({ "command": "view", "path": "/memories" }),
        "put_namespaces_namespace_ttl" => json!({ "ttl_minutes": 60 }),
        // A line of a file: what is in one is its own format's.
        "post_import" => json!({ "role": "user", "content": "hello", "id": "m1", "session": "s", "namespace": "a" }),
        "post_namespaces_namespace_import" => {
            json!({ "role": "user", "content": "hello", "id": "m1", "session": "s" })
        }
        "post_backup" => json!({ "path": "copy.redb" }),
        "post_reindex" => json!({ "precision": "f16" }),
        _ => panic!("{operation} has a body: give it a row"),
    }
}

/// Returns a value once for each object in it, itself included, with an unknown field in that object. Objects of free keys are left out.
fn with_unknown(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(fields) => {
            let mut own = value.clone();
            own[UNKNOWN] = json!(true);
            all.push(own);
            for (name, inner) in fields.iter().filter(|(name, _)| !["metadata", "value"].contains(&name.as_str())) {
                all.extend(with_unknown(inner).into_iter().map(|inner| {
                    let mut outer = value.clone();
                    // A field of a filter is a condition; an operator is what it cannot have.
                    outer[name] = match name == "filter" {
                        true => json!({ "a": { "$eq": 1, UNKNOWN: true } }),
                        false => inner,
                    };
                    outer
                }));
            }
        }
        Value::Array(items) => {
            let first = items.first().map(with_unknown).unwrap_or_default();
            all.extend(first.into_iter().map(|item| json!([item])));
        }
        _ => {}
    }
    all
}

#[track_caller]
fn assert_refused(answer: &Answer, request: &str) {
    assert!((400..423).contains(&answer.status), "{request}: {} {}", answer.status, answer.body);
    let detail = answer.body["detail"].as_str().unwrap_or_default();
    assert!(
        detail.contains(UNKNOWN) || detail.contains("unknown") || detail.contains("operators"),
        "{request}: {}",
        answer.body
    );
}

#[test]
fn routes_refuse_unknown_fields() {
    let db = Db::new();
    let server = filled(&db);
    let document = server.get("/v1/openapi.json").body;
    let mut sent = 0;
    for (template, operations) in document["paths"].as_object().unwrap() {
        // Probes are asked by programs that add parameters of their own, and read nothing that a parameter could narrow.
        if ["/health", "/ready", "/metrics"].contains(&template.as_str()) {
            continue;
        }
        let path = [("{namespace}", "a"), ("{session}", "s"), ("{id}", "m1"), ("{key}", "d")];
        let path = path.iter().fold(template.clone(), |path, (name, value)| path.replace(name, value));
        for (method, operation) in operations.as_object().unwrap() {
            let (method, id) = (method.to_uppercase(), operation["operationId"].as_str().unwrap());
            let is_bodied = operation["requestBody"].is_object();
            let required = if path.ends_with("/messages") && method == "DELETE" { "ids=m1&" } else { "" };
            let query = format!("{path}?{required}{UNKNOWN}=true");
            assert_refused(
                &server.send(&method, &query, &[], is_bodied.then(|| body(id))),
                &format!("{method} {query}"),
            );
            let is_file = operation["requestBody"]["content"]["application/json"].is_null();
            let bodies = match is_bodied {
                true if is_file => Vec::new(),
                true => with_unknown(&body(id)),
                false => vec![json!({ UNKNOWN: true })],
            };
            let path = if required.is_empty() { path.clone() } else { format!("{path}?ids=m1") };
            for body in bodies {
                let answer = server.send(&method, &path, &[], Some(body.clone()));
                assert_refused(&answer, &format!("{method} {path} {body}"));
                sent += 1;
            }
            assert_nothing_changed(&server, id);
        }
    }
    assert!(sent > 30, "{sent}");
    for what in [
        json!({ "by": "namespace", "ids": ["m1"] }),
        json!({ "by": "prefix", "session": "s" }),
        json!({ "by": "session", "session": "s", "ids": ["m1"] }),
        json!({ "by": "documents", "keys": ["d"], "ids": ["m1"] }),
        json!({ "by": "matching", "filter": {}, "session": "s" }),
    ] {
        assert_refused(&server.post("/v1/namespaces/a/forget", what.clone()), &what.to_string());
        assert_nothing_changed(&server, &what.to_string());
    }
    // The same without the field are obeyed.
    assert_eq!(server.post("/v1/namespaces/a/forget", json!({ "by": "namespace" })).status, 200);
    assert_eq!(server.get("/v1/stats").body["messages"], 0);
}

#[test]
fn tools_refuse_unknown_arguments() {
    let db = Db::new();
    let server = filled(&db);
    let client = Client { server: &server };
    let refused = |name: &str, arguments: Value| {
        let result = client.request("tools/call", json!({ "name": name, "arguments": arguments }))["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(
            result["isError"] == true && ["unknown", "operators"].iter().any(|part| text.contains(part)),
            "{name} {arguments}: {result}"
        );
        assert_nothing_changed(&server, name);
    };
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    for tool in tools.as_array().unwrap() {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
        assert_eq!(schema["additionalProperties"], false, "{tool}");
        with_unknown(&schema["examples"][0]).into_iter().for_each(|arguments| refused(name, arguments));
    }
    let turn = json!({ "role": "user", "content": "x", UNKNOWN: true });
    refused("add_memory", json!({ "messages": [turn], "namespace": "a" }));
    refused("search_memories", json!({ "query": "x", "filter": { "a": { "$eq": 1, UNKNOWN: 1 } }, "namespace": "a" }));
    // `forget` takes the argument that `by` names, and no other.
    for (arguments, part) in [
        (json!({ "by": "namespace", "ids": ["m1"] }), "leave out `ids`"),
        (json!({ "by": "prefix", "keys": ["d"] }), "leave out `keys`"),
        (json!({ "by": "namespace", "filter": {} }), "leave out `filter`"),
        (json!({ "by": "session", "session": "s", "ids": ["m1"] }), "leave out `ids`"),
        (json!({ "by": "documents", "keys": ["d"], "session": "s" }), "leave out `session`"),
        (json!({ "by": "matching", "filter": {}, "session": "s" }), "leave out `session`"),
        (json!({ "by": "messages" }), "give `ids`"),
        (json!({ "by": "documents", "keys": null }), "give `keys`"),
        (json!({ "by": "session" }), "give `session`"),
        (json!({ "by": "matching" }), "give `filter`"),
        (json!({ "by": "messages", "ids": "m1" }), "invalid type"),
        (json!({ "by": "all" }), "unknown variant"),
        (json!({ "ids": ["m1"] }), "missing field `by`"),
        (json!({ "by": "messages", "what": { "ids": ["m1"] } }), "`what`"),
    ] {
        let mut arguments = arguments;
        arguments["namespace"] = json!("a");
        let call = json!({ "name": "forget", "arguments": arguments });
        let result = client.request("tools/call", call)["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        assert!(result["isError"] == true && text.contains(part), "{arguments}: {result}");
        assert_nothing_changed(&server, part);
    }
    // Nobody is named, and a whole namespace would go.
    for by in ["namespace", "prefix"] {
        let call = json!({ "name": "forget", "arguments": { "by": by } });
        let result = client.request("tools/call", call)["result"].clone();
        assert!(result["content"][0]["text"].as_str().unwrap().contains("whose memories to forget"), "{result}");
    }
    for (prompt, arguments) in [
        ("answer_with_memory", json!({ "question": "x", UNKNOWN: "x" })),
        ("remember_conversation", json!({ UNKNOWN: "x" })),
    ] {
        let answer = client.request("prompts/get", json!({ "name": prompt, "arguments": arguments }));
        assert!(answer["error"]["message"].as_str().unwrap().contains(UNKNOWN), "{answer}");
    }
}

/// `namespace`, `run_id` and the other ids of a call say which memories it may destroy, whatever else it says.
#[test]
fn tools_destroy_only_what_all_ids_name() {
    let db = Db::new();
    let server = Server::start(&db);
    let client = Client { server: &server };
    let call = |name: &str, arguments: Value| {
        client.request("tools/call", json!({ "name": name, "arguments": arguments }))["result"].clone()
    };
    let add = |more: Value| {
        let mut arguments = json!({ "text": "Ada likes tea.", "user_id": "ada", "metadata": { "topic": "tea" } });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call("add_memory", arguments)["structuredContent"]["ids"][0].as_str().unwrap().to_owned()
    };
    let (monday, tuesday) = (add(json!({ "run_id": "monday" })), add(json!({ "run_id": "tuesday" })));
    let guided = add(json!({ "run_id": "tuesday", "agent_id": "guide" }));
    call("remember_document", json!({ "key": "profile", "value": 1, "user_id": "ada" }));
    let left = || -> Vec<String> {
        let memories = call("get_memories", json!({ "user_id": "ada" }))["structuredContent"]["memories"].clone();
        memories.as_array().unwrap().iter().map(|memory| memory["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = left();
    assert_eq!(all.len(), 3);
    let of_run = json!({ "user_id": "ada", "run_id": "monday" });
    let of_agent = json!({ "user_id": "ada", "agent_id": "guide" });
    let with = |ids: &Value, name: &str, value: Value| {
        let mut arguments = ids.clone();
        arguments[name] = value;
        arguments
    };
    let joined = |ids: &Value, what: &Value| {
        let mut arguments = ids.clone();
        arguments.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        arguments
    };
    for ids in [&of_run, &of_agent, &json!({ "namespace": "users/ada", "user_id": "ada" })] {
        for what in
            [json!({ "by": "namespace" }), json!({ "by": "prefix" }), json!({ "by": "documents", "keys": ["profile"] })]
        {
            let refused = call("forget", joined(ids, &what));
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(refused["isError"] == true && text.contains("part of one"), "{what} {ids}: {refused}");
        }
        let mut document = with(ids, "key", json!("profile"));
        assert_eq!(call("get_document", document.clone())["isError"], true, "{ids}");
        document["value"] = json!(2);
        assert_eq!(call("remember_document", document)["isError"], true, "{ids}");
    }
    for (ids, what) in [
        (&of_run, json!({ "by": "session", "session": "tuesday" })),
        (&of_agent, json!({ "by": "session", "session": "tuesday" })),
        (&of_run, json!({ "by": "messages", "ids": [monday, tuesday] })),
        (&of_agent, json!({ "by": "messages", "ids": [tuesday] })),
    ] {
        assert_eq!(call("forget", joined(ids, &what))["isError"], true, "{what} {ids}");
    }
    for (tool, more) in [("delete_memory", json!({})), ("update_memory", json!({ "text": "changed" }))] {
        for ids in [&of_run, &of_agent] {
            let mut arguments = with(ids, "memory_id", json!(tuesday));
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(call(tool, arguments)["isError"], true, "{tool} {ids}");
        }
    }
    assert_eq!(left(), all, "nothing was forgotten by a refused call");

    let matching = json!({ "by": "matching", "filter": { "topic": "tea" } });
    let forgotten = |ids: &Value, what: &Value| {
        let receipt = call("forget", joined(ids, what));
        receipt["structuredContent"]["receipt"]["event"]["forgotten"]["messages"].clone()
    };
    assert_eq!(forgotten(&of_run, &matching), 1, "of the run alone");
    assert_eq!(left(), [tuesday.clone(), guided]);
    assert_eq!(forgotten(&of_agent, &matching), 1, "of the agent alone");
    assert_eq!(left(), [tuesday.as_str()]);
    let run = json!({ "user_id": "ada", "run_id": "tuesday" });
    assert_eq!(forgotten(&run, &json!({ "by": "messages", "ids": [tuesday] })), 1);
    assert_eq!(left(), [""; 0]);
    // An id alone names a whole namespace.
    add(json!({}));
    assert_eq!(forgotten(&json!({ "user_id": "ada" }), &json!({ "by": "namespace" })), 1);
}

/// mem0's client sends options of its platform, which are accepted by name; others are refused.
#[test]
fn mem0s_routes_refuse_unknown_fields() {
    let db = Db::new();
    let server = Server::start(&db);
    let add = |body: Value| server.post("/v3/memories/add/", body);
    let added = add(json!({ "messages": "hello", "user_id": "ada", "infer": false, "custom_instructions": "x" }));
    assert_eq!(added.status, 200, "{}", added.body);
    let id = added.body["results"][0]["id"].as_str().unwrap().to_owned();
    let (one, history) = (format!("/v1/memories/{id}/"), format!("/v1/memories/{id}/history/"));
    let filters = json!({ "user_id": "ada" });
    let routes: &[(&str, &str, Option<Value>)] = &[
        ("GET", "/v1/ping/", None),
        ("POST", "/v3/memories/add/", Some(json!({ "messages": "hello", "user_id": "ada" }))),
        ("POST", "/v3/memories/search/", Some(json!({ "query": "hello", "filters": filters, "rerank": true }))),
        ("POST", "/v3/memories/", Some(json!({ "filters": filters, "show_expired": true }))),
        ("GET", &one, None),
        ("GET", &history, None),
        ("PUT", &one, Some(json!({ "text": "changed" }))),
        ("PUT", "/v1/batch/", Some(json!({ "memories": [{ "memory_id": id, "text": "changed" }] }))),
        ("GET", "/v1/entities/", None),
        ("DELETE", "/v1/batch/", Some(json!({ "memories": [{ "memory_id": id }] }))),
        ("DELETE", "/v1/memories/?user_id=ada", None),
        ("DELETE", "/v1/entities/user/ada/", None),
        ("DELETE", "/v2/entities/user/ada/", None),
        ("DELETE", &one, None),
    ];
    for (method, path, body) in routes {
        let mark = if path.contains('?') { '&' } else { '?' };
        let query = format!("{path}{mark}{UNKNOWN}=true");
        let answer = server.send(method, &query, &[], body.clone());
        assert_eq!(answer.status, 400, "{method} {query}: {}", answer.body);
        for body in body.as_ref().map_or_else(|| vec![json!({ UNKNOWN: true })], with_unknown) {
            let answer = server.send(method, path, &[], Some(body.clone()));
            assert!([400, 422].contains(&answer.status), "{method} {path} {body}: {} {}", answer.status, answer.body);
        }
        assert_eq!(server.get(&one).body["memory"], "hello", "after {method} {path}");
    }
    // The account that mem0's client may name is the token's.
    for (method, path, body) in routes {
        let mark = if path.contains('?') { '&' } else { '?' };
        let answer = server.send(method, &format!("{path}{mark}org_id=o&project_id=p"), &[], body.clone());
        assert!([200, 404].contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.body);
    }
}

/// Deleting what is not there is told from deleting.
#[test]
fn mem0_says_that_nothing_was_deleted() {
    let db = Db::new();
    let server = Server::start(&db);
    let add = |body: Value| {
        let added = server.post("/v3/memories/add/", body);
        added.body["results"][0]["id"].as_str().unwrap_or_else(|| panic!("{}", added.body)).to_owned()
    };
    let id = add(json!({ "messages": "hello", "user_id": "ada", "run_id": "r", "metadata": { "a": 1 } }));
    let delete = |path: &str| server.send("DELETE", path, &[], None);
    let missing = |path: &str| {
        let answer = delete(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.body.to_string().contains("success"), "{path}: {}", answer.body);
    };
    missing("/v1/memories/?user_id=nobody");
    missing("/v1/memories/?user_id=ada&run_id=other");
    missing("/v1/memories/?user_id=ada&agent_id=nobody");
    missing("/v1/memories/?agent_id=*");
    missing("/v2/entities/user/nobody/");
    missing("/v1/memories/unknown/");
    assert_eq!(server.get(&format!("/v1/memories/{id}/")).status, 200);
    let done = delete("/v1/memories/?user_id=ada&run_id=r");
    assert_eq!((done.status, &done.body["message"]), (200, &json!("Memories deleted successfully!")));
    missing("/v1/memories/?user_id=ada&run_id=r");
    missing(&format!("/v1/memories/{id}/"));
    let batch = json!({ "memories": [{ "memory_id": id }] });
    assert_eq!(server.send("DELETE", "/v1/batch/", &[], Some(batch)).status, 404);
    let batch = json!({ "memories": [{ "memory_id": id, "text": "x" }] });
    assert_eq!(server.send("PUT", "/v1/batch/", &[], Some(batch)).status, 404);
    assert_eq!(server.send("PUT", &format!("/v1/memories/{id}/"), &[], Some(json!({ "text": "x" }))).status, 404);
    add(json!({ "messages": "hello", "user_id": "ada" }));
    assert_eq!(delete("/v1/memories/?user_id=ada").status, 200);
    missing("/v1/memories/?user_id=ada");
}
