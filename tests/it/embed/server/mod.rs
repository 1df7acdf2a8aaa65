//! `OpenAiEmbedder`, with a scripted server on this machine.

mod turns;

use std::{
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mnemon::{Embedder, Error, ModelIdentity, OpenAiEmbedder, Query, RankingStrategy, Result};
use serde_json::{Value, json};

use crate::support::{
    Db, Hashing, chain, message, namespace,
    servers::{End, LlmServer, RecordedRequest, Reply},
};

const KEY: &str = "sk-secret-1234567890";
const DIMENSION: usize = 24;
const MS: fn(u64) -> Duration = Duration::from_millis;

fn embedder(server: &LlmServer) -> OpenAiEmbedder {
    OpenAiEmbedder::new(server.base_url(), "small", DIMENSION).api_key(KEY).backoff(MS(1))
}

fn inputs(request: &RecordedRequest) -> Vec<&str> {
    request.body["input"].as_array().unwrap().iter().map(|input| input.as_str().unwrap()).collect()
}

/// Returns the vector of a text that the servers of these tests send.
fn vector(text: &str) -> Vec<f32> {
    Hashing::new(DIMENSION).embed_query(text).unwrap()
}

fn vectors(texts: &[&str]) -> Vec<Vec<f32>> {
    texts.iter().map(|text| vector(text)).collect()
}

/// Answers with the inputs' vectors in the requested format, three times as long as they should be, the last one first.
fn answer(request: &RecordedRequest) -> Reply {
    let encode = |row: Vec<f32>| -> Value {
        let row = row.into_iter().map(|x| 3.0 * x);
        match request.body["encoding_format"].as_str() {
            Some("base64") => STANDARD.encode(row.flat_map(f32::to_le_bytes).collect::<Vec<_>>()).into(),
            format => {
                assert!(format.is_none());
                row.collect::<Vec<_>>().into()
            }
        }
    };
    let rows = inputs(request).into_iter().enumerate();
    let rows =
        rows.map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": encode(vector(text))}));
    embeddings(rows.rev().collect())
}

fn embeddings(data: Vec<Value>) -> Reply {
    Reply::json(200, json!({"object": "list", "data": data, "model": "small", "usage": {"prompt_tokens": 7}}))
}

/// An answer to one input.
fn embedding(embedding: Value) -> Reply {
    embeddings(vec![json!({"index": 0, "embedding": embedding})])
}

#[track_caller]
fn assert_near(found: &[Vec<f32>], wanted: &[Vec<f32>]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
        assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
    }
}

/// Returns all texts of an error, and asserts that none contains the key.
#[track_caller]
fn shown(embedder: &OpenAiEmbedder, error: &Error) -> String {
    let shown = format!("{error:?} {embedder:?} {}", chain(error));
    assert!(!shown.contains(KEY), "{shown}");
    shown
}

#[test]
fn a_request_has_the_fields_of_the_protocol_and_its_answer_is_read() {
    let server = LlmServer::new(answer);
    let plain = embedder(&server);
    assert_near(
        &plain.embed_documents(&["Ada lives in Lyon", "so do I"]).unwrap(),
        &vectors(&["Ada lives in Lyon", "so do I"]),
    );
    let requests = server.requests();
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/v1/embeddings"));
    assert_eq!(requests[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(requests[0].headers["content-type"], "application/json");
    let wanted = json!({"model": "small", "input": ["Ada lives in Lyon", "so do I"], "encoding_format": "base64"});
    assert_eq!(requests[0].body, wanted);

    let other = OpenAiEmbedder::new(format!("{}/", server.base_url()), "small", DIMENSION)
        .base64(false)
        .send_dimension(true)
        .query_prefix("query: ")
        .document_prefix("passage: ");
    assert_near(&[other.embed_query("where?").unwrap()], &vectors(&["query: where?"]));
    assert_near(&other.embed_documents(&["here"]).unwrap(), &vectors(&["passage: here"]));
    let requests = server.requests();
    assert_eq!(requests[1].body, json!({"model": "small", "input": ["query: where?"], "dimensions": DIMENSION}));
    assert_eq!(requests[2].body["input"], json!(["passage: here"]));
    assert_eq!(requests[2].path, "/v1/embeddings");
    assert!(!requests[2].headers.contains_key("authorization"));
}

#[test]
fn empty_texts_are_not_sent() {
    let server = LlmServer::new(answer);
    let embedder = embedder(&server).document_prefix("passage: ");
    assert_eq!(embedder.embed_documents(&[]).unwrap(), [[0.0; 0]; 0]);
    assert_eq!(embedder.embed_documents(&["", " \n\u{3000}"]).unwrap(), [[0.0; DIMENSION]; 2]);
    assert_eq!(embedder.embed_query("\t").unwrap(), [0.0; DIMENSION]);
    assert_eq!(server.requests().len(), 0);
    let rows = embedder.embed_documents(&["", "word", " "]).unwrap();
    assert_near(&rows, &[vec![0.0; DIMENSION], vector("passage: word"), vec![0.0; DIMENSION]]);
    assert_eq!(server.requests()[0].body["input"], json!(["passage: word"]));
}

/// Starts a server that answers after a time. Returns it with the greatest number of requests that ran at once.
fn counting_server(
    time: impl Fn(&RecordedRequest) -> Duration + Send + Sync + 'static,
) -> (LlmServer, Arc<AtomicUsize>) {
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&most);
    let server = LlmServer::new(move |request| {
        counted.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(time(request));
        running.fetch_sub(1, Ordering::SeqCst);
        answer(request)
    });
    (server, most)
}

#[test]
fn many_texts_are_embedded_in_order() {
    let (server, most) = counting_server(|request| MS(request.number as u64 * 7 % 20));
    let texts: Vec<String> = (0..300).map(|i| format!("{i} {}", "word ".repeat(i % 11))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let embedder = embedder(&server).max_inputs(10).max_request_bytes(285).concurrent_requests(3);
    assert_near(&embedder.embed_documents(&texts).unwrap(), &vectors(&texts));
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let requests = server.requests();
    let sizes: Vec<(usize, usize)> = requests.iter().map(|r| (inputs(r).len(), inputs(r).concat().len())).collect();
    assert!(sizes.iter().all(|&(inputs, bytes)| inputs <= 10 && bytes <= 285), "{sizes:?}");
    assert!(
        sizes.iter().any(|&(inputs, _)| inputs == 10)
            && sizes.iter().any(|&(inputs, _)| inputs < 10)
            && requests.len() < 60,
        "{sizes:?}"
    );
    // What is larger than a request may be is alone in one.
    assert_near(&embedder.max_request_bytes(0).embed_documents(&texts[..5]).unwrap(), &vectors(&texts[..5]));
    assert_eq!(server.requests().len() - requests.len(), 5);
}

#[test]
fn clones_share_the_limit_of_concurrent_requests() {
    let (server, most) = counting_server(|_| MS(5));
    let embedder = embedder(&server).max_inputs(1);
    thread::scope(|scope| {
        for _ in 0..5 {
            let embedder = embedder.clone();
            scope.spawn(move || embedder.embed_documents(&["a", "b", "c", "d"]).unwrap());
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(server.requests().len(), 20);
}

#[test]
fn long_texts_are_split() {
    let server = LlmServer::new(answer);
    let small = embedder(&server).max_bytes(150).query_prefix("q: ").document_prefix("passage: ");
    let text = "All work and no play makes Jack a dull boy. ".repeat(30);
    let windows = small.windows(&text);
    assert!(windows.len() > 8 && windows.iter().all(|window| window.len() <= 141), "{windows:?}");
    let error = small.embed_documents(&["short", &text]).unwrap_err();
    assert!(shown(&small, &error).contains("was not split; the maximum is 141"), "{error}");
    assert!(small.embed_query(&text).is_err());
    assert_eq!(server.requests().len(), 0);

    let db = Db::new();
    let space = namespace("a");
    let engine = db.open_with(Arc::new(small));
    engine.blocking().put(&space, vec![message("long", &text), message("short", "Where is Jack?")]).unwrap();
    assert_eq!(engine.blocking().flush().unwrap().embedded, 2);
    assert!(server.requests().iter().all(|request| inputs(request).iter().all(|input| input.len() <= 150)));
    assert_eq!(engine.blocking().recall(&space, Query::new(text).k(1)).unwrap()[0].message.id, "long");
    drop(engine);
    db.assert_sound();
}

#[test]
fn the_identity_depends_on_what_changes_vectors() {
    let base = || OpenAiEmbedder::new("http://a/v1", "small", 8);
    let hash = |embedder: OpenAiEmbedder| embedder.identity().hash.clone();
    let ModelIdentity { name, dimension, .. } = base().identity().clone();
    assert_eq!((name.as_str(), dimension), ("small", 8));
    let same = [
        OpenAiEmbedder::new("http://b/v2/", "small", 8),
        base()
            .api_key(KEY)
            .attempts(5)
            .concurrent_requests(7)
            .requests_per_minute(3)
            .base64(false)
            .send_dimension(true),
        base().query_prefix("q").query_prefix(""),
    ];
    for other in same {
        assert_eq!(hash(base()), hash(other));
    }
    let mut hashes = vec![
        hash(base()),
        hash(OpenAiEmbedder::new("http://a/v1", "large", 8)),
        hash(OpenAiEmbedder::new("http://a/v1", "small", 9)),
        hash(base().query_prefix("x")),
        hash(base().document_prefix("x")),
        hash(base().max_bytes(500)),
    ];
    assert!(hashes.iter().all(|hash| hash.len() == 64));
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 6);
}

#[test]
fn transient_failures_are_retried() {
    let row = json!(vector("hi"));
    let failures = [
        Reply::error(429, "slow down"),
        Reply::error(500, "broken"),
        Reply::error(503, "overloaded"),
        Reply::error(408, "slow"),
        Reply::new(200, "{"),
        Reply::new(200, ""),
        Reply::json(200, json!([1])),
        Reply::json(200, json!({"error": {"message": "overloaded"}})),
        embeddings(vec![]),
        embeddings(vec![json!({"embedding": row}), json!({"embedding": row})]),
        embeddings(vec![json!({"index": 3, "embedding": row})]),
        embeddings(vec![json!({"index": 0})]),
        embedding(json!("not base64")),
        embedding(json!([null])),
        embedding(row.clone()).end(End::Half),
        embedding(row.clone()).end(End::Nothing),
    ];
    for failing in failures {
        let shown = format!("{failing:?}");
        let server = LlmServer::new(move |request| if request.number == 0 { failing.clone() } else { answer(request) });
        assert_near(&embedder(&server).embed_documents(&["hi"]).expect(&shown), &vectors(&["hi"]));
        assert_eq!(server.requests().len(), 2, "{shown}");
    }
}

/// The rows: a reply, whether `EmbedderUnavailable` is transient (`None` for another error), the number of requests,
/// and a part of the error's text.
#[test]
fn errors_name_what_failed() {
    let row = |length: usize| embedding(json!(vec![0.5; length]));
    let base64 =
        |row: Vec<f32>| embedding(STANDARD.encode(row.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()).into());
    let mut poisoned = vector("hi");
    poisoned[3] = f32::NAN;
    let twice = json!({"index": 0, "embedding": vector("hi")});
    let rows = [
        (Reply::error(500, "broken"), None, 3, "answered 500 Internal Server Error: broken (3 attempts)"),
        (Reply::error(502, "broken"), None, 3, "answered 502 Bad Gateway: broken (3 attempts)"),
        (Reply::error(500, "down").header("Retry-After", "0"), Some(true), 3, "down (3 attempts); try again in 0 s"),
        (Reply::error(503, "overloaded"), Some(true), 3, "overloaded (3 attempts); try again later"),
        (Reply::error(503, "loading").header("Retry-After", "90"), Some(true), 1, "loading; try again in 90 s"),
        (Reply::error(504, "slow"), Some(true), 3, "slow (3 attempts); try again later"),
        (Reply::error(500, &format!("key {KEY} is fine")), None, 3, "key *** is fine"),
        (Reply::error(400, "maximum context length is 8192"), None, 1, "400 Bad Request: maximum context length"),
        (Reply::error(403, "moderated"), None, 1, "403 Forbidden: moderated"),
        (Reply::error(401, &format!("Incorrect API key provided: {KEY}.")), Some(false), 1, "key provided: ***"),
        (Reply::json(404, json!({"error": "no model small"})), Some(false), 1, "no model small"),
        (Reply::new(308, "").header("location", "http://127.0.0.1:9"), Some(false), 1, "a redirect; give the URL"),
        (Reply::error(429, "slow down"), Some(true), 3, "slow down (3 attempts); try again later"),
        (Reply::new(200, "{"), None, 3, "answered with text that is not JSON"),
        (Reply::json(200, json!({"error": {"message": "loading"}})), None, 3, "answered with no vectors: loading"),
        (Reply::json(200, json!({"data": KEY})), None, 3, "invalid type: string \"***\""),
        (embeddings(vec![]), None, 3, "answered with 0 vectors for 1 inputs"),
        (embeddings(vec![twice.clone(), twice]), None, 3, "answered with 2 vectors for 1 inputs"),
        (
            embeddings(vec![json!({"index": 1, "embedding": [1]})]),
            Some(false),
            1,
            "returns vectors of 1 components, not 24",
        ),
        (row(25), Some(false), 1, "give 25 as the dimension, or set `send_dimension`"),
        (row(20_000), Some(false), 1, "give 20000 as the dimension"),
        (base64(poisoned), None, 1, "answered with vector 0 with NaN in it"),
        (embedding(json!([1, 1e39])), None, 3, "number out of range"),
        (embedding(json!("x".repeat(8192 * 32))), None, 1, "answered with more than 262144 bytes"),
        (row(DIMENSION).end(End::Half), None, 3, "no answer from http://127.0.0.1"),
    ];
    for (reply, unavailable, requests, wanted) in rows {
        let server = LlmServer::replies([reply]);
        let embedder = embedder(&server);
        for error in [embedder.embed_documents(&["hi"]).unwrap_err(), embedder.embed_query("hi").unwrap_err()] {
            let said = shown(&embedder, &error);
            assert!(said.contains(wanted), "{wanted}: {said}");
            let found = match error {
                Error::EmbedderUnavailable { transient, .. } => Some(transient),
                Error::Embedding { .. } => None,
                _ => panic!("{said}"),
            };
            assert_eq!(found, unavailable, "{said}");
        }
        assert_eq!(server.requests().len(), 2 * requests, "{wanted}");
    }
}

#[test]
fn unreachable_servers_and_wrong_urls_are_errors() {
    let server = LlmServer::new(answer);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rows = [
        (
            format!("http://ada:{KEY}@{nobody}"),
            KEY.to_owned(),
            true,
            format!("no answer from http://{nobody} (3 attempts)"),
        ),
        ("nowhere".to_owned(), KEY.to_owned(), false, "no".to_owned()),
        (format!("ada:{KEY}@{nobody}"), KEY.to_owned(), false, format!("no request can be made to {nobody}")),
        (format!("http:/ada:{KEY}@{nobody}"), KEY.to_owned(), false, format!("no request can be made to {nobody}")),
        (server.base_url(), format!("{KEY}\n{KEY}"), false, "no request can be made to".to_owned()),
    ];
    for (url, key, may_pass, wanted) in rows {
        let embedder = OpenAiEmbedder::new(url, "small", DIMENSION).api_key(key).backoff(MS(1));
        let error = embedder.embed_query("hi").unwrap_err();
        let said = shown(&embedder, &error);
        assert!(said.contains(&wanted), "{wanted}: {said}");
        assert!(matches!(error, Error::EmbedderUnavailable { transient, .. } if transient == may_pass), "{said}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn pending_messages_are_embedded_when_the_server_comes_back() {
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let embedder = OpenAiEmbedder::new(format!("http://{address}/v1"), "small", DIMENSION).backoff(MS(1));
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open_with(Arc::new(embedder));
    let messages = (0..500).map(|i| message(&format!("{i}"), &format!("text number{i}"))).collect();
    engine.blocking().put(&space, messages).unwrap();
    let error = engine.blocking().flush().unwrap_err();
    assert!(matches!(error, Error::EmbedderUnavailable { transient: true, .. }), "{error}");
    let found = engine.blocking().recall(&space, Query::new("text")).unwrap();
    assert!(found.len() == 10 && found.not_embedded().is_some(), "{found:?}");
    assert!(engine.blocking().recall(&space, Query::new("text").strategy(RankingStrategy::Dense)).is_err());
    assert_eq!(engine.blocking().pending().unwrap(), 500);
    assert_eq!(engine.blocking().get(&space, "3").unwrap().unwrap().text(), "text number3");

    // It is there again, but takes nothing for now, and then goes down midway.
    let state = Arc::new(Mutex::new("busy"));
    let server = LlmServer::at(address, {
        let state = state.clone();
        move |request| match *state.lock().unwrap() {
            "busy" => Reply::error(429, "slow down"),
            "broken" => Reply::error(500, "broken"),
            _ => answer(request),
        }
    });
    let asked = || {
        let before = server.requests().len();
        let error = engine.blocking().flush().unwrap_err();
        (error, server.requests().len() - before)
    };
    let (error, requests) = asked();
    assert!(matches!(error, Error::EmbedderUnavailable { transient: true, .. }), "{error}");
    // Two at a time, three attempts each.
    assert!(requests <= 6, "{requests}");
    *state.lock().unwrap() = "broken";
    let (error, requests) = asked();
    assert!(matches!(error, Error::Embedding { .. }), "{error}");
    // The same, and three attempts for any other text.
    assert!(requests <= 9, "{requests}");
    assert_eq!(engine.blocking().pending().unwrap(), 500);

    *state.lock().unwrap() = "well";
    assert_eq!(engine.blocking().flush().unwrap().embedded, 500);
    let hits = engine.blocking().recall(&space, Query::new("number77").k(1)).unwrap();
    assert_eq!(hits[0].message.id, "77");
    drop(engine);
    assert_eq!(db.assert_sound().pending, 0);
}

#[test]
fn a_text_that_the_server_refuses_does_not_block_the_others() -> Result<()> {
    let server = LlmServer::new(|request| match inputs(request).iter().any(|input| input.contains("poison")) {
        true => Reply::error(400, "this input is refused"),
        false => answer(request),
    });
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open_with(Arc::new(embedder(&server)));
    let mut messages: Vec<_> = (0..400).map(|i| message(&format!("{i}"), "fine")).collect();
    messages.insert(133, message("bad", "poison"));
    engine.blocking().put(&space, messages)?;
    let error = engine.blocking().flush().unwrap_err();
    assert!(chain(&error).contains("message \"bad\" stays pending") && chain(&error).contains("is refused"), "{error}");
    assert_eq!(engine.blocking().pending()?, 1);
    // To halve 256 down to one: at each step two halves of one or two requests each, and a text that is well.
    assert!(server.requests().len() < 40, "{}", server.requests().len());
    drop(engine);
    assert_eq!(db.assert_sound().pending, 1);
    Ok(())
}
