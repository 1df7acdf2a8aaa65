//! mem0's routes with a language model, which makes memories of what is added.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Server,
    formation::{FACTS, facts, formation, knows_ada, until, with_model},
};
use crate::support::{
    Db,
    servers::{LlmServer, Reply},
};

const ADD: &str = "/v3/memories/add/";
const LIST: &str = "/v3/memories/?page=1&page_size=100";

/// `[memory, event]` of the results of an answer, sorted.
fn events(answer: &Value) -> Vec<[String; 2]> {
    let results = answer["results"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut events: Vec<_> = results.iter().map(|result| [text(&result["memory"]), text(&result["event"])]).collect();
    events.sort();
    events
}

#[test]
fn mem0_infers_memories_with_the_model() {
    let (db, llm) = (Db::new(), LlmServer::new(knows_ada));
    let server = with_model(&db, &llm, &[]);
    let add = |text: &str, more: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": text }], "user_id": "ada" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = server.post(ADD, body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let list = |filters: Value| server.post(LIST, json!({ "filters": filters })).body;
    let memories = |filters: Value| events(&list(filters)).into_iter().map(|[memory, _]| memory).collect::<Vec<_>>();
    let event = |memory: &str, event: &str| [memory.to_owned(), event.to_owned()];
    let ada = || json!({ "user_id": "ada" });

    let added =
        add("I live in Lyon, and row on Thursdays.", json!({ "metadata": { "topic": "life" }, "run_id": "monday" }));
    assert_eq!(events(&added), [event("Ada lives in Lyon.", "ADD"), event("Ada rows on Thursdays.", "ADD")]);
    let updated = add("I have moved to Porto.", json!({ "infer": true }));
    assert_eq!(events(&updated), [event("Ada lives in Porto.", "UPDATE")]);
    assert_eq!(updated["results"][0]["previous_memory"], "Ada lives in Lyon.");
    let deleted = add("I have stopped rowing.", json!({}));
    assert_eq!(events(&deleted), [event("Ada rows on Thursdays.", "DELETE")]);
    assert_eq!(events(&add("Nothing else.", json!({}))), [[""; 2]; 0]);
    // As they are, beside the facts.
    assert_eq!(events(&add("My boat is green.", json!({ "infer": false }))), [event("My boat is green.", "ADD")]);
    assert_eq!(llm.requests().len(), 4);
    assert_eq!(memories(ada()), ["Ada lives in Porto.", "My boat is green."]);
    // Metadata and the ids beside the user's stay with a fact through its updates, and filters know them.
    let filters = json!({ "AND": [{ "user_id": "ada" }, { "run_id": "monday" }, { "metadata": { "topic": "life" } }] });
    assert_eq!(memories(filters), ["Ada lives in Porto."]);
    let fact = list(json!({ "AND": [{ "user_id": "ada" }, { "run_id": "monday" }] }))["results"][0].clone();
    assert_eq!(
        (&fact["user_id"], &fact["run_id"], &fact["metadata"]),
        (&json!("ada"), &json!("monday"), &json!({ "topic": "life" }))
    );
    let search = |query: &str| server.post("/v3/memories/search/", json!({ "query": query, "filters": ada() })).body;
    assert_eq!(search("Where does Ada live?")["results"][0]["memory"], "Ada lives in Porto.");
    let users = server.get("/v1/entities/").body;
    assert_eq!(
        (&users["results"][0]["id"], &users["results"][0]["total_memories"]),
        (&json!("ada"), &json!(2)),
        "{users}"
    );

    // By its id, like any other memory.
    let path = format!("/v1/memories/{}/", fact["id"].as_str().unwrap());
    assert_eq!(server.get(&path).body["memory"], "Ada lives in Porto.");
    let history = server.get(&format!("{path}history/")).body;
    assert_eq!((&history[0]["event"], &history[1]["event"]), (&json!("ADD"), &json!("UPDATE")), "{history}");
    let changed =
        server.send("PUT", &path, &[], Some(json!({ "text": "Ada lives in Faro.", "metadata": { "sure": true } })));
    assert_eq!((changed.status, &changed.body["memory"]), (200, &json!("Ada lives in Faro.")), "{}", changed.body);
    let dated = server.send("PUT", &path, &[], Some(json!({ "timestamp": 1_700_000_000 })));
    assert_eq!(dated.status, 400, "{}", dated.body);
    assert_eq!(server.get(&path).body["metadata"], json!({ "sure": true }));
    let batch = json!({ "memories": [{ "memory_id": fact["id"], "text": "Ada lives in Évora." }] });
    assert_eq!(server.send("PUT", "/v1/batch/", &[], Some(batch)).status, 200);
    assert_eq!(memories(ada()), ["Ada lives in Évora.", "My boat is green."]);
    assert_eq!(server.send("DELETE", &path, &[], None).status, 200);
    assert_eq!((server.get(&path).status, server.send("DELETE", &path, &[], None).status), (404, 404));
    // All of a run, and all of a user.
    add("I live in Lyon, and row on Thursdays.", json!({ "run_id": "friday" }));
    let delete = |query: &str| server.send("DELETE", &format!("/v1/memories/?{query}"), &[], None).status;
    assert_eq!((delete("user_id=ada&run_id=friday"), delete("user_id=ada&run_id=friday")), (200, 404));
    assert_eq!(memories(ada()), ["My boat is green."]);
    add("I live in Lyon, and row on Thursdays.", json!({}));
    assert_eq!((delete("user_id=ada"), delete("user_id=ada")), (200, 404));
    assert_eq!((memories(ada()).len(), facts(&server, FACTS).len()), (0, 0));
    // A user may be named as the collection is, and have facts alone.
    let named = json!({ "messages": "I live in Lyon.", "user_id": "facts", "infer": false });
    let id = server.post(ADD, named).body["results"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&format!("/v1/memories/{id}/")).body["memory"], "I live in Lyon.");
    server.post(ADD, json!({ "messages": "I live in Lyon.", "user_id": "bea" }));
    let users = server.get("/v1/entities/").body;
    let counts: Vec<_> =
        users["results"].as_array().unwrap().iter().map(|user| (&user["id"], &user["total_memories"])).collect();
    assert_eq!(counts, [(&json!("bea"), &json!(2)), (&json!("facts"), &json!(1))]);
}

#[test]
fn mem0_says_what_failed_and_stores_nothing() {
    let replies = [Reply::error(500, "broken"), Reply::text("I cannot do that."), Reply::text("{}")];
    let (db, llm) = (Db::new(), LlmServer::replies(replies));
    let server = with_model(&db, &llm, &[]);
    let body = json!({ "messages": "I row.", "user_id": "ada" });
    for (status, part) in [(503, "infer=False"), (502, "nothing was stored")] {
        let answer = server.post(ADD, body.clone());
        assert!(answer.status == status && answer.body["detail"].as_str().unwrap().contains(part), "{}", answer.body);
    }
    assert_eq!(server.post(LIST, json!({ "filters": { "user_id": "ada" } })).body["count"], 0);
    assert_eq!(server.post(ADD, body.clone()).body, json!({ "results": [] }));
    assert_eq!(formation(&server)["blocks"][0]["failures"], 2);
    // Without a model nothing is extracted, whatever is asked for.
    drop(server);
    let server = Server::start(&db);
    let added = server.post(ADD, json!({ "messages": "I row.", "user_id": "ada", "infer": true })).body;
    assert_eq!(events(&added), [["I row.".to_owned(), "ADD".to_owned()]]);
}

/// A slow model takes a place of slow requests alone, and its answer has longer than other requests.
#[test]
fn mem0_waits_for_a_slow_model() {
    let (db, llm) = (Db::new(), LlmServer::new(|request| knows_ada(request).after(Duration::from_secs(3))));
    let server = with_model(&db, &llm, &["--request-timeout", "1", "--max-requests", "4"]);
    let add = || server.post(ADD, json!({ "messages": "I live in Lyon.", "user_id": "ada" }));
    std::thread::scope(|scope| {
        let slow = scope.spawn(add);
        until("the model is asked", || (!llm.requests().is_empty()).then_some(()));
        assert_eq!(add().status, 503, "the only place for slow requests is taken");
        assert_eq!(server.get("/v1/entities/").status, 200);
        let slow = slow.join().unwrap();
        assert_eq!((slow.status, events(&slow.body).len()), (200, 2), "{}", slow.body);
    });
}

/// A filter beside the user finds a fact among thousands that are nearer to the question.
#[test]
fn a_filter_finds_a_fact_behind_a_thousand_others() {
    let (db, llm) = (Db::new(), LlmServer::new(knows_ada));
    let engine = mnemon::Engine::builder(&db.path).open().unwrap();
    let items: mnemon::Namespace = "users/ada/facts".parse().unwrap();
    let put = |at: usize| {
        let value = match at {
            0 => json!({ "text": "The mast is green.", "metadata": { "topic": "boat" } }),
            _ => json!({ "text": format!("Ada rows on day {at}.") }),
        };
        let options = mnemon::DocumentOptions::default().index(["text"]);
        mnemon::document::DocumentOperation::Put { namespace: items.clone(), key: format!("f{at}"), value, options }
    };
    for from in (0..1500).step_by(500) {
        engine.blocking().document_batch((from..from + 500).map(put).collect()).unwrap();
    }
    engine.blocking().flush().unwrap();
    drop(engine);
    let server = with_model(&db, &llm, &[]);
    let filters = json!({ "AND": [{ "user_id": "ada" }, { "metadata": { "topic": "boat" } }] });
    let found = server.post("/v3/memories/search/", json!({ "query": "When does Ada row?", "filters": filters })).body;
    assert_eq!(events(&found), [["The mast is green.".to_owned(), String::new()]], "{found}");
}
