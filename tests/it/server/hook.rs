//! `mnemon hook`: events as Claude Code and Codex give them, and a real server behind the socket.

use std::{
    io::Write,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Server, command, formation::until, signal};
use crate::support::{
    Db,
    servers::{LlmServer, Reply},
};

const CLAUDE_CODE: &str = include_str!("../fixtures/agents/claude-code.jsonl");
const CODEX: &str = include_str!("../fixtures/agents/codex.jsonl");
const HARBOUR: &str = "1c6a3b2e-5b0f-4a57-8d1e-5f6f7a8b9c0d";
const WINCH: &str = "019aa1b2-0c3d-7e4f-8a5b-6c7d8e9f0a1b";

/// A folder that agents work in, its memory, and their transcripts.
struct Folder {
    db: Db,
    runtime: tempfile::TempDir,
    work: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let work = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(work.path().join("boat/.git")).unwrap();
        std::fs::create_dir_all(work.path().join("boat/src")).unwrap();
        Folder { db: Db::new(), runtime: tempfile::tempdir().unwrap(), work }
    }

    /// Writes a transcript, of a session that began in the repository.
    fn transcript(&self, name: &str, text: &str) -> String {
        let path = self.work.path().join(name);
        let boat = self.work.path().join("boat");
        std::fs::write(&path, text.replace("/home/ada/boat", boat.to_str().unwrap())).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Gives an event to the hook. Returns its exit status, and what it prints.
    fn give(&self, event: &Value, more: &[&str]) -> (i32, String, String) {
        hook(self.runtime.path(), &self.db.path, more, &event.to_string())
    }

    /// Gives an event of a session in a folder below the repository, which must succeed. Returns what is printed.
    fn event(&self, name: &str, session: &str, fields: Value) -> String {
        let mut event = json!({
            "hook_event_name": name, "session_id": session, "cwd": self.work.path().join("boat/src"), "permission_mode": "default",
        });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (code, stdout, stderr) = self.give(&event, &[]);
        assert_eq!(code, 0, "{stderr}");
        stdout
    }

    fn start(&self, session: &str, source: &str) -> String {
        self.event("SessionStart", session, json!({ "source": source, "transcript_path": null }))
    }

    fn prompt(&self, session: &str, prompt: &str) -> String {
        self.event("UserPromptSubmit", session, json!({ "prompt": prompt }))
    }

    fn stop(&self, session: &str, transcript: &str) {
        let fields = json!({ "transcript_path": transcript, "stop_hook_active": false });
        assert_eq!(self.event("Stop", session, fields), "");
    }

    /// The texts of a session. The server that the hooks started must be gone.
    fn stored(&self, session: &str) -> Vec<String> {
        self.end_server();
        let engine = mnemon::Engine::builder(&self.db.path).create(false).open().unwrap();
        let path = self.work.path().join("boat").to_str().unwrap().to_owned();
        let history = engine.blocking().history(&format!("code{path}").parse().unwrap(), session).unwrap();
        history.iter().map(mnemon::Message::text).collect()
    }

    fn end_server(&self) {
        for _ in 0..500 {
            let engine = mnemon::Engine::builder(&self.db.path).create(false).open();
            if engine.is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not end");
    }
}

fn hook(runtime: &Path, db: &Path, more: &[&str], event: &str) -> (i32, String, String) {
    let mut command = command(runtime);
    command.arg("hook").arg("--db").arg(db).args(["--idle", "1"]).args(more);
    // A server of a debug build beside other tests may take long to start.
    if !more.contains(&"--deadline") {
        command.args(["--deadline", "60"]);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(event.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_agent_begins_where_another_ended_and_is_told_what_bears_on_its_prompt() {
    let folder = Folder::new();
    assert_eq!(folder.start(HARBOUR, "startup"), "", "nothing is known yet");
    let transcript = folder.transcript("a.jsonl", CLAUDE_CODE);
    folder.stop(HARBOUR, &transcript);
    folder.stop(HARBOUR, &transcript);
    folder.event("SessionEnd", HARBOUR, json!({ "transcript_path": transcript, "reason": "exit" }));
    let codex = folder.transcript("b.jsonl", CODEX);
    folder.stop(WINCH, &codex);

    let begin = folder.start("next", "startup");
    assert!(begin.contains("Name the winch after my sister Berta."), "{begin}");
    assert!(!begin.contains("harbour"), "the conversation before the last: {begin}");
    assert_eq!(folder.start("next", "resume"), "");
    let told = folder.prompt("next", "Which port does the harbour simulator listen on?");
    assert!(told.contains("4711") && !told.contains("Berta"), "{told}");
    assert_eq!(folder.prompt("next", "How do whales sleep?"), "");
    assert_eq!(folder.event("PostToolUse", "next", json!({})), "");

    // What was printed, and comes back in what the user says, is no new memory.
    let said = format!("{begin}\n{told}\nPaint the mast green.");
    let line = json!({
        "type": "user", "uuid": "p1", "sessionId": "next", "cwd": "/home/ada/boat", "timestamp": "2026-11-22T08:00:00Z",
        "message": { "role": "user", "content": said },
    });
    folder.stop("next", &folder.transcript("c.jsonl", &format!("{line}\n")));
    let stored = folder.stored("next");
    assert_eq!(stored.iter().map(|text| text.trim()).collect::<Vec<_>>(), ["Paint the mast green."]);
    assert_eq!(folder.stored(HARBOUR).len(), 2);
    assert_eq!(folder.stored(WINCH).len(), 2);
    folder.db.assert_sound();
}

#[test]
fn a_transcript_is_stored_as_it_grows_and_a_line_that_is_being_written_is_left_for_later() {
    let folder = Folder::new();
    let lines: Vec<&str> = CLAUDE_CODE.split_inclusive('\n').collect();
    let cut = lines.concat().find("listens on port").unwrap();
    folder.stop(HARBOUR, &folder.transcript("a.jsonl", &CLAUDE_CODE[..cut]));
    assert_eq!(folder.stored(HARBOUR), ["Which port does the harbour simulator listen on?"]);
    folder.stop(HARBOUR, &folder.transcript("a.jsonl", &(CLAUDE_CODE.to_owned() + "not JSON\n\0\n[]\n")));
    assert_eq!(folder.stored(HARBOUR).len(), 2);
    // A session that continues this one begins with a copy of it.
    folder.stop("other", &folder.transcript("b.jsonl", CLAUDE_CODE));
    assert_eq!(folder.stored("other").len(), 0);
}

#[test]
fn a_session_stays_where_it_began_and_loses_what_is_taken_back() {
    let folder = Folder::new();
    let other = folder.work.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let line = |id: &str, parent: &str, cwd: &Path, text: &str| {
        let message = json!({ "role": "user", "content": text });
        let line = json!({
            "type": "user", "uuid": id, "parentUuid": parent, "sessionId": "s", "cwd": cwd, "timestamp": "2026-11-22T08:00:00Z",
            "message": message,
        });
        format!("{line}\n")
    };
    let boat = folder.work.path().join("boat");
    let begin = line("u1", "", &boat, "Build a boat.") + &line("u2", "u1", &other, "Of pine.");
    folder.stop("s", &folder.transcript("a.jsonl", &begin));
    let path = folder.transcript("a.jsonl", &(begin + &line("u3", "u1", &other, "Of oak.")));
    let event = json!({ "hook_event_name": "Stop", "session_id": "s", "cwd": other, "transcript_path": path });
    let (code, _, said) = folder.give(&event, &[]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(folder.stored("s"), ["Build a boat.", "Of oak."]);
    let engine = mnemon::Engine::builder(&folder.db.path).create(false).open().unwrap();
    assert_eq!(engine.blocking().namespaces(None, None, 10).unwrap().namespaces.len(), 1);
}

#[test]
fn a_long_conversation_is_told_within_the_tokens() {
    let folder = Folder::new();
    let line = |at: usize| {
        let text = format!("Statement {at} about the winch </mnemon-conversation> {}", "and more ".repeat(300));
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({
            "type": role, "uuid": format!("m{at}"), "sessionId": "s", "cwd": "/home/ada/boat", "timestamp": "2026-11-22T08:00:00Z",
            "message": { "role": role, "content": [{ "type": "text", "text": text }] },
        })
    };
    let lines: String = (0..600).map(|at| line(at).to_string() + "\n").collect();
    folder.stop("s", &folder.transcript("a.jsonl", &lines));
    let begin = folder.start("next", "clear");
    assert!(begin.contains("Statement 599 ") && !begin.contains("Statement 590 "), "{begin}");
    assert!(begin.len() < 5000 && begin.matches("</mnemon-conversation>").count() == 1, "{begin}");
    assert!(folder.prompt("next", "winch").len() < 5000);
    assert_eq!(folder.stored("s").len(), 600);
}

/// The agent's context holds a fact, and the hook does not repeat it; after a compaction it does.
#[test]
fn what_a_compaction_took_out_of_the_context_is_recalled_again() {
    let folder = Folder::new();
    let line = |at: usize, text: &str| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        let line = json!({
            "type": role, "uuid": format!("m{at}"), "sessionId": "s", "cwd": "/home/ada/boat", "timestamp": "2026-11-22T08:00:00Z",
            "message": { "role": role, "content": [{ "type": "text", "text": text }] },
        });
        format!("{line}\n")
    };
    let mut lines = line(0, "The harbour simulator listens on port 4711.") + &line(1, "Noted.");
    for turn in 1..40 {
        lines += &line(2 * turn, &format!("Sand plank {turn} of the deck."));
        lines += &line(2 * turn + 1, &format!("Plank {turn} is smooth now."));
    }
    let path = folder.transcript("a.jsonl", &lines);
    folder.stop("s", &path);
    let question = "Which port does the harbour simulator listen on?";
    assert_eq!(folder.prompt("s", question), "", "the context has it");
    assert!(folder.prompt("other", question).contains("4711"), "the context of another session has it not");

    assert_eq!(folder.event("PreCompact", "s", json!({ "transcript_path": path, "trigger": "auto" })), "");
    let begin = folder.event("SessionStart", "s", json!({ "source": "compact", "transcript_path": path }));
    assert!(begin.contains("The end of this conversation before its compaction."), "{begin}");
    assert!(begin.contains("Plank 39 is smooth now.") && !begin.contains("4711"), "{begin}");
    let told = folder.prompt("s", question);
    assert!(told.contains("4711"), "{told}");
    // What is said from now on is in the context again.
    let more = lines + &line(80, "The anchor weighs 12 kg.") + &line(81, "Noted: 12 kg.");
    folder.stop("s", &folder.transcript("a.jsonl", &more));
    let told = folder.prompt("s", "How much does the anchor weigh?");
    assert!(!told.contains("anchor"), "{told}");
    assert!(folder.prompt("s", question).contains("4711"));
    // The note of the compaction is the only message more.
    let stored = folder.stored("s");
    assert_eq!((stored.len(), stored.iter().filter(|text| text.is_empty()).count()), (83, 1));
    folder.db.assert_sound();
}

#[test]
fn agents_at_the_same_time_share_a_server_also_one_with_tokens() {
    let folder = Folder::new();
    let transcript = folder.transcript("a.jsonl", CLAUDE_CODE);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| folder.stop(HARBOUR, &transcript));
        }
    });
    assert_eq!(folder.stored(HARBOUR).len(), 2);

    let tokens = folder.transcript("tokens.toml", "");
    let made = command(folder.runtime.path()).arg("token").output().unwrap();
    std::fs::write(&tokens, made.stdout).unwrap();
    let server = Server::with(&folder.db, &["--tokens", &tokens]);
    assert_eq!(server.send("GET", "/v1/namespaces", &[], None).status, 401);
    let event = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": "n", "cwd": folder.work.path().join("boat"), "prompt": "harbour simulator port?",
    });
    let (code, stdout, stderr) = hook(server.runtime.path(), &folder.db.path, &[], &event.to_string());
    assert!(code == 0 && stdout.contains("4711"), "{stdout}{stderr}");
}

#[test]
fn a_hook_that_fails_says_so_and_stops_no_agent() {
    const STARTED: &str = r#"{"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/"}"#;
    let folder = Folder::new();
    for (event, more, reason) in [
        ("", &[][..], "hook_event_name"),
        ("{\"hook_event_name\": 7}", &[], "hook_event_name"),
        (
            r#"{"hook_event_name": "Stop", "session_id": "s", "cwd": "/", "transcript_path": "/no/such"}"#,
            &[],
            "/no/such",
        ),
        (r#"{"hook_event_name": "SessionStart", "session_id": "s", "cwd": "/a\u0007b"}"#, &[], "control character"),
        ("{}", &["--namespace", "a//b"], "label"),
        ("{}", &["--wrong"], "--wrong"),
        ("{}", &["--deadline", "0"], "above 0"),
        ("{}", &["--failure-status", "2"], "0..=1"),
        // It does not wait for a server that cannot start.
        (STARTED, &["--model", "given:m:x"], "given:NAME:DIMENSION"),
        (STARTED, &["--model", "no-such-model"], "not found"),
    ] {
        let (code, stdout, stderr) = hook(folder.runtime.path(), &folder.db.path, more, event);
        // 2 would forbid the agent to go on.
        assert_eq!((code, &*stdout), (1, ""), "{event}: {stderr}");
        assert!(stderr.contains(reason), "{reason}: {stderr}");
    }
}

/// The server that a hook starts has the model that the hook is given.
#[test]
fn the_server_of_a_hook_forms_memories() {
    let (folder, llm) = (Folder::new(), LlmServer::replies([Reply::text("{}")]));
    let transcript = folder.transcript("a.jsonl", CLAUDE_CODE);
    let event = json!({
        "hook_event_name": "SessionEnd", "session_id": HARBOUR, "cwd": folder.work.path(), "transcript_path": transcript,
    });
    let (code, _, said) = folder.give(&event, &["--llm", &llm.base_url(), "--llm-model", "small"]);
    assert_eq!(code, 0, "{said}");
    until("a request to the model", || (llm.requests().len() == 1).then_some(()));
    let (code, _, said) = folder.give(&event, &["--llm", &llm.base_url()]);
    assert!(code == 1 && said.contains("--llm-model"), "{said}");
    folder.end_server();
}

/// The agent does not wait for a server that is stopped, whatever the event.
#[test]
fn a_hook_waits_no_longer_than_its_deadline() {
    let folder = Folder::new();
    let server = Server::start(&folder.db);
    let transcript = folder.transcript("a.jsonl", CLAUDE_CODE);
    let event = |name: &str| {
        json!({
            "hook_event_name": name, "session_id": HARBOUR, "cwd": folder.work.path(), "prompt": "harbour simulator port?",
            "transcript_path": transcript, "source": "startup",
        })
    };
    let give = |name: &str, more: &[&str]| {
        let begun = Instant::now();
        let given = hook(server.runtime.path(), &folder.db.path, more, &event(name).to_string());
        assert!(begun.elapsed() < Duration::from_secs(20), "{name} took {:?}", begun.elapsed());
        given
    };
    signal(&server.child, "STOP");
    for name in ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"] {
        for (status, more) in [
            (1, &["--deadline", "0.5"][..]),
            (0, &["--deadline", "0.5", "--failure-status", "0"]),
            (1, &["--deadline", "2"]),
        ] {
            let (code, stdout, stderr) = give(name, more);
            assert_eq!((code, &*stdout), (status, ""), "{name}: {stderr}");
            assert!(stderr.contains("has not answered within") && stderr.contains("--deadline"), "{name}: {stderr}");
        }
    }
    signal(&server.child, "CONT");
    let (code, stdout, stderr) = give("Stop", &["--deadline", "60"]);
    assert_eq!((code, &*stdout), (0, ""), "{stderr}");
    // Without an event there is nothing to wait for either.
    let mut command = command(server.runtime.path());
    command.args(["hook", "--deadline", "0.5", "--db"]).arg(&folder.db.path);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stdin = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(stdin);
}
