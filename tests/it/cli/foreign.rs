//! `mnemon ingest --from`.

use super::{Output, ingest, json, mnemon, run};
use crate::support::Db;

const LANGCHAIN: &str = include_str!("../message/fixtures/langchain.json");
const LLAMAINDEX: &str = include_str!("../message/fixtures/llamaindex.json");

fn from(db: &Db, source: &str, more: &[&str], input: &str) -> Output {
    ingest(db, &[&["--namespace", "a", "--from", source], more].concat(), input)
}

fn new(output: &Output) -> u64 {
    assert_eq!(output.code, 0, "{}", output.stderr);
    json(&output.stdout)["new"].as_u64().unwrap()
}

fn sessions(db: &Db) -> Vec<String> {
    let output = run(mnemon().args(["--format", "json", "sessions", "--namespace", "a", "--db"]).arg(&db.path));
    output.stdout.lines().map(|line| json(line)["session"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn files_of_other_systems_are_ingested_as_json_and_as_json_lines() {
    let db = Db::new();
    assert_eq!(new(&from(&db, "langchain", &["--session", "monday"], LANGCHAIN)), 7);
    assert_eq!(new(&from(&db, "langchain", &["--session", "monday"], LANGCHAIN)), 0, "again");
    let lines: Vec<String> = json(LANGCHAIN).as_array().unwrap().iter().map(|value| format!("{value}\n\n")).collect();
    assert_eq!(new(&from(&db, "langchain", &["--session", "monday"], &lines.concat())), 0, "as lines");
    assert_eq!(new(&from(&db, "llamaindex", &[], LLAMAINDEX)), 6);
    let store = format!(
        "{{\"store\": {{\"user1\": {LLAMAINDEX}, \"user2\": {LLAMAINDEX}}}, \"class_name\": \"SimpleChatStore\"}}"
    );
    assert_eq!(new(&from(&db, "llamaindex", &[], &store)), 12);
    let memories =
        r#"{"results": [{"id": "1", "memory": "Likes tea"}, {"id": "2", "memory": "Has a boat"}], "relations": []}"#;
    assert_eq!(new(&from(&db, "mem0", &[], memories)), 2);
    let chats = r#"{"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]}
{"messages": [{"role": "user", "content": "good morning"}]}"#;
    assert_eq!(new(&from(&db, "openai", &["--session", "tuned"], chats)), 3);
    assert_eq!(sessions(&db), ["default", "mem0", "monday", "tuned", "user1", "user2"]);
    db.assert_sound();
}

#[test]
fn a_bad_conversation_is_named_and_skipped_by_choice() {
    let conversation = |id: &str, role: &str| {
        format!(
            r#"{{"id": "{id}", "title": "t", "current_node": "n", "mapping": {{"n": {{"parent": null, "message":
            {{"id": "m-{id}", "author": {{"role": "{role}"}}, "content": {{"content_type": "text", "parts": ["hello"]}}}}}}}}}}"#
        )
    };
    let good = |id: &str| conversation(id, "user");
    let text = format!("[\n{},\n{},\n{}\n]\n", good("c1"), conversation("c2", "robot"), good("c3"));
    let db = Db::new();
    let stopped = from(&db, "chatgpt", &[], &text);
    assert_eq!(stopped.code, 1);
    for part in ["-:5: value 2", "conversation \\\"c2\\\"", "robot", "--skip-bad"] {
        assert!(stopped.stderr.contains(part), "{part}: {}", stopped.stderr);
    }
    assert_eq!(sessions(&db), ["c1"], "what is before it is stored");
    let skipped = from(&db, "chatgpt", &["--skip-bad"], &text);
    assert_eq!((new(&skipped), &json(&skipped.stdout)["skipped"]), (1, &1.into()));
    assert!(skipped.stderr.contains("skipped -:5"), "{}", skipped.stderr);
    assert_eq!(sessions(&db), ["c1", "c3"]);

    let cut = from(&db, "chatgpt", &["--skip-bad"], &text[..text.len() - 10]);
    assert!(cut.code == 1 && cut.stderr.contains("-:7: EOF"), "{}", cut.stderr);
    let number = from(&db, "mem0", &[], "7");
    assert!(number.code == 1 && number.stderr.contains("a JSON object or a list of them"), "{}", number.stderr);
    let unknown = from(&db, "letta", &[], "");
    assert!(unknown.code == 2 && unknown.stderr.contains("llamaindex"), "{}", unknown.stderr);
}

/// The messages of each session, oldest first.
fn stored(db: &Db, session: &str) -> Vec<String> {
    let engine = mnemon::Engine::builder(&db.path).create(false).open().unwrap();
    let history = engine.blocking().history(&"a".parse().unwrap(), session).unwrap();
    history.iter().map(mnemon::Message::text).collect()
}

#[test]
fn one_message_that_is_empty_or_cannot_be_read_costs_no_other() {
    let openai = |of: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "one {of}"}}, {{"role": "assistant", "content": ""}},
            {{"role": "assistant", "content": null}}, {{"role": "robot", "content": "?"}}, {{"role": "user", "content": "two {of}"}}]}}"#
        )
    };
    let block = |text: &str| format!(r#"{{"role": "user", "blocks": [{{"block_type": "text", "text": "{text}"}}]}}"#);
    let chat = |of: &str| {
        let (one, two) = (block(&format!("one {of}")), block(&format!("two {of}")));
        let empty = [block("\\n\\n"), r#"{"role": "user", "blocks": []}"#.to_owned()].join(", ");
        format!(r#"[{one}, {empty}, {{"role": "robot", "content": "?"}}, {two}]"#)
    };
    let human = |text: &str| format!(r#"{{"type": "human", "data": {{"content": "{text}"}}}}"#);
    let langchain = [human("one x"), human(""), human("  "), r#"{"type": "robot", "data": {}}"#.into(), human("two x")];
    let memories = r#"[{"memory": "one x", "run_id": "x"}, {"memory": "", "run_id": "x"}, {"memory": " ", "run_id": "x"},
        {"memory": null, "run_id": "x"}, {"memory": "two x", "run_id": "x"}]"#;
    let robot = "robot";
    for (source, text, sessions, reasons) in [
        ("openai", openai("x"), &["x"][..], &[["value 1", "messages[3]", robot]][..]),
        ("openai", openai("x").replace('\n', "") + "\n", &["x"], &[["-:1", "messages[3]", robot]]),
        (
            "llamaindex",
            format!(r#"{{"store": {{"x": {}, "y": {}}}}}"#, chat("x"), chat("y")),
            &["x", "y"],
            &[["store[", "x", robot], ["store[", "y", robot]],
        ),
        ("langchain", format!("[{}]", langchain.join(",\n")), &["x"], &[["value 1", "messages[3]", robot]]),
        ("mem0", memories.to_owned(), &["x"], &[["value 4", "memories[0]", "memory is missing"]]),
    ] {
        let db = Db::new();
        let stopped = from(&db, source, &["--session", "x"], &text);
        assert_eq!(stopped.code, 1, "{source}");
        let skipped = from(&db, source, &["--session", "x", "--skip-bad"], &text);
        assert_eq!(json(&skipped.stdout)["skipped"], reasons.len(), "{source}: {}", skipped.stderr);
        for parts in reasons {
            let is_named = |line: &str| line.contains("skipped") && parts.iter().all(|part| line.contains(part));
            assert!(skipped.stderr.lines().any(is_named), "{source}, {parts:?}: {}", skipped.stderr);
        }
        for session in sessions {
            let texts = stored(&db, session);
            assert_eq!(
                (texts.len(), &*texts[0], &*texts[3]),
                (4, &*format!("one {session}"), &*format!("two {session}"))
            );
            assert!(texts[1..3].iter().all(|text| text.trim().is_empty()), "{source}: {texts:?}");
        }
        db.assert_sound();
    }
}

#[test]
fn a_message_that_is_too_large_and_a_line_that_was_cut_are_skipped_alone() {
    let db = Db::new();
    let line = |text: &str| format!(r#"{{"messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    let large = "x".repeat(mnemon::MAX_MESSAGE_BYTES + 1);
    let cut = &line("never whole")[..30];
    let text = [&line("one"), cut, &line(&large), "[1, 2", &line("two"), &line("three"), &line("four")].join("\n");
    let skipped = from(&db, "openai", &["--skip-bad", "--session", "default"], &text);
    assert_eq!(json(&skipped.stdout)["skipped"], 3, "{}", skipped.stderr);
    for part in ["skipped -:2: ", "skipped -:3: message 1: invalid message: the content has", "skipped -:4: "] {
        assert!(skipped.stderr.contains(part), "{part}: {}", skipped.stderr);
    }
    assert_eq!(stored(&db, "default"), ["one", "two", "three", "four"]);
    // A field that a message has no place for, such as the tool's name, keeps the object beside the content.
    let output = "line\\n".repeat(100_000);
    let tool =
        format!(r#"[{{"role": "tool", "tool_call_id": "c", "name": "ls", "status": "done", "content": "{output}"}}]"#);
    assert_eq!(new(&from(&db, "openai", &[], &tool)), 1);
}

#[test]
fn conversations_that_repeat_the_ids_of_another_are_both_kept() {
    let conversation = |id: &str, more: &str| {
        let message = |id: &str, text: &str| {
            format!(
                r#"{{"id": "{id}", "author": {{"role": "user"}}, "content": {{"content_type": "text", "parts": ["{text}"]}}}}"#
            )
        };
        let (one, two) = (message("m1", "hello"), message("m2", more));
        format!(
            r#"{{"id": "{id}", "current_node": "b", "mapping": {{"a": {{"message": {one}}}, "b": {{"parent": "a", "message": {two}}}}}}}"#
        )
    };
    let db = Db::new();
    let text = format!("[{}, {}]", conversation("c1", "tea"), conversation("c2", "coffee"));
    assert_eq!(new(&from(&db, "chatgpt", &[], &text)), 4);
    assert_eq!(new(&from(&db, "chatgpt", &[], &text)), 0, "again");
    assert_eq!(
        (stored(&db, "c1"), stored(&db, "c2")),
        (vec!["hello".into(), "tea".into()], vec!["hello".into(), "coffee".into()])
    );
    // A history that was copied for another session.
    let human = r#"{"type": "human", "data": {"content": "hi", "id": "h1"}}"#;
    for session in ["s1", "s2"] {
        assert_eq!(new(&from(&db, "langchain", &["--session", session], human)), 1);
        assert_eq!(stored(&db, session), ["hi"]);
    }
    assert_eq!(stored(&db, "s1"), ["hi"]);
}

#[test]
fn a_date_stands_for_its_first_moment() {
    let db = Db::new();
    let memories = r#"[{"id": "1", "memory": "a", "created_at": "2024-05-01"}, {"id": "2", "memory": "b", "created_at": "2024-05-01 09:30:00"}]"#;
    assert_eq!(new(&from(&db, "mem0", &[], memories)), 2);
    let line = r#"{"role":"user","content":"c","id":"3","created_at":"2024-05-01"}"#;
    assert_eq!(new(&ingest(&db, &["--namespace", "a"], line)), 1);
    let engine = mnemon::Engine::open(&db.path).unwrap();
    let time =
        |id: &str| engine.blocking().get(&"a".parse().unwrap(), id).unwrap().unwrap().created_at.unwrap().to_string();
    assert_eq!(["1", "2", "3"].map(time), ["2024-05-01T00:00:00Z", "2024-05-01T09:30:00Z", "2024-05-01T00:00:00Z"]);
}

const CLAUDE_CODE: &str = include_str!("../fixtures/agents/claude-code.jsonl");
const CODEX: &str = include_str!("../fixtures/agents/codex.jsonl");

/// The messages of a namespace, session by session.
fn all(db: &Db, namespace: &str) -> Vec<mnemon::Message> {
    let engine = mnemon::Engine::builder(&db.path).create(false).open().unwrap();
    let (engine, namespace) = (engine.blocking(), namespace.parse().unwrap());
    let sessions = engine.sessions(&namespace).unwrap();
    sessions.iter().flat_map(|info| engine.history(&namespace, &info.session).unwrap()).collect()
}

#[test]
fn transcripts_of_coding_agents_are_what_the_user_and_the_model_said() {
    let db = Db::new();
    let claude = ingest(&db, &["--from", "claude-code"], CLAUDE_CODE);
    assert_eq!(new(&claude), 2);
    assert_eq!(new(&ingest(&db, &["--from", "codex"], CODEX)), 2);
    for (source, text) in [("claude-code", CLAUDE_CODE), ("codex", CODEX)] {
        let again = json(&ingest(&db, &["--from", source], text).stdout);
        assert_eq!((&again["new"], &again["unchanged"]), (&0.into(), &2.into()), "{source}");
    }
    // Both agents worked in the same folder.
    let messages = all(&db, "code/home/ada/boat");
    let said: Vec<(&str, String)> = messages.iter().map(|message| (message.role.as_str(), message.text())).collect();
    let expected = [
        ("user", "Name the winch after my sister Berta."),
        ("assistant", "The winch is called Berta now."),
        ("user", "Which port does the harbour simulator listen on?"),
        ("assistant", "The harbour simulator listens on port 4711."),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())));
    let harbour = messages.iter().find(|message| message.id.ends_with("03")).unwrap();
    assert_eq!(harbour.session, "1c6a3b2e-5b0f-4a57-8d1e-5f6f7a8b9c0d");
    assert_eq!(harbour.created_at, Some("2026-11-20T09:00:05.123Z".parse().unwrap()));
    assert!(harbour.metadata.is_empty(), "{harbour:?}");
    db.assert_sound();
}

#[test]
fn outputs_of_tools_are_kept_by_choice_and_cut() {
    let db = Db::new();
    let from = |source, text| ingest(&db, &["--namespace", "a", "--from", source, "--tool-output", "20"], text);
    assert_eq!(new(&from("claude-code", CLAUDE_CODE)), 4);
    assert_eq!(new(&from("codex", CODEX)), 6);
    let messages = all(&db, "a");
    let parts: Vec<serde_json::Value> =
        messages.iter().flat_map(|message| &message.content).map(|part| serde_json::to_value(part).unwrap()).collect();
    let part = |kind: &str, id: &str| parts.iter().find(|part| part["type"] == kind && part["id"] == id).unwrap();
    assert_eq!(part("tool_call", "toolu_01")["arguments"]["pattern"], "listen");
    assert_eq!(part("tool_result", "toolu_01")["content"], "src/main.rs:12: list\n[20 of 63 bytes]");
    assert_eq!(part("tool_call", "call_1")["arguments"]["command"][0], "sed");
    assert_eq!(part("tool_call", "call_2")["arguments"], "*** Begin Patch\n*** \n[20 of 29 bytes]");
    assert_eq!(part("tool_result", "call_2")["content"], "Success.");
}

#[test]
fn a_transcript_of_another_form_is_told_and_a_folder_without_a_name_too() {
    let db = Db::new();
    let line = |fields: &str| {
        format!(
            r#"{{"type": "user", "uuid": "u", "sessionId": "s", "message": {{"role": "user", "content": "hi"}}{fields}}}"#
        ) + "\n"
    };
    let from = |more: &[&str], text: &str| ingest(&db, &[&["--from", "claude-code"], more].concat(), text);
    let homeless = from(&[], &line(""));
    assert!(homeless.code == 1 && homeless.stderr.contains("--namespace"), "{}", homeless.stderr);
    assert_eq!(new(&from(&["--namespace", "a"], &line(""))), 1);
    let timeless = from(&[], &line(r#", "cwd": "/x", "timestamp": "yesterday""#));
    assert!(timeless.code == 1 && timeless.stderr.contains("-:1"), "{}", timeless.stderr);
    let deep = format!("/{}", (0..40).map(|at| at.to_string()).collect::<Vec<_>>().join("/"));
    assert_eq!(new(&from(&[], &line(&format!(r#", "cwd": "{deep}""#)).replace("\"u\"", "\"v\""))), 1);
}

/// A line of a transcript of Claude Code.
fn said(session: &str, id: &str, folder: &str, text: &str) -> String {
    let message = serde_json::json!({"role": "user", "content": text});
    let line = serde_json::json!({
        "type": "user", "uuid": id, "sessionId": session, "cwd": folder, "timestamp": "2026-04-06T05:00:00Z", "message": message,
    });
    format!("{line}\n")
}

/// Ingests a path without more options.
fn ingest_path(db: &Db, more: &[&str], path: &std::path::Path) -> Output {
    let args = [&["--format", "json", "ingest", "--no-link"], more].concat();
    run(mnemon().args(args).arg("--db").arg(&db.path).arg(path))
}

fn namespaces(db: &Db) -> Vec<String> {
    let engine = mnemon::Engine::builder(&db.path).create(false).open().unwrap();
    let page = engine.blocking().namespaces(None, None, 100).unwrap();
    page.namespaces.iter().map(|info| info.namespace.to_string()).collect()
}

#[test]
fn files_are_read_in_the_format_that_they_are_found_to_have() {
    let (db, folder) = (Db::new(), tempfile::tempdir().unwrap());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let conversation = r#"[{"id": "c1", "current_node": "a", "mapping": {"a": {"message": {"id": "m1",
        "author": {"role": "user"}, "content": {"content_type": "text", "parts": ["from ChatGPT"]}}}}}]"#;
    write("own.jsonl", r#"{"role": "user", "content": "own"}"#);
    write("b/claude.jsonl", CLAUDE_CODE);
    write("b/codex.jsonl", CODEX);
    write("b/conversations-000.json", conversation);
    write("b/user.json", r#"{"id": "u", "email": "ada@example.org"}"#);
    write("b/picture.png", "\u{89}PNG");
    write("b/cut.json", &conversation[..conversation.len() - 20]);
    write(".git/objects.jsonl", CODEX);
    let read = ingest_path(&db, &["--namespace", "a"], folder.path());
    assert_eq!(json(&read.stdout)["new"], 6, "{}", read.stderr);
    for told in [
        "claude.jsonl: read as claude-code",
        "conversations-000.json: read as chatgpt",
        "left out 2 files of no known format",
        "cut.json:",
    ] {
        assert!(read.stderr.contains(told), "{told}: {}", read.stderr);
    }
    assert!(!read.stderr.contains("own.jsonl"), "{}", read.stderr);
    let again = ingest_path(&db, &["--namespace", "a"], folder.path());
    assert_eq!(json(&again.stdout)["new"], 0, "{}", again.stderr);

    // As it is delivered, also inside of a folder.
    let mut archive = zip::ZipWriter::new(std::fs::File::create(folder.path().join("export.zip")).unwrap());
    for (name, text) in [("export/conversations.json", conversation), ("export/chat.html", "<html>")] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut archive, text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("export.zip")] {
        let db = Db::new();
        let zipped = ingest_path(&db, &["--namespace", "a", "--from", "chatgpt"], &path);
        assert_eq!(json(&zipped.stdout)["new"], 1, "{}", zipped.stderr);
        assert_eq!(stored(&db, "c1"), ["from ChatGPT"]);
    }
}

#[test]
fn a_file_of_another_format_than_the_given_one_is_told_which_it_has() {
    let db = Db::new();
    for (given, text, fitting) in [
        ("claude-code", CODEX, "--from codex"),
        ("codex", CLAUDE_CODE, "--from claude-code"),
        ("chatgpt", LANGCHAIN, "--from langchain"),
        ("openai", CODEX, "--from codex"),
        ("codex", "{\"a\": 1}\n", "--from claude-code|codex|"),
        ("auto", "<html>", "--from claude-code|codex|"),
    ] {
        let wrong = from(&db, given, &[], text);
        assert!(wrong.code == 1 && wrong.stderr.contains(fitting), "{given}: {}", wrong.stderr);
    }
}

#[test]
fn worktrees_are_their_repository_and_a_folder_that_is_gone_keeps_its_place() {
    let (db, home) = (Db::new(), tempfile::tempdir().unwrap());
    let home = home.path().canonicalize().unwrap();
    let repository = home.join("boat");
    let worktree = home.join("trees/otter");
    for folder in [repository.join(".git/worktrees/otter"), repository.join("src"), worktree.clone()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(worktree.join(".git"), format!("gitdir: {}/.git/worktrees/otter\n", repository.display())).unwrap();
    let text = |folder: &std::path::Path| folder.to_str().unwrap().to_owned();
    let lines = [
        said("s1", "u1", &text(&repository), "In the repository."),
        said("s2", "u2", &text(&repository.join(".claude/worktrees/calm-otter")), "In a worktree of the agent."),
        said("s3", "u3", &text(&repository.join("src")), "In a folder of it."),
        said("s4", "u4", &text(&worktree), "In a worktree."),
    ];
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(new(&ingest(&db, &[], line)), 1, "{at}");
    }
    let place = format!("code{}", repository.display());
    assert_eq!(namespaces(&db), std::slice::from_ref(&place));
    std::fs::remove_dir_all(&repository).unwrap();
    for line in &lines[..3] {
        assert_eq!(json(&ingest(&db, &[], line).stdout)["unchanged"], 1);
    }
    assert_eq!(namespaces(&db), [place]);
    // Paths of Windows have labels, too.
    let windows = Db::new();
    for (id, folder) in [("u1", r"C:\Users\Ada\boat"), ("u2", r"c:\Users\Ada\boat")] {
        assert_eq!(new(&ingest(&windows, &[], &said("s1", id, folder, id))), 1);
    }
    assert_eq!(namespaces(&windows), ["code/C:/Users/Ada/boat"]);
}

#[test]
fn a_prompt_that_was_taken_back_since_is_deleted() {
    let db = Db::new();
    let line = |id: &str, parent: &str, text: &str| {
        said("s1", id, "/boat", text).replacen('{', &format!("{{\"parentUuid\": \"{parent}\", "), 1)
    };
    let begin = said("s1", "u1", "/boat", "Build a boat.") + &line("u2", "u1", "Of pine.");
    assert_eq!(new(&ingest(&db, &[], &begin)), 2);
    let report = json(&ingest(&db, &[], &(begin + &line("u3", "u1", "Of oak."))).stdout);
    assert_eq!((&report["new"], &report["removed"]), (&1.into(), &1.into()));
    assert_eq!(
        all(&db, "code/boat").iter().map(mnemon::Message::text).collect::<Vec<_>>(),
        ["Build a boat.", "Of oak."]
    );
}
