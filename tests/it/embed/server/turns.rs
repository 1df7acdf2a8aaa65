//! Rate limits: the order of requests, and queries that do not wait for documents.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::*;

#[test]
fn the_wait_that_the_server_asks_for_is_kept() {
    let busy = |header: &str, value: &str| Reply::error(429, "slow down").header(header, value);
    let date = |seconds: u64| {
        let date = jiff::Timestamp::now() + Duration::from_secs(seconds);
        jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&date).unwrap()
    };
    let patient = |server: &LlmServer| embedder(server).backoff(Duration::from_secs(3600));
    // A date is of whole seconds, and the first one as time goes on.
    for (reply, least) in [
        (busy("Retry-After", &date(2)), 900),
        (busy("Retry-After", "1"), 1000),
        (busy("x-ratelimit-reset-requests", "600ms"), 600),
    ] {
        let server = LlmServer::new(move |request| if request.number == 0 { reply.clone() } else { answer(request) });
        let begin = Instant::now();
        patient(&server).embed_documents(&["hi"]).unwrap();
        let took = begin.elapsed();
        assert!(took >= MS(least) && took < Duration::from_secs(60), "{took:?}");
    }
    // More than a minute is not waited for, but told.
    let server = LlmServer::replies([busy("x-ratelimit-reset-tokens", "6m0s")]);
    let begin = Instant::now();
    let error = patient(&server).embed_documents(&["hi"]).unwrap_err();
    assert!(error.to_string().ends_with("slow down; try again in 360 s"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn requests_wait_for_their_turn() {
    let server = LlmServer::new(answer);
    // Two a second. Six may go at once, of which documents leave one and a half.
    let limited = embedder(&server).requests_per_minute(120).concurrent_requests(4);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..7 {
            let limited = limited.clone();
            scope.spawn(move || limited.embed_documents(&["text"]).unwrap());
        }
    });
    let took = begin.elapsed();
    assert!(took >= MS(1200) && took < Duration::from_secs(60), "{took:?}");
    // Which is for a question; otherwise it would wait for half a second.
    let begin = Instant::now();
    limited.embed_query("hi").unwrap();
    assert!(begin.elapsed() < MS(400), "{:?}", begin.elapsed());
    assert_eq!(server.requests().len(), 8);
}

#[test]
fn tokens_are_counted_as_the_answer_states() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = LlmServer::new({
        let asked = asked.clone();
        move |request| {
            asked.fetch_add(1, Ordering::SeqCst);
            let mut reply = answer(request);
            let mut body: Value = serde_json::from_slice(&reply.body).unwrap();
            // Of a question, no more than it has bytes is believed.
            let tokens = if inputs(request)[0].len() == 1000 { u64::MAX } else { 1000 };
            body["usage"]["prompt_tokens"] = tokens.into();
            reply.body = body.to_string().into();
            reply
        }
    });
    // A thousand a second, and three at once.
    let limited = embedder(&server).tokens_per_minute(60_000);
    let begin = Instant::now();
    let question = "x".repeat(1000);
    for _ in 0..5 {
        limited.embed_query(&question).unwrap();
    }
    let took = begin.elapsed();
    assert!(took >= MS(900) && took < Duration::from_secs(60), "{took:?}");
    // Documents are asked for in parts that leave room: 2,250 tokens.
    asked.store(0, Ordering::SeqCst);
    limited.embed_documents(&[&"x".repeat(5000), &"y".repeat(5000)]).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn a_query_does_not_wait_for_documents() {
    let release = Arc::new(AtomicBool::new(false));
    let server = LlmServer::new({
        let release = release.clone();
        move |request| {
            while inputs(request)[0] != "question" && !release.load(Ordering::SeqCst) {
                thread::sleep(MS(1));
            }
            answer(request)
        }
    });
    let embedder = embedder(&server).max_inputs(1).concurrent_requests(2);
    thread::scope(|scope| {
        let documents = scope.spawn(|| embedder.embed_documents(&["a", "b", "c", "d"]));
        while server.requests().len() < 2 {
            thread::sleep(MS(1));
        }
        assert_near(&[embedder.embed_query("question").unwrap()], &vectors(&["question"]));
        assert!(!documents.is_finished());
        release.store(true, Ordering::SeqCst);
        assert_near(&documents.join().unwrap().unwrap(), &vectors(&["a", "b", "c", "d"]));
    });
}

#[test]
fn a_query_does_not_wait_when_documents_are_told_to_wait() {
    let server = LlmServer::new(|request| match inputs(request)[0] {
        "question" => answer(request),
        _ => Reply::error(429, "slow down").header("Retry-After", "3"),
    });
    let embedder = embedder(&server).attempts(2);
    thread::scope(|scope| {
        let begin = Instant::now();
        let documents = scope.spawn(|| embedder.embed_documents(&["a"]));
        while server.requests().is_empty() {
            thread::sleep(MS(1));
        }
        thread::sleep(MS(50));
        embedder.embed_query("question").unwrap();
        assert!(begin.elapsed() < Duration::from_secs(3));
        let error = documents.join().unwrap().unwrap_err();
        assert!(begin.elapsed() >= Duration::from_secs(3));
        assert!(matches!(error, Error::EmbedderUnavailable { transient: true, retry_after: Some(_), .. }), "{error}");
    });
}

#[test]
fn a_query_is_given_up_after_its_timeout() {
    let check = |embedder: &OpenAiEmbedder, wanted: &str| {
        let begin = Instant::now();
        let error = embedder.embed_query("hi").unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(10));
        error
    };
    let slow = LlmServer::new(|request| answer(request).after(Duration::from_secs(20)));
    let late = check(&embedder(&slow).query_timeout(MS(300)), "did not answer within");
    assert!(matches!(late, Error::EmbedderUnavailable { transient: true, .. }), "{late}");
    let busy = LlmServer::replies([Reply::error(429, "slow down").header("Retry-After", "30")]);
    let refused = embedder(&busy);
    check(&refused, "slow down; try again in 30 s");
    // What the server has said holds for the next question.
    let error = check(&refused, "does not allow a query within 10s; try again in");
    assert!(
        matches!(error, Error::EmbedderUnavailable { retry_after: Some(wait), .. } if wait > Duration::from_secs(15))
    );
    assert_eq!(busy.requests().len(), 1);
    let broken = LlmServer::replies([Reply::error(500, "broken")]);
    check(&embedder(&broken).backoff(Duration::from_secs(60)), "500 Internal Server Error: broken");
    let quick = LlmServer::new(answer);
    assert!(embedder(&quick).query_timeout(Duration::MAX).timeout(Duration::MAX).embed_query("hi").is_ok());
}

/// Whatever keeps the server from answering before the deadline: then words are asked alone.
#[test]
fn a_query_is_given_up_at_its_deadline() {
    let documents = |request: &RecordedRequest| inputs(request)[0].starts_with("Ada");
    let slow = LlmServer::new(move |request| match documents(request) {
        true => answer(request),
        false => answer(request).after(Duration::from_secs(20)),
    });
    let busy = LlmServer::new(move |request| match documents(request) {
        true => answer(request),
        false => Reply::error(503, "busy").header("Retry-After", "30"),
    });
    for (server, patience) in [(&slow, Duration::from_secs(10)), (&slow, Duration::MAX), (&busy, Duration::MAX)] {
        let remote = embedder(server).query_timeout(patience);
        let db = Db::new();
        let space = namespace("a");
        let engine = db.open_with(Arc::new(remote.clone()));
        engine.blocking().put(&space, vec![message("1", "Ada lives in Lyon")]).unwrap();
        assert_eq!(engine.blocking().flush().unwrap().embedded, 1);
        // The second time the server is known to be busy: the question's turn does not come in time.
        for _ in 0..2 {
            let begin = Instant::now();
            let hits = engine.blocking().recall(&space, Query::new("Where does Ada live?").within(MS(400))).unwrap();
            assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
            assert!(hits.cut_short() && hits[0].message.id == "1");
            let deadline = Some(Instant::now() + MS(300));
            let error = remote.embed_query_before("Where?", deadline).unwrap_err();
            assert!(matches!(error, Error::DeadlineExceeded), "{error}");
        }
        let passed = remote.embed_query_before("Where?", Some(Instant::now())).unwrap_err();
        assert!(matches!(passed, Error::DeadlineExceeded), "{passed}");
    }
    // The embedder's own limit, if it is nearer; and what time does not mend.
    let later = Some(Instant::now() + Duration::from_secs(30));
    let error = embedder(&slow).query_timeout(MS(200)).embed_query_before("Where?", later).unwrap_err();
    assert!(matches!(error, Error::EmbedderUnavailable { transient: true, .. }), "{error}");
    let closed = LlmServer::replies([Reply::error(401, "no such key")]);
    let error = embedder(&closed).embed_query_before("Where?", later).unwrap_err();
    assert!(matches!(error, Error::EmbedderUnavailable { transient: false, .. }), "{error}");
}
