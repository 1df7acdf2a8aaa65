//! The JSON form of messages: lossless and strict.

use mnemon::{
    ContentPart, MAX_MESSAGE_BYTES, MediaReference, Message, MessageLine, Namespace, Role, from_openai, to_openai,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::any_message;

fn parse(line: &str) -> Result<MessageLine, String> {
    MessageLine::parse(line).map_err(|error| error.to_string())
}

#[test]
fn a_line_needs_only_a_role_and_a_content() {
    let line = parse(r#"{"role":"user","content":"hi"}"#).unwrap();
    assert_eq!(line.namespace, None);
    assert!(!line.has_id);
    let message = line.message;
    assert_eq!((message.session.as_str(), message.role, message.text().as_str()), ("default", Role::User, "hi"));
    assert_eq!((message.name, message.created_at), (None, None));
    assert!(!message.id.is_empty());
}

#[test]
fn every_field_and_every_kind_of_part_is_read() {
    let line = json!({
        "id": "m1", "namespace": "acme/42", "session": "s1", "role": "assistant", "name": "Atlas",
        "content": [
            {"type": "text", "text": "looking"},
            {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": ["a", 1, null]}},
            {"type": "tool_result", "id": "c1", "content": "found"},
            {"type": "image", "uri": "file:///a.png", "media_type": "image/png"},
            {"type": "audio", "uri": "a.ogg"},
            {"type": "file", "uri": "https://example.org/a.pdf"},
        ],
        "created_at": "2024-05-01T11:30:00.25+02:00",
        "expires_at": "2030-01-01",
        "metadata": {"z": 1, "a": {"b": [true]}},
    });
    let parsed = parse(&line.to_string()).unwrap();
    assert_eq!(parsed.namespace, Some(Namespace::new("acme/42").unwrap()));
    let message = parsed.message;
    assert_eq!(message.text(), "looking\nfound");
    assert_eq!(message.created_at.unwrap().to_string(), "2024-05-01T09:30:00.25Z");
    assert_eq!(message.expires_at.unwrap().to_string(), "2030-01-01T00:00:00Z");
    assert_eq!(message.content[4], ContentPart::Audio(MediaReference { uri: "a.ogg".into(), media_type: None }));
    // What is written is read back equal.
    let again = parse(&serde_json::to_string(&message).unwrap()).unwrap().message;
    assert_eq!(again, message);
}

#[test]
fn a_bad_line_is_an_error_that_names_the_fault() {
    let long_id = "x".repeat(513);
    let long_text = "x".repeat(MAX_MESSAGE_BYTES + 1);
    let rows: &[(&str, &str)] = &[
        ("", "expected a JSON object"),
        ("hello", "expected a JSON object"),
        ("{", "EOF"),
        ("[]", "expected a JSON object"),
        (r#"{"content":"hi"}"#, "missing field `role`"),
        (r#"{"role":"user"}"#, "missing field `content`"),
        (r#"{"role":"human","content":"hi"}"#, "role \"human\" is not one of"),
        (r#"{"role":"user","content":5}"#, "expected a string or an array of parts as content"),
        (r#"{"role":"user","content":["hi"]}"#, "content[0]: expected a JSON object"),
        (r#"{"role":"user","content":[{"text":"hi"}]}"#, "content[0]: type is missing"),
        (r#"{"role":"user","content":[{"type":"video"}]}"#, "content[0]: missing field `uri`"),
        (r#"{"role":"user","content":[{"type":"text","text":"a","colour":1}]}"#, "content[0]: unknown field `colour`"),
        (r#"{"role":"user","content":[{"type":"tool_use","id":"c"}]}"#, "type \"tool_use\" is not one of text, file"),
        (
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}"#,
            "content[0]: it is a part of Anthropic's",
        ),
        (r#"{"role":"user","content":[{"type":"image_url","image_url":"a.png"}]}"#, "image_url is not an object"),
        (
            r#"{"role":"developer","content":[{"type":"image","uri":"a.png"}]}"#,
            "content[0]: the part is not of OpenAI's",
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"x"}]}"#,
            "content[1]: type \"x\"",
        ),
        (r#"{"role":"assistant","tool_calls":{}}"#, "tool_calls is not an array"),
        (r#"{"role":"user","content":"hi","created_at":"yesterday"}"#, "is not an RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-05-01T11:30:00"}"#, "is not an RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-05-01 11:30:00Z"}"#, "is not an RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-05-01T11:30:00Z[UTC]"}"#, "is not an RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-02-30T11:30:00Z"}"#, "is not an RFC 3339 time"),
        (r#"{"role":"user","content":"hi","metadata":[1]}"#, "expected a map"),
        (r#"{"role":"user","content":"hi","colour":"red"}"#, "unknown field `colour`"),
        (r#"{"role":"user","content":"hi","namespace":"a//b"}"#, "a label is empty"),
        (r#"{"role":"user","content":"hi","id":""}"#, "the id is empty"),
        (r#"{"role":"user","content":"\ud800"}"#, "hex escape"),
        (&format!(r#"{{"role":"user","content":"hi","id":"{long_id}"}}"#), "the id has 513 bytes"),
        (&format!(r#"{{"role":"user","content":"{long_text}"}}"#), "the maximum is 1048576"),
    ];
    for (line, reason) in rows {
        let error = parse(line).unwrap_err();
        assert!(error.contains(reason), "{line:.60}: {error}");
        assert!(!error.contains("invalid message: invalid message"), "{line:.60}: {error}");
    }
}

#[test]
fn a_message_of_openai_is_read() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"q\": 1}"}});
    let find = || ContentPart::ToolCall { id: "c1".into(), name: "find".into(), arguments: json!({"q": 1}) };
    let text = |text: &str| ContentPart::Text { text: text.into() };
    let image = ContentPart::Image(MediaReference { uri: "https://a.org/a.png".into(), media_type: None });
    let rows = [
        (json!({"role": "developer", "content": "Be brief."}), Role::System, vec![text("Be brief.")]),
        (json!({"role": "assistant", "content": null, "tool_calls": [call]}), Role::Assistant, vec![find()]),
        (json!({"role": "assistant", "tool_calls": [call]}), Role::Assistant, vec![find()]),
        (
            json!({"role": "tool", "tool_call_id": "c1", "content": "found"}),
            Role::Tool,
            vec![ContentPart::ToolResult { id: "c1".into(), content: "found".into() }],
        ),
        (
            json!({"role": "user", "content": [
                {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "https://a.org/a.png"}},
            ]}),
            Role::User,
            vec![text("see"), image],
        ),
        (json!({"role": "assistant", "content": null, "refusal": "no"}), Role::Assistant, vec![text("no")]),
        // As client libraries return an answer.
        (
            json!({
                "role": "assistant", "content": "hi", "refusal": null, "annotations": [], "audio": null,
                "function_call": null, "tool_calls": null,
            }),
            Role::Assistant,
            vec![text("hi")],
        ),
    ];
    for (object, role, content) in rows {
        let message = parse(&object.to_string()).unwrap().message;
        assert_eq!((message.role, &message.content), (role, &content), "{object}");
        // Our own fields beside them.
        let mut line = object.clone();
        for (field, value) in
            [("id", "m1"), ("session", "s"), ("namespace", "a"), ("created_at", "2024-05-01T09:30:00Z")]
        {
            line[field] = value.into();
        }
        line["metadata"] = json!({"topic": "boats"});
        let line = parse(&line.to_string()).unwrap();
        assert!(line.has_id && line.namespace.is_some());
        assert_eq!((line.message.id.as_str(), line.message.session.as_str()), ("m1", "s"));
        assert_eq!((line.message.role, &line.message.content), (role, &content));
        assert_eq!(line.message.metadata["topic"], "boats");
        assert!(line.message.created_at.is_some());
        // It goes back as it came, with what a message has no place for.
        let names = ["refusal", "annotations", "audio", "function_call", "tool_calls", "tool_call_id"];
        let mut wanted = object;
        wanted
            .as_object_mut()
            .unwrap()
            .retain(|name, value| !names.contains(&name.as_str()) || !(value.is_null() || *value == json!([])));
        if wanted.get("content").is_none() {
            wanted["content"] = json!(null);
        }
        assert_eq!(to_openai(&[line.message]), [wanted]);
    }
}

/// Servers and client libraries add fields of their own to a model's answer.
#[test]
fn all_fields_of_an_answer_are_kept() {
    let answer = json!({
        "role": "assistant", "content": "In Lyon.",
        "reasoning_details": [{"type": "reasoning.text", "text": "I should look.", "index": 0}],
        "provider_specific_fields": {"refusal": null},
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}],
        "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGFsbG8="}}],
        "parsed": {"city": "Lyon"}, "container": {"id": "c1"}, "tool_calls": null, "thought": "", "citations": [],
    });
    let message = parse(&answer.to_string()).unwrap().message;
    assert_eq!(message.text(), "In Lyon.");
    let kept = &message.metadata["openai"];
    for field in ["reasoning_details", "provider_specific_fields", "thinking_blocks", "images", "parsed", "container"] {
        assert_eq!(kept[field], answer[field], "{field}");
    }
    assert_eq!((kept.get("thought"), kept.get("citations")), (None, None), "what is empty says nothing");
    assert_eq!(to_openai(&[message])[0]["reasoning_details"], answer["reasoning_details"]);
    // The fields of ours beside them.
    let line = json!({"role": "assistant", "content": "x", "parsed": 1, "id": "m", "source": "web", "supersedes": "a"});
    let message = parse(&line.to_string()).unwrap().message;
    assert_eq!((message.id.as_str(), message.superseded_ids()), ("m", vec!["a"]));
    assert_eq!(message.source(), Some(mnemon::message::Source::Web));
    for (line, reason) in [
        (r#"{"role":"user","content":"x","parsed":1}"#, "unknown field `parsed`"),
        (r#"{"role":"assistant","content":"x","stop_reason":"end_turn"}"#, "unknown field `stop_reason`"),
        (r#"{"role":"assistant","content":"x","source":"radio"}"#, "unknown variant `radio`"),
        (r#"{"role":"assistant","content":"x","supersedes":1}"#, "supersedes is the id of a message, or a list of ids"),
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn times_before_year_0_are_read_and_written() {
    let line = |time: &str| parse(&json!({"role": "user", "content": "hi", "created_at": time}).to_string());
    for time in ["-000044-03-15T12:00:00Z", "-009999-01-02T01:59:59Z", "0000-01-01T00:00:00Z"] {
        assert_eq!(line(time).unwrap().message.created_at.unwrap().to_string(), time);
    }
    // The last that there is, and half a second more.
    assert_eq!(line("9999-12-30T22:00:00Z").unwrap().message.created_at.unwrap().to_string(), "9999-12-30T22:00:00Z");
    for time in ["9999-12-30T22:00:00.5Z", "9999-12-31T00:00:00Z"] {
        assert!(line(time).unwrap_err().contains("at most \"9999-12-30T22:00:00Z\""), "{time}");
    }
    for time in ["-0044-03-15T12:00:00Z", "-44-03-15T12:00:00Z", "-000000-01-01T00:00:00Z", "+002024-01-01T00:00:00Z"] {
        assert!(line(time).unwrap_err().contains("is not an RFC 3339 time"), "{time}");
    }
}

#[test]
fn every_accepted_message_can_be_read_again() {
    let nested = |depth: usize| (0..depth).fold(json!(null), |inner, _| json!([inner]));
    let mut refused = 0;
    for depth in 110..130 {
        let call = ContentPart::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(depth) };
        let metadata = [("deep".to_owned(), nested(depth))].into_iter().collect();
        for message in
            [Message { content: vec![call], ..Message::user("hi") }, Message { metadata, ..Message::user("hi") }]
        {
            match message.check() {
                Ok(()) => assert_eq!(parse(&serde_json::to_string(&message).unwrap()).unwrap().message, message),
                Err(_) => refused += 1,
            }
        }
    }
    assert!((1..30).contains(&refused), "{refused} are too deep");
}

proptest! {
    /// Whatever is written for OpenAI's API is a message wherever messages are accepted.
    #[test]
    fn objects_of_openai_are_lines(message in any_message()) {
        for object in to_openai(&[message]) {
            let wanted = from_openai(std::slice::from_ref(&object)).unwrap().remove(0);
            match parse(&object.to_string()) {
                Ok(line) => prop_assert_eq!(
                    (line.message.role, line.message.name, line.message.content),
                    (wanted.role, wanted.name, wanted.content)
                ),
                Err(_) => prop_assert!(wanted.check().is_err()),
            }
        }
    }

    #[test]
    fn a_message_survives_its_json_form(message in any_message()) {
        let line = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(parse(&line).unwrap().message, message);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(line in ".*") {
        let _ = parse(&line);
    }
}
