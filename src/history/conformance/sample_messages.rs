//! Messages to store in the conformance test.

use serde_json::{Map, Value, json};

use crate::{
    ids::MAX_ID_BYTES,
    message::{ContentPart, MAX_MESSAGE_BYTES, MediaReference, Message, Role, Timestamp},
};

/// Makes a message of the user without a time.
pub(super) fn text(session: &str, id: &str, text: &str) -> Message {
    Message { created_at: None, ..Message::user(text).with_id(id).in_session(session) }
}

/// Makes messages that use everything that a message can contain, up to the limits.
pub(super) fn every_kind(session: &str) -> Vec<Message> {
    let reference = |media_type: Option<&str>| MediaReference {
        uri: "https://example.org/a%20b?c=\"d\"".into(),
        media_type: media_type.map(str::to_owned),
    };
    let unusual = "a\0b\t\r\n\u{2028}\u{feff}\u{202e} \"quoted\" \\ </s> {}[] café cafe\u{301} 東京 👩‍👩‍👧 \u{10ffff}";
    let values = json!({
        "": null, "empty": [{}, []], "true": true, "text": unusual, "deep": {"a": [{"b": [1, "2", [null]]}]},
        "numbers": [0, -1, i64::MIN, u64::MAX, 0.1, -0.5, 1e300, 5e-324, 1.0],
    });
    let metadata: Map<String, Value> = values.as_object().cloned().unwrap_or_default();
    let mut messages: Vec<Message> =
        Role::ALL.map(|role| Message { role, ..text(session, role.as_str(), unusual) }).into();
    let contents = vec![
        vec![
            ContentPart::Text { text: "one".into() },
            ContentPart::Text { text: "".into() },
            ContentPart::Text { text: " two ".into() },
        ],
        vec![ContentPart::ToolCall { id: "c".into(), name: "search".into(), arguments: values }],
        vec![ContentPart::ToolCall { id: "".into(), name: "".into(), arguments: Value::Null }],
        vec![ContentPart::ToolResult { id: "c".into(), content: unusual.into() }],
        vec![ContentPart::ToolResult { id: "".into(), content: "".into() }],
        vec![ContentPart::Image(reference(None)), ContentPart::Image(reference(Some("image/png")))],
        vec![
            ContentPart::Audio(reference(None)),
            ContentPart::Video(reference(Some(""))),
            ContentPart::File(reference(None)),
        ],
        vec![ContentPart::Text { text: "x".repeat(MAX_MESSAGE_BYTES) }],
        vec![],
        vec![ContentPart::Text { text: "".into() }],
        vec![ContentPart::Text { text: " \n".into() }, ContentPart::Text { text: "".into() }],
    ];
    for (number, content) in contents.into_iter().enumerate() {
        messages.push(Message { content, ..text(session, &format!("content-{number}"), "") });
    }
    // Times between the years -9999 and 9999, with microseconds.
    let times =
        [-377_705_023_201_000_000, -62_198_755_200_000_001, -1, 0, 1_714_555_800_000_001, 253_402_207_200_999_999];
    for time in times.into_iter().filter_map(Timestamp::from_micros) {
        messages.push(text(session, &format!("time-{}", time.as_micros()), "text").at(time));
    }
    messages.push(text(session, "name", "text").by(unusual));
    messages.push(text(session, &"i".repeat(MAX_ID_BYTES), "text").by("n".repeat(MAX_ID_BYTES)));
    messages.push(text(session, unusual, "text"));
    messages.push(Message { metadata, ..text(session, "metadata", "text") });
    // The deepest JSON that a message may contain.
    let deepest = (1..200).rev().map(|depth| {
        let call = ContentPart::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(depth) };
        Message { content: vec![call], ..text(session, "deep", "") }
    });
    messages.extend({ deepest }.find(|message| message.check().is_ok()));
    let deepest = (1..200).rev().map(|depth| {
        let metadata = [("deep".to_owned(), nested(depth))].into_iter().collect();
        Message { metadata, ..text(session, "deep metadata", "text") }
    });
    messages.extend({ deepest }.find(|message| message.check().is_ok()));
    messages
}

/// Makes arrays nested to this depth.
pub(super) fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}
