//! The JSON form of messages: lossless, and strict.

use mnemon::{MAX_MESSAGE_BYTES, Message, MessageLine, Namespace, Part, Reference, Role, Timestamp};
use proptest::prelude::*;
use serde_json::json;

fn parse(line: &str) -> Result<MessageLine, String> {
    MessageLine::parse(line).map_err(|error| error.to_string())
}

#[test]
fn the_shortest_line() {
    let line = parse(r#"{"role":"user","content":"hi"}"#).unwrap();
    assert_eq!(line.namespace, None);
    assert!(!line.has_id);
    let message = line.message;
    assert_eq!((message.session.as_str(), message.role, message.text().as_str()), ("default", Role::User, "hi"));
    assert_eq!((message.name, message.created_at), (None, None));
    assert!(!message.id.is_empty());
}

#[test]
fn every_field_and_part() {
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
        "metadata": {"z": 1, "a": {"b": [true]}},
    });
    let parsed = parse(&line.to_string()).unwrap();
    assert_eq!(parsed.namespace, Some(Namespace::new("acme/42").unwrap()));
    let message = parsed.message;
    assert_eq!(message.text(), "looking\nfound");
    assert_eq!(message.created_at.unwrap().to_string(), "2024-05-01T09:30:00.25Z");
    assert_eq!(message.content[4], Part::Audio(Reference { uri: "a.ogg".into(), media_type: None }));
    // What is written is read back equal.
    let again = parse(&serde_json::to_string(&message).unwrap()).unwrap().message;
    assert_eq!(again, message);
}

#[test]
fn bad_lines_say_why() {
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
        (r#"{"role":"user","content":""}"#, "content is empty"),
        (r#"{"role":"user","content":" \n\t"}"#, "content is empty"),
        (r#"{"role":"user","content":[]}"#, "content is empty"),
        (r#"{"role":"user","content":5}"#, "content is a string or an array of parts"),
        (r#"{"role":"user","content":[{"type":"video"}]}"#, "content is a string or an array of parts"),
        (r#"{"role":"user","content":"hi","created_at":"yesterday"}"#, "no RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-05-01T11:30:00"}"#, "no RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-05-01 11:30:00Z"}"#, "no RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-05-01T11:30:00Z[UTC]"}"#, "no RFC 3339 time"),
        (r#"{"role":"user","content":"hi","created_at":"2024-02-30T11:30:00Z"}"#, "no RFC 3339 time"),
        (r#"{"role":"user","content":"hi","metadata":[1]}"#, "expected a map"),
        (r#"{"role":"user","content":"hi","colour":"red"}"#, "unknown field `colour`"),
        (r#"{"role":"user","content":"hi","namespace":"a//b"}"#, "a segment is empty"),
        (r#"{"role":"user","content":"hi","id":""}"#, "the id is empty"),
        (r#"{"role":"user","content":"\ud800"}"#, "hex escape"),
        (&format!(r#"{{"role":"user","content":"hi","id":"{long_id}"}}"#), "the id has 513 bytes"),
        (&format!(r#"{{"role":"user","content":"{long_text}"}}"#), "more than 1048576"),
    ];
    for (line, reason) in rows {
        let error = parse(line).unwrap_err();
        assert!(error.contains(reason), "{line:.60}: {error}");
    }
}

#[test]
fn years_before_0() {
    let line = |time: &str| parse(&json!({"role": "user", "content": "hi", "created_at": time}).to_string());
    for time in ["-000044-03-15T12:00:00Z", "-009999-01-02T01:59:59Z", "0000-01-01T00:00:00Z"] {
        assert_eq!(line(time).unwrap().message.created_at.unwrap().to_string(), time);
    }
    // The last that there is, and half a second more.
    assert_eq!(line("9999-12-30T22:00:00Z").unwrap().message.created_at.unwrap().to_string(), "9999-12-30T22:00:00Z");
    assert!(line("9999-12-30T22:00:00.5Z").unwrap_err().contains("no RFC 3339 time"));
    for time in ["-0044-03-15T12:00:00Z", "-44-03-15T12:00:00Z", "-000000-01-01T00:00:00Z", "+002024-01-01T00:00:00Z"] {
        assert!(line(time).unwrap_err().contains("no RFC 3339 time"), "{time}");
    }
}

#[test]
fn what_is_accepted_can_be_read_again() {
    let nested = |depth: usize| (0..depth).fold(json!(null), |inner, _| json!([inner]));
    let mut refused = 0;
    for depth in 110..130 {
        let call = Part::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(depth) };
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

#[test]
fn namespaces() {
    for good in ["a", "acme/user-42", "1/2/3/4/5/6/7/8", "Ünïcode/名前", "..", "a b"] {
        assert_eq!(Namespace::new(good).unwrap().as_str(), good);
    }
    let long = "x".repeat(129);
    for bad in ["", "/", "a/", "/a", "a//b", "1/2/3/4/5/6/7/8/9", "a\nb", "a\0", long.as_str()] {
        assert!(Namespace::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn namespaces_of_contexts() {
    let of = |context: &[(&str, &str)]| Namespace::from_context(context.iter().copied()).to_string();
    assert_eq!(of(&[("b", "2"), ("a", "1")]), "a=1/b=2");
    assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
    let different = [
        of(&[]),
        of(&[("a", "")]),
        of(&[("a", "b/c=d")]),
        of(&[("a", "b"), ("c", "d")]),
        of(&[("a", "b%2Fc")]),
        of(&[("a", "b/c")]),
        of(&[("a=b", "c")]),
        of(&[("a", "b=c")]),
        of(&[("a", "\n")]),
        of(&[("long", &"x".repeat(500))]),
        of(&[("long", &"x".repeat(501))]),
        of(&["1", "2", "3", "4", "5", "6", "7", "8", "9"].map(|key| (key, "x"))),
    ];
    let distinct: std::collections::BTreeSet<&String> = different.iter().collect();
    assert_eq!(distinct.len(), different.len(), "{different:?}");
}

fn part() -> impl Strategy<Value = Part> {
    let json = prop_oneof![any::<i64>().prop_map(|n| json!(n)), ".*".prop_map(|text| json!({"a": [text, null]}))];
    let reference =
        || (".{1,9}", proptest::option::of(".*")).prop_map(|(uri, media_type)| Reference { uri, media_type });
    prop_oneof![
        ".*".prop_map(|text| Part::Text { text }),
        (".*", ".*", json).prop_map(|(id, name, arguments)| Part::ToolCall { id, name, arguments }),
        (".*", ".*").prop_map(|(id, content)| Part::ToolResult { id, content }),
        reference().prop_map(Part::Image),
        reference().prop_map(Part::Audio),
        reference().prop_map(Part::File),
    ]
}

pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let role = proptest::sample::select(&Role::ALL[..]);
    // Years -9999 to 9999.
    let time = (-377_705_023_201_000_000i64..=253_402_207_200_999_999).prop_map(|t| Timestamp::from_micros(t).unwrap());
    (
        ".{1,20}",
        ".{1,20}",
        role,
        proptest::option::of(".{1,20}"),
        proptest::collection::vec(part(), 1..4),
        proptest::option::of(time),
        proptest::collection::btree_map(".*", any::<bool>(), 0..3),
    )
        .prop_map(|(id, session, role, name, content, created_at, metadata)| Message {
            id,
            session,
            role,
            name,
            content,
            created_at,
            metadata: metadata.into_iter().map(|(key, value)| (key, json!(value))).collect(),
        })
        .prop_filter("not blank", |message| message.check().is_ok())
}

proptest! {
    #[test]
    fn json_is_lossless(message in any_message()) {
        let line = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(parse(&line).unwrap().message, message);
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(line in ".*") {
        let _ = parse(&line);
    }
}
