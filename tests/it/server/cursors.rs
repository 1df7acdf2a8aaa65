//! A list goes on after its cursor's place, though the item there, and others, were deleted meanwhile: no other item is left out or
//! listed twice.

use serde_json::{Value, json};

use super::{Server, mcp::Client};
use crate::support::Db;

/// Lists in pages of two, and calls a function with the items of the first two pages before each third is asked for.
fn list(
    mut page: impl FnMut(Option<&str>) -> (Vec<String>, Option<String>),
    delete: impl Fn(&[String]),
) -> Vec<String> {
    let (mut all, next) = page(None);
    let (second, next) = page(Some(&next.unwrap()));
    all.extend(second);
    delete(&all);
    let mut next = Some(next.unwrap());
    while let Some(cursor) = next {
        let (items, following) = page(Some(&cursor));
        all.extend(items);
        next = following;
    }
    all
}

fn strings(items: &Value, name: &str) -> Vec<String> {
    items.as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

/// Fills the namespace `a`: seven sessions of a message each, and seven messages in the session `s`.
fn filled(db: &Db) -> Server {
    let server = Server::start(db);
    let message =
        |id: String, session: String| json!({ "role": "user", "content": "hello", "id": id, "session": session });
    let apart = (0..7).map(|at| message(format!("m{at}"), format!("session {at}")));
    let together = (0..7).map(|at| message(format!("s{at}"), "s".to_owned()));
    let messages: Vec<Value> = apart.chain(together).collect();
    assert_eq!(server.post("/v1/namespaces/a/messages", json!({ "messages": messages })).status, 200);
    for at in 0..7 {
        server.put(&format!("list/{at}"), &["hello"]);
    }
    server
}

/// A page of a list of `/v1`.
fn page(server: &Server, path: &str, items: &str, name: &str, cursor: Option<&str>) -> (Vec<String>, Option<String>) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let cursor = cursor.map(|cursor| format!("&cursor={}", cursor.replace('/', "%2F"))).unwrap_or_default();
    let answer = server.get(&format!("{path}{separator}limit=2{cursor}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    (strings(&answer.body[items], name), answer.body["next"].as_str().map(str::to_owned))
}

fn delete(server: &Server, path: &str) {
    let answer = server.send("DELETE", path, &[], None);
    assert!(answer.status < 300, "{path}: {}", answer.body);
}

#[test]
fn lists_go_on_after_what_was_deleted() {
    let db = Db::new();
    let server = filled(&db);
    let names = |prefix: &str| (0..7).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>();

    let messages = list(
        |cursor| page(&server, "/v1/namespaces/a/sessions/s/messages", "messages", "id", cursor),
        |seen| seen.iter().for_each(|id| delete(&server, &format!("/v1/namespaces/a/messages/{id}"))),
    );
    assert_eq!(messages, names("s"));
    // A session that is deleted wholly has nothing more.
    let whole = list(
        |cursor| {
            let path = "/v1/namespaces/b/sessions/s/messages";
            if cursor.is_none() {
                let message = |at| json!({ "role": "user", "content": "x", "id": format!("w{at}"), "session": "s" });
                server
                    .post("/v1/namespaces/b/messages", json!({ "messages": (0..7).map(message).collect::<Vec<_>>() }));
            }
            page(&server, path, "messages", "id", cursor)
        },
        |_| delete(&server, "/v1/namespaces/b"),
    );
    assert_eq!(whole, ["w0", "w1", "w2", "w3"]);

    let sessions = list(
        |cursor| page(&server, "/v1/namespaces/a/sessions", "sessions", "session", cursor),
        |seen| {
            seen.iter().for_each(|id| delete(&server, &format!("/v1/namespaces/a/sessions/{}", id.replace(' ', "%20"))))
        },
    );
    assert_eq!(sessions, ["s".to_owned()].into_iter().chain(names("session ")).collect::<Vec<_>>());

    let namespaces = list(
        |cursor| page(&server, "/v1/namespaces?prefix=list", "namespaces", "namespace", cursor),
        |seen| seen.iter().for_each(|name| delete(&server, &format!("/v1/namespaces/{}", name.replace('/', "%2F")))),
    );
    assert_eq!(namespaces, names("list/"));
}

#[test]
fn tools_go_on_after_what_was_deleted() {
    let db = Db::new();
    let server = filled(&db);
    let client = Client { server: &server };
    let call = |name: &str, arguments: Value| {
        let result = client.request("tools/call", json!({ "name": name, "arguments": arguments }))["result"].clone();
        assert!(result["isError"] != true, "{name}: {result}");
        result["structuredContent"].clone()
    };
    let memories = list(
        |cursor| {
            let answer = call("get_memories", json!({ "namespace": "a", "limit": 2, "cursor": cursor }));
            (strings(&answer["memories"], "id"), answer["next"].as_str().map(str::to_owned))
        },
        |seen| {
            for id in seen {
                call("delete_memory", json!({ "namespace": "a", "memory_id": id }));
            }
        },
    );
    assert_eq!(memories.len(), 14, "{memories:?}");
    let mut unique = memories.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), 14, "{memories:?}");
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    let db = Db::new();
    let server = filled(&db);
    let cursor = |path: &str| server.get(path).body["next"].as_str().unwrap().replace('/', "%2F");
    let sessions = cursor("/v1/namespaces/a/sessions?limit=1");
    let messages = cursor("/v1/namespaces/a/sessions/s/messages?limit=1");
    for path in [
        format!("/v1/namespaces/a/sessions?cursor={messages}"),
        format!("/v1/namespaces/a/sessions/s/messages?cursor={sessions}"),
        format!("/v1/namespaces/a/sessions/session%201/messages?cursor={messages}"),
        format!("/v1/namespaces/a/blocks?cursor={messages}"),
        format!("/v1/namespaces?cursor={messages}"),
    ] {
        server.get(&path).assert_problem(400, "cursor");
    }
}
