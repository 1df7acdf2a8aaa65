//! `mnemon mcp`: many clients, one server, killed at random.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Server, command, formation::until, signal};
use crate::support::{Db, random::delay, servers::LlmServer};

/// A client of MCP that speaks through a shim of its own.
struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn start(db: &Path, runtime: &Path) -> Self {
        Self::with(db, runtime, &[])
    }

    /// Starts a shim with more arguments.
    fn with(db: &Path, runtime: &Path, arguments: &[&str]) -> Self {
        let mut command = command(runtime);
        command.arg("mcp").arg("--db").arg(db).args(["--idle", "2"]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, stdin, stdout, next: 0 }
    }

    fn greet(&mut self) {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let greeted = self.request("initialize", params);
        assert_eq!(greeted["result"]["serverInfo"]["name"], "mnemon", "{greeted}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
        self.stdin.flush().unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
            line.clear();
        }
        panic!("the shim ended: {:?}", self.child.wait());
    }

    /// Stores a text. Returns true if that was acknowledged.
    fn add(&mut self, text: &str) -> bool {
        let call = json!({ "name": "add_memory", "arguments": { "text": text, "user_id": "ada" } });
        let answer = self.request("tools/call", call);
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        answer["result"].is_object()
    }

    fn finish(self) {
        let Client { mut child, stdin, stdout, .. } = self;
        drop((stdin, stdout));
        assert!(child.wait().unwrap().success());
    }

    /// Says no more. Returns the last answers of the shim, which must end soon.
    fn end(self) -> Vec<Value> {
        let Client { mut child, stdin, stdout, .. } = self;
        drop(stdin);
        let lines = std::thread::spawn(move || stdout.lines().map_while(Result::ok).collect::<Vec<_>>());
        let ends_by = Instant::now() + Duration::from_secs(20);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < ends_by, "the shim does not end: {}", child.kill().is_ok());
            std::thread::sleep(Duration::from_millis(20));
        }
        lines.join().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn call(id: &Value, text: &str) -> Value {
    let params = json!({ "name": "add_memory", "arguments": { "text": text, "user_id": "ada" } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn cancelled(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "late" } })
}

/// The processes that serve a database.
pub(super) fn servers(db: &Path) -> Vec<u32> {
    let is_server = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
        arguments.contains(&&b"serve"[..]) && arguments.contains(&db.as_os_str().as_encoded_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_server).collect()
}

pub(super) fn send(signal: &str, pid: u32) {
    let _ = std::process::Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Twenty shims at once on one file, and up to two kills of their server: nothing acknowledged is lost. MNEMON_SHIM_ROUNDS
/// says how often.
#[test]
fn twenty_shims_share_one_server_that_is_killed() {
    let rounds = std::env::var("MNEMON_SHIM_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap());
    let (mut state, mut acknowledged_in_all, mut kills) = (11, 0, 0);
    for _ in 0..rounds {
        let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
        let acknowledged: Vec<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..20)
                .map(|client| {
                    let (db, runtime) = (&db.path, runtime.path());
                    scope.spawn(move || {
                        let mut shim = Client::start(db, runtime);
                        shim.greet();
                        let texts: Vec<String> = (0..6).map(|at| format!("client {client} says {at}")).collect();
                        let acknowledged = texts.into_iter().filter(|text| shim.add(text)).collect::<Vec<_>>();
                        shim.finish();
                        acknowledged
                    })
                })
                .collect();
            for _ in 0..2 {
                std::thread::sleep(delay(&mut state, Duration::from_millis(600)));
                for server in servers(&db.path) {
                    send("-KILL", server);
                    kills += 1;
                }
            }
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        // Asked of the server that is there now, by one more shim.
        let mut shim = Client::start(&db.path, runtime.path());
        shim.greet();
        let mut stored = BTreeSet::new();
        let mut cursor = Value::Null;
        loop {
            let page =
                json!({ "name": "get_memories", "arguments": { "user_id": "ada", "limit": 100, "cursor": cursor } });
            let page = shim.request("tools/call", page)["result"]["structuredContent"].clone();
            let memories = page["memories"].as_array().unwrap().iter();
            stored.extend(memories.map(|memory| memory["memory"].as_str().unwrap().to_owned()));
            cursor = page["next"].clone();
            if cursor.is_null() {
                break;
            }
        }
        let lost: Vec<_> = acknowledged.iter().filter(|text| !stored.contains(*text)).collect();
        assert_eq!(lost, [""; 0], "of {} acknowledged", acknowledged.len());
        assert_eq!(servers(&db.path).len(), 1, "one server serves the file");
        acknowledged_in_all += acknowledged.len();
        shim.finish();
        for server in servers(&db.path) {
            send("-TERM", server);
        }
        while !servers(&db.path).is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        db.assert_sound();
    }
    eprintln!("{rounds} rounds of twenty shims: {kills} kills, {acknowledged_in_all} acknowledged, none lost");
}

#[test]
fn a_shim_uses_the_server_that_runs_and_a_started_one_ends_when_idle() {
    let db = Db::new();
    let server = Server::start(&db);
    let mut shim = Client::start(&db.path, server.runtime.path());
    shim.greet();
    assert!(shim.add("said through the shim"));
    assert_eq!(servers(&db.path), [server.child.id()]);
    assert_eq!(server.get("/v1/namespaces/users%2Fada/sessions").body["sessions"][0]["messages"], 1);
    let runtime = server.runtime.path().to_owned();
    server.terminate();
    // The next call starts a server, which ends after the shim has gone.
    std::fs::create_dir_all(&runtime).unwrap();
    assert!(shim.add("said after its end"));
    shim.finish();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !servers(&db.path).is_empty() {
        assert!(Instant::now() < deadline, "the server ends 2 s after its last client");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_dir_all(&runtime).unwrap();
    assert_eq!(db.assert_sound().messages, 2);
}

/// A cut emoji and bytes that are no text, as JavaScript and other programs send them: each is answered, and on it goes.
#[test]
fn a_line_that_is_no_message_is_answered_with_an_error() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let mut shim = Client::start(&db.path, runtime.path());
    shim.greet();
    let call = |id: &str, text: &[u8]| {
        let begin = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add_memory","arguments":{{"user_id":"ada","text":""#
        );
        [begin.as_bytes(), text, br#""}}}"#].concat()
    };
    for (at, (line, id, code)) in [
        (call("701", b"cut \\ud83d"), json!(701), -32700),
        (call("702", b"\\ude00 \\ud83d"), json!(702), -32700),
        (call("\"a\"", b"\xff"), json!("a"), -32700),
        (b"\xff".to_vec(), Value::Null, -32700),
        (b"{".to_vec(), Value::Null, -32700),
        (br#"{"jsonrpc":"2.0","id":703,"method":"tools/call","params":"x"}"#.to_vec(), json!(703), -32600),
        (br#"{"jsonrpc":"2.0","id":704}"#.to_vec(), json!(704), -32600),
    ]
    .into_iter()
    .enumerate()
    {
        shim.stdin.write_all(&[&line[..], b"\n"].concat()).unwrap();
        let ping = json!(format!("ping {at}"));
        shim.send(&json!({ "jsonrpc": "2.0", "id": ping, "method": "ping" }));
        // The answers may come in any order.
        let mut answers = Vec::new();
        for _ in 0..2 {
            let mut answer = String::new();
            assert!(
                shim.stdout.read_line(&mut answer).unwrap() > 0,
                "the shim ended after {}",
                String::from_utf8_lossy(&line)
            );
            answers.push(serde_json::from_str::<Value>(&answer).unwrap());
            if answers[0]["id"] == ping && answers.len() == 1 {
                // What has no answer by then gets none: the shim answers such a line itself, before it reads the next.
                break;
            }
        }
        let error = answers.iter().find(|answer| answer["id"] == id && answer["error"].is_object());
        let error = error.unwrap_or_else(|| panic!("{}: {answers:?}", String::from_utf8_lossy(&line)));
        assert_eq!(error["error"]["code"], code, "{error}");
    }
    assert!(shim.add("said after all of that 😀"));
    shim.finish();
    servers(&db.path).into_iter().for_each(|server| send("-TERM", server));
}

/// A request that the server did not answer is answered by the shim, also after the client has said all.
#[test]
fn a_request_that_no_server_answers_is_answered_with_an_error() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let mut shim = Client::start(&db.path, runtime.path());
    shim.greet();
    let server = servers(&db.path)[0];
    send("-STOP", server);
    shim.send(&json!({ "jsonrpc": "2.0", "id": "late", "method": "tools/list" }));
    let Client { mut child, stdin, mut stdout, .. } = shim;
    drop(stdin);
    // The shim sees the end of its input before that of the server.
    std::thread::sleep(Duration::from_millis(500));
    send("-KILL", server);
    let mut line = String::new();
    assert!(stdout.read_line(&mut line).unwrap() > 0, "no answer");
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["id"], "late", "{answer}");
    child.wait().unwrap();
    servers(&db.path).into_iter().for_each(|server| send("-TERM", server));
}

/// The server answers no request that was cancelled, so the shim does not wait for it, and the next server is not asked it.
#[test]
fn a_cancelled_request_is_forgotten() {
    for (sent, cancels) in
        [(json!(70), json!(70)), (json!("a"), json!("a")), (json!(70), json!(70.0)), (json!(70.0), json!(70))]
    {
        for server_ends in [false, true] {
            let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
            let mut shim = Client::start(&db.path, runtime.path());
            shim.greet();
            let server = servers(&db.path)[0];
            send("-STOP", server);
            shim.send(&call(&sent, "never mind"));
            shim.send(&cancelled(&cancels));
            // The shim passes both on before it sees that the server has ended.
            std::thread::sleep(Duration::from_millis(300));
            send(if server_ends { "-KILL" } else { "-CONT" }, server);
            let ping = shim.request("ping", json!({}));
            assert!(ping["result"].is_object(), "{ping}");
            let answers = shim.end();
            let is_answered = answers.iter().any(|answer| answer["id"] == sent || answer["id"] == cancels);
            // The server may have answered before it read the cancellation.
            assert!(!(is_answered && server_ends), "{answers:?}");
            servers(&db.path).into_iter().for_each(|server| send("-TERM", server));
        }
    }
}

/// Ids are compared as JSON values: the server writes 1.0 as 1.
#[test]
fn every_request_has_one_answer_whatever_its_id() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let mut shim = Client::start(&db.path, runtime.path());
    // The server closes a connection that begins so.
    for _ in 0..7 {
        shim.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }
    shim.send(&cancelled(&json!(1)));
    shim.greet();
    let server = servers(&db.path)[0];
    send("-STOP", server);
    let ids =
        [json!(100.0), json!(1e3), json!(-7.0), json!("100"), json!(""), json!(9_007_199_254_740_993_i64), json!(0)];
    for id in &ids {
        shim.send(&call(id, "said once"));
    }
    for id in [json!(100), json!(100.0)] {
        shim.send(&call(&id, "said twice"));
    }
    for id in [json!(1.5), json!([1]), json!({}), json!(true), json!(1e300)] {
        shim.send(&call(&id, "said by nobody"));
    }
    std::thread::sleep(Duration::from_millis(300));
    send("-CONT", server);
    let answers = shim.end();
    let answered = |id: &Value, part: &str| {
        answers
            .iter()
            .filter(|answer| {
                answer["id"].as_f64() == id.as_f64() && answer["id"].as_str() == id.as_str() && !answer[part].is_null()
            })
            .count()
    };
    for id in &ids {
        assert_eq!(answered(id, "result"), 1, "{id}: {answers:?}");
    }
    assert_eq!(answered(&json!(100), "error"), 2, "one id twice: {answers:?}");
    assert_eq!(answers.len(), ids.len() + 2 + 5, "{answers:?}");
    servers(&db.path).into_iter().for_each(|server| send("-TERM", server));
}

#[test]
fn a_long_line_is_answered() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let mut shim = Client::start(&db.path, runtime.path());
    shim.greet();
    for (bytes, expected) in [(1 << 10, "result"), (20 << 20, "result"), (33 << 20, "error"), (1 << 10, "result")] {
        let answer = shim.request("tools/call", call(&Value::Null, &"x".repeat(bytes))["params"].clone());
        assert!(answer[expected].is_object(), "{bytes}: {answer}");
    }
    let answer = shim.request("x", json!("y".repeat(33 << 20)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("at most 33554432 bytes"), "{answer}");
    shim.finish();
    servers(&db.path).into_iter().for_each(|server| send("-TERM", server));
}

/// A server that is stopped has its connections still: what waits for it is told so, and what comes when it goes on is answered.
#[test]
fn a_server_that_says_nothing_is_given_up() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let mut shim = Client::start(&db.path, runtime.path());
    shim.greet();
    let server = servers(&db.path)[0];
    // The server has more to read than its socket has room for.
    for text in ["short".to_owned(), "long ".repeat(1 << 20)] {
        send("-STOP", server);
        for _ in 0..2 {
            let begun = Instant::now();
            let answer = shim.request("tools/call", call(&Value::Null, &text)["params"].clone());
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(&format!("process {server}")) && message.contains("stopped"), "{answer}");
            assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
        }
        send("-CONT", server);
        assert!(shim.add("said when it goes on"));
    }
    let mut late = Client::start(&db.path, runtime.path());
    send("-STOP", server);
    let answer = late.request("initialize", json!({}));
    assert!(answer["error"].is_object(), "{answer}");
    send("-CONT", server);
    late.finish();
    shim.finish();
    servers(&db.path).into_iter().for_each(|server| send("-TERM", server));
}

/// Another process may have the other end of its input, as a child of its parent has.
#[test]
fn a_shim_ends_with_the_program_that_started_it() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let script = r#"exec 3<&0; "$0" mcp --idle 1 --db "$1" <&3 & echo $! >&2; wait"#;
    let mut parent = std::process::Command::new("sh");
    parent.env("XDG_RUNTIME_DIR", runtime.path()).args(["-c", script]);
    parent.arg(assert_cmd::cargo::cargo_bin!("mnemon")).arg(&db.path);
    let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut line) = (parent.stdin.take().unwrap(), String::new());
    BufReader::new(parent.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let shim: u32 = line.trim().parse().unwrap();
    writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).unwrap();
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    line.clear();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("result"), "{line}");
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("the end of the shim", || {
        let state = std::fs::read_to_string(format!("/proc/{shim}/stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
    drop(stdin);
}

/// Over TCP a server needs no socket.
#[test]
fn a_server_without_a_folder_for_its_socket_serves_over_tcp() {
    let db = Db::new();
    let unusable = db.folder.path().join("no folder");
    std::fs::write(&unusable, "").unwrap();
    let mut serve = command(&unusable);
    serve.env("TMPDIR", &unusable).args(["--format", "json", "serve", "--listen", "127.0.0.1:0", "--db"]).arg(&db.path);
    let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut event = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    // It warns before it opens the database.
    let warning = event()["warning"].to_string();
    let listening = event()["listening"].as_str().map(str::to_owned);
    signal(&child, "TERM");
    assert!(child.wait().unwrap().success());
    assert!(listening.is_some() && warning.contains("no folder") && warning.contains("mnemon mcp"), "{warning}");
    let mut private = command(&unusable);
    private.env("TMPDIR", &unusable).args(["serve", "--private", "--db"]).arg(&db.path);
    let output = private.output().unwrap();
    assert!(!output.status.success(), "without TCP the socket is all there is");
    // A folder whose path is too long for a socket is no better.
    let long = db.folder.path().join("long".repeat(25));
    std::fs::create_dir(&long).unwrap();
    let output = private.env("XDG_RUNTIME_DIR", &long).env("TMPDIR", &long).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("set XDG_RUNTIME_DIR to a folder"), "{said}");
}

#[test]
fn a_database_that_another_program_has_open_is_named() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let engine = db.open();
    let output = command(runtime.path()).arg("serve").arg("--private").arg("--db").arg(&db.path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("memory.redb"), "{text}");
    drop(engine);
}

/// The server that is started makes the file, and listens where the shim looks.
#[test]
fn a_link_to_a_database_that_is_not_there_yet() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = folder.path().join("link.redb");
    std::os::unix::fs::symlink("new.redb", &link).unwrap();
    let mut shim = Client::start(&link, runtime.path());
    shim.greet();
    assert!(shim.add("The boat is named Anouk."));
    shim.finish();
    assert!(folder.path().join("new.redb").exists());
}

/// Calls that the server had begun when it was told to end are answered: what is stored was acknowledged.
#[test]
fn a_server_that_ends_answers_the_calls_that_it_took() {
    let db = Db::new();
    let server = Server::start(&db);
    let folder = std::fs::read_dir(server.runtime.path().join("mnemon")).unwrap();
    let socket =
        folder.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|end| end == "sock"));
    let stream = UnixStream::connect(socket.unwrap()).unwrap();
    let (mut writer, mut lines) = (stream.try_clone().unwrap(), BufReader::new(stream).lines());
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    writeln!(writer, "{}", json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).unwrap();
    lines.next().unwrap().unwrap();
    writeln!(writer, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    // It writes until the server is gone.
    let calls = std::thread::spawn(move || {
        for id in 1.. {
            let call = json!({ "name": "add_memory", "arguments": { "text": format!("note {id}"), "user_id": "ada" } });
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call });
            if writeln!(writer, "{request}").is_err() {
                break;
            }
        }
    });
    let mut answers = 0;
    for _ in 0..30 {
        lines.next().unwrap().unwrap();
        answers += 1;
    }
    signal(&server.child, "TERM");
    answers += lines.map_while(Result::ok).count() as u64;
    calls.join().unwrap();
    assert!(server.terminate() < Duration::from_secs(10));
    assert_eq!(db.assert_sound().messages, answers, "a message is stored and its call was not answered");
}

/// The server that a shim starts has the model that the shim is given.
#[test]
fn the_private_server_forms_memories() {
    let (db, runtime) = (Db::new(), tempfile::tempdir().unwrap());
    let llm = LlmServer::new(super::formation::knows_ada);
    let model = ["--llm", &llm.base_url(), "--llm-model", "small"];
    let mut shim = Client::with(&db.path, runtime.path(), &model);
    shim.greet();
    assert!(shim.add("I live in Lyon, and row on Thursdays."));
    until("the facts", || {
        let call =
            json!({ "name": "search_memories", "arguments": { "query": "Where does she live?", "user_id": "ada" } });
        shim.request("tools/call", call).to_string().contains("Ada lives in Lyon.").then_some(())
    });
    shim.finish();
    assert_eq!(llm.requests().len(), 1);
}

/// The client is told, too.
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let missing = folder.path().join("missing").to_str().unwrap().to_owned();
    let ping = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }).to_string() + "\n";
    for (db, temporary) in
        [(folder.path().join("new.redb"), Some(&missing)), (Path::new(&missing).join("new.redb"), None)]
    {
        let mut shim = command(runtime.path());
        temporary.map(|folder| shim.env("TMPDIR", folder));
        let shim = shim.arg("mcp").arg("--db").arg(&db).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shim.stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(ping.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let [said, answer] = [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(!output.status.success() && said.contains(&missing), "{said}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["id"] == 7 && answer["error"]["message"].as_str().unwrap().contains(&missing), "{answer}");
    }
}

/// It does not wait for a server that cannot start, and says why.
#[test]
fn a_shim_says_why_its_server_does_not_start() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [right, wrong] = ["6b", "77"].map(|digits| file(digits, &digits.repeat(32)));
    let [rules, damaged] = ["[[namespaces]]\nprefx = \"a\"\n", "no database"].map(|text| file(&text[..2], text));
    let encrypted = folder.path().join("encrypted.redb").to_str().unwrap().to_owned();
    let mut serve = command(runtime.path());
    serve.args(["--key-file", &right, "serve", "--private", "--idle", "1", "--db", &encrypted]);
    assert!(serve.status().unwrap().success());
    for (more, db, reasons) in [
        (&["--config", &rules][..], "new.redb", ["line 2", "prefx"]),
        (&["--model", "no-such-model"], "new.redb", ["can be started: model", "not found"]),
        (
            &["--key-file", &right, "--model", "given:m:2"],
            &encrypted,
            ["can be started: the database was made", "reindex"],
        ),
        (&[], &damaged, ["can be started: ", "not a mnemon database"]),
        (&[], &encrypted, ["encrypted", "--key-file"]),
        (&["--key-file", &wrong], &encrypted, ["can be started: ", "key"]),
        #[cfg(target_os = "linux")]
        (&[], "/proc/memory.redb", ["cannot write into the folder /proc;", "move the database"]),
    ] {
        let mut shim = command(runtime.path());
        shim.args(["mcp", "--db", db]).args(more).current_dir(folder.path()).stdin(Stdio::null());
        let output = shim.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && reasons.iter().all(|reason| said.contains(reason)), "{more:?}: {said}");
    }
}
