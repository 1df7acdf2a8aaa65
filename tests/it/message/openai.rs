//! OpenAI's chat format: lossless both ways.

use mnemon::{ContentPart, MediaReference, Message, Role, Timestamp, from_openai, to_openai, to_openai_lossless};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::any_message;

pub(super) fn with(role: Role, content: Vec<ContentPart>) -> Message {
    Message { content, ..Message::new(role, "") }
}

pub(super) fn text(text: &str) -> ContentPart {
    ContentPart::Text { text: text.into() }
}

pub(super) fn call(id: &str, arguments: Value) -> ContentPart {
    ContentPart::ToolCall { id: id.into(), name: "search".into(), arguments }
}

pub(super) fn result(id: &str, content: &str) -> ContentPart {
    ContentPart::ToolResult { id: id.into(), content: content.into() }
}

pub(super) fn reference(uri: &str) -> MediaReference {
    MediaReference { uri: uri.into(), media_type: None }
}

#[test]
fn messages_become_openai_objects() {
    let check = |message: Message, wanted: Value| {
        assert_eq!(Value::from(to_openai(std::slice::from_ref(&message))), wanted);
        let lossless = to_openai_lossless(std::slice::from_ref(&message));
        assert_eq!(from_openai(&lossless).unwrap(), [message], "{lossless:?}");
        let plain: Vec<Value> = lossless
            .into_iter()
            .map(|mut object| {
                assert!(object.as_object_mut().unwrap().remove("mnemon").is_some());
                object
            })
            .collect();
        assert_eq!(Value::from(plain), wanted, "the same but for one field");
    };
    check(Message::new(Role::System, "Be brief."), json!([{"role": "system", "content": "Be brief."}]));
    check(Message::user("hi").by("Bob"), json!([{"role": "user", "name": "Bob", "content": "hi"}]));
    check(
        Message::user("hi").by("Ada <Lovelace>\n"),
        json!([{"role": "user", "name": "Ada__Lovelace__", "content": "hi"}]),
    );
    check(Message::user("hi").by("é".repeat(100)), json!([{"role": "user", "name": "é".repeat(64), "content": "hi"}]));
    check(with(Role::User, vec![]), json!([{"role": "user", "content": ""}]));
    check(with(Role::Tool, vec![]), json!([{"role": "user", "content": ""}]));
    check(
        with(Role::User, vec![text("a"), text("b")]),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
    );

    let calls = |ids: &[&str]| -> Value {
        let call =
            |id: &&str| json!({"id": id, "type": "function", "function": {"name": "search", "arguments": "{\"q\":1}"}});
        ids.iter().map(call).collect()
    };
    let q = json!({"q": 1});
    check(
        with(Role::Assistant, vec![call("c1", q.clone())]),
        json!([{"role": "assistant", "content": null, "tool_calls": calls(&["c1"])}]),
    );
    check(
        with(Role::Assistant, vec![text("a"), call("c1", q.clone()), call("c2", q.clone())]),
        json!([{"role": "assistant", "content": "a", "tool_calls": calls(&["c1", "c2"])}]),
    );
    check(
        with(Role::Assistant, vec![call("c1", q.clone()), text("a")]),
        json!([{"role": "assistant", "content": "a", "tool_calls": calls(&["c1"])}]),
    );
    let tool = |id: &str, content: &str| json!({"role": "tool", "tool_call_id": id, "content": content});
    check(with(Role::Tool, vec![result("c1", "found")]), json!([tool("c1", "found")]));
    check(
        with(Role::Tool, vec![result("c1", "found"), result("c2", "")]),
        json!([tool("c1", "found"), tool("c2", "")]),
    );
    check(
        with(Role::Tool, vec![text("a"), result("c1", "found"), text("b"), text("c"), result("c2", "more")]),
        json!([
            tool("c1", "found"),
            tool("c2", "more"),
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        ]),
    );
    check(
        with(Role::User, vec![text("a"), call("c1", q.clone()), result("c1", "found"), text("b")]).by("Bob"),
        json!([
            {"role": "user", "name": "Bob", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": calls(&["c1"])},
            tool("c1", "found"),
            {"role": "user", "name": "Bob", "content": "b"},
        ]),
    );
    check(
        with(
            Role::User,
            vec![
                ContentPart::Image(reference("https://example.org/a.png")),
                ContentPart::Image(reference("data:image/png;base64,AAAA")),
                ContentPart::Image(reference("file:///a.png")),
                ContentPart::Audio(reference("data:audio/mpeg;base64,AAAA")),
                ContentPart::Audio(reference("data:audio/ogg;base64,AAAA")),
                ContentPart::Video(MediaReference { uri: "a.mp4".into(), media_type: Some("video/mp4".into()) }),
                ContentPart::File(reference("data:application/pdf;base64,AAAA")),
                ContentPart::File(reference("file-abc")),
                ContentPart::File(reference("a.pdf")),
            ],
        ),
        json!([{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": "[image: file:///a.png]"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            {"type": "text", "text": "[audio]"},
            {"type": "text", "text": "[video: a.mp4]"},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
            {"type": "file", "file": {"file_id": "file-abc"}},
            {"type": "text", "text": "[file: a.pdf]"},
        ]}]),
    );
    check(
        with(Role::Assistant, vec![ContentPart::Image(reference("https://example.org/a.png"))]),
        json!([{"role": "assistant", "content": "[image: https://example.org/a.png]"}]),
    );
}

#[test]
fn arguments_of_a_call_are_sent_as_text() {
    for (arguments, wanted) in [
        (json!({"q": [1, null]}), r#"{"q":[1,null]}"#),
        (Value::Null, "{}"),
        (json!("{\"q\": "), "{\"q\": "),
        (json!("word"), "word"),
        (json!("1"), "1"),
        (json!("{\"q\": 1}"), "{\"q\": 1}"),
        (json!(""), ""),
    ] {
        let message = with(Role::Assistant, vec![call("c", arguments)]);
        let object = &to_openai(std::slice::from_ref(&message))[0];
        assert_eq!(object["tool_calls"][0]["function"]["arguments"], wanted);
        assert_eq!(from_openai(&to_openai_lossless(std::slice::from_ref(&message))).unwrap(), [message]);
    }
}

#[test]
fn openai_objects_become_messages() {
    // An object, its role and content, and whether it has to be kept.
    let call = |name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"id": "c1", "type": "function", "function": function})
    };
    let rows = [
        (json!({"role": "user", "content": "hi"}), Role::User, vec![text("hi")], false),
        (json!({"role": "user", "content": ""}), Role::User, vec![text("")], false),
        (json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}), Role::User, vec![text("hi")], true),
        (json!({"role": "developer", "content": "hi"}), Role::System, vec![text("hi")], true),
        (json!({"role": "assistant", "content": "hi", "refusal": null}), Role::Assistant, vec![text("hi")], true),
        (json!({"role": "assistant", "content": null, "refusal": "no"}), Role::Assistant, vec![text("no")], true),
        (
            json!({"role": "assistant", "content": null, "audio": {"id": "a1", "transcript": "hello"}}),
            Role::Assistant,
            vec![text("hello")],
            true,
        ),
        (json!({"role": "assistant", "audio": {"id": "a1"}}), Role::Assistant, vec![], true),
        (
            json!({"role": "assistant", "content": "hi", "reasoning_content": "hm"}),
            Role::Assistant,
            vec![text("hi")],
            true,
        ),
        (
            json!({"role": "assistant", "content": null, "tool_calls": [call("search", "{\"q\":1}")]}),
            Role::Assistant,
            vec![self::call("c1", json!({"q": 1}))],
            false,
        ),
        (
            json!({"role": "assistant", "tool_calls": [call("search", "{ \"q\": 1 }")]}),
            Role::Assistant,
            vec![self::call("c1", json!({"q": 1}))],
            true,
        ),
        (
            json!({"role": "assistant", "content": null, "tool_calls": [call("search", "{\"q\":")]}),
            Role::Assistant,
            vec![self::call("c1", json!("{\"q\":"))],
            false,
        ),
        (
            json!({"role": "assistant", "tool_calls": [
                {"id": "c1", "function": {"name": "search", "arguments": {"q": 1}}},
            ]}),
            Role::Assistant,
            vec![self::call("c1", json!({"q": 1}))],
            true,
        ),
        (
            json!({"role": "assistant", "tool_calls": [
                {"id": "c1", "type": "custom", "custom": {"name": "search", "input": "1"}},
            ]}),
            Role::Assistant,
            vec![self::call("c1", json!("1"))],
            true,
        ),
        (
            json!({"role": "assistant", "content": null, "function_call": {"name": "search", "arguments": "{}"}}),
            Role::Assistant,
            vec![self::call("search", json!({}))],
            true,
        ),
        (
            json!({"role": "function", "name": "search", "content": "found"}),
            Role::Tool,
            vec![result("search", "found")],
            true,
        ),
        (
            json!({"role": "tool", "tool_call_id": "c1", "content": "found"}),
            Role::Tool,
            vec![result("c1", "found")],
            false,
        ),
        (
            json!({"role": "tool", "tool_call_id": "c1", "content": [
                {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "a.png"}},
            ]}),
            Role::Tool,
            vec![result("c1", "a\nb"), ContentPart::Image(reference("a.png"))],
            true,
        ),
        (json!({"role": "tool", "content": "found"}), Role::Tool, vec![text("found")], true),
        (
            json!({"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file-abc"}},
            ]}),
            Role::User,
            vec![
                text("see"),
                ContentPart::Image(reference("https://example.org/a.png")),
                ContentPart::Audio(reference("data:audio/wav;base64,AAAA")),
                ContentPart::File(reference("file-abc")),
            ],
            false,
        ),
        (
            json!({"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
                {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
                {"type": "file", "file": {"filename": "a.pdf"}},
                {"type": "hologram", "hologram": {"data": [1, 2.5]}},
            ]}),
            Role::User,
            vec![
                ContentPart::Image(reference("data:image/png;base64,AAAA")),
                ContentPart::Video(reference("https://example.org/a.mp4")),
            ],
            true,
        ),
    ];
    for (object, role, content, kept) in rows {
        let messages = from_openai(std::slice::from_ref(&object)).unwrap();
        let [message] = messages.as_slice() else { panic!("{messages:?}") };
        assert_eq!((message.role, &message.content), (role, &content), "{object}");
        assert_eq!(message.metadata.get("openai"), kept.then_some(&object), "{object}");
        assert_eq!((message.session.as_str(), message.created_at), ("default", None));
        assert_eq!(to_openai(&messages), [object]);
        assert_eq!(from_openai(&to_openai_lossless(&messages)).unwrap(), messages);
    }
}

#[test]
fn an_unchanged_message_goes_back_as_the_object_it_was_read_from() {
    let object = json!({"role": "developer", "name": "Ada", "content": "hi", "x": 1});
    let read = from_openai(std::slice::from_ref(&object)).unwrap().remove(0);
    assert_eq!(to_openai(&[read.clone().in_session("s").with_id("1")]), [object], "an id is not in the format");
    let changed = Message { content: vec![text("bye")], ..read.clone() };
    assert_eq!(to_openai(&[changed]), [json!({"role": "system", "name": "Ada", "content": "bye"})]);
    assert_eq!(to_openai(&[read.clone().by("Bob")]), [json!({"role": "system", "name": "Bob", "content": "hi"})]);
    let user = Message { role: Role::User, ..read.clone() };
    assert_eq!(to_openai(&[user]), [json!({"role": "user", "name": "Ada", "content": "hi"})]);
    // Metadata of that name that no decoder wrote.
    for other in [json!(true), json!({}), json!({"role": "system", "name": "Ada", "content": "hi", "mnemon": {}})] {
        let mut message = read.clone();
        message.metadata.insert("openai".into(), other);
        assert_eq!(to_openai(&[message.clone()]), [json!({"role": "system", "name": "Ada", "content": "hi"})]);
        assert_eq!(from_openai(&to_openai_lossless(&[message.clone()])).unwrap(), [message]);
    }
}

#[test]
fn the_lossless_form_keeps_every_field() {
    let time: Timestamp = "2024-05-01T09:30:00.25Z".parse().unwrap();
    let mut plain = Message::user("hi").with_id("m1").in_session("s1").at(time);
    plain.metadata.insert("z".into(), json!([1.5]));
    let split =
        Message { created_at: None, ..with(Role::Tool, vec![result("c1", "a"), result("c2", "b")]).with_id("m2") };
    let objects = to_openai_lossless(&[plain.clone(), split.clone()]);
    let wanted = json!([
        {"role": "user", "content": "hi", "mnemon":
            {"id": "m1", "session": "s1", "created_at": "2024-05-01T09:30:00.25Z", "metadata": {"z": [1.5]}}},
        {"role": "tool", "tool_call_id": "c1", "content": "a", "mnemon":
            {"id": "m2", "session": "default", "exact": {"role": "tool", "name": null, "content": split.content}}},
        {"role": "tool", "tool_call_id": "c2", "content": "b", "mnemon": {"of": "m2"}},
    ]);
    assert_eq!(Value::from(objects.clone()), wanted);
    // A further object whose first is gone is a message of its own.
    let alone = from_openai(&objects[2..]).unwrap();
    assert_eq!(alone[0].content, [result("c2", "b")]);
    assert!(alone[0].id != "m2" && alone[0].metadata.is_empty());
    // Times that RFC 3339 cannot say, and messages that `put` would refuse.
    let old = plain.clone().at(Timestamp::from_micros(-100_000_000_000_000_000).unwrap());
    let bare = Message { name: Some("".into()), ..with(Role::Assistant, vec![]).with_id("").in_session("") };
    let list = [old, bare.clone(), bare, plain];
    assert_eq!(from_openai(&to_openai_lossless(&list)).unwrap(), list);
}

#[test]
fn a_bad_object_is_an_error_that_names_place_and_fault() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let calls = |calls: Value| json!({"role": "assistant", "tool_calls": calls});
    let ours = |mnemon: Value| json!({"role": "user", "content": "hi", "mnemon": mnemon});
    let rows = [
        (json!("hi"), "expected a JSON object"),
        (json!({}), "role is missing"),
        (json!({"role": 1}), "role is not a string"),
        (json!({"role": "robot"}), "role \"robot\" is not one of system, developer"),
        (user(json!(5)), "content is not a string, an array of parts or null"),
        (user(json!(["hi"])), "content[0]: expected a JSON object"),
        (user(json!([{"text": "hi"}])), "content[0]: type is missing"),
        (user(json!([{"type": "text", "text": "a"}, {"type": "text"}])), "content[1]: text is missing"),
        (user(json!([{"type": "image_url", "image_url": "a.png"}])), "content[0]: image_url is not an object"),
        (user(json!([{"type": "input_audio", "input_audio": {"data": "AAAA"}}])), "content[0]: format is missing"),
        (user(json!([{"type": "file"}])), "content[0]: file is not an object"),
        // Blocks and contents of other providers, which would be lost.
        (
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "search", "input": {}}]}),
            "content[0]: tool_use is a block of Anthropic's format; read the conversation with from_anthropic",
        ),
        (
            user(json!([{"type": "tool_result", "tool_use_id": "t1"}])),
            "content[0]: tool_result is a block of Anthropic's",
        ),
        (json!({"role": "user", "parts": [{"text": "hi"}]}), "parts is a field of Gemini's format"),
        (json!({"role": "model", "parts": [{"text": "hi"}]}), "role \"model\" is not one of"),
        (json!({"role": "user", "content": "hi", "name": 5}), "name is not a string"),
        (json!({"role": "assistant", "refusal": true}), "refusal is not a string"),
        (json!({"role": "tool", "tool_call_id": 5, "content": "hi"}), "tool_call_id is not a string"),
        (calls(json!({})), "tool_calls is not an array"),
        (calls(json!([1])), "tool_calls[0]: expected a JSON object"),
        (calls(json!([{"function": {}}])), "tool_calls[0]: name is missing"),
        (calls(json!([{"function": "search"}])), "tool_calls[0]: function is not an object"),
        (calls(json!([{"id": 1, "function": {"name": "search"}}])), "tool_calls[0]: id is not a string"),
        (json!({"role": "assistant", "function_call": "search"}), "function_call is not an object"),
        (ours(json!(5)), "mnemon: expected {\"id\", \"session\""),
        (ours(json!({"id": "m1"})), "mnemon: expected {\"id\", \"session\""),
        (ours(json!({"id": "m1", "session": "s", "colour": "red"})), "mnemon: expected {\"id\", \"session\""),
        (ours(json!({"id": "m1", "session": "s", "created_at": i64::MAX})), "created_at is out of range"),
    ];
    for (object, reason) in rows {
        let list = [json!({"role": "user", "content": "fine"}), object];
        let error = from_openai(&list).unwrap_err().to_string();
        assert!(error.contains(&format!("invalid message: messages[1]: {reason}")), "{error}");
    }
}

/// A JSON value of any kind, not deep.
pub(super) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(".{0,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The objects of the format, with each field there, null or left out.
fn object() -> impl Strategy<Value = Value> {
    let word = || ".{0,6}".prop_map(Value::from);
    let url = || proptest::sample::select(vec!["https://a.org/x", "data:audio/wav;base64,AA", "file-a", "x", ""]);
    let part = prop_oneof![
        4 => word().prop_map(|text| json!({"type": "text", "text": text})),
        1 => word().prop_map(|text| json!({"type": "refusal", "refusal": text})),
        1 => url().prop_map(|url| json!({"type": "image_url", "image_url": {"url": url}})),
        1 => url().prop_map(|url| json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}})),
        1 => (url(), proptest::sample::select(vec!["wav", "mp3", "mpeg", "flac", ";base64,"]))
            .prop_map(|(data, format)| json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})),
        1 => url().prop_map(|url| json!({"type": "file", "file": {"file_id": url}})),
        1 => url().prop_map(|url| json!({"type": "file", "file": {"file_data": url, "filename": "a"}})),
        1 => json_value().prop_map(|x| json!({"type": "unknown", "unknown": x})),
        1 => word().prop_map(|text| json!({"type": "text", "text": text, "annotations": []})),
    ];
    let content = prop_oneof![
        3 => word(),
        1 => Just(Value::Null),
        3 => proptest::collection::vec(part, 0..4).prop_map(Value::from),
    ];
    let arguments = prop_oneof![
        json_value().prop_map(|value| Value::from(value.to_string())),
        json_value().prop_map(|value| Value::from(format!("{value:#}"))),
        word(),
        json_value(),
    ];
    let call = prop_oneof![
        4 => (word(), word(), arguments.clone()).prop_map(|(id, name, arguments)| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        }),
        1 => word().prop_map(|name| json!({"type": "function", "function": {"name": name}})),
        1 => (word(), word()).prop_map(|(id, input)| {
            json!({"id": id, "type": "custom", "custom": {"name": "n", "input": input}})
        }),
        1 => json_value().prop_map(|x| json!({"id": "c", "type": "unknown", "unknown": x})),
    ];
    let calls = prop_oneof![Just(Value::Null), proptest::collection::vec(call, 0..3).prop_map(Value::from)];
    let function = (word(), arguments).prop_map(|(name, arguments)| json!({"name": name, "arguments": arguments}));
    let roles = vec!["system", "developer", "user", "assistant", "assistant", "tool", "function"];
    let maybe = proptest::option::weighted::<BoxedStrategy<Value>>;
    let sometimes = |strategy: BoxedStrategy<Value>| maybe(0.2, strategy);
    (
        proptest::sample::select(roles),
        maybe(0.9, content.boxed()),
        sometimes(word().boxed()),
        maybe(0.3, calls.boxed()),
        maybe(0.3, word().boxed()),
        sometimes(prop_oneof![Just(Value::Null), word()].boxed()),
        sometimes(prop_oneof![json_value(), word().prop_map(|text| json!({"transcript": text}))].boxed()),
        sometimes(function.boxed()),
        sometimes(json_value().boxed()),
    )
        .prop_map(|(role, content, name, calls, call, refusal, audio, function, reasoning)| {
            let fields = [
                ("content", content),
                ("name", name),
                ("tool_calls", calls),
                ("tool_call_id", call),
                ("refusal", refusal),
                ("audio", audio),
                ("function_call", function),
                ("reasoning_content", reasoning),
            ];
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(fields.chain([("role".to_owned(), role.into())]).collect::<Map<_, _>>())
        })
}

/// Messages as `put` takes them, and odder ones. Some have what looks like an object that they were read from in the
/// metadata with this key.
pub(super) fn odd_message(
    key: &'static str,
    source: impl Strategy<Value = Value> + 'static,
) -> impl Strategy<Value = Message> {
    let arguments = prop_oneof![json_value(), ".{0,5}".prop_map(Value::from), Just(json!("\"x\""))];
    let uri = proptest::sample::select(vec!["data:audio/wav;base64,A;base64,", "data:x", "file-1", "http://a", ""]);
    let part = prop_oneof![
        ".{0,4}".prop_map(|text| ContentPart::Text { text }),
        ("[ab]?", arguments).prop_map(|(id, arguments)| call(&id, arguments)),
        ("[ab]?", ".{0,4}").prop_map(|(id, content)| result(&id, &content)),
        (0..4, uri).prop_map(|(kind, uri)| [
            ContentPart::Image,
            ContentPart::Audio,
            ContentPart::Video,
            ContentPart::File
        ][kind as usize](reference(uri))),
    ];
    let content = proptest::collection::vec(part, 0..4);
    let raw = prop_oneof![4 => Just(None), 1 => json_value().prop_map(Some), 1 => source.prop_map(Some)];
    (any_message(), content, any::<bool>(), raw, proptest::option::of("\\PC{0,70}")).prop_map(
        move |(mut message, content, replace, raw, name)| {
            if replace {
                (message.content, message.name) = (content, name);
            }
            message.metadata.extend(raw.map(|raw| (key.to_owned(), raw)));
            message
        },
    )
}

proptest! {
    #[test]
    fn messages_survive_the_lossless_form(messages in proptest::collection::vec(odd_message("openai", object()), 0..5)) {
        let objects = to_openai_lossless(&messages);
        prop_assert_eq!(&from_openai(&objects).unwrap(), &messages);
        // Also by way of text.
        let text = serde_json::to_string(&objects).unwrap();
        let objects: Vec<Value> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&from_openai(&objects).unwrap(), &messages);
    }

    #[test]
    fn objects_survive_messages(objects in proptest::collection::vec(object(), 0..5)) {
        let messages = from_openai(&objects).unwrap();
        prop_assert_eq!(messages.len(), objects.len());
        prop_assert_eq!(to_openai(&messages), objects.clone());
        let again = from_openai(&to_openai_lossless(&messages)).unwrap();
        prop_assert_eq!(again, messages);
    }

    #[test]
    fn any_json_is_messages_or_an_error(
        values in proptest::collection::vec(json_value(), 0..3),
        mnemon in json_value(),
    ) {
        let _ = from_openai(&values);
        let _ = from_openai(&[json!({"role": "user", "content": "hi", "mnemon": mnemon})]);
    }

    /// Plain objects have the fields of the format alone.
    #[test]
    fn plain_objects_have_no_fields_unknown_to_openai(mut messages in proptest::collection::vec(odd_message("openai", object()), 1..5)) {
        messages.iter_mut().for_each(|message| message.metadata.clear());
        let objects = to_openai(&messages);
        prop_assert!(objects.len() >= messages.len());
        for object in objects {
            let object = object.as_object().unwrap();
            let role = object["role"].as_str().unwrap();
            let known: &[&str] = match role {
                "tool" => &["role", "content", "tool_call_id"],
                "assistant" => &["role", "content", "name", "tool_calls"],
                _ => &["role", "content", "name"],
            };
            prop_assert!(object.keys().all(|field| known.contains(&field.as_str())), "{:?}", object);
            let content = &object["content"];
            prop_assert!(content.is_string() || content.is_array() || object.contains_key("tool_calls"));
        }
    }
}
