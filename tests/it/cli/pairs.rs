//! Two commands that create or replace a file, started together on the same one: what a command acknowledged is there
//! afterwards, whichever came first.
//!
//! `MNEMON_PAIR_ROUNDS` sets the rounds of each pair; default 1.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Barrier,
};

use serde_json::Value;

use crate::support::tally::tally;

/// The commands that create or replace a file.
const COMMANDS: &[&str] = &["ingest", "import", "serve", "backup", "salvage", "export", "purge", "reindex"];
const MESSAGES: u64 = 12;

/// The files that the commands read.
struct Inputs {
    folder: tempfile::TempDir,
}

/// What a command that succeeded has promised of the file.
enum Promise {
    Nothing,
    /// Messages in a namespace.
    Messages(String, u64),
    /// These bytes, as the whole file.
    Bytes(Vec<u8>),
}

fn command() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
    command.env_remove("MNEMON_KEY").stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Inputs {
    fn new() -> Self {
        let inputs = Inputs { folder: tempfile::tempdir().unwrap() };
        for slot in 0..2 {
            for kind in ["ingest", "source", "base"] {
                let lines: String = (0..MESSAGES)
                    .map(|number| {
                        format!(
                            "{{\"id\":\"m{number}\",\"namespace\":\"{kind}/{slot}\",\"role\":\"user\",\"content\":\"ferry {number}\"}}\n"
                        )
                    })
                    .collect();
                fs::write(inputs.path(kind, slot, "jsonl"), lines).unwrap();
                let (database, export) = (inputs.path(kind, slot, "redb"), inputs.path(kind, slot, "export"));
                succeed(command().args(["ingest", "--db"]).arg(&database).arg(inputs.path(kind, slot, "jsonl")));
                succeed(command().args(["export", "--db"]).arg(&database).arg("-o").arg(export));
            }
        }
        inputs
    }

    fn path(&self, kind: &str, slot: usize, extension: &str) -> PathBuf {
        self.folder.path().join(format!("{kind}-{slot}.{extension}"))
    }

    /// Runs a command on a file. Returns what it promised; nothing, if it failed.
    fn run(&self, name: &str, slot: usize, file: &Path, together: &Barrier) -> Promise {
        let (source, export) = (self.path("source", slot, "redb"), self.path("source", slot, "export"));
        let mut command = command();
        match name {
            "ingest" => command.args(["ingest", "--db"]).arg(file).arg(self.path("ingest", slot, "jsonl")),
            "import" => {
                command.args(["import", "--namespace", &format!("import/{slot}"), "--db"]).arg(file).arg(export)
            }
            "backup" => command.args(["backup", "--db"]).arg(source).arg(file),
            "salvage" => command.arg("salvage").arg(source).arg(file),
            "export" => command.args(["export", "--db"]).arg(source).arg("-o").arg(file),
            "purge" => command.args(["purge", "--db"]).arg(file),
            "reindex" => command.args(["reindex", "--precision", "i8", "--samples", "0", "--db"]).arg(file),
            "serve" => return self.serve(slot, file, together),
            name => unreachable!("{name}"),
        };
        together.wait();
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code < 2), "{name}: {stderr}");
        assert!(output.status.success() || stderr.starts_with("mnemon: "), "{name}: {stderr}");
        if !output.status.success() {
            return Promise::Nothing;
        }
        match name {
            "ingest" => Promise::Messages(format!("ingest/{slot}"), MESSAGES),
            "import" => Promise::Messages(format!("import/{slot}"), MESSAGES),
            "backup" | "salvage" => Promise::Messages(format!("source/{slot}"), MESSAGES),
            "export" => Promise::Bytes(fs::read(self.path("source", slot, "export")).unwrap()),
            _ => Promise::Nothing,
        }
    }

    /// Starts a server, puts a few messages, and ends it.
    fn serve(&self, slot: usize, file: &Path, together: &Barrier) -> Promise {
        let runtime = self.folder.path().join(format!("runtime-{slot}"));
        fs::create_dir_all(&runtime).unwrap();
        let mut command = command();
        command.args(["--format", "json", "serve", "--listen", "127.0.0.1:0", "--db"]).arg(file);
        together.wait();
        let mut server = command.env("XDG_RUNTIME_DIR", runtime).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the server says {line:?}"));
        let Some(url) = event["listening"].as_str() else {
            assert!(event["error"].is_string() && !server.wait().unwrap().success(), "{line}");
            return Promise::Nothing;
        };
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let address = url.split_once("://").unwrap().1.to_owned();
        let mut acknowledged = 0;
        for number in 0..3 {
            let body =
                format!("{{\"messages\": [{{\"id\": \"m{number}\", \"role\": \"user\", \"content\": \"ferry\"}}]}}");
            let mut stream = TcpStream::connect(&address).unwrap();
            write!(
                stream,
                "POST /v1/namespaces/serve%2F{slot}/messages HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            acknowledged += u64::from(answer.starts_with("HTTP/1.1 200"));
        }
        assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
        assert!(server.wait().unwrap().success());
        Promise::Messages(format!("serve/{slot}"), acknowledged)
    }
}

/// Asserts that a file has what was promised of it.
fn check(file: &Path, promises: &[Promise], what: &str) {
    let mut messages = BTreeMap::new();
    if promises.iter().any(|promise| matches!(promise, Promise::Messages(_, count) if *count > 0)) {
        let report = mnemon::verify(file).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(report.problems, [""; 0], "{what}");
        for namespace in mnemon::stats(file).unwrap().namespaces {
            messages.insert(namespace.namespace.to_string(), namespace.messages);
        }
    }
    for promise in promises {
        match promise {
            Promise::Messages(namespace, count) if *count > 0 => {
                assert_eq!(messages.get(namespace), Some(count), "{what}: {namespace} of {messages:?}");
            }
            Promise::Bytes(bytes) => assert!(fs::read(file).is_ok_and(|found| found == *bytes), "{what}"),
            _ => {}
        }
    }
}

#[test]
fn what_either_of_two_commands_acknowledged_is_there() {
    let rounds: u64 = std::env::var("MNEMON_PAIR_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let inputs = Inputs::new();
    let (mut ran, mut acknowledged) = (0, 0);
    for (at, one) in COMMANDS.iter().enumerate() {
        for two in &COMMANDS[at..] {
            for round in 0..2 * rounds {
                let exists = round % 2 == 1;
                let what = format!("{one} and {two}, round {round}, {}", if exists { "a database" } else { "no file" });
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("memory.redb");
                let mut promises = Vec::new();
                if exists {
                    fs::copy(inputs.path("base", 0, "redb"), &file).unwrap();
                    promises.push(Promise::Messages("base/0".into(), MESSAGES));
                }
                let together = Barrier::new(2);
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| inputs.run(two, 1, &file, &together));
                    promises.push(inputs.run(one, 0, &file, &together));
                    promises.push(other.join().unwrap());
                });
                ran += 1;
                acknowledged +=
                    promises.iter().skip(usize::from(exists)).filter(|p| !matches!(p, Promise::Nothing)).count();
                check(&file, &promises, &what);
                let left: Vec<_> =
                    fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                assert!(left.iter().all(|name| name == "memory.redb"), "{what}: {left:?}");
            }
        }
    }
    tally("pairs of commands", ran);
    eprintln!("{ran} pairs of commands on one file; {acknowledged} stored something, and all of it is there");
}
