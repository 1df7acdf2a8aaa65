//! The programs of README.md and of docs/server.md, run as a reader copies them: Rust programs, lines of the shell with the real curl, and
//! the configuration of an MCP client. One test for each surface that may have filled the reader's database before.
//!
//! Only the port of the server is another than the printed one, because other tests may use that. The READMEs' programs in Python run with
//! the tests of the package, mem0's client with `make test-serve`, and `make user-package` compiles the programs as a user does.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::root;

/// Commands that build the program which this test runs.
const BUILDING: [&str; 2] = ["make ", "cargo "];
const PORT: &str = "7411";

/// A folder with a reader's files.
struct Reader {
    folder: tempfile::TempDir,
    port: String,
    serving: Option<Child>,
}

impl Reader {
    fn new() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        Reader { folder: tempfile::tempdir().unwrap(), port, serving: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command in the reader's folder, who has no ONNX Runtime.
    fn command(&self, program: &str) -> Command {
        let built = assert_cmd::cargo::cargo_bin!("mnemon").parent().unwrap().to_owned();
        let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("PATH", path).env("ORT_DYLIB_PATH", "/nowhere");
        command.env("XDG_RUNTIME_DIR", self.folder.path()).env_remove("MNEMON_LOG").env_remove("MNEMON_KEY");
        command
    }

    /// Runs a line of a shell, which succeeds; returns what it prints on stdout.
    fn shell(&self, line: &str) -> String {
        let output = self.command("bash").args(["-c", &line.replace(PORT, &self.port)]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a server by a line of a shell, and waits until it listens.
    fn serve(&mut self, line: &str) {
        self.stop();
        let mut line = line.replace(PORT, &self.port);
        if !line.contains("--listen") {
            line += &format!(" --listen 127.0.0.1:{}", self.port);
        }
        let mut command = self.command("bash");
        let mut child = command.args(["-c", &format!("exec {line}")]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        self.serving = Some(child);
        let mut text = String::new();
        while !text.contains("listening on ") {
            assert_ne!(said.read_line(&mut text).unwrap(), 0, "{line}: {text}");
        }
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    }

    /// Ends the server as a service manager does.
    fn stop(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            assert!(Command::new("kill").arg(serving.id().to_string()).status().unwrap().success());
            assert!(serving.wait().unwrap().success());
        }
    }

    /// Runs an example, which is the program in the README.
    fn example(&self, name: &str) -> String {
        let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(name);
        let output = self.command(program.to_str().unwrap()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(serving) = &mut self.serving {
            let _ = (serving.kill(), serving.wait());
        }
    }
}

/// The blocks of a language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root(document)).unwrap();
    let begin = format!("```{language}\n");
    text.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The commands of a document, without those that build the program.
fn commands(document: &str) -> Vec<String> {
    let all = blocks(document, "console").concat();
    let commands = all.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.filter(|line| !BUILDING.iter().any(|build| line.starts_with(build))).map(str::to_owned).collect()
}

/// Messages of the namespaces of the documents, which are about other things: texts, parts, sessions with the documents' names.
fn other_messages() -> Vec<Value> {
    let mut messages = Vec::new();
    for namespace in ["acme/user-42", "acme/ada", "default"] {
        for (at, text) in
            ["The greenhouse needs new glass.", "The piano was tuned.", "Lisbon is sunny."].iter().enumerate()
        {
            let session = ["monday", "tuesday", "default"][at];
            messages.push(json!({
                "id": format!("other-{at}"), "namespace": namespace, "session": session, "role": "user", "name": "Ben",
                "content": text, "created_at": "2024-05-01T09:30:00Z", "metadata": { "topic": "house" },
            }));
        }
        let call = json!([
            { "type": "text", "text": "I looked it up." },
            { "type": "tool_call", "id": "c", "name": "weather", "arguments": { "city": "Lisbon" } },
        ]);
        let result = json!([{ "type": "tool_result", "id": "c", "content": "22 degrees" }]);
        for (id, role, content) in [("call", "assistant", call), ("result", "tool", result)] {
            messages.push(
                json!({ "id": id, "namespace": namespace, "session": "tuesday", "role": role, "content": content }),
            );
        }
    }
    messages
}

/// Stores the other messages with the command.
fn ingest(reader: &Reader, db: &str) {
    let lines: String = other_messages().iter().map(|message| format!("{message}\n")).collect();
    fs::write(reader.path("other.jsonl"), lines).unwrap();
    reader.shell(&format!("mnemon ingest --db {db} other.jsonl"));
}

/// Stores the other messages, messages in a buffer, and a document over HTTP.
fn put(reader: &mut Reader, db: &str) {
    reader.serve(&format!("mnemon serve --db {db}"));
    let send = |method: &str, path: &str, body: Value| {
        let url = format!("localhost:{PORT}/v1/namespaces/{path}");
        fs::write(reader.path("body.json"), body.to_string()).unwrap();
        reader.shell(&format!("curl -sf -X {method} {url} --json @body.json"));
    };
    for mut message in other_messages() {
        let namespace = message.as_object_mut().unwrap().remove("namespace").unwrap();
        let place = namespace.as_str().unwrap().replace('/', "%2F");
        let session = message["session"].as_str().unwrap().to_owned();
        // The tuesday's are in its buffer.
        let path = if session == "tuesday" {
            format!("{place}/sessions/tuesday/messages")
        } else {
            format!("{place}/messages")
        };
        send("POST", &path, json!({ "messages": [message] }));
    }
    for namespace in ["acme%2Fuser-42", "acme%2Fada"] {
        send("PUT", &format!("{namespace}/documents/search"), json!({ "value": { "city": "Porto" } }));
    }
    reader.stop();
}

/// Imports what a program of another machine exported.
fn import(reader: &mut Reader, db: &str) {
    put(reader, "elsewhere.redb");
    reader.shell("mnemon export --db elsewhere.redb -o all.jsonl");
    reader.shell(&format!("mnemon import --db {db} all.jsonl"));
}

/// Runs the programs in Rust, one after the other, as the README has them.
fn run_rust(reader: &Reader) {
    for name in ["quickstart", "session"] {
        let text = reader.example(name);
        assert!(text.contains("rowing lesson to Thursday"), "{name}: {text}");
    }
}

/// Runs the commands of a document.
fn run_shell(reader: &mut Reader, document: &str) {
    let line = r#"{"namespace": "acme/user-42", "session": "monday", "role": "user", "content": "..."}"#;
    let readme = fs::read_to_string(root("README.md")).unwrap();
    assert!(readme.contains(&format!("`{line}`")), "the README has a message as a line");
    let text = "I moved my rowing lesson to Thursday morning.";
    fs::write(reader.path("messages.jsonl"), line.replace("...", text) + "\n").unwrap();
    let commands = commands(document);
    assert!(!commands.is_empty(), "{document}");
    for command in commands {
        // A comment of the document is one of the shell.
        if command.starts_with("mnemon serve") {
            if command.contains("--tls-cert") && !certificate(reader) {
                continue;
            }
            reader.serve(&command);
            match command.contains("--tls-cert") {
                true => asks_over_tls(reader),
                false => speaks_mcp(reader),
            }
            continue;
        }
        let printed = reader.shell(&command);
        let expected = match command.split_whitespace().take(2).collect::<Vec<_>>()[..] {
            ["mnemon", "ingest"] => "stored, embedded, indexed",
            ["mnemon", "recall"] => text,
            ["mnemon", "token"] => "",
            ["curl", _] if command.contains("/memory_tool") => "File created successfully at: /memories/sport.md",
            ["curl", _] if command.contains("/messages") => "\"ids\":[\"",
            ["curl", _] if command.contains("/recall") => "I row on Thursdays.",
            _ => panic!("{document} has a new command; say what it prints: {command}"),
        };
        assert!(printed.contains(expected), "{command}: {printed}");
    }
    reader.stop();
}

/// Makes the certificate and the key that the documents name. Returns false where there is no openssl.
fn certificate(reader: &Reader) -> bool {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("SKIPPED: there is no openssl to make a certificate with");
        return false;
    }
    reader.shell(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=memory.example -addext \
         subjectAltName=DNS:memory.example -keyout key.pem -out chain.pem 2>/dev/null",
    );
    true
}

/// Recalls what the documents stored, with the token that they made.
fn asks_over_tls(reader: &Reader) {
    let tokens = fs::read_to_string(reader.path("tokens.toml")).unwrap();
    let token = tokens.lines().find_map(|line| line.strip_prefix("# mnemon_")).unwrap();
    let found = reader.shell(&format!(
        "curl -s --cacert chain.pem --resolve memory.example:{PORT}:127.0.0.1 -H 'Authorization: Bearer mnemon_{token}' \
         https://memory.example:{PORT}/v1/namespaces/acme%2Fada/recall --json '{{\"query\": \"When does she row?\"}}'"
    ));
    assert!(found.contains("I row on Thursdays."), "{found}");
}

/// Starts what the documents' configuration of MCP clients starts, stores and finds. It speaks through the server that runs.
fn speaks_mcp(reader: &Reader) {
    for document in ["README.md", "docs/server.md"] {
        let [configuration] = &blocks(document, "json")[..] else { panic!("{document} has one configuration") };
        let configuration: Value = serde_json::from_str(configuration).unwrap();
        let memory = &configuration["mcpServers"]["memory"];
        let mut command = reader.command(memory["command"].as_str().unwrap());
        for argument in memory["args"].as_array().unwrap() {
            command.arg(argument.as_str().unwrap().replace("/home/ada", reader.folder.path().to_str().unwrap()));
        }
        let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let call = |id: u64, name: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let requests = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            call(2, "add_memory", json!({ "text": "Ada is allergic to peanuts.", "user_id": "ada" })),
            call(3, "search_memories", json!({ "query": "What is Ada allergic to?", "user_id": "ada" })),
        ];
        let mut stdin = shim.stdin.take().unwrap();
        let mut answers = BufReader::new(shim.stdout.take().unwrap()).lines();
        for request in requests {
            writeln!(stdin, "{request}").unwrap();
            if request["id"].is_number() {
                let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
                assert!(answer["id"] == request["id"] && answer["result"]["isError"] != true, "{document}: {answer}");
                assert!(request["id"] != 3 || answer.to_string().contains("peanuts"), "{document}: {answer}");
            }
        }
        drop(stdin);
        assert!(shim.wait().unwrap().success());
    }
}

/// Runs all programs on the reader's database.
fn run_all(mut reader: Reader) {
    run_rust(&reader);
    run_shell(&mut reader, "README.md");
    run_shell(&mut reader, "docs/server.md");
    // What the programs stored is sound, and what was there before is there still.
    reader.shell("mnemon verify --db memory.redb");
    if reader.shell("mnemon namespaces --db memory.redb").contains("default") {
        let kept = reader.shell("mnemon get --db memory.redb --namespace acme/user-42 other-0 other-1 call result");
        assert!(kept.contains("The piano was tuned.") && kept.contains("22 degrees"), "{kept}");
    }
}

#[test]
fn programs_run_on_no_database() {
    run_all(Reader::new());
}

#[test]
fn programs_run_on_what_the_command_ingested() {
    let reader = Reader::new();
    ingest(&reader, "memory.redb");
    run_all(reader);
}

#[test]
fn programs_run_on_what_was_put_over_http() {
    let mut reader = Reader::new();
    put(&mut reader, "memory.redb");
    run_all(reader);
}

#[test]
fn programs_run_on_what_was_imported() {
    let mut reader = Reader::new();
    import(&mut reader, "memory.redb");
    run_all(reader);
}
