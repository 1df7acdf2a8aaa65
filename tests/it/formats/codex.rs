//! Rollouts of Codex, as versions of August 2025 to May 2026 write them.

use mnemon::format::ReadOptions;
use serde_json::{Value, json};

use super::{lines, read, read_as, with};

fn line(second: u32, kind: &str, payload: Value) -> Value {
    json!({"timestamp": format!("2026-02-23T12:00:{second:02}.000Z"), "type": kind, "payload": payload})
}

fn head(id: &str, fields: Value) -> Value {
    line(0, "session_meta", with(json!({"id": id, "cwd": "/home/ada/boat", "source": "cli"}), fields))
}

fn message(second: u32, role: &str, texts: &[&str]) -> Value {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    let parts: Vec<Value> = texts.iter().map(|text| json!({"type": kind, "text": text})).collect();
    line(second, "response_item", json!({"type": "message", "role": role, "content": parts}))
}

#[test]
fn the_sessions_of_subagents_are_not_the_persons() {
    let talk = [message(1, "user", &["Review the changes."]), message(2, "assistant", &["{\"findings\":[]}"])];
    for (fields, messages) in [
        (json!({"source": "cli"}), 2),
        (json!({"source": "exec"}), 2),
        (json!({"source": {"custom": "app"}}), 2),
        (json!({"source": {"subagent": "review"}}), 0),
        (json!({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "c0", "depth": 1}}}}), 0),
        (json!({"source": {"subagent": {"other": "guardian"}}}), 0),
        (json!({"source": "cli", "thread_source": "subagent"}), 0),
    ] {
        let text = lines(&[&[head("c1", fields.clone())], &talk[..]].concat());
        let said = read(&text);
        assert_eq!((said.messages.len(), said.errors.len()), (messages, 0), "{fields}");
    }
}

#[test]
fn rollouts_before_september_2025_have_items_without_an_envelope() {
    let item = |role: &str, kind: &str, text: &str| json!({"type": "message", "id": null, "role": role, "content": [{"type": kind, "text": text}]});
    let text = lines(&[
        json!({"id": "5f0e", "timestamp": "2025-08-27T10:00:00.000Z", "instructions": null, "git": {"branch": "main"}}),
        json!({"record_type": "state"}),
        item("user", "input_text", "<environment_context>\n  <cwd>/home/ada/boat</cwd>\n</environment_context>"),
        item("user", "input_text", "Paint the hull green."),
        json!({"type": "function_call", "id": null, "call_id": "x", "name": "shell", "arguments": "{}"}),
        item("assistant", "output_text", "The hull is green now."),
    ]);
    let said = read(&text);
    assert_eq!(said.texts(), ["Paint the hull green.", "The hull is green now."]);
    assert_eq!(said.namespaces(), ["code/home/ada/boat"]);
    assert!(said.messages.iter().all(|(_, message)| message.session == "5f0e" && message.created_at.is_none()));
}

#[test]
fn marks_wrappers_and_citations_are_nobodys_words() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AA"});
    let marked = json!([
        {"type": "input_text", "text": "What is wrong here?"}, {"type": "input_text", "text": "<image>"}, image,
        {"type": "input_text", "text": "</image>"},
    ]);
    let wrapped =
        "# Context from my IDE setup:\n\n## Active file: keel.rs\n\n## My request for Codex:\nShorten the keel.";
    let text = lines(&[
        head("c1", json!({})),
        line(1, "response_item", json!({"type": "message", "role": "user", "content": marked})),
        message(2, "user", &["<user_action>\n  <results>The keel is cracked.</results>\n</user_action>"]),
        message(3, "user", &[wrapped]),
        message(4, "user", &["<subagent_notification>{}</subagent_notification>"]),
        message(
            5,
            "assistant",
            &["<proposed_plan>\n# Plan\n</proposed_plan><oai-mem-citation>MEMORY.md:1</oai-mem-citation>"],
        ),
    ]);
    let expected = [("user", "What is wrong here?"), ("user", "Shorten the keel."), ("assistant", "# Plan")];
    assert_eq!(read(&text).said(), expected.map(|(role, text)| (role, text.to_owned())));
}

#[test]
fn answers_to_questions_are_read_with_the_question() {
    let questions = json!({"questions": [{"id": "q1", "header": "Wood", "question": "Which wood?", "options": []}]});
    let text = lines(&[
        head("c1", json!({})),
        line(
            1,
            "response_item",
            json!({
                "type": "function_call", "name": "request_user_input", "call_id": "x", "arguments": questions.to_string(),
            }),
        ),
        line(
            2,
            "response_item",
            json!({
                "type": "function_call_output", "call_id": "x", "output": r#"{"answers":{"q1":{"answers":["Oak","user_note: no pine"]}}}"#,
            }),
        ),
    ]);
    let expected = [("assistant", "Which wood?"), ("user", "Oak\nno pine")];
    assert_eq!(read(&text).said(), expected.map(|(role, text)| (role, text.to_owned())));
}

/// The messages of a parent, as a copy at a time, or with their own times.
#[test]
fn the_history_that_a_fork_repeats_is_that_of_its_parent() {
    let parent = [head("c1", json!({})), message(1, "user", &["Build a boat."]), message(2, "assistant", &["Of oak?"])];
    let ids = |text: &str| {
        let messages = read(text).messages;
        messages.into_iter().map(|(_, message)| (message.session, message.id)).collect::<Vec<_>>()
    };
    let own = |id: &str| ("c1".to_owned(), format!("c1/{id}"));
    assert_eq!(ids(&lines(&parent)), [own("1"), own("2")]);
    let copied: Vec<Value> =
        parent.iter().map(|line| with(line.clone(), json!({"timestamp": "2026-02-23T13:00:00.010Z"}))).collect();
    let at = |time: &str, line: Value| with(line, json!({ "timestamp": time }));
    for copy in [&copied, &parent.to_vec()] {
        let fork = [
            vec![at("2026-02-23T13:00:00.000Z", head("c2", json!({"forked_from_id": "c1"})))],
            copy.clone(),
            vec![at("2026-02-23T13:00:09.000Z", message(0, "user", &["Of pine."]))],
        ];
        assert_eq!(ids(&lines(&fork.concat())), [own("1"), own("2"), ("c2".to_owned(), "c2/1".to_owned())]);
    }
}

#[test]
fn turns_that_were_rolled_back_are_left_out() {
    let text = lines(&[
        head("c1", json!({})),
        message(1, "user", &["Build a boat."]),
        message(2, "assistant", &["Of which wood?"]),
        message(3, "user", &["Pine."]),
        message(4, "assistant", &["Pine it is."]),
        line(5, "event_msg", json!({"type": "thread_rolled_back", "num_turns": 1})),
        message(6, "user", &["Oak."]),
    ]);
    let said = read(&text);
    assert_eq!(said.texts(), ["Build a boat.", "Of which wood?", "Oak."]);
    assert_eq!(said.removed, ["c1/3", "c1/4"]);
}

#[test]
fn a_file_without_a_line_of_the_format_is_an_error_that_names_the_right_one() {
    let text = lines(&[head("c1", json!({})), message(1, "user", &["Build a boat."])]);
    let wrong = read_as("claude-code", &text, ReadOptions::default());
    assert!(wrong.messages.is_empty(), "{:?}", wrong.texts());
    assert_eq!(
        wrong.errors,
        ["file: nothing in it is of the format claude-code; it is of the format codex: read it as that"]
    );
    let unknown = read_as("codex", "{\"a\": 1}\n", ReadOptions::default());
    assert_eq!(unknown.errors.len(), 1);
    assert!(read_as("codex", "", ReadOptions::default()).errors.is_empty());
}

/// A line of Codex 0.171, which has a number.
fn numbered(number: u64, line: Value) -> Value {
    with(line, json!({ "ordinal": number }))
}

/// An item that says who wrote it.
fn authored(second: u32, author: &str, kind: &str, text: &str) -> Value {
    let mut line = message(second, "user", &[text]);
    line["payload"]["internal_chat_message_metadata_passthrough"] =
        json!({"content_item_kinds": [kind], "content_item_metadata": [{"provenance": {"type": author}}]});
    line
}

#[test]
fn what_says_who_wrote_a_text_counts_for_more_than_its_beginning() {
    let begun = "This session is being continued from a previous conversation, is what I read. Why?";
    let text = lines(&[
        head("c1", json!({"cli_version": "0.171.0", "thread_source": "user", "source": "exec"})),
        authored(1, "harness", "environments.environment_context", "<environment_context>\n</environment_context>"),
        authored(1, "hook", "hook.context", "A text that looks like a person's."),
        authored(2, "user", "user.text", begun),
        line(
            2,
            "event_msg",
            json!({"type": "item_completed", "item": {"type": "UserMessage", "content": [{"type": "text", "text": begun}]}}),
        ),
        line(
            3,
            "event_msg",
            json!({"type": "item_completed", "item": {"type": "AgentMessage", "content": [{"type": "Text", "text": "Because."}]}}),
        ),
        message(3, "assistant", &["Because."]),
    ]);
    assert_eq!(read(&text).texts(), [begun, "Because."]);
}

#[test]
fn a_session_that_went_back_continues_in_a_second_file() {
    let first = [
        head("c1", json!({"history_mode": "paginated"})),
        message(1, "user", &["Paint the mast."]),
        message(2, "assistant", &["It is white."]),
        message(3, "user", &["Paint the keel."]),
        message(4, "assistant", &["It is black."]),
    ];
    let first: Vec<Value> = first.into_iter().zip(0..).map(|(line, number)| numbered(number, line)).collect();
    let continued = |thread: &str, base: &str, end: u64, second: u32, texts: [&str; 2]| {
        let base = json!({"thread_id": base, "end_ordinal_exclusive": end, "end_byte_offset": 1});
        lines(&[
            numbered(
                end,
                line(
                    second,
                    "session_meta",
                    json!({"id": thread, "cwd": "/home/ada/boat", "source": "cli", "history_base": base}),
                ),
            ),
            numbered(end + 1, message(second + 1, "user", &texts[..1])),
            numbered(end + 2, message(second + 2, "assistant", &texts[1..])),
        ])
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("rollout-1-c1.jsonl", &lines(&first));
    // A fork has the same form, and takes nothing back.
    write("rollout-2-c2.jsonl", &continued("c2", "c1", 5, 10, ["Paint a fork.", "Forked."]));
    write("rollout-1-c1_a.jsonl", &continued("c1", "c1", 3, 20, ["Paint the keel red.", "It is red."]));
    let said = super::read_path(folder.path());
    assert_eq!(said.removed, ["c1/3", "c1/4"]);
    let own = |said: &super::Read| -> Vec<String> {
        let own = said.messages.iter().filter(|(_, message)| message.session == "c1");
        let mut own: Vec<_> = own.map(|(_, message)| (message.created_at, message.text())).collect();
        own.sort();
        own.into_iter().map(|(_, text)| text).collect()
    };
    assert_eq!(own(&said), ["Paint the mast.", "It is white.", "Paint the keel red.", "It is red."]);
    assert_eq!(said.messages.len(), 6);
    let mut ids: Vec<&str> = said.messages.iter().map(|(_, message)| &*message.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    // Back to before what the second file said.
    write("rollout-1-c1_b.jsonl", &continued("c1", "c1", 4, 30, ["Once more.", "Done."]));
    let said = super::read_path(folder.path());
    assert_eq!(own(&said), ["Paint the mast.", "It is white.", "Once more.", "Done."]);
    assert_eq!(said.removed.len(), 4, "{:?}", said.removed);
    // In another order, what was read first is taken back later.
    std::fs::rename(folder.path().join("rollout-1-c1_b.jsonl"), folder.path().join("z.jsonl")).unwrap();
    let said = super::read_path(folder.path());
    let mut stored = own(&said);
    stored.retain(|text| !["Paint the keel red.", "It is red."].contains(&&**text));
    assert_eq!(stored, ["Paint the mast.", "It is white.", "Once more.", "Done."]);
    assert!(said.removed.len() == 4, "{:?}", said.removed);
}
