//! Clients that are slow, huge, broken or silent: others are served, and memory stays bounded.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use serde_json::json;

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

#[test]
fn more_requests_than_the_server_takes_are_told_to_come_back() {
    let db = Db::new();
    let server = Server::with(&db, &["--max-requests", "1"]);
    server.put("a", &["hello"]);
    let half = format!(
        "POST /v1/namespaces/a/recall HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{",
        server.address
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        // It may come while another is answered, and is then refused itself.
        let mut holding = server.connect();
        holding.write_all(half.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let answer = server.get("/v1/namespaces");
        if answer.status == 503 {
            answer.assert_problem(503, "at a time");
            assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
            break;
        }
        assert!(Instant::now() < deadline);
    }
}
