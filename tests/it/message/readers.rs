//! `from_chatgpt`, `from_langchain`, `from_llamaindex` and `from_mem0`.

use mnemon::{ContentPart, MessageLine, Result, Role, from_chatgpt, from_langchain, from_llamaindex, from_mem0};
use serde_json::{Value, json};

fn all(lines: impl Iterator<Item = Result<MessageLine>>) -> Result<Vec<MessageLine>> {
    lines.collect()
}

fn texts(lines: &[MessageLine]) -> Vec<(Role, String)> {
    lines.iter().map(|line| (line.message.role, line.message.text())).collect()
}

/// What the library itself wrote: langchain-core 1.7.2, llama-index-core 0.14.25.
fn recorded(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_shown_branch_of_a_chatgpt_conversation_is_read() {
    let node = |id: &str, parent: Value, role: &str, content: Value| {
        json!({"id": id, "parent": parent, "children": [], "message": {
            "id": format!("m-{id}"), "author": {"role": role, "name": null, "metadata": {}},
            "create_time": 1_714_555_800.25, "update_time": null, "content": content, "status": "finished_successfully",
            "weight": 1.0, "metadata": {"model_slug": "gpt-4o"}, "recipient": "all"}})
    };
    let text = |text: &str| json!({"content_type": "text", "parts": [text]});
    let mut mapping = json!({
        "root": {"id": "root", "message": null, "parent": null, "children": ["sys"]},
        "sys": node("sys", "root".into(), "system", text("")),
        "q": node("q", "sys".into(), "user", json!({"content_type": "multimodal_text", "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1", "width": 9},
            {"content_type": "audio_transcription", "text": "said aloud"}, "What is on it?"]})),
        "first": node("first", "q".into(), "assistant", text("The first answer")),
        "thought": node("thought", "q".into(), "assistant", json!({"content_type": "thoughts", "thoughts": []})),
        "code": node("code", "thought".into(), "assistant",
            json!({"content_type": "code", "language": "python", "text": "print(1)"})),
        "ran": node("ran", "code".into(), "tool", json!({"content_type": "execution_output", "text": "1"})),
        "hidden": node("hidden", "ran".into(), "user", text("about me")),
        "a": node("a", "hidden".into(), "assistant", text("A cat")),
    });
    mapping["code"]["message"]["recipient"] = "python".into();
    mapping["ran"]["message"]["author"]["name"] = "python".into();
    mapping["hidden"]["message"]["metadata"]["is_visually_hidden_from_conversation"] = true.into();
    let conversation = json!({"title": "Cats", "create_time": 1.0, "conversation_id": "c1", "id": "c1",
        "current_node": "a", "mapping": mapping});
    let lines = all(from_chatgpt(&conversation)).unwrap();
    let wanted = [
        (Role::User, "said aloud\nWhat is on it?"),
        (Role::Assistant, "print(1)"),
        (Role::Tool, "1"),
        (Role::Assistant, "A cat"),
    ];
    assert_eq!(texts(&lines), wanted.map(|(role, text)| (role, text.to_owned())));
    assert!(matches!(&lines[0].message.content[0], ContentPart::Image(image) if image.uri == "file-service://file-1"));
    let code = &lines[1].message;
    assert_eq!((&*code.id, &*code.session, lines[1].has_id), ("c1/m-code", "c1", true));
    assert_eq!(code.created_at.unwrap().to_string(), "2024-05-01T09:30:00.25Z");
    assert_eq!(code.metadata["chatgpt"], json!({"title": "Cats", "model": "gpt-4o", "recipient": "python"}));
    assert_eq!(lines[2].message.name.as_deref(), Some("python"));

    let fails = |change: &dyn Fn(&mut Value), reason: &str| {
        let mut changed = conversation.clone();
        change(&mut changed);
        let error = all(from_chatgpt(&changed)).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("conversation \"c1\""), "{reason}: {error}");
    };
    fails(&|value| value["current_node"] = "nowhere".into(), "mapping[\"nowhere\"]");
    fails(&|value| value["current_node"] = Value::Null, "current_node is missing");
    fails(&|value| value["mapping"]["q"]["parent"] = "a".into(), "circle");
    fails(&|value| value["mapping"]["a"]["message"]["author"]["role"] = "robot".into(), "role \"robot\"");
    fails(&|value| value["mapping"]["a"]["message"]["create_time"] = 1e30.into(), "create_time");
    fails(&|value| value["mapping"]["a"]["message"]["content"]["parts"] = json!([7]), "parts[0]");
    assert!(all(from_chatgpt(&json!([]))).is_err());
    let mut unknown = conversation.clone();
    unknown["mapping"]["ran"]["message"]["content"] = json!({"content_type": "smell"});
    assert_eq!(all(from_chatgpt(&unknown)).unwrap().len(), 3, "the others are read");
}

#[test]
fn messages_of_langchain_are_read() {
    let lines = all(from_langchain(&recorded(include_str!("fixtures/langchain.json")))).unwrap();
    let wanted = [
        (Role::System, "Be brief."),
        (Role::User, "How high is the tide?"),
        (Role::User, "And this?"),
        (Role::Assistant, "I look."),
        (Role::Tool, "7.1 m"),
        (Role::Assistant, "23 feet."),
        (Role::User, "critic says"),
    ];
    assert_eq!(texts(&lines), wanted.map(|(role, text)| (role, text.to_owned())));
    assert_eq!((lines[1].message.name.as_deref(), &*lines[1].message.id, lines[1].has_id), (Some("Ada"), "h1", true));
    assert!(!lines[0].has_id && lines[0].message.metadata.is_empty());
    assert!(matches!(&lines[2].message.content[1], ContentPart::Image(image) if image.uri == "https://x.test/a.png"));
    let call = ContentPart::ToolCall { id: "c1".into(), name: "tide".into(), arguments: json!({"harbour": "Hull"}) };
    assert_eq!(lines[3].message.content[1..], [call]);
    assert_eq!(lines[3].message.metadata["langchain"]["response_metadata"], json!({"model_name": "gpt-4o"}));
    assert_eq!(lines[4].message.content, [ContentPart::ToolResult { id: "c1".into(), content: "7.1 m".into() }]);

    // The calls of tools of older versions, and those that Anthropic's models have in their content too.
    let older = json!({"type": "ai", "data": {"content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "c"}],
        "additional_kwargs": {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}});
    let read = all(from_langchain(&[older])).unwrap();
    assert!(matches!(&read[0].message.content[..], [_, ContentPart::ToolCall { name, .. }] if name == "f"));
    for (value, reason) in [
        (json!({"type": "robot", "data": {}}), "type \"robot\""),
        (json!({"type": "human"}), "data is not an object"),
        (json!({"type": "human", "data": {"content": 7}}), "content is not a string"),
        (json!("x"), "expected a JSON object"),
    ] {
        let error = all(from_langchain(&[value])).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("messages[0]"), "{error}");
    }
}

#[test]
fn messages_of_llamaindex_are_read() {
    let lines = all(from_llamaindex(&recorded(include_str!("fixtures/llamaindex.json")))).unwrap();
    let wanted = [
        (Role::System, "Be brief."),
        (Role::User, "How high is the tide?"),
        (Role::User, "And this?"),
        (Role::Assistant, "I look."),
        (Role::Tool, "7.1 m"),
        (Role::Assistant, "23 feet."),
    ];
    assert_eq!(texts(&lines), wanted.map(|(role, text)| (role, text.to_owned())));
    assert!(matches!(&lines[2].message.content[1], ContentPart::Image(image) if image.uri == "https://x.test/a.png"));
    let call = ContentPart::ToolCall { id: "c1".into(), name: "tide".into(), arguments: json!({"harbour": "Hull"}) };
    assert_eq!(lines[3].message.content[1..], [call]);
    assert_eq!(lines[4].message.content, [ContentPart::ToolResult { id: "c1".into(), content: "7.1 m".into() }]);
    // Versions before 0.12, and what a message has no place for.
    let older = json!({"role": "assistant", "content": "hello", "additional_kwargs": {"mood": "good", "name": "Ada",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}});
    let newer = json!({"role": "model", "blocks": [{"block_type": "thinking", "content": "hm"},
        {"block_type": "image", "image": "QUJD", "image_mimetype": "image/png"},
        {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "f", "tool_kwargs": {}}]});
    let read = all(from_llamaindex(&[older, newer])).unwrap();
    assert_eq!((read[0].message.text().as_str(), read[0].message.name.as_deref()), ("hello", Some("Ada")));
    assert!(matches!(&read[0].message.content[1], ContentPart::ToolCall { name, .. } if name == "f"));
    assert_eq!(read[0].message.metadata["llamaindex"], json!({"additional_kwargs": {"mood": "good"}}));
    let kept = json!({"blocks": [{"block_type": "thinking", "content": "hm"}]});
    assert_eq!((read[1].message.role, &read[1].message.metadata["llamaindex"]), (Role::Assistant, &kept));
    let [ContentPart::Image(image), ContentPart::ToolCall { .. }] = &read[1].message.content[..] else {
        panic!("{:?}", read[1].message.content)
    };
    assert_eq!(image.uri, "data:image/png;base64,QUJD");
    for (value, reason) in [
        (json!({"role": "robot"}), "role \"robot\""),
        (json!({"role": "user", "blocks": 7}), "blocks is not an array"),
        (json!({"role": "user", "blocks": [{"text": "x"}]}), "blocks[0]: block_type is missing"),
    ] {
        let error = all(from_llamaindex(&[value])).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("messages[0]"), "{error}");
    }
}

#[test]
fn memories_of_mem0_are_read() {
    let lines = all(from_mem0(&[
        json!({"id": "7", "memory": "Is a vegetarian", "hash": "h", "metadata": {"category": "food"}, "score": null,
            "created_at": "2024-07-20T01:30:36.275141-07:00", "updated_at": null, "user_id": "alex"}),
        json!({"memory": "Said hello", "role": "assistant", "run_id": "r1", "created_at": "2024-07-20T01:30:36"}),
    ]));
    let lines = lines.unwrap();
    let wanted = [(Role::User, "Is a vegetarian"), (Role::Assistant, "Said hello")];
    assert_eq!(texts(&lines), wanted.map(|(role, text)| (role, text.to_owned())));
    let first = &lines[0].message;
    assert_eq!((&*first.id, &*first.session, lines[0].has_id, lines[1].has_id), ("7", "mem0", true, false));
    assert_eq!(first.created_at.unwrap().to_string(), "2024-07-20T08:30:36.275141Z");
    assert_eq!(first.metadata["mem0"], json!({"hash": "h", "metadata": {"category": "food"}, "user_id": "alex"}));
    assert_eq!(
        (&*lines[1].message.session, lines[1].message.created_at.unwrap().to_string().as_str()),
        ("r1", "2024-07-20T01:30:36Z")
    );
    for (value, reason) in [
        (json!({"id": "7"}), "memory is missing"),
        (json!({"memory": "x", "created_at": "today"}), "created_at \"today\""),
        (json!({"memory": "x", "role": "robot"}), "role \"robot\""),
    ] {
        let error = all(from_mem0(&[value])).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("memories[0]"), "{error}");
    }
}

#[test]
fn a_message_that_cannot_be_read_costs_no_other() {
    fn check(lines: impl Iterator<Item = Result<MessageLine>>, reason: &str) {
        let read: Vec<Result<MessageLine>> = lines.collect();
        let texts: Vec<String> = read.iter().flatten().map(|line| line.message.text()).collect();
        assert_eq!(texts, ["one", "", "two"], "{reason}");
        let errors: Vec<String> = read.iter().filter_map(|line| Some(line.as_ref().err()?.to_string())).collect();
        assert!(errors.len() == 1 && errors[0].contains(reason), "{reason}: {errors:?}");
    }
    let human = |content: &str| json!({"type": "human", "data": {"content": content}});
    check(
        from_langchain(&[human("one"), human(""), json!({"type": "robot", "data": {}}), human("two")]),
        "messages[2]: ",
    );
    let user = |text: &str| json!({"role": "user", "blocks": [{"block_type": "text", "text": text}]});
    check(
        from_llamaindex(&[user("one"), json!({"role": "user", "blocks": 7}), user(""), user("two")]),
        "messages[1]: ",
    );
    let memory = |text: &str| json!({"memory": text});
    check(from_mem0(&[json!({"memory": null}), memory("one"), memory(""), memory("two")]), "memories[0]: ");

    let node = |parent: &str, role: &str, content: &str| {
        let message = json!({"author": {"role": role}, "content": {"content_type": "text", "parts": [content]}});
        json!({"parent": parent, "message": message})
    };
    let conversation = |root: &str| {
        let mapping =
            json!({"a": node(root, "user", "one"), "b": node("a", "robot", "?"), "c": node("b", "user", "two")});
        json!({"id": "c1", "current_node": "c", "mapping": mapping})
    };
    let read: Vec<Result<MessageLine>> = from_chatgpt(&conversation("gone")).collect();
    let shown: Vec<String> =
        read.iter().map(|line| line.as_ref().map_or_else(ToString::to_string, |line| line.message.text())).collect();
    assert!(shown[0].contains("mapping[\"gone\"]") && shown[2].contains("mapping[\"b\"]: role \"robot\""), "{shown:?}");
    assert_eq!((shown.len(), &*shown[1], &*shown[3]), (4, "one", "two"));
}
