//! A server whose database is a copy of one in Postgres.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Answer, Server, mcp::Client};
use crate::{
    shared::proxy::Proxy,
    support::{Db, postgres::server},
};

fn recall(server: &Server, namespace: &str) -> Answer {
    server.post(&format!("/v1/namespaces/{namespace}/recall"), json!({ "query": "where is the bicycle?" }))
}

#[test]
fn every_surface_recalls() {
    let Some(postgres) = server() else { return };
    let address = postgres.database();
    let db = Db::new();
    let server = Server::with(&db, &["--shared", &address]);
    server.put("acme", &["my bike is in the cellar"]);
    let found = recall(&server, "acme");
    assert_eq!((found.status, found.body["hits"].as_array().map(Vec::len)), (200, Some(1)), "{}", found.body);
    let answer = server.post("/v3/memories/search/", json!({ "query": "bike", "filters": { "user_id": "acme" } }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let search = json!({ "name": "search_memories", "arguments": { "user_id": "acme", "query": "bike" } });
    let found = Client { server: &server }.request("tools/call", search);
    assert_ne!(found["result"]["isError"], true, "{found}");
    assert!(server.terminate() < Duration::from_secs(10));
}

#[test]
fn it_answers_while_postgres_hangs_and_starts_while_it_is_down() {
    let Some(postgres) = server() else { return };
    let direct = postgres.database();
    let proxy = Proxy::start(postgres.port());
    let address = proxy.address(direct.rsplit('/').next().unwrap());
    let db = Db::new();
    let running = Server::with(&db, &["--shared", &address]);
    for namespace in ["acme", "globex"] {
        running.put(namespace, &["my bike is in the cellar"]);
        assert_eq!(recall(&running, namespace).status, 200);
    }
    proxy.hang(true);
    thread::sleep(Duration::from_millis(1500));
    let slowest = thread::scope(|scope| {
        let ask = |at: usize| {
            let began = Instant::now();
            let answer = recall(&running, ["acme", "globex"][at % 2]);
            let hits = answer.body["hits"].as_array().map(Vec::len);
            assert_eq!((answer.status, hits), (200, Some(1)), "{}", answer.body);
            began.elapsed()
        };
        let threads: Vec<_> = (0..16).map(|at| scope.spawn(move || ask(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    eprintln!("the slowest of 16 recalls over HTTP took {:.2} s", slowest.as_secs_f64());
    // The time limit of a call of Postgres is 10 seconds.
    assert!(slowest < Duration::from_secs(8), "{slowest:?}");
    assert_eq!(running.get("/health").status, 200);
    drop(running);
    // A copy is served without Postgres.
    proxy.shut(true);
    proxy.hang(false);
    proxy.drop_all();
    let restarted = Server::with(&db, &["--shared", &address]);
    assert_eq!(recall(&restarted, "acme").status, 200);
    let messages = json!({ "messages": [{ "role": "user", "content": "not stored" }] });
    let refused = restarted.post("/v1/namespaces/acme/messages", messages.clone());
    assert!(refused.status >= 500, "{}", refused.body);
    proxy.heal();
    let began = Instant::now();
    let stored = |answer: Answer| -> Option<Value> { (answer.status == 200).then_some(answer.body) };
    while stored(restarted.post("/v1/namespaces/acme/messages", messages.clone())).is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "puts do not come back");
    }
    drop(restarted);
    let latest = Server::with(&db, &["--shared", &address, "--freshness", "latest"]);
    assert_eq!(recall(&latest, "acme").status, 200);
}
