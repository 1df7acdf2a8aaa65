//! Clients that are slow, huge, broken or silent: others are served, and memory stays bounded.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Answer, Server};
use crate::support::Db;

/// The memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn broken_requests_end_their_own_connection_alone() {
    let db = Db::new();
    let server = Server::start(&db);
    server.put("a", &["hello"]);
    for request in [
        &b"\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/recall HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/recall HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST /v1/recall HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/namespaces/%ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"GET /v1/namespaces HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n",
        b"GET /v1/namespaces HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // A reset is an answer, too.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            !answer.contains(" 200 ") && !answer.contains(" 500 "),
            "{:?}: {answer}",
            String::from_utf8_lossy(request)
        );
        assert_eq!(server.get("/health").status, 200);
    }
    let many: String = (0..300).map(|at| format!("x-{at}: {}\r\n", "y".repeat(500))).collect();
    let huge = format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let mut stream = server.connect();
    let _ = stream.write_all(huge.as_bytes());
    let mut answer = [0; 16];
    let read = stream.read(&mut answer).unwrap_or(0);
    assert!(!answer[..read].starts_with(b"HTTP/1.1 200"), "a head of 150 KB is refused");
}

#[test]
fn bodies_are_bounded_and_memory_with_them() {
    let db = Db::new();
    let server = Server::with(&db, &["--max-body", "1048576"]);
    server.put("a", &["hello"]);
    let before = resident(server.child.id());
    let head = format!(
        "POST /v1/namespaces/a/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
        server.address
    );
    for _ in 0..20 {
        let mut stream = server.connect();
        stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
        let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
        // The server closes when it has seen enough.
        while stream.write_all(chunk.as_bytes()).is_ok() {}
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
    let declared = format!("{head}content-length: 99999999\r\nconnection: close\r\n\r\n");
    Answer::parse(&server.raw(declared.as_bytes())).assert_problem(413, "");
    // A client that sends the whole of a body before it reads sees the answer.
    let whole = format!("{head}content-length: {0}\r\nconnection: close\r\n\r\n{1}", 3 << 20, " ".repeat(3 << 20));
    for _ in 0..20 {
        let mut stream = server.connect();
        stream.write_all(whole.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Answer::parse(std::str::from_utf8(&answer).unwrap()).assert_problem(413, "--max-body");
    }
    let grown = resident(server.child.id()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    let deep = "[".repeat(100_000);
    let request = format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{deep}", deep.len());
    assert!((400..500).contains(&Answer::parse(&server.raw(request.as_bytes())).status));
}

#[test]
fn slow_and_silent_clients_hold_up_nobody() {
    let db = Db::new();
    let server = Server::start(&db);
    server.put("a", &["hello"]);
    let before = resident(server.child.id());
    // Half a head, half a body, and nothing at all.
    let mut slow = Vec::new();
    for at in 0..300 {
        let mut stream = server.connect();
        let begin: &[u8] = match at % 3 {
            0 => b"GET /v1/names",
            1 => b"POST /v1/namespaces/a/recall HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{",
            _ => b"",
        };
        stream.write_all(begin).unwrap();
        slow.push(stream);
    }
    let started = Instant::now();
    for _ in 0..20 {
        let answer = server.post("/v1/namespaces/a/recall", json!({ "query": "hello" }));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let grown = resident(server.child.id()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

#[test]
fn a_client_that_never_reads_takes_little_memory() {
    let db = Db::new();
    let server = Server::start(&db);
    let long = "words of a long message ".repeat(2000);
    let messages: Vec<_> = (0..40).map(|at| json!({ "role": "user", "content": format!("{at} {long}") })).collect();
    assert_eq!(server.post("/v1/namespaces/a/messages", json!({ "messages": messages })).status, 200);
    let before = resident(server.child.id());
    let request =
        format!("GET /v1/namespaces/a/sessions/default/messages HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    let mut deaf = Vec::new();
    for _ in 0..16 {
        let mut stream = server.connect();
        // Pipelined: the second is not begun before the first is read.
        stream.write_all(request.repeat(20).as_bytes()).unwrap();
        deaf.push(stream);
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(server.get("/health").status, 200);
    let grown = resident(server.child.id()).saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes for 320 answers of 2 MB");
}

/// 120 clients that ask for 3.6 MB each and read nothing: what they do not read is bounded, others are answered meanwhile, and those
/// that read get all of it.
#[test]
fn clients_that_read_nothing_lose_their_connections_to_those_that_do() {
    let db = Db::new();
    let server = Server::start(&db);
    let messages: Vec<_> = (0..4).map(|_| json!({ "role": "user", "content": "word ".repeat(180_000) })).collect();
    assert_eq!(server.post("/v1/namespaces/a/messages", json!({ "messages": messages })).status, 200);
    let path = "/v1/namespaces/a/sessions/default/messages";
    let before = resident(server.child.id());
    let mut deaf = Vec::new();
    for _ in 0..120 {
        let mut stream = server.connect();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).as_bytes()).unwrap();
        deaf.push(stream);
    }
    let (mut longest, started) = (Duration::ZERO, Instant::now());
    while started.elapsed() < Duration::from_secs(8) {
        let asked = Instant::now();
        assert_eq!(server.get("/v1/namespaces").status, 200);
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    // A large answer may have to come again once, while those that nobody reads take all of the bytes.
    let read = (0..5).map(|_| server.get(path)).find(|answer| answer.status == 200);
    assert_eq!(read.map(|answer| answer.body["messages"].as_array().unwrap().len()), Some(4));
    let grown = resident(server.child.id()).saturating_sub(before);
    eprintln!("others waited {longest:?} at most; {} MB", grown >> 20);
    assert!(grown < 700 << 20, "{grown} bytes for 120 answers of 3.6 MB");
}

/// More clients than the process may open files: none of them keeps another out.
#[test]
fn connections_are_bounded_by_the_files_that_the_process_may_open() {
    let db = Db::new();
    let server = Server::within_files(&db, 64);
    let silent: Vec<_> = (0..150).map(|_| server.connect()).collect();
    let started = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.get("/v1/namespaces").status, 200);
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(silent);
}

#[test]
fn more_requests_than_the_server_takes_are_told_to_come_back() {
    let db = Db::new();
    let server = Server::with(&db, &["--max-requests", "1"]);
    server.put("a", &["hello"]);
    // One whose body does not come is none of them.
    let half = format!(
        "POST /v1/namespaces/a/recall HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{",
        server.address
    );
    let mut holding = server.connect();
    holding.write_all(half.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(server.get("/v1/namespaces").status, 200);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let ask = || server.post("/v1/namespaces/a/recall", json!({ "query": "hello ".repeat(5000) }));
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|asking| asking.join().unwrap()).collect()
        });
        assert!(answers.iter().any(|answer| answer.status == 200));
        if let Some(refused) = answers.iter().find(|answer| answer.status != 200) {
            refused.assert_problem(503, "at a time");
            assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
            break;
        }
        assert!(Instant::now() < deadline);
    }
}

/// 140 bodies that do not come, for a route without a limit of time, and more heads that do not come than the server has
/// connections: others are answered at once.
#[test]
fn slow_bodies_and_heads_keep_no_place_from_others() {
    let db = Db::new();
    let server = Server::with(&db, &["--max-connections", "200"]);
    server.put("a", &["hello"]);
    let open = |begin: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(begin).unwrap();
        stream
    };
    let body = b"POST /v1/namespaces/a/forget HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{";
    let mut slow: Vec<TcpStream> = (0..140).map(|_| open(body)).collect();
    // Half of the time that a head has.
    let soon = Duration::from_secs(10);
    let started = Instant::now();
    assert_eq!(server.post("/v1/namespaces/a/recall", json!({ "query": "hello" })).status, 200);
    assert_eq!(server.post("/v1/namespaces/a/forget", json!({ "by": "messages", "ids": ["x"] })).status, 200);
    slow.extend((0..300).map(|_| open(b"GET /v1/names")));
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.post("/v1/namespaces/a/recall", json!({ "query": "hello" })).status, 200);
    assert!(started.elapsed() < soon, "{:?}", started.elapsed());
    // The last ones still have their places.
    let mut last = slow.pop().unwrap();
    last.write_all(b"paces HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// A body of as many clauses as fit. Before their number was limited, four of the first kind stopped the server for minutes.
#[test]
fn filters_are_bounded_before_work_begins() {
    let db = Db::new();
    let server = Server::start(&db);
    server.put("users/ada", &["hello"]);
    let joined = |clause: &str, bytes: usize| vec![clause; bytes / (clause.len() + 1)].join(",");
    let before = resident(server.child.id());
    let send = |path: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            server.address,
            body.len()
        );
        let mut stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = Vec::new();
        // It may be refused before it was read.
        let _ = stream.read_to_end(&mut answer);
        Answer::parse(&String::from_utf8_lossy(&answer))
    };
    let recall = "/v1/namespaces/users%2Fada/recall";
    let mem0 = joined(r#"{"user_id":"ada"}"#, 1_400_000);
    let many = joined(r#"{"a":{"$gt":1}}"#, 7 << 20);
    let some = joined(r#"{"a":{"$gt":1}}"#, 1 << 20);
    let requests = [
        ("/v3/memories/search/", format!(r#"{{"query":"x","filters":{{"AND":[{mem0}]}}}}"#), "conditions"),
        ("/v3/memories/", format!(r#"{{"filters":{{"OR":[{mem0}]}}}}"#), "conditions"),
        (
            "/v3/memories/",
            format!(r#"{{"filters":{{"user_id":"ada"}},"categories":[{}]}}"#, joined("1", 1 << 20)),
            "values",
        ),
        ("/v3/memories/", format!(r#"{{"filters":{{"user_id":[{}]}}}}"#, joined(r#""ada""#, 1 << 20)), "values"),
        (recall, format!(r#"{{"query":"x","filter":{{"$and":[{many}]}}}}"#), "objects and arrays"),
        (recall, format!(r#"{{"query":"x","filter":{{"$and":[{some}]}}}}"#), "conditions"),
        (recall, format!(r#"{{"query":"x","filter":{{"a":{{"$in":[{}]}}}}}}"#, joined("1", 7 << 20)), "values"),
        ("/v1/namespaces/users%2Fada/documents/search", format!(r#"{{"filter":{{"$or":[{some}]}}}}"#), "conditions"),
        (
            "/v1/namespaces/users%2Fada/forget",
            format!(r#"{{"by":"matching","filter":{{"$and":[{some}]}}}}"#),
            "conditions",
        ),
    ];
    let started = Instant::now();
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(|| send(requests[0].0, &requests[0].1))).collect();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(server.get("/health").status, 200);
        assert!(started.elapsed() < Duration::from_secs(15), "/health took {:?}", started.elapsed());
        asking.into_iter().for_each(|asking| assert_eq!(asking.join().unwrap().status, 400));
    });
    for (path, body, part) in &requests {
        let answer = send(path, body);
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert!((400..423).contains(&answer.status) && detail.contains(part), "{path}: {} {detail}", answer.status);
    }
    let arguments = format!(r#"{{"query":"x","user_id":"ada","filter":{{"$and":[{some}]}}}}"#);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"search_memories","arguments":{arguments}}}}}"#
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        server.address,
        call.len()
    );
    let answer = server.raw((head + &call).as_bytes());
    assert!(answer.contains("conditions"), "{answer}");
    let grown = resident(server.child.id()).saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes");
    assert!(server.terminate() < Duration::from_secs(12));
}

/// The server ends at a signal, and answers its probe, while each request that is allowed to takes long.
#[test]
fn a_busy_server_answers_its_probe_and_a_signal() {
    let db = Db::new();
    let server = Server::start(&db);
    let metadata: serde_json::Map<String, Value> = (0..40).map(|key| (format!("k{key}"), json!(key))).collect();
    for batch in 0..10 {
        let message = |at| json!({ "role": "user", "content": format!("note {batch} {at}"), "metadata": metadata });
        let messages: Vec<Value> = (0..500).map(message).collect();
        assert_eq!(server.post("/v1/namespaces/users%2Fada/messages", json!({ "messages": messages })).status, 200);
    }
    let (address, stopped) = (server.address, AtomicBool::new(false));
    let (probe, ended) = std::thread::scope(|scope| {
        for client in 0..40 {
            let stopped = &stopped;
            scope.spawn(move || {
                for round in 0.. {
                    // Each another filter, so that none is known from the last time.
                    let conditions = (0..300).map(|at| json!({ "metadata": { format!("k{}", at % 40): { "ne": format!("{client} {round} {at}") } } }));
                    let part = json!({ "keywords": { "icontains": "note" } });
                    let filters: Vec<Value> = [json!({ "user_id": "ada" }), part].into_iter().chain(conditions).collect();
                    let conditions: Vec<Value> = (0..450).map(|at| json!({ format!("k{}", at % 40): { "$ne": format!("{client} {round} {at}") } })).collect();
                    let (path, body) = match client % 3 {
                        0 => ("/v3/memories/search/", json!({ "query": "note", "filters": { "AND": filters } })),
                        1 => ("/v3/memories/", json!({ "filters": { "AND": filters } })),
                        _ => ("/v1/namespaces/users%2Fada/recall", json!({ "query": "note", "filter": { "$and": conditions } })),
                    };
                    let body = body.to_string();
                    let request = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    let Ok(mut stream) = TcpStream::connect(address) else { break };
                    let _ = stream.write_all(request.as_bytes());
                    let _ = stream.read_to_end(&mut Vec::new());
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            let started = Instant::now();
            assert_eq!(server.get("/health").status, 200);
            longest = longest.max(started.elapsed());
        }
        let ended = server.terminate();
        stopped.store(true, Ordering::Relaxed);
        (longest, ended)
    });
    eprintln!("the probe took {probe:?} at most, the end {ended:?}");
    assert!(probe < Duration::from_secs(5) && ended < Duration::from_secs(12), "{probe:?} {ended:?}");
    db.assert_sound();
}

/// JSON that is no Unicode is an error of the request, on each surface, and changes nothing.
#[test]
fn texts_that_are_no_unicode_are_refused() {
    let db = Db::new();
    let server = Server::start(&db);
    for text in [&b"\\ud83d"[..], b"\xff", b"\xed\xa0\xbd"] {
        for (path, before, after) in [
            ("/v1/namespaces/a/messages", r#"{"messages":[{"role":"user","content":""#, r#""}]}"#),
            ("/v1/namespaces/a/recall", r#"{"query":""#, r#""}"#),
            ("/v3/memories/add/", r#"{"user_id":"ada","messages":""#, r#""}"#),
            (
                "/mcp",
                r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add_memory","arguments":{"text":""#,
                r#""}}}"#,
            ),
        ] {
            let body = [before.as_bytes(), text, after.as_bytes()].concat();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                server.address,
                body.len()
            );
            let answer = Answer::parse(&server.raw(&[head.as_bytes(), &body].concat()));
            assert_eq!(answer.status, 400, "{path} {text:?}: {}", answer.body);
            if path == "/mcp" {
                assert_eq!((&answer.body["id"], &answer.body["error"]["code"]), (&json!(5), &json!(-32700)));
            }
        }
    }
    assert_eq!(server.get("/v1/stats").body["messages"], 0);
}
