//! A language model that cannot be used: what waits for it, where it is said, and what is set aside.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Server,
    formation::{FACTS, facts, formation, until, with_model},
};
use crate::support::{
    Db,
    servers::{LlmServer, RecordedRequest, Reply},
};

const SESSION: &str = "/v1/namespaces/users%2Fada/sessions/s";

fn say(server: &Server, session: &str, text: &str) {
    let message = json!({ "messages": [{ "role": "user", "content": text }] });
    assert_eq!(server.post(&format!("{session}/messages"), message).status, 200);
    assert_eq!(server.send("POST", &format!("{session}/flush"), &[], None).status, 200);
}

/// Inserts an item for each word "fact-N" of the conversation; or answers the question whether it answers.
fn inserts(request: &RecordedRequest) -> Reply {
    let Some(shown) = request.body["messages"][1]["content"].as_str() else { return Reply::text("Yes.") };
    let words = shown.split(|c: char| !(c.is_alphanumeric() || c == '-')).filter(|word| word.starts_with("fact-"));
    Reply::text(&json!({ "insert": words.map(|fact| json!({ "text": fact })).collect::<Vec<_>>() }).to_string())
}

/// The statuses by which servers refuse everything: a wrong key, an unpaid bill, a wrong name of the model.
const STATUSES: [u16; 8] = [400, 401, 402, 403, 404, 413, 422, 500];

#[test]
fn what_a_server_refuses_to_everybody_waits_until_it_answers() {
    let refuses = Arc::new(AtomicBool::new(true));
    let (db, llm) = (Db::new(), {
        let refuses = Arc::clone(&refuses);
        LlmServer::new(move |request| {
            if !refuses.load(Ordering::SeqCst) {
                return inserts(request);
            }
            let asked = request.body.to_string();
            let status =
                (0..STATUSES.len()).find(|at| asked.contains(&format!("fact-{at}"))).map_or(400, |at| STATUSES[at]);
            Reply::error(status, "QUOTED: there is no such model")
        })
    });
    let server = with_model(&db, &llm, &[]);
    let words: Vec<String> = (0..STATUSES.len()).map(|at| format!("fact-{at}")).collect();
    for word in &words {
        say(&server, &format!("/v1/namespaces/users%2Fada/sessions/{word}"), word);
    }
    let model = until("the server is down", || {
        let model = server.get("/ready").body["language_model"].clone();
        (model["available"] == false).then_some(model)
    });
    let reason = model["reason"].as_str().unwrap();
    assert!(STATUSES.iter().any(|status| reason.contains(&format!("answered {status}"))), "{model}");
    assert!(!model.to_string().contains("QUOTED"), "{model}");
    assert_eq!(formation(&server)["model"]["available"], false);
    let metrics = server.get("/metrics").body.to_string();
    assert!(metrics.contains("mnemon_formation_model_down 1"), "{metrics}");
    // A batch would be set aside after three attempts, at 0, 1 and 3 s.
    until("the fourth attempt", || {
        let asked: Vec<String> = llm.requests().iter().map(|request| request.body.to_string()).collect();
        words.iter().all(|word| asked.iter().filter(|asked| asked.contains(word)).count() >= 4).then_some(())
    });
    let overview = server.get("/v1/formation").body;
    assert_eq!(overview["failed"], json!([]), "{overview}");
    refuses.store(false, Ordering::SeqCst);
    until("all facts", || (facts(&server, FACTS) == words).then_some(()));
    assert_eq!(server.get("/ready").body["language_model"]["available"], true);
    assert!(server.get("/metrics").body.to_string().contains("mnemon_formation_model_down 0"));
}

/// A request that alone is refused, such as one that is too long, keeps no later batch from being formed. What was set aside
/// is listed, and handed over by one call, over HTTP or by the command.
#[test]
fn all_that_was_set_aside_is_handed_over_by_one_call() {
    let long = Arc::new(Mutex::new("fact-long".to_owned()));
    let (db, llm) = (Db::new(), {
        let long = Arc::clone(&long);
        LlmServer::new(move |request| match request.body.to_string().contains(&*long.lock().unwrap()) {
            true => Reply::error(400, "the context is too long"),
            false => inserts(request),
        })
    });
    let server = with_model(&db, &llm, &[]);
    let users = ["users%2Fada", "users%2Fbob"];
    for user in users {
        let session = format!("/v1/namespaces/{user}/sessions/s");
        say(&server, &session, "fact-long");
        say(&server, &session, "fact-short");
    }
    let failed = until("both batches are set aside", || {
        let failed = server.get("/v1/formation").body["failed"].clone();
        (failed.as_array().unwrap().len() == 2).then_some(failed)
    });
    assert_eq!(
        (&failed[0]["namespace"], &failed[1]["namespace"]),
        (&json!("users/ada"), &json!("users/bob")),
        "{failed}"
    );
    assert!(failed[0]["reason"].as_str().unwrap().contains("400"), "{failed}");
    let page = server.get("/v1/formation?limit=1").body;
    let next = server.get(&format!("/v1/formation?limit=1&cursor={}", page["next"].as_str().unwrap())).body;
    assert_eq!((&page["failed"][0], &next["failed"][0]), (&failed[0], &failed[1]));
    let formed = |user: &str| facts(&server, &format!("/v1/namespaces/{user}%2Ffacts/documents/search"));
    for user in users {
        until("the later batch", || (formed(user) == ["fact-short"]).then_some(()));
    }
    "never-said".clone_into(&mut long.lock().unwrap());
    let retried = server.post("/v1/formation/retry", json!({ "prefix": "users/ada" }));
    assert_eq!((retried.status, &retried.body), (200, &json!({ "batches": 1 })), "{}", retried.body);
    until("the batch of one", || (formed(users[0]) == ["fact-long", "fact-short"]).then_some(()));
    assert_eq!(formed(users[1]), ["fact-short"]);
    let failed = server.get("/v1/formation").body["failed"].clone();
    assert_eq!((failed.as_array().unwrap().len(), &failed[0]["namespace"]), (1, &json!("users/bob")), "{failed}");
    assert!(server.terminate() < Duration::from_secs(12));

    let command = |arguments: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
        let output = command.args(["retry", "--db"]).arg(&db.path).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = command(&["--list"]);
    assert!(listed.contains("users/bob  s  facts  batch 0: ") && listed.ends_with("1 batch given up\n"), "{listed}");
    assert!(command(&["--prefix", "users/ada"]).ends_with("0 batches handed over again\n"));
    assert!(command(&[]).ends_with("1 batch handed over again\n"));
    let server = with_model(&db, &llm, &[]);
    let path = format!("/v1/namespaces/{}%2Ffacts/documents/search", users[1]);
    until("the batch of the other", || (facts(&server, &path) == ["fact-long", "fact-short"]).then_some(()));
    assert_eq!(server.get("/v1/formation").body["failed"], json!([]));
}

/// A server that reports no tokens, or too few, is not free.
#[test]
fn the_daily_limit_counts_what_is_estimated_if_less_is_reported() {
    let reply = |request: &RecordedRequest| {
        let mut body: Value = serde_json::from_slice(&inserts(request).body).unwrap();
        body["usage"] = json!({ "prompt_tokens": 0, "completion_tokens": 0 });
        Reply::json(200, body)
    };
    let (db, llm) = (Db::new(), LlmServer::new(reply));
    let folder = tempfile::tempdir().unwrap();
    let (tokens, file) = super::tokens(folder.path(), &[&["--prefix", "users", "--llm-tokens-per-day", "100"]]);
    let server = with_model(&db, &llm, &["--tokens", file.to_str().unwrap()]);
    let bearer = format!("Bearer {}", tokens[0]);
    let send = |path: &str, body: Value| {
        let answer = server.send("POST", path, &[("authorization", &bearer)], Some(body));
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    let get = || server.send("GET", "/v1/namespaces/users%2Fada/formation", &[("authorization", &bearer)], None).body;
    for at in 0..2 {
        let message = json!({ "messages": [{ "role": "user", "content": format!("fact-{at}") }] });
        send(&format!("{SESSION}/messages"), message);
        send(&format!("{SESSION}/flush"), json!({}));
        thread::sleep(Duration::from_millis(50));
    }
    let waiting = until("the limit", || {
        let formation = get();
        let reason = formation["sessions"][0]["blocks"][0]["retrying"].clone();
        reason.as_str().is_some_and(|reason| reason.contains("100 tokens")).then_some(formation)
    });
    assert!(waiting["daily_limits"][0]["used"].as_u64().unwrap() > 100, "{waiting}");
    assert!(waiting["blocks"][0]["prompt_tokens"].as_u64().unwrap() > 100, "{waiting}");
    assert_eq!(llm.requests().len(), 1);
}
