//! `POST /v1/import`: files of other programs, sent as they are. The bounds of what one may cost, and what is stored when it
//! ends early.

use std::{
    fs,
    io::{Cursor, Read, Write},
    net::Shutdown,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Answer, Server, openapi, tokens};
use crate::support::Db;

const HERE: &str = "/v1/namespaces/users%2Fada/import";
const CHATGPT: &str = r#"[{"id": "c1", "current_node": "a", "mapping": {"a": {"message": {"id": "m1",
    "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["We row on Thursdays."]}}}}}]"#;
const WHATSAPP: &str = "[01.05.24, 09:30:00] Ada: The bridge is closed.\n[31.05.24, 09:31:00] Bob: Since when?\n";
const IRC: &str = "[09:30:00] <ada> The bridge is closed.\n[09:31:00] <bob> Since when?\n";
const CLAUDE_CODE: &str = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s1","cwd":"/home/ada/boat","timestamp":"2026-01-01T10:00:00Z","message":{"role":"user","content":"Paint the mast."}}
{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s1","cwd":"/home/ada/boat","timestamp":"2026-01-01T10:00:01Z","message":{"role":"assistant","model":"claude","content":[{"type":"text","text":"White?"}]}}
"#;

impl Server {
    /// Sends a file.
    fn import(&self, path: &str, headers: &[(&str, &str)], file: &[u8]) -> Answer {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            file.len()
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let answer = Answer::parse(&self.raw(&[request.as_bytes(), b"\r\n", file].concat()));
        openapi::assert_described("POST", path, &answer);
        answer
    }

    fn texts(&self, namespace: &str) -> Vec<String> {
        let mut texts = Vec::new();
        let path = format!("/v1/namespaces/{namespace}/sessions");
        for session in self.get(&path).body["sessions"].as_array().into_iter().flatten() {
            let session =
                session["session"].as_str().unwrap().replace('/', "%2F").replace(' ', "%20").replace('#', "%23");
            let page = self.get(&format!("{path}/{session}/messages?limit=1000")).body;
            texts.extend(
                page["messages"].as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap().to_owned()),
            );
        }
        texts
    }

    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// Returns the most memory that the server took while it did this, beyond what it took before.
    fn memory_of<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.memory("VmRSS:");
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
        let done = work();
        (done, self.memory("VmHWM:").saturating_sub(before))
    }
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Lines of mnemon's own format.
fn lines(from: usize, to: usize, namespace: Option<&str>) -> String {
    let line = |at: usize| {
        let mut line =
            json!({ "role": "user", "content": format!("It was said {at} times that the bridge is closed.") });
        if let Some(namespace) = namespace {
            line["namespace"] = json!(namespace);
        }
        format!("{line}\n")
    };
    (from..to).map(line).collect()
}

#[test]
fn files_are_recognized_and_stored_once() {
    let db = Db::new();
    let server = Server::start(&db);
    let archive = zipped(&[
        ("export/conversations.json", CHATGPT.as_bytes()),
        ("export/chat.html", b"<html>"),
        ("export/_chat.txt", WHATSAPP.as_bytes()),
    ]);
    let import = |query: &str, file: &[u8]| {
        let answer = server.import(&format!("{HERE}{query}"), &[], file);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    for (query, file, formats, messages) in [
        ("?name=conversations.json", CHATGPT.as_bytes().to_vec(), json!({ "chatgpt": 1 }), 1),
        ("?format=chatgpt", CHATGPT.as_bytes().to_vec(), json!({ "chatgpt": 1 }), 0),
        ("", archive, json!({ "chatgpt": 1, "whatsapp": 1 }), 2),
        ("?name=%23boats_2024-05-01.log&time_zone=Europe/Berlin", IRC.as_bytes().to_vec(), json!({ "irc": 1 }), 2),
        ("?tool_output=100", CLAUDE_CODE.as_bytes().to_vec(), json!({ "claude-code": 1 }), 2),
        ("", gzipped(lines(0, 3, None).as_bytes()), json!({ "mnemon": 1 }), 3),
        ("?skip_bad=true&flush=true", lines(0, 4, None).into_bytes(), json!({ "mnemon": 1 }), 1),
    ] {
        let report = import(query, &file);
        assert_eq!((&report["formats"], &report["new"]), (&formats, &json!(messages)), "{query}: {report}");
        assert_eq!(report["namespaces"], json!(["users/ada"]));
        let again = import(query, &file);
        assert_eq!((&again["new"], &again["replaced"]), (&json!(0), &json!(0)), "{query}: {again}");
    }
    let report = import("", &zipped(&[("a/readme.md", b"Nothing is said here."), ("b.png", b"\x89PNG")]));
    assert_eq!((&report["unknown_files"], &report["new"]), (&json!(2), &json!(0)));
    assert_eq!(server.texts("users%2Fada").len(), 11);
}

/// A message whose file names its namespace goes there, and a transcript to that of the folder: of its path alone, because the
/// client may be on another machine.
#[test]
fn files_name_their_namespaces() {
    let db = Db::new();
    let repository = tempfile::tempdir().unwrap();
    fs::create_dir_all(repository.path().join("boat/.git")).unwrap();
    fs::create_dir_all(repository.path().join("boat/src")).unwrap();
    let folder = repository.path().join("boat/src").display().to_string();
    let transcript = CLAUDE_CODE.replace("/home/ada/boat", &folder);
    let server = Server::start(&db);
    let report = server.import("/v1/import", &[], transcript.as_bytes()).body;
    assert_eq!(report["namespaces"], json!([format!("code{folder}")]), "{report}");
    let report = server.import("/v1/import", &[], lines(0, 2, Some("a/b")).as_bytes()).body;
    assert_eq!(report["namespaces"], json!(["a/b"]), "{report}");
    let none = server.import("/v1/import", &[], lines(0, 2, None).as_bytes());
    none.assert_problem(400, "no namespace");
    assert_eq!(server.import(HERE, &[], lines(0, 2, Some("a/b")).as_bytes()).body["namespaces"], json!(["users/ada"]));
}

#[test]
fn what_cannot_be_read_says_so_and_what_is_stored() {
    let db = Db::new();
    let server = Server::start(&db);
    let bad = format!("{}{{\"role\": \"user\"}}\n{}", lines(0, 600, None), lines(600, 610, None));
    let garbage: Vec<u8> = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let refused = |path: &str, file: &[u8], part: &str| {
        let answer = server.import(&format!("{HERE}{path}"), &[], file);
        answer.assert_problem(400, part);
        answer.body["detail"].as_str().unwrap().to_owned()
    };
    refused("", b"", "the body is empty");
    refused("", &garbage, "no known format");
    refused("", b"\n\nHello.\n", "nothing was stored");
    refused("?format=chatgpt", lines(0, 2, None).as_bytes(), "mnemon");
    refused("?format=chatgpt2", CHATGPT.as_bytes(), "give one of");
    refused("?time_zone=Mars", CHATGPT.as_bytes(), "is not a time zone");
    refused("?session=", CHATGPT.as_bytes(), "session has 1 to 512 bytes");
    refused("?remove=true", CHATGPT.as_bytes(), "unknown field");
    refused("", &CHATGPT.as_bytes()[..CHATGPT.len() - 20], "nothing was stored");
    refused("", &zipped(&[("a.jsonl", lines(0, 2, None).as_bytes())])[..100], "file");
    assert_eq!(server.get("/v1/stats").body["messages"], 0);
    let detail = refused("", bad.as_bytes(), "file:601");
    assert!(detail.contains("the 600 messages before it are stored") && detail.contains("skip_bad=true"), "{detail}");
    let rest = server.import(&format!("{HERE}?skip_bad=true"), &[], bad.as_bytes()).body;
    assert_eq!((&rest["new"], &rest["unchanged"], &rest["skipped"]), (&json!(10), &json!(600), &json!(1)), "{rest}");
    assert!(rest["notes"][0].as_str().unwrap().contains("file:601"), "{rest}");
    // Of several files, those that can be read are.
    let archive = zipped(&[("a.json", &CHATGPT.as_bytes()[..CHATGPT.len() - 20]), ("b.json", CHATGPT.as_bytes())]);
    let report = server.import(HERE, &[], &archive).body;
    assert_eq!((&report["new"], &report["skipped"]), (&json!(1), &json!(1)), "{report}");
    let brotli = server.import(HERE, &[("content-encoding", "br")], b"x");
    brotli.assert_problem(415, "gzip");
    for (encoding, file) in [("gzip", gzipped(CHATGPT.as_bytes())), ("gzip", gzipped(&gzipped(CHATGPT.as_bytes())))] {
        let report = server.import(HERE, &[("content-encoding", encoding)], &file).body;
        assert_eq!(report["unchanged"], 1, "{report}");
    }
}

#[test]
fn an_import_needs_the_rights_of_what_it_does() {
    let db = Db::new();
    let options: &[&[&str]] = &[
        &["--name", "reader", "--rights", "read"],
        &["--name", "acme", "--prefix", "acme", "--rights", "read,write"],
        &["--name", "all", "--rights", "read,write,forget"],
    ];
    let (tokens, file) = tokens(db.folder.path(), options);
    let server = Server::with(&db, &["--tokens", file.to_str().unwrap()]);
    let import = |token: usize, path: &str, file: &str| {
        server.import(path, &[("authorization", &format!("Bearer {}", tokens[token]))], file.as_bytes())
    };
    import(0, HERE, CHATGPT).assert_problem(403, "no right to write");
    server.import(HERE, &[], CHATGPT.as_bytes()).assert_problem(401, "token");
    import(1, HERE, CHATGPT).assert_problem(404, "no such namespace");
    let mixed = lines(0, 2, Some("acme/a")) + &lines(2, 4, Some("other"));
    import(1, "/v1/import", &mixed).assert_problem(400, "no such namespace: \"other\"");
    let report = import(1, "/v1/import?skip_bad=true", &mixed).body;
    assert_eq!((&report["unchanged"], &report["skipped"]), (&json!(2), &json!(2)), "{report}");
    import(1, "/v1/import", CLAUDE_CODE).assert_problem(400, "no such namespace");

    // A prompt that was edited takes the one before it back.
    let said = |id: &str, parent: &str, text: &str| {
        let message = json!({ "role": "user", "content": text });
        json!({
            "type": "user", "uuid": id, "parentUuid": parent, "sessionId": "s2", "cwd": "/home/ada/boat",
            "timestamp": "2026-01-01T10:00:00Z", "message": message,
        })
        .to_string()
            + "\n"
    };
    let before = said("u1", "", "Hello.") + &said("u2", "u1", "Paint the mast.");
    let edited = before.clone() + &said("u3", "u1", "Varnish the mast.");
    let of_acme = "/v1/namespaces/acme%2Fada/import";
    assert_eq!(import(1, of_acme, &before).body["new"], 2);
    let kept = import(1, of_acme, &edited).body;
    assert_eq!((&kept["new"], &kept["removed"]), (&json!(1), &json!(0)), "{kept}");
    assert!(kept["notes"][0].as_str().unwrap().contains("no right to forget"), "{kept}");
    let removed = import(2, of_acme, &edited).body;
    assert_eq!((&removed["new"], &removed["removed"]), (&json!(0), &json!(1)), "{removed}");
}

#[test]
fn secrets_in_files_are_removed() {
    let db = Db::new();
    let server = Server::with(&db, &["--remove-secrets"]);
    let key = format!("sk-{}", "aB3dE5gH".repeat(4));
    let file = zipped(&[("c.json", CHATGPT.replace("We row on Thursdays.", &format!("My key is {key}.")).as_bytes())]);
    assert_eq!(server.import(HERE, &[], &file).body["new"], 1);
    assert_eq!(server.texts("users%2Fada"), ["My key is [key removed]."]);
    assert!(server.get("/metrics").body.as_str().unwrap().contains("mnemon_secrets_removed_total{kind=\"key\"} 1"));
}

/// A file is larger than the memory that its import takes, and than the body of any other request.
#[test]
fn a_file_is_not_held() {
    let db = Db::new();
    let server = Server::start(&db);
    let long = "Nothing of it is held. ".repeat(400);
    let file: String = (0..4000)
        .map(|at| format!("{}\n", json!({ "role": "user", "content": format!("{at}"), "metadata": { "long": long } })))
        .collect();
    assert!(file.len() > 32 << 20);
    let (answer, grown) = server.memory_of(|| server.import(HERE, &[], file.as_bytes()));
    eprintln!("{} bytes: {} MB", file.len(), grown >> 20);
    assert_eq!((answer.status, &answer.body["new"]), (200, &json!(4000)), "{}", answer.body);
    // The caches of the store, and the texts that wait for their vectors, are most of it.
    assert!(grown < 160 << 20, "{grown}");
}

#[test]
fn what_an_import_may_cost_is_bounded() {
    let db = Db::new();
    let server = Server::with(&db, &["--max-import", "4194304"]);
    let large = "x".repeat(5 << 20);
    let line = json!({ "role": "user", "content": "x", "metadata": { "long": "y".repeat(100_000) } });
    let bomb = format!("{line}\n").repeat(640).into_bytes();
    server.import(HERE, &[], large.as_bytes()).assert_problem(413, "--max-import");
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let request = format!(
        "POST {HERE} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunked}",
        server.address
    );
    Answer::parse(&server.raw(request.as_bytes())).assert_problem(413, "--max-import");
    // A few kilobytes that would be 64 MiB, 2 GB of objects, or an archive of too many files.
    let objects = format!(r#"[{{"role": "user", "content": "x"}},{}0]"#, "{},".repeat(1 << 20));
    let chat = format!("{WHATSAPP}{}", "and on it goes, ".repeat(2 << 20));
    let listed = [zipped(&[("a", b"x")]), b"PK\x01\x02".repeat(300_000)].concat();
    let many: Vec<(String, Vec<u8>)> =
        (0..8).map(|at| (format!("{at}.jsonl"), bomb[..bomb.len() / 10].to_vec())).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    for (what, file, part) in [
        ("gzip", gzipped(&bomb), "more bytes"),
        ("zip", zipped(&[("a.jsonl", &bomb)]), ""),
        ("many files", zipped(&many), "more bytes"),
        ("objects", gzipped(objects.as_bytes()), "takes more than"),
        ("a chat", gzipped(chat.as_bytes()), ""),
        ("list of files", listed, "250000 files"),
    ] {
        let started = Instant::now();
        let (answer, grown) = server.memory_of(|| server.import(HERE, &[], &file));
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        eprintln!(
            "{what}: {} bytes, {:?}, {} MB, {} {detail}",
            file.len(),
            started.elapsed(),
            grown >> 20,
            answer.status
        );
        assert!(detail.contains(part) && grown < 400 << 20, "{what}: {}", answer.body);
        assert!(part.is_empty() || answer.status == 400, "{what}: {}", answer.body);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

/// What came before the end is stored, and the whole file afterwards stores the rest.
#[test]
fn a_client_that_goes_away_has_stored_what_it_sent() {
    let db = Db::new();
    let server = Server::start(&db);
    let file = lines(0, 3000, None);
    let mut stream = server.connect();
    let head = format!("POST {HERE} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n", server.address, file.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&file.as_bytes()[..file.len() / 2]).unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    let started = Instant::now();
    let stored = loop {
        let stored = server.get("/v1/stats").body["messages"].as_u64().unwrap();
        // The whole lines of the half that came.
        if stored > 1400 || started.elapsed() > Duration::from_secs(20) {
            break stored;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!((1400..1600).contains(&stored), "{stored}");
    let report = server.import(HERE, &[], file.as_bytes()).body;
    assert_eq!(report["new"].as_u64().unwrap() + stored, 3000, "{report}");
    let answer = server.get("/v1/namespaces/users%2Fada").body;
    assert_eq!(answer["messages"], 3000);
}

#[test]
fn two_imports_of_one_file_at_once_store_it_once() {
    let db = Db::new();
    let server = Server::start(&db);
    let file = lines(0, 1500, None) + &lines(0, 2, None);
    let reports: Vec<Value> = std::thread::scope(|scope| {
        let imports: Vec<_> = (0..3).map(|_| scope.spawn(|| server.import(HERE, &[], file.as_bytes()).body)).collect();
        imports.into_iter().map(|import| import.join().unwrap()).collect()
    });
    let sum = |field: &str| reports.iter().map(|report| report[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("new"), sum("unchanged"), sum("replaced")), (1502, 2 * 1502, 0), "{reports:?}");
    assert_eq!(server.get("/v1/stats").body["messages"], 1502);
}

/// A slow client has a place for imports, and takes none from other requests.
#[test]
fn slow_imports_leave_room_for_others() {
    let db = Db::new();
    let server = Server::with(&db, &["--request-timeout", "2", "--max-requests", "4"]);
    let head = format!("POST {HERE} HTTP/1.1\r\nhost: {}\r\ncontent-length: 1000\r\n\r\n{{", server.address);
    let mut slow: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.post("/v1/flush", json!({})).status, 200);
    server.import(HERE, &[], CHATGPT.as_bytes()).assert_problem(503, "repeat the request");
    let mut answer = [0; 12];
    slow[0].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    let started = Instant::now();
    while server.import(HERE, &[], CHATGPT.as_bytes()).status == 503 {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(100));
    }
}
