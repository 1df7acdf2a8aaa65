//! `mnemon serve` and `mnemon mcp`: real processes, asked over real connections.

mod abuse;
mod batch;
mod blocks;
mod bounds;
mod cursors;
mod dearest;
mod formation;
mod formed;
mod hook;
mod import;
mod infer;
mod largest;
mod mcp;
mod memory_tool;
mod model_down;
mod openapi;
mod options;
mod places;
mod removed;
mod requests;
mod safety;
mod secrets;
mod sessions;
mod several_machines;
mod shim;
mod strict;
mod tls;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::Db;

const ANSWERED: Duration = Duration::from_secs(30);

/// A running server. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// Where its Unix socket is.
    runtime: tempfile::TempDir,
}

/// An answer: its status, its head in lower case, and its body as JSON, or as a text.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Value,
}

fn command(runtime: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    command.env("XDG_RUNTIME_DIR", runtime).env_remove("MNEMON_LOG");
    command
}

impl Server {
    pub(crate) fn start(db: &Db) -> Self {
        Self::with(db, &[])
    }

    /// Starts a server with more arguments.
    pub(crate) fn with(db: &Db, arguments: &[&str]) -> Self {
        let runtime = tempfile::tempdir().unwrap();
        Self::spawn(command(runtime.path()), runtime, db, arguments)
    }

    /// Starts a server that may open so many files.
    fn within_files(db: &Db, files: usize) -> Self {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.env("XDG_RUNTIME_DIR", runtime.path()).env_remove("MNEMON_LOG");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
        command.arg(assert_cmd::cargo::cargo_bin!("mnemon"));
        Self::spawn(command, runtime, db, &[])
    }

    fn spawn(mut command: Command, runtime: tempfile::TempDir, db: &Db, arguments: &[&str]) -> Self {
        command.args(["--format", "json", "serve", "--listen", "127.0.0.1:0", "--db"]).arg(&db.path).args(arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let event = loop {
            line.clear();
            stderr.read_line(&mut line).unwrap();
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the server says {line:?}"));
            // A warning may come first.
            if event["level"] != "WARN" {
                break event;
            }
        };
        let url = event["listening"].as_str().unwrap_or_else(|| panic!("the server says {line:?}"));
        let address = url.split_once("://").unwrap().1.parse().unwrap();
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Server { child, address, runtime }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(ANSWERED)).unwrap();
        stream
    }

    /// Sends these bytes and reads until the server closes the connection.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[], Some(body))
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += &format!("host: {}\r\n", self.address);
        }
        if !body.is_empty() {
            request += "content-type: application/json\r\n";
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let answer = Answer::parse(&self.raw((request + "\r\n" + &body).as_bytes()));
        openapi::assert_described(method, path, &answer);
        answer
    }

    /// Stores texts in a namespace, and embeds them.
    fn put(&self, namespace: &str, texts: &[&str]) -> Vec<String> {
        let messages: Vec<Value> = texts.iter().map(|text| json!({ "role": "user", "content": text })).collect();
        let path = format!("/v1/namespaces/{}/messages", namespace.replace('/', "%2F"));
        let answer = self.post(&path, json!({ "messages": messages, "flush": true }));
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_value(answer.body["ids"].clone()).unwrap()
    }

    /// Ends the server as a service manager does, and returns the time that it took.
    fn terminate(mut self) -> Duration {
        let started = Instant::now();
        signal(&self.child, "TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        started.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        Answer { status, head, body }
    }

    /// Asserts that the answer is problem details of this status.
    #[track_caller]
    fn assert_problem(&self, status: u16, part: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let detail = self.body["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(part) && self.body["status"] == status, "{}", self.body);
        assert!(self.body["type"].as_str().unwrap_or_default().starts_with("urn:mnemon:"), "{}", self.body);
    }
}

fn unchunked(body: &str) -> String {
    let (mut rest, mut whole) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || after.len() < size {
            break;
        }
        whole += &after[..size];
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap().success());
}

/// Makes tokens with `mnemon token`; returns them, and the file that has them.
fn tokens(folder: &Path, options: &[&[&str]]) -> (Vec<String>, std::path::PathBuf) {
    let file = folder.join("tokens.toml");
    let tokens = options.iter().map(|options| {
        let output = command(folder).arg("token").args(*options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let token = text.lines().find_map(|line| line.strip_prefix("# mnemon_")).unwrap();
        std::fs::OpenOptions::new().append(true).create(true).open(&file).unwrap().write_all(text.as_bytes()).unwrap();
        format!("mnemon_{token}")
    });
    (tokens.collect(), file)
}
