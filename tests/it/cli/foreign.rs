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
    // Messages that could not be put.
    let empty = from(&db, "llamaindex", &[], r#"[{"role": "user", "content": ""}]"#);
    assert!(empty.code == 1 && empty.stderr.contains("the content is empty"), "{}", empty.stderr);
    let unknown = from(&db, "letta", &[], "");
    assert!(unknown.code == 2 && unknown.stderr.contains("llamaindex"), "{}", unknown.stderr);
    let alone = ingest(&db, &["--namespace", "a", "--session", "x"], "");
    assert_eq!(alone.code, 2, "{}", alone.stderr);
}
