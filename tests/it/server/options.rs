//! Options of `mnemon serve`: pages of other origins, secrets, and a reranker.

use serde_json::json;

use super::Server;
use crate::support::{
    Db,
    model_folders::{fixture, reranker_folder},
};

const PAGE: &str = "https://app.example";

#[test]
fn pages_of_named_origins_alone_may_call_the_server() {
    let db = Db::new();
    let server = Server::with(&db, &["--allow-origin", PAGE, "--allow-origin", "http://localhost:5173"]);
    let asked = [
        ("origin", PAGE),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization"),
    ];
    let preflight = server.send("OPTIONS", "/v1/namespaces/a/documents/k", &asked, None);
    assert_eq!(preflight.status, 200);
    for header in
        ["access-control-allow-origin: https://app.example", "access-control-allow-methods: get,post,put,patch,delete"]
    {
        assert!(preflight.head.contains(header), "{header}: {}", preflight.head);
    }
    assert!(
        preflight.head.contains("authorization") && !preflight.head.contains("allow-credentials"),
        "{}",
        preflight.head
    );
    let value = json!({ "value": { "text": "hello" } });
    let put = server.send("PUT", "/v1/namespaces/a/documents/k", &[("origin", PAGE)], Some(value));
    assert!((200..300).contains(&put.status), "{}", put.body);
    assert!(put.head.contains("access-control-allow-origin: https://app.example"), "{}", put.head);
    for origin in ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"] {
        let refused = server.send("GET", "/v1/namespaces", &[("origin", origin)], None);
        assert_eq!(refused.status, 403, "{origin}");
        assert!(!refused.head.contains("access-control-allow-origin"), "{origin}: {}", refused.head);
        let asked = [("origin", origin), ("access-control-request-method", "GET")];
        let preflight = server.send("OPTIONS", "/v1/namespaces", &asked, None);
        assert!(!preflight.head.contains("access-control-allow-origin"), "{origin}: {}", preflight.head);
    }
    drop(server);
    let plain = Server::start(&db).send("GET", "/v1/namespaces", &[("origin", PAGE)], None);
    assert!(plain.status == 403 && plain.body["detail"].as_str().unwrap().contains("--allow-origin"), "{}", plain.body);
    for wrong in [
        "*",
        "null",
        "app.example",
        "https://app.example/",
        "https://*.example",
        "ftp://app.example",
        "https://ada@app.example",
    ] {
        let refused = super::command(db.path.parent().unwrap())
            .args(["serve", "--listen", "127.0.0.1:0", "--allow-origin", wrong, "--db"])
            .arg(&db.path)
            .output()
            .unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(1) && stderr.contains("is no origin"), "{wrong}: {stderr}");
    }
}

#[test]
fn secrets_are_replaced_before_they_are_stored_and_counted() {
    let db = Db::new();
    let key = format!("sk-{}", "aB3dE5gH".repeat(4));
    let server = Server::with(&db, &["--remove-secrets"]);
    let text = format!("My key is {key}\nand my card 4111 1111 1111 1111.");
    let messages = json!({ "messages": [{ "id": "m", "role": "user", "content": text, "metadata": { "note": key } }], "flush": true });
    assert_eq!(server.send("POST", "/v1/namespaces/a/messages", &[], Some(messages)).status, 200);
    let stored = server.get("/v1/namespaces/a/messages/m").body;
    assert_eq!(stored["content"], "My key is [key removed]\nand my card [card removed].", "{stored}");
    assert_eq!(stored["metadata"]["note"], "[key removed]");
    let document = json!({ "value": { "text": key, "large": 18_446_744_073_709_551_615_u64, "small": 0.1 } });
    assert!(server.send("PUT", "/v1/namespaces/a/documents/k", &[], Some(document)).status < 300);
    let document = server.get("/v1/namespaces/a/documents/k").body;
    assert_eq!(document["value"], json!({ "text": "[key removed]", "large": u64::MAX, "small": 0.1 }));
    let query = json!({ "query": format!("what is {key} for?") });
    assert_eq!(server.send("POST", "/v1/namespaces/a/recall", &[], Some(query)).status, 200);
    let metrics = server.get("/metrics").body.to_string();
    assert!(metrics.contains(r#"mnemon_secrets_removed_total{kind=\"key\"} 4"#), "{metrics}");
    assert!(metrics.contains(r#"mnemon_secrets_removed_total{kind=\"card\"} 1"#), "{metrics}");
    // Ids that look like card numbers stay those of two users.
    let users = ["4111111111111111", "5500005555555559"];
    let put = |user: &str| json!({ "op": "put", "namespace": format!("users/{user}"), "key": user, "value": { "key": user } });
    let message = |user: &str| json!({ "role": "user", "content": user, "id": user, "session": user });
    let operations = [
        put(users[0]),
        put(users[1]),
        json!({ "op": "put_messages", "namespace": "b", "messages": users.map(message) }),
    ];
    assert_eq!(server.post("/v1/batch", json!({ "operations": operations })).status, 200);
    for user in users {
        let document = server.get(&format!("/v1/namespaces/users%2F{user}/documents/{user}")).body;
        assert_eq!(document["value"], json!({ "key": "[card removed]" }));
        let message = server.get(&format!("/v1/namespaces/b/messages/{user}")).body;
        assert_eq!((&message["content"], &message["session"]), (&json!("[card removed]"), &json!(user)));
    }
    drop(server);
    let file = std::fs::read(&db.path).unwrap();
    assert!(!file.windows(key.len()).any(|bytes| bytes == key.as_bytes()), "the journal has it, or the file");
}

#[test]
fn recalls_are_reranked_if_the_server_has_a_reranker() {
    let db = Db::new();
    let folder = reranker_folder(&fixture("overlap.onnx"), "none");
    let put = json!({ "messages": [
        { "id": "both", "role": "user", "content": "rowing rowing boat" }, { "id": "one", "role": "user", "content": "a boat" },
    ], "flush": true });
    let ask = |server: &Server, rerank: usize| {
        server.send(
            "POST",
            "/v1/namespaces/a/recall",
            &[],
            Some(json!({ "query": "rowing boat", "k": 2, "rerank": rerank })),
        )
    };
    let server = Server::with(&db, &["--rerank", folder.path().to_str().unwrap()]);
    assert_eq!(server.send("POST", "/v1/namespaces/a/messages", &[], Some(put)).status, 200);
    let answer = ask(&server, 10);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body["hits"][0]["breakdown"]["reranked"].is_number(), "{}", answer.body);
    for wrong in [0, 201] {
        assert_eq!(ask(&server, wrong).status, 400);
    }
    drop(server);
    let refused = ask(&Server::start(&db), 10);
    assert!(refused.status == 400 && refused.body["detail"].as_str().unwrap().contains("--rerank"), "{}", refused.body);
}
