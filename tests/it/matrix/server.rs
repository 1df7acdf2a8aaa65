//! The server's routes: `/v1`, MCP's tools, and those of mem0.

use std::path::Path;

use mnemon::Namespace;
use serde_json::{Value, json};

use super::{
    Database, Kind, Surface,
    operations::{Answer, LESSON, Operation, Refusal},
};
use crate::server::{Answer as Reply, Server};

/// The routes of `/v1` that an action asks.
pub(super) fn routes(action: &str) -> &'static [&'static str] {
    match action {
        "get" => &["GET /v1/namespaces/{namespace}/messages/{id}"],
        "history" => &["GET /v1/namespaces/{namespace}/sessions/{session}/messages"],
        "sessions" => &["GET /v1/namespaces/{namespace}/sessions"],
        "namespaces" => &["GET /v1/namespaces"],
        "recall" => &["POST /v1/namespaces/{namespace}/recall"],
        "recall_several" => &["POST /v1/recall"],
        "assemble" => &["POST /v1/namespaces/{namespace}/sessions/{session}/assemble"],
        "document_get" => &["GET /v1/namespaces/{namespace}/documents/{key}"],
        "document_search" => &["POST /v1/namespaces/{namespace}/documents/search", "POST /v1/batch"],
        "document_put" => &["PUT /v1/namespaces/{namespace}/documents/{key}"],
        "document_delete" => &["DELETE /v1/namespaces/{namespace}/documents/{key}"],
        "blocks" => &["GET /v1/namespaces/{namespace}/blocks", "GET /v1/namespaces/{namespace}/formation"],
        "journal" => &["GET /v1/namespaces/{namespace}/messages/{id}/why"],
        "audit" => &["GET /v1/audit"],
        "stats" => &["GET /v1/stats", "GET /health", "GET /ready", "GET /metrics"],
        "index_stats" => &["GET /v1/namespaces/{namespace}", "GET /v1/namespaces/{namespace}/map"],
        "put" => &["POST /v1/namespaces/{namespace}/messages"],
        "import_files" => &["POST /v1/namespaces/{namespace}/import"],
        "put_session" => &["POST /v1/namespaces/{namespace}/sessions/{session}/messages"],
        "set_metadata" => &["PATCH /v1/namespaces/{namespace}/messages/{id}"],
        "delete" => &["DELETE /v1/namespaces/{namespace}/messages/{id}", "DELETE /v1/namespaces/{namespace}/messages"],
        "delete_session" => &["DELETE /v1/namespaces/{namespace}/sessions/{session}"],
        "delete_namespace" | "delete_prefix" => &["DELETE /v1/namespaces/{namespace}"],
        "forget" => &["POST /v1/namespaces/{namespace}/forget"],
        "set_ttl" => &["PUT /v1/namespaces/{namespace}/ttl"],
        "flush_session" => &["POST /v1/namespaces/{namespace}/sessions/{session}/flush"],
        "flush" => &["POST /v1/flush"],
        "link" => &["POST /v1/link"],
        "backup" => &["POST /v1/backup"],
        "reindex" => &["POST /v1/reindex"],
        _ => &[],
    }
}

/// The tools of MCP that an action calls.
pub(super) fn tools(action: &str) -> &'static [&'static str] {
    match action {
        "get" => &["get_memory"],
        "history" => &["get_memories"],
        "namespaces" => &["list_entities"],
        "recall" => &["search_memories"],
        "assemble" => &["assemble_context"],
        "journal" => &["why"],
        "put" => &["add_memory"],
        "update_text" | "set_metadata" => &["update_memory"],
        "delete" => &["delete_memory"],
        "delete_session" | "delete_namespace" => &["delete_all_memories"],
        "forget" => &["forget"],
        "document_get" => &["get_document"],
        "document_search" => &["search_documents", "get_documents"],
        "document_put" => &["remember_document"],
        _ => &[],
    }
}

/// The methods of mem0's client whose routes an action asks.
pub(super) fn methods(action: &str) -> &'static [&'static str] {
    match action {
        "get" => &["get", "history"],
        "history" => &["get_all"],
        "namespaces" => &["users"],
        "recall" => &["search"],
        "put" => &["add"],
        "update_text" => &["update", "batch_update"],
        "delete" => &["delete", "batch_delete"],
        "delete_session" => &["delete_all"],
        "delete_namespace" => &["delete_users", "reset"],
        _ => &[],
    }
}

pub(super) fn has(surface: Surface, operation: &Operation) -> bool {
    // Where the server names new messages, none is put under a known id.
    let replaces = operation.action == "put" && operation.text("id") == "m1";
    match surface {
        Surface::Http => !routes(operation.action).is_empty(),
        Surface::Mcp => !tools(operation.action).is_empty() && !replaces,
        _ => !methods(operation.action).is_empty() && !replaces,
    }
}

/// Starts a server on a database.
pub(super) fn start(database: &Database, spaces: &[(Namespace, &Operation)]) -> Server {
    let mut arguments: Vec<String> = Vec::new();
    if let Some(file) = database.key_file() {
        arguments.extend(["--key-file".to_owned(), file.to_str().unwrap().to_owned()]);
    }
    if let Some((_, address)) = &database.postgres {
        arguments.extend(["--shared".to_owned(), address.clone()]);
        let freshness = if database.kind == Kind::Replica { "latest" } else { "local" };
        arguments.extend(["--freshness".to_owned(), freshness.to_owned()]);
        // The copy has only what it was asked for.
        let engine = database.builder().open().unwrap();
        for (space, _) in spaces {
            let query = mnemon::Query::new("rowing").freshness(mnemon::Freshness::Latest);
            engine.blocking().recall(space, query).unwrap();
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Server::with(&database.db, &arguments)
}

pub(super) fn run(
    server: &Server,
    surface: Surface,
    space: &Namespace,
    operation: &Operation,
    folder: &Path,
) -> Answer {
    match surface {
        Surface::Http => v1(server, space, operation, folder),
        Surface::Mcp => mcp(server, space, operation),
        _ => mem0(server, space, operation),
    }
}

/// The body of an answer, or why it was refused.
fn body(reply: Reply) -> Answer {
    let kind = reply.body["type"].as_str().unwrap_or_default().trim_start_matches("urn:mnemon:").to_owned();
    match (reply.status, kind.as_str()) {
        (200..300, _) => Ok(reply.body),
        (404, _) => Err(Refusal::NotFound),
        (_, "legal-hold") => Err(Refusal::LegalHold),
        (_, "session-exists" | "file-exists" | "reindex-running") => Err(Refusal::Exists),
        (503, "shared-database-unavailable") | (504, "timeout") => Err(Refusal::Unavailable),
        (_, "outcome-unknown") => Err(Refusal::OutcomeUnknown),
        (status, _) => Err(Refusal::Other(format!("{status}: {}", reply.body))),
    }
}

fn texts(messages: &Value, field: &str) -> Value {
    messages.as_array().unwrap().iter().map(|message| message[field].clone()).collect()
}

fn v1(server: &Server, space: &Namespace, operation: &Operation, folder: &Path) -> Answer {
    let path = |rest: &str| format!("/v1/namespaces/{}{rest}", space.as_str().replace('/', "%2F"));
    let get = |path: String| body(server.get(&path));
    let send = |method: &str, path: String, content: Option<Value>| body(server.send(method, &path, &[], content));
    let (text, argument) = (operation.text(""), &operation.argument);
    let message = |argument: &Value| json!({ "messages": [argument] });
    Ok(match operation.action {
        "get" => get(path(&format!("/messages/{text}")))?["content"].clone(),
        "history" => texts(&get(path(&format!("/sessions/{text}/messages")))?["messages"], "content"),
        "sessions" => texts(&get(path("/sessions"))?["sessions"], "session"),
        "namespaces" => {
            let found = get(format!("/v1/namespaces?prefix={}", space.as_str().replace('/', "%2F")))?;
            found["namespaces"][0].get("messages").cloned().unwrap_or(json!(0))
        }
        "recall" => {
            let hits = send("POST", path("/recall"), Some(json!({ "query": text, "k": 1 })))?;
            hits["hits"][0]["content"].clone()
        }
        "recall_several" => {
            let query = json!({ "query": text, "k": 1, "under": [space.as_str()], "namespaces": ["nobody/here"] });
            send("POST", "/v1/recall".into(), Some(query))?["hits"][0]["content"].clone()
        }
        "assemble" => {
            let session = format!("/sessions/{}/assemble", operation.text("session"));
            let prompt = send("POST", path(&session), Some(json!({ "prompt": operation.text("prompt") })))?;
            json!(prompt["messages"].to_string().contains(LESSON))
        }
        "document_get" => get(path(&format!("/documents/{text}")))?["value"].clone(),
        "document_search" => {
            let found = send("POST", path("/documents/search"), Some(json!({ "query": text })))?;
            let search = json!({ "op": "search", "namespace": space.as_str(), "query": text });
            let outcomes =
                send("POST", "/v1/batch".into(), Some(json!({ "operations": [search] })))?["outcomes"].clone();
            assert_eq!(texts(&outcomes[0]["documents"], "key"), texts(&found["documents"], "key"));
            texts(&found["documents"], "key")
        }
        "document_put" => {
            let key = path(&format!("/documents/{}", operation.text("key")));
            send("PUT", key, Some(json!({ "value": argument["value"] })))?;
            Value::Null
        }
        "document_delete" => {
            send("DELETE", path(&format!("/documents/{text}")), None)?;
            Value::Null
        }
        "blocks" => {
            get(path("/formation"))?;
            get(path("/blocks"))?["blocks"].clone()
        }
        "journal" => {
            send("POST", path("/recall"), Some(json!({ "query": LESSON, "k": 1 })))?;
            get(path("/messages/m1/why"))?;
            Value::Null
        }
        "audit" => {
            get("/v1/audit".into())?;
            Value::Null
        }
        "stats" => {
            for route in ["/health", "/ready", "/metrics", "/v1/stats"] {
                get(route.into())?;
            }
            Value::Null
        }
        "index_stats" => {
            get(path(""))?;
            get(path("/map"))?;
            Value::Null
        }
        "put" => {
            send("POST", path("/messages"), Some(message(argument)))?;
            Value::Null
        }
        "import_files" => {
            send("POST", path("/import"), Some(argument.clone()))?;
            Value::Null
        }
        "put_session" => {
            let mut argument = argument.clone();
            let session = argument.as_object_mut().unwrap().remove("session").unwrap();
            let path = path(&format!("/sessions/{}/messages", session.as_str().unwrap()));
            send("POST", path, Some(message(&argument)))?;
            Value::Null
        }
        "set_metadata" => {
            let metadata = json!({ "metadata": { "topic": operation.text("topic") } });
            send("PATCH", path(&format!("/messages/{}", operation.text("id"))), Some(metadata))?;
            json!(true)
        }
        // Both routes, the second for an id that is not there.
        "delete" if text == "m1" => send("DELETE", path("/messages/m1"), None)?["deleted"].clone(),
        "delete" => send("DELETE", path(&format!("/messages?ids={text}")), None)?["deleted"].clone(),
        "delete_session" => {
            send("DELETE", path(&format!("/sessions/{text}")), None)?;
            Value::Null
        }
        "delete_namespace" => {
            send("DELETE", path(""), None)?;
            Value::Null
        }
        "delete_prefix" => {
            send("DELETE", path("?below=true"), None)?;
            Value::Null
        }
        "forget" => forgotten(&send("POST", path("/forget"), Some(argument.clone()))?),
        "set_ttl" => {
            send("PUT", path("/ttl"), Some(json!({ "ttl_minutes": argument })))?;
            Value::Null
        }
        "flush_session" => {
            send("POST", path(&format!("/sessions/{text}/flush")), None)?;
            Value::Null
        }
        "flush" => {
            send("POST", "/v1/flush".into(), None)?;
            Value::Null
        }
        "link" => {
            send("POST", "/v1/link".into(), None)?;
            Value::Null
        }
        "backup" => {
            let path = super::backup_path(folder, space.as_str());
            send("POST", "/v1/backup".into(), Some(json!({ "path": path.file_name().unwrap().to_str() })))?;
            super::texts_in(&path, space)
        }
        "reindex" => {
            let events = send("POST", "/v1/reindex".into(), Some(json!({ "precision": "i8" })))?;
            match events.as_str().unwrap_or_default() {
                events if events.contains("reindex-running") => return Err(Refusal::Exists),
                events => assert!(events.contains("event: report") || events.contains("event: done"), "{events}"),
            }
            Value::Null
        }
        other => unreachable!("{other} is not done over HTTP"),
    })
}

fn forgotten(receipt: &Value) -> Value {
    let counts = &receipt["event"]["forgotten"];
    let is_nothing = counts.as_object().unwrap().values().all(|count| count == 0);
    assert_eq!(receipt["event"]["nothing_found"] == true, is_nothing, "{receipt}");
    json!(counts["messages"].as_u64().unwrap() + counts["documents"].as_u64().unwrap())
}

fn mcp(server: &Server, space: &Namespace, operation: &Operation) -> Answer {
    let user = space.as_str().trim_start_matches("users/");
    let call = |name: &str, mut arguments: Value| {
        if name != "list_entities" {
            arguments["user_id"] = json!(user);
        }
        let params = json!({ "name": name, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let accept = [("accept", "application/json, text/event-stream")];
        let reply = server.send("POST", "/mcp", &accept, Some(request));
        assert_eq!(reply.status, 200, "{name}: {}", reply.body);
        let result = &reply.body["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        match text {
            _ if result["isError"] != true => Ok(result["structuredContent"].clone()),
            text if ["there is no memory", "no search has found", "there is no document"]
                .iter()
                .any(|part| text.contains(part)) =>
            {
                Err(Refusal::NotFound)
            }
            text if text.contains("legal hold") => Err(Refusal::LegalHold),
            text if text.contains("may be stored or not") => Err(Refusal::OutcomeUnknown),
            text if text.contains("shared database") => Err(Refusal::Unavailable),
            text => Err(Refusal::Other(format!("{name}: {text} {}", reply.body))),
        }
    };
    let (text, argument) = (operation.text(""), &operation.argument);
    Ok(match operation.action {
        "get" => call("get_memory", json!({ "memory_id": text }))?["memories"][0]["memory"].clone(),
        "history" => texts(&call("get_memories", json!({ "run_id": text }))?["memories"], "memory"),
        "namespaces" => {
            let (mut arguments, mut memories) = (json!({}), json!(0));
            loop {
                let page = call("list_entities", arguments)?;
                let entities = page["entities"].as_array().unwrap();
                if let Some(entity) = entities.iter().find(|entity| entity["namespace"] == space.as_str()) {
                    memories = entity["memories"].clone();
                }
                if page["next"].is_null() {
                    break memories;
                }
                arguments = json!({ "cursor": page["next"] });
            }
        }
        "recall" => call("search_memories", json!({ "query": text, "limit": 1 }))?["memories"][0]["memory"].clone(),
        "assemble" => {
            let arguments = json!({ "prompt": operation.text("prompt"), "run_id": operation.text("session") });
            json!(call("assemble_context", arguments)?["context"].to_string().contains(LESSON))
        }
        "journal" => {
            call("search_memories", json!({ "query": LESSON, "limit": 1 }))?;
            call("why", json!({ "memory_id": "m1" }))?;
            Value::Null
        }
        "put" => {
            call("add_memory", json!({ "text": operation.text("content"), "run_id": operation.text("session") }))?;
            Value::Null
        }
        "update_text" => {
            let arguments = json!({ "memory_id": operation.text("id"), "text": operation.text("content") });
            call("update_memory", arguments)?;
            json!(true)
        }
        "set_metadata" => {
            let metadata = json!({ "topic": operation.text("topic") });
            call("update_memory", json!({ "memory_id": operation.text("id"), "metadata": metadata }))?;
            json!(true)
        }
        "delete" => call("delete_memory", json!({ "memory_id": text }))?["deleted"].clone(),
        "delete_session" => {
            call("delete_all_memories", json!({ "run_id": text }))?;
            Value::Null
        }
        "delete_namespace" => {
            call("delete_all_memories", json!({}))?;
            Value::Null
        }
        "forget" => forgotten(&call("forget", argument.clone())?["receipt"]),
        "document_get" => call("get_document", json!({ "key": text }))?["documents"][0]["value"].clone(),
        "document_search" => {
            let found = texts(&call("search_documents", json!({ "query": text }))?["documents"], "key");
            assert_eq!(texts(&call("get_documents", json!({}))?["documents"], "key"), found);
            found
        }
        "document_put" => {
            call("remember_document", argument.clone())?;
            Value::Null
        }
        other => unreachable!("{other} is not done over MCP"),
    })
}

fn mem0(server: &Server, space: &Namespace, operation: &Operation) -> Answer {
    let user = space.as_str().trim_start_matches("users/");
    let send = |method: &str, path: &str, content: Option<Value>| body(server.send(method, path, &[], content));
    let list = |filters: Value| {
        let answer = send("POST", "/v3/memories/?page=1&page_size=100", Some(json!({ "filters": filters })))?;
        Ok(answer["results"].as_array().unwrap().clone())
    };
    // The id under which mem0's routes know a message of the fixture.
    let id_of = |message: &str| {
        let role = if message == "nope" { return Err(Refusal::NotFound) } else { message };
        assert_eq!(role, "m1");
        let found = list(json!({ "user_id": user }))?;
        // The same update may have come first.
        let text = |memory: &&Value| [LESSON, operation.text("content")].iter().any(|text| memory["memory"] == *text);
        let found = found.iter().find(text);
        found.map(|memory| memory["id"].as_str().unwrap().to_owned()).ok_or(Refusal::NotFound)
    };
    let text = operation.text("");
    Ok(match operation.action {
        "get" => {
            let id = id_of(text)?;
            send("GET", &format!("/v1/memories/{id}/history/"), None)?;
            send("GET", &format!("/v1/memories/{id}/"), None)?["memory"].clone()
        }
        "history" => {
            // The newest come first.
            let mut found = list(json!({ "AND": [{ "user_id": user }, { "run_id": text }] }))?;
            found.reverse();
            texts(&Value::Array(found), "memory")
        }
        "namespaces" => {
            let found = send("GET", "/v1/entities/?page=1&page_size=1000", None)?;
            let found = found["results"].as_array().unwrap().iter().find(|entity| entity["id"] == user).cloned();
            found.map_or(json!(0), |entity| entity["total_memories"].clone())
        }
        "recall" => {
            let search = json!({ "query": text, "filters": { "user_id": user }, "top_k": 1 });
            send("POST", "/v3/memories/search/", Some(search))?["results"][0]["memory"].clone()
        }
        "put" => {
            let messages = json!([{ "role": operation.text("role"), "content": operation.text("content") }]);
            let run = operation.text("session");
            send("POST", "/v3/memories/add/", Some(json!({ "messages": messages, "user_id": user, "run_id": run })))?;
            Value::Null
        }
        "update_text" => {
            let (id, text) = (id_of(operation.text("id"))?, operation.text("content"));
            send("PUT", &format!("/v1/memories/{id}/"), Some(json!({ "text": text })))?;
            send("PUT", "/v1/batch/", Some(json!({ "memories": [{ "memory_id": id, "text": text }] })))?;
            json!(true)
        }
        "delete" if operation.held => {
            let memories = json!({ "memories": [{ "memory_id": id_of(text)? }] });
            send("DELETE", "/v1/batch/", Some(memories))?;
            json!(1)
        }
        "delete" => {
            send("DELETE", &format!("/v1/memories/{}/", id_of(text)?), None)?;
            json!(1)
        }
        "delete_session" => {
            send("DELETE", &format!("/v1/memories/?user_id={user}&run_id={text}"), None)?;
            Value::Null
        }
        "delete_namespace" => {
            send("DELETE", &format!("/v2/entities/user/{user}/"), None)?;
            Value::Null
        }
        other => unreachable!("{other} is not done over mem0's routes"),
    })
}
