//! The messages at the end of a session, and those before them.

use serde_json::{Value, json};

use super::Server;
use crate::support::Db;

const PATH: &str = "/v1/namespaces/a/sessions/s/messages";

fn messages(texts: impl IntoIterator<Item = (String, String)>) -> Value {
    let message = |(id, text)| json!({ "id": id, "role": "user", "content": text, "session": "s" });
    json!({ "messages": texts.into_iter().map(message).collect::<Vec<_>>() })
}

fn ids(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap()).collect()
}

#[test]
fn the_last_messages_of_a_session_are_returned_and_then_those_before_them() {
    let db = Db::new();
    let server = Server::start(&db);
    let texts = |from: usize, to: usize| (from..to).map(|at| (format!("m{at}"), format!("text {at}")));
    // Those of the first put are in long-term memory, the others in the buffer.
    assert_eq!(server.post("/v1/namespaces/a/messages", messages(texts(0, 5))).status, 200);
    assert_eq!(server.post(PATH, messages(texts(5, 8))).status, 200);
    let last = |query: &str| server.get(&format!("{PATH}?{query}")).body;

    let answer = last("last=4");
    assert_eq!(ids(&answer["messages"]), ["m4", "m5", "m6", "m7"]);
    assert_eq!((&answer["buffered"], &answer["next"]), (&json!(["m5", "m6", "m7"]), &Value::Null));
    let answer = last("last=3&before=m4");
    assert_eq!((ids(&answer["messages"]), &answer["buffered"]), (vec!["m1", "m2", "m3"], &json!([])));
    assert_eq!(ids(&last("last=3&before=m1")["messages"]), ["m0"]);
    assert_eq!(ids(&last("last=3&before=m0")["messages"]), [""; 0]);
    assert_eq!(ids(&last("last=1000")["messages"]), ids(&last("limit=1000")["messages"]));

    server.get("/v1/namespaces/a/sessions/other/messages?last=1").assert_problem(404, "no such session");
    server.get("/v1/namespaces/a/sessions/other/messages?last=1&before=m1").assert_problem(404, "no such session");
    for (query, part) in [
        ("last=1&before=unknown", "without `before`"),
        ("last=1&before=", "without `before`"),
        ("last=0", "give 1 to 1000"),
        ("last=1001", "give 1 to 1000"),
        ("before=m1", "give `last`"),
        ("last=1&limit=1", "give `last`"),
        ("last=1&cursor=x", "give `last`"),
    ] {
        server.get(&format!("{PATH}?{query}")).assert_problem(400, part);
    }
}

/// As many as fit into an answer, and the first of them leads to those before.
#[test]
fn of_long_messages_the_newest_are_returned() {
    let db = Db::new();
    let server = Server::start(&db);
    let long = "x".repeat(700_000);
    for at in 0..8 {
        let mut body = messages([(format!("m{at}"), long.clone())]);
        if at % 2 == 0 {
            body["messages"][0]["content"] = json!("short");
            body["messages"][0]["metadata"] = json!({ "long": long });
        }
        let put = server.post("/v1/namespaces/a/messages", body);
        assert_eq!(put.status, 200, "{}", put.body);
    }
    let answer = server.get(&format!("{PATH}?last=8")).body;
    assert_eq!(ids(&answer["messages"]), ["m3", "m4", "m5", "m6", "m7"]);
    let answer = server.get(&format!("{PATH}?last=8&before=m3")).body;
    assert_eq!(ids(&answer["messages"]), ["m0", "m1", "m2"]);
}

/// A prompt comes in the format of the API that it is for, too.
#[test]
fn a_prompt_is_a_request_of_a_provider() {
    let db = Db::new();
    let server = Server::start(&db);
    assert_eq!(server.post(PATH, messages([("m1".to_owned(), "We row on Thursdays.".to_owned())])).status, 200);
    let assemble = |to: Value| {
        server.post("/v1/namespaces/a/sessions/s/assemble", json!({ "prompt": "When do we row?", "to": to })).body
    };
    for (to, field) in [("openai", "messages"), ("anthropic", "messages"), ("gemini", "contents")] {
        let prompt = assemble(json!(to));
        let (own, request) = (prompt["messages"].as_array().unwrap(), &prompt["request"]);
        let said = request[field].as_array().unwrap_or_else(|| panic!("{prompt}"));
        assert!(!own.is_empty() && said.last().unwrap().to_string().contains("When do we row?"), "{prompt}");
        assert!(request.to_string().contains("We row on Thursdays."), "{prompt}");
    }
    assert!(assemble(Value::Null).get("request").is_none());
    server
        .post("/v1/namespaces/a/sessions/s/assemble", json!({ "prompt": "x", "to": "other" }))
        .assert_problem(422, "openai");
}
