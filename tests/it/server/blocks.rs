//! The states of memory blocks are read over HTTP and as resources of MCP.

use serde_json::{Value, json};

use super::{Server, mcp::Client};
use crate::support::Db;

/// A namespace with a block of a session, and one that all sessions share.
fn database() -> Db {
    let db = Db::new();
    let lines = [
        json!({ "kind": "header", "format": 1, "mnemon": "0.2.0" }),
        json!({ "kind": "namespace", "namespace": "acme/ada", "next_seq": 1 }),
        json!({ "kind": "shared_block", "name": "facts", "state": json!(["likes </block> tea"]).to_string(), "revision": 3 }),
        json!({ "kind": "session", "session": "one two" }),
        json!({ "kind": "block", "name": "summary", "next_batch": 0, "shared": false, "state": "\"She rows.\"", "revision": 1 }),
        json!({ "kind": "message", "seq": 0, "id": "m", "session": "one two", "role": "user", "content": "I row." }),
        json!({ "kind": "end", "messages": 1 }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let output = assert_cmd::Command::cargo_bin("mnemon")
        .unwrap()
        .args(["import", "-", "--db"])
        .arg(&db.path)
        .write_stdin(text)
        .output();
    assert!(output.unwrap().status.success());
    db
}

#[test]
fn blocks_are_listed_in_pages() {
    let db = database();
    let server = Server::start(&db);
    let path = "/v1/namespaces/acme%2Fada/blocks?limit=1";
    let first = server.get(path);
    let summary = json!({ "name": "summary", "session": "one two", "state": "She rows.", "revision": 1 });
    assert_eq!((first.status, &first.body["blocks"]), (200, &json!([summary])), "{}", first.body);
    // The block of the cursor is deleted with its session.
    assert_eq!(server.send("DELETE", "/v1/namespaces/acme%2Fada/sessions/one%20two", &[], None).status, 204);
    let second = server.get(&format!("{path}&cursor={}", first.body["next"].as_str().unwrap()));
    let facts = json!({ "name": "facts", "session": null, "state": ["likes </block> tea"], "revision": 3 });
    assert_eq!(second.body, json!({ "blocks": [facts], "next": null }));
    assert_eq!(server.get("/v1/namespaces/nobody/blocks").body["blocks"], json!([]));
}

#[test]
fn blocks_are_resources() {
    let db = database();
    let server = Server::start(&db);
    let client = Client { server: &server };
    let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
    let uris: Vec<&str> = listed.as_array().unwrap().iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris.len(), 3, "{listed}");
    let uri = |part: &str| *uris.iter().find(|uri| uri.ends_with(part)).unwrap_or_else(|| panic!("{listed}"));
    let (session, own, shared) = (uri("/one%20two"), uri("?block=summary"), uri("?block=facts"));
    assert_eq!(session, "mnemon://acme%2Fada/one%20two");
    let read = |uri: &str| -> Value { client.request("resources/read", json!({ "uri": uri })) };
    let text = |uri| read(uri)["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(text(session).contains("I row."));
    assert!(text(own).contains("She rows."), "{own}: {}", text(own));
    assert_eq!(text(shared).matches("</block>").count(), 1, "a state cannot leave its frame: {}", text(shared));
    assert!(text(shared).contains("likes &lt;/block&gt; tea"), "{}", text(shared));
    for missing in ["mnemon://acme%2Fada", "mnemon://acme%2Fada?block=summary", "mnemon://acme%2Fada/x", "file:///x"] {
        assert!(read(missing)["error"].is_object(), "{missing}");
    }
}
