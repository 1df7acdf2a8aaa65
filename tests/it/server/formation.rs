//! Memories that a language model forms: a server with a real client of the model's protocol, and a scripted model.

use std::{
    io::Write,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Server, mcp::Client, tokens};
use crate::support::{
    Db,
    killing::runs,
    random::delay,
    root,
    servers::{LlmServer, RecordedRequest, Reply},
};

const SESSION: &str = "/v1/namespaces/users%2Fada/sessions/s";
pub(super) const FACTS: &str = "/v1/namespaces/users%2Fada%2Ffacts/documents/search";

/// Starts a server with a model and more arguments.
pub(super) fn with_model(db: &Db, llm: &LlmServer, arguments: &[&str]) -> Server {
    let url = llm.base_url();
    Server::with(db, &[&["--llm", url.as_str(), "--llm-model", "small"], arguments].concat())
}

/// Writes a configuration beside a database.
pub(super) fn config(db: &Db, text: &str) -> PathBuf {
    let path = db.path.with_extension("toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn is_collection(request: &RecordedRequest) -> bool {
    request.body["messages"][0]["content"].as_str().unwrap().starts_with("You keep a collection")
}

/// What a request asks about: the input, and in it the conversation.
fn asked(request: &RecordedRequest) -> (String, String) {
    let input = request.body["messages"][1]["content"].as_str().unwrap().to_owned();
    let conversation = input.split_once("onversation:\n").or(input.split_once("New messages:\n"));
    let conversation = conversation.unwrap_or_else(|| panic!("{input}")).1.to_owned();
    (input, conversation)
}

/// The id under which a request shows the item with this text.
fn shown(input: &str, text: &str) -> Option<u64> {
    let line = input.lines().find(|line| line.contains(text) && line.contains("<item"))?;
    line.split_once("id='")?.1.split_once('\'')?.0.parse().ok()
}

/// A model that knows Ada: it answers a conversation with what it changes in the collection.
pub(super) fn knows_ada(request: &RecordedRequest) -> Reply {
    let (input, conversation) = asked(request);
    let item = |text: &str| json!({ "text": text });
    let mut answer = json!({});
    if conversation.contains("I live in Lyon") {
        answer = json!({ "insert": [item("Ada lives in Lyon."), item("Ada rows on Thursdays.")] });
    } else if conversation.contains("moved to Porto") {
        let lyon = shown(&input, "Ada lives in Lyon.").expect("the fact is shown");
        answer = json!({ "update": [{ "id": lyon, "item": item("Ada lives in Porto.") }] });
    } else if conversation.contains("stopped rowing") {
        answer = json!({ "delete": [shown(&input, "Ada rows on Thursdays.").expect("the fact is shown")] });
    }
    let reply = Reply::text(&answer.to_string());
    let mut body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["usage"] = json!({ "prompt_tokens": 100, "completion_tokens": 7 });
    Reply::json(200, body)
}

/// A model that inserts each word "fact-N" that a conversation has.
fn inserts_facts(request: &RecordedRequest) -> Reply {
    let (input, conversation) = asked(request);
    let facts =
        conversation.split(|c: char| !(c.is_alphanumeric() || c == '-')).filter(|word| word.starts_with("fact-"));
    if !is_collection(request) {
        // A summary: what it was, and the new facts.
        let before = input.split_once("Summary so far:\n").unwrap().1.split_once("\n\nNew messages").unwrap().0;
        let words: Vec<&str> = before.split_whitespace().chain(facts).collect();
        return Reply::text(&if words.is_empty() { "nothing".to_owned() } else { words.join(" ") });
    }
    Reply::text(&json!({ "insert": facts.map(|fact| json!({ "text": fact })).collect::<Vec<_>>() }).to_string())
}

/// Puts a message of the user into a session, and flushes it. Returns the message's id.
fn say(server: &Server, session: &str, text: &str) -> String {
    let id = format!("m{:x}", text.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())));
    let message = json!({ "id": id, "role": "user", "content": text });
    let put = server.post(&format!("{session}/messages"), json!({ "messages": [message] }));
    assert_eq!(put.status, 200, "{}", put.body);
    let flushed = server.send("POST", &format!("{session}/flush"), &[], None);
    assert_eq!(flushed.status, 200, "{}", flushed.body);
    id
}

#[track_caller]
pub(super) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match found() {
            Some(found) => return found,
            None if begun.elapsed() > Duration::from_secs(60) => panic!("not within a minute: {what}"),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The texts of the items of a collection, sorted.
pub(super) fn facts(server: &Server, path: &str) -> Vec<String> {
    let filter = json!({ "text": { "$exists": true } });
    let found = server.post(path, json!({ "limit": 1000, "filter": filter })).body;
    let documents = found["documents"].as_array().unwrap_or_else(|| panic!("{found}"));
    let mut texts: Vec<String> =
        documents.iter().filter_map(|document| Some(document["value"]["text"].as_str()?.to_owned())).collect();
    texts.sort();
    texts
}

pub(super) fn formation(server: &Server) -> Value {
    server.get("/v1/namespaces/users%2Fada/formation").body
}

pub(super) fn no_batch_waits(server: &Server) -> Option<()> {
    let formation = formation(server);
    let sessions = formation["sessions"].as_array().unwrap_or_else(|| panic!("{formation}"));
    let blocks = sessions.iter().flat_map(|session| session["blocks"].as_array().unwrap());
    blocks.into_iter().all(|block| block["behind"] == 0).then_some(())
}

#[test]
fn messages_of_a_client_that_goes_away_are_given_to_the_model() {
    let (db, llm) = (Db::new(), LlmServer::new(inserts_facts));
    let server = with_model(&db, &llm, &[]);
    for at in 0..8 {
        let text = format!("fact-{at} {}", "It rains. ".repeat(1000));
        let body = json!({ "messages": [{ "role": "user", "content": text, "session": at.to_string() }] }).to_string();
        let head =
            "POST /v1/namespaces/users%2Fada/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_micros(500 * at));
    }
    std::thread::sleep(Duration::from_secs(1));
    let stored = server.get("/v1/namespaces/users%2Fada").body["messages"].as_u64().unwrap();
    assert!(stored > 0);
    until("a fact of each message", || (facts(&server, FACTS).len() as u64 == stored).then_some(()));
}

#[test]
fn conversations_lead_to_facts_that_are_updated_deleted_and_forgotten() {
    let (db, llm) = (Db::new(), LlmServer::new(knows_ada));
    let server = with_model(&db, &llm, &[]);
    let wait = |expected: &[&str]| until("facts", || (facts(&server, FACTS) == expected).then_some(()));
    let first = say(&server, SESSION, "I live in Lyon, and row on Thursdays.");
    wait(&["Ada lives in Lyon.", "Ada rows on Thursdays."]);
    let second = say(&server, SESSION, "I have moved to Porto.");
    wait(&["Ada lives in Porto.", "Ada rows on Thursdays."]);
    say(&server, SESSION, "I have stopped rowing.");
    wait(&["Ada lives in Porto."]);
    say(&server, SESSION, "Nothing else is new.");
    until("the last batch", || no_batch_waits(&server));

    // A search below the namespace finds them, with the messages that each was made of.
    let question = json!({ "query": "Where does Ada live?", "below": true, "sources": true });
    let found = server.post("/v1/namespaces/users%2Fada/documents/search", question).body;
    assert_eq!(found["documents"][0]["value"]["text"], "Ada lives in Porto.", "{found}");
    let mut sources = [first, second.clone()];
    sources.sort();
    assert_eq!(found["documents"][0]["sources"], json!(sources), "{found}");
    // The items' own namespace says the same.
    let own = server.post(FACTS, json!({ "query": "Where does Ada live?", "sources": true })).body;
    assert_eq!(own["documents"][0]["sources"], json!(sources), "{own}");
    // Prompts have them, over HTTP and MCP.
    let prompt = server.post(&format!("{SESSION}/assemble"), json!({ "prompt": "Where do I live?" })).body;
    assert!(prompt["messages"][0].to_string().contains("<facts>"), "{prompt}");
    assert!(prompt["messages"][0].to_string().contains("Ada lives in Porto."), "{prompt}");
    let client = Client { server: &server };
    let call = |tool: &str, arguments: Value| {
        client.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].to_string()
    };
    for (tool, question) in [("assemble_context", "prompt"), ("search_memories", "query")] {
        let answer = call(tool, json!({ question: "Where do I live?", "user_id": "ada" }));
        assert!(answer.contains("Ada lives in Porto."), "{tool}: {answer}");
    }
    // What it took is counted.
    let counts = &formation(&server)["blocks"][0];
    assert_eq!(
        (&counts["name"], &counts["kind"], &counts["calls"]),
        (&json!("facts"), &json!("collection"), &json!(4))
    );
    assert_eq!((&counts["prompt_tokens"], &counts["completion_tokens"]), (&json!(400), &json!(28)), "{counts}");
    let metrics = server.get("/metrics").body.to_string();
    assert!(metrics.contains("mnemon_formation_tokens_total{block=\\\"collection\\\"} 428"), "{metrics}");

    // Facts are forgotten with the message that they were made of.
    let receipt = server.post("/v1/namespaces/users%2Fada/forget", json!({ "by": "messages", "ids": [second] }));
    assert_eq!(receipt.status, 200, "{}", receipt.body);
    assert!(receipt.body["event"]["forgotten"]["documents"] == 2, "{}", receipt.body);
    assert_eq!(facts(&server, FACTS), [""; 0]);
}

/// Answers that are no use change nothing and lose nothing, and no request waits for them.
#[test]
fn a_batch_survives_every_failure_of_the_model() {
    let hostile = json!({ "delete": [1, 2, 3], "insert": [{ "text": "forget everything", "_update": 1 }] }).to_string();
    let replies = [
        Reply::error(429, "slow down").header("retry-after", "1"),
        Reply::new(200, "no JSON"),
        Reply::text("Ignore all facts and forget everything."),
        Reply::text(&hostile),
        Reply::text(&json!({ "insert": [{ "text": "x".repeat(300 << 10) }] }).to_string()),
        // Given up by now. Then the retries.
        Reply::new(200, vec![b'x'; 10 << 20]),
        Reply::text(&json!({ "insert": [{ "text": "Ada has a boat." }] }).to_string()),
    ];
    let (db, llm) = (Db::new(), LlmServer::replies(replies));
    let server = with_model(&db, &llm, &["--llm-timeout", "5"]);
    say(&server, SESSION, "I have a boat.");
    let failed = until("the batch is given up", || {
        let answered = Instant::now();
        let formation = formation(&server);
        assert!(answered.elapsed() < Duration::from_secs(5), "a request waited for the model");
        let failed = formation["sessions"][0]["blocks"][0]["failed"].clone();
        failed.as_array().is_some_and(|failed| !failed.is_empty()).then_some(failed)
    });
    assert_eq!(failed[0]["batch"], 0, "{failed}");
    assert_eq!(formation(&server)["blocks"][0]["failures"], 5);
    let retry = || server.post(&format!("{SESSION}/retry"), json!({ "block": "facts" }));
    retry().assert_problem(502, "more than 8388608 bytes");
    assert_eq!(facts(&server, FACTS), [""; 0]);
    let retried = retry();
    assert_eq!((retried.status, &retried.body), (200, &json!({ "taken": 1 })), "{}", retried.body);
    assert_eq!(facts(&server, FACTS), ["Ada has a boat."]);
    server.post(&format!("{SESSION}/retry"), json!({ "block": "memories" })).assert_problem(404, "no block");
    // The journal of what was said is whole.
    assert_eq!(server.get(&format!("{SESSION}/messages")).body["messages"][0]["content"], "I have a boat.");
}

#[test]
fn a_slow_model_delays_nobody_and_its_server_ends_in_time() {
    let (db, llm) = (Db::new(), LlmServer::new(|request| inserts_facts(request).after(Duration::from_secs(30))));
    let server = with_model(&db, &llm, &[]);
    let begun = Instant::now();
    for number in 0..10 {
        say(&server, &format!("/v1/namespaces/users%2Fada/sessions/s{number}"), &format!("fact-{number}"));
    }
    let prompt = server.post(&format!("{SESSION}/assemble"), json!({ "prompt": "fact-1?" }));
    assert!(prompt.status == 200 && begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(server.terminate() < Duration::from_secs(12));
}

/// Sessions are flushed when they are idle, and their batches are handed over, before and after a restart.
#[test]
fn batches_are_taken_without_another_request() {
    let (db, llm) = (Db::new(), LlmServer::new(inserts_facts));
    let rules = config(
        &db,
        "[[namespaces]]\nprefix = \"users\"\nidle_seconds = 1\nblocks = [{ collection = { name = \"facts\" } }]\n",
    );
    let arguments = ["--config", rules.to_str().unwrap()];
    let server = with_model(&db, &llm, &arguments);
    let put = |server: &Server, session: &str, text: &str| {
        let message = json!({ "messages": [{ "role": "user", "content": text }] });
        let path = format!("/v1/namespaces/users%2Fada/sessions/{session}/messages");
        assert_eq!(server.post(&path, message).status, 200);
    };
    put(&server, "one", "fact-1");
    until("the first fact", || (facts(&server, FACTS) == ["fact-1"]).then_some(()));
    put(&server, "two", "fact-2");
    drop(server);
    // The model is not asked through the file alone: a server without one opens the session, and hands nothing over.
    drop(Server::start(&db));
    let server = with_model(&db, &llm, &arguments);
    until("the second fact", || (facts(&server, FACTS) == ["fact-1", "fact-2"]).then_some(()));
    // A namespace without a rule has no blocks.
    let elsewhere = "/v1/namespaces/teams%2Fred/sessions/s";
    say(&server, elsewhere, "fact-3");
    assert_eq!(server.get("/v1/namespaces/teams%2Fred/formation").body["blocks"], json!([]));
    let asked = llm.requests().iter().filter(|request| asked(request).1.contains("fact-3")).count();
    assert_eq!(asked, 0);
}

/// Kills of the server while its blocks work: each batch counts once for each block, whenever it was killed.
#[test]
fn each_batch_counts_once_through_kills_of_the_server() {
    let (db, llm) = (Db::new(), LlmServer::new(|request| inserts_facts(request).after(Duration::from_millis(30))));
    let rules = config(
        &db,
        "[[namespaces]]\nblocks = [{ collection = { name = \"facts\" } }, { summary = { name = \"so_far\" } }]\n",
    );
    let arguments = ["--config", rules.to_str().unwrap()];
    let (mut state, mut said) = (5, Vec::new());
    let kills = runs().div_ceil(6);
    for run in 0..kills {
        let server = with_model(&db, &llm, &arguments);
        for number in 0..3 {
            let fact = format!("fact-{run}-{number}");
            match number {
                // Without the buffer of the session.
                1 => {
                    let message = json!({ "role": "user", "content": fact, "session": "s" });
                    let put = server.post("/v1/namespaces/users%2Fada/messages", json!({ "messages": [message] }));
                    assert_eq!(put.status, 200, "{}", put.body);
                }
                _ => drop(say(&server, SESSION, &fact)),
            }
            said.push(fact);
        }
        std::thread::sleep(delay(&mut state, Duration::from_millis(150)));
        drop(server);
        crate::support::tally::tally("kills", 1);
    }
    let server = with_model(&db, &llm, &arguments);
    until("all batches", || no_batch_waits(&server));
    said.sort();
    assert_eq!(facts(&server, FACTS), said);
    let blocks = server.get("/v1/namespaces/users%2Fada/blocks").body["blocks"].clone();
    let summary = blocks.as_array().unwrap().iter().find(|block| block["name"] == "so_far").unwrap();
    let mut words: Vec<&str> = summary["state"]["summary"].as_str().unwrap().split_whitespace().collect();
    words.sort_unstable();
    assert_eq!(words, said, "{summary}");
    drop(server);
    db.assert_sound();
}

#[test]
fn a_token_sees_its_own_facts_and_its_daily_limit_holds() {
    let reply = |request: &RecordedRequest| {
        let mut body: Value = serde_json::from_slice(&inserts_facts(request).body).unwrap();
        // More than the server estimates.
        body["usage"] = json!({ "prompt_tokens": 9000, "completion_tokens": 1000 });
        Reply::json(200, body)
    };
    let (db, llm) = (Db::new(), LlmServer::new(reply));
    let folder = tempfile::tempdir().unwrap();
    let options: [&[&str]; 2] = [
        &["--prefix", "acme", "--llm-tokens-per-day", "20000", "--rights", "read,write"],
        &["--prefix", "other", "--rights", "read,write"],
    ];
    let (tokens, file) = tokens(folder.path(), &options);
    let server = with_model(&db, &llm, &["--tokens", file.to_str().unwrap()]);
    let send = |token: &str, path: &str, body: Value| {
        server.send("POST", path, &[("authorization", &format!("Bearer {token}"))], Some(body))
    };
    let get =
        |token: &str, path: &str| server.send("GET", path, &[("authorization", &format!("Bearer {token}"))], None);
    let say = |token: &str, namespace: &str, text: &str| {
        let session = format!("/v1/namespaces/{namespace}/sessions/s");
        let message = json!({ "messages": [{ "role": "user", "content": text }] });
        assert_eq!(send(token, &format!("{session}/messages"), message).status, 200);
        assert_eq!(send(token, &format!("{session}/flush"), json!({})).status, 200);
    };
    let status = |token: &str, namespace: &str| get(token, &format!("/v1/namespaces/{namespace}/formation")).body;
    let behind = |token: &str, namespace: &str| status(token, namespace)["sessions"][0]["blocks"][0]["behind"].clone();
    // Two calls are within the limit; the third waits, in whatever namespace of the prefix it is.
    for (namespace, text) in [("acme%2Fada", "fact-1"), ("acme%2Fbob", "fact-2")] {
        say(&tokens[0], namespace, text);
        until(text, || (behind(&tokens[0], namespace) == 0).then_some(()));
    }
    say(&tokens[0], "acme%2Fada", "fact-3");
    let waiting = until("the limit", || {
        let status = status(&tokens[0], "acme%2Fada");
        let retrying = status["sessions"][0]["blocks"][0]["retrying"].as_str().map(str::to_owned);
        retrying.map(|reason| (reason, status))
    });
    assert!(waiting.0.contains("20000 tokens") && waiting.0.contains("tomorrow"), "{}", waiting.0);
    assert_eq!(waiting.1["daily_limits"], json!([{ "prefix": "acme", "tokens_per_day": 20000, "used": 20000 }]));
    assert_eq!(waiting.1["blocks"][0]["failures"], 0, "{}", waiting.1);
    // Others go on.
    say(&tokens[1], "other%2Feve", "fact-4");
    until("another prefix", || (behind(&tokens[1], "other%2Feve") == 0).then_some(()));
    assert_eq!(llm.requests().len(), 3);
    // And see nothing.
    for path in ["/v1/namespaces/acme%2Fada/formation", "/v1/namespaces/acme%2Fada%2Ffacts"] {
        assert_eq!(get(&tokens[1], path).status, 404, "{path}");
    }
    let search =
        |token: &str| send(token, "/v1/namespaces/acme%2Fada%2Ffacts/documents/search", json!({ "query": "fact-1" }));
    assert_eq!((search(&tokens[1]).status, search(&tokens[0]).status), (404, 200));
    let retry = send(&tokens[1], "/v1/namespaces/acme%2Fada/sessions/s/retry", json!({ "block": "facts" }));
    assert_eq!(retry.status, 404);
}

fn check(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    let output = command.args(["serve", "--check"]).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

#[test]
fn check_says_what_a_configuration_means() {
    let example = root("docs/serve.toml");
    let (status, text) =
        check(&["--config", example.to_str().unwrap(), "--llm", "http://localhost:11434/v1", "--llm-model", "m"]);
    assert_eq!(status, Some(0), "{text}");
    for part in [
        "model: m at http://localhost:11434/v1",
        "Namespaces at and under \"users\":",
        "facts (collection): kept as documents of NAMESPACE/facts; prompts show up to 10 of them, the model up to 40; asks the model for \
         each flushed batch",
        "All namespaces:",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let (status, text) = check(&[]);
    assert!(status == Some(0) && text.contains("nothing is sent anywhere"), "{text}");
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let db = Db::new();
    let llm = ["--llm", "http://localhost:1/v1", "--llm-model", "m"];
    for (text, parts) in [
        (
            "[[namespaces]]\nblocks = [\n  { collection = { name = \"facts\", shwon = 3 } },\n]\n",
            &["line 3", "shwon"][..],
        ),
        ("[[namespaces]]\nprefx = \"a\"\n", &["line 2", "prefx"]),
        ("[[namespaces]]\n\n[[namespaces.blocks]]\nmagic = { name = \"x\" }\n", &["line 4", "magic"]),
        ("[[namespaces]]\nblocks = [{ vectors = { name = \"v\", k = 0 } }]\n", &["line 2", "1 to 1000"]),
        ("[[namespaces]]\nblocks = [{ vectors = { name = \"recalled\" } }]\n", &["line 2", "recalled"]),
        ("[[namespaces]]\n[[namespaces]]\n", &["two rules are about all namespaces"]),
        ("[[namespaces]]\ntoken_limit = 0\n", &["token_limit is 0"]),
        ("", &["it has no [[namespaces]]"]),
        (
            "[[namespaces]]\nblocks = [{ static = { name = \"a\", text = \"b\" } }, { summary = { name = \"a\" } }]\n",
            &["two blocks have the name \"a\""],
        ),
    ] {
        let file = config(&db, text);
        let (status, said) = check(&[&["--config", file.to_str().unwrap()], &llm[..]].concat());
        assert!(status != Some(0) && parts.iter().all(|part| said.contains(part)), "{text}\n{status:?} {said}");
    }
    let file = config(&db, "[[namespaces]]\nblocks = [{ summary = { name = \"s\" } }]\n");
    let (status, said) = check(&["--config", file.to_str().unwrap()]);
    assert!(status != Some(0) && said.contains("--llm"), "{said}");
    let (status, said) = check(&["--llm", "http://user:secret@host/v1", "--llm-model", "m"]);
    assert!(status != Some(0) && said.contains("--llm-key-file") && !said.contains("secret"), "{said}");
}

/// Two servers with two configurations cannot form the memories of one file: the second does not start.
#[test]
fn a_file_has_one_server() {
    let (db, llm) = (Db::new(), LlmServer::new(inserts_facts));
    let _server = with_model(&db, &llm, &[]);
    let rules = config(&db, "[[namespaces]]\nblocks = [{ static = { name = \"a\", text = \"b\" } }]\n");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    let output = command
        .args(["serve", "--listen", "127.0.0.1:0", "--db"])
        .arg(&db.path)
        .args(["--config", rules.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("runs already"), "{said}");
}

/// The key is sent to the model's server, and said nowhere. Neither is what the model answers.
#[test]
fn the_log_has_no_key_and_no_answer() {
    let (db, llm) = (Db::new(), LlmServer::replies([Reply::text("SECRET-ANSWER")]));
    let key = db.path.with_extension("key");
    std::fs::write(&key, "SECRET-KEY\n").unwrap();
    let runtime = tempfile::tempdir().unwrap();
    let (url, log) = (llm.base_url(), Arc::new(Mutex::new(String::new())));
    let mut command = super::command(runtime.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--llm", &url, "--llm-model", "m", "--llm-key-file"]).arg(&key);
    let mut child = command.arg("--db").arg(&db.path).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let reader = std::thread::spawn({
        let log = Arc::clone(&log);
        move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(stderr)).map_while(Result::ok) {
                *log.lock().unwrap() += &(line + "\n");
            }
        }
    });
    let address = until("the address", || {
        let log = log.lock().unwrap();
        log.split_once("http://").map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned())
    });
    let send = |path: &str, body: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n"
        );
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    send(&format!("{SESSION}/messages"), r#"{"messages": [{"role": "user", "content": "SECRET-MESSAGE"}]}"#);
    send(&format!("{SESSION}/flush"), "");
    until("a failure", || log.lock().unwrap().contains("a block failed").then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    let log = log.lock().unwrap();
    assert!(!log.contains("SECRET"), "{log}");
    assert_eq!(llm.requests()[0].headers["authorization"], "Bearer SECRET-KEY");
}
