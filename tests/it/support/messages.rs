//! Messages and conversations, some of them generated.

use mnemon::{ContentPart, MediaReference, Message, PerPartTokenCounter, Role, Timestamp};
use proptest::prelude::*;
use serde_json::json;

pub(crate) fn message(id: &str, text: &str) -> Message {
    Message::user(text).with_id(id)
}

/// Returns messages of these texts, with the ids m0, m1, ...
pub(crate) fn chat(texts: &[&str]) -> Vec<Message> {
    texts.iter().enumerate().map(|(at, text)| message(&format!("m{at}"), text)).collect()
}

/// A chat in German, in which each message is about houses.
pub(crate) const GERMAN: [&str; 8] = [
    "Guten Morgen, gestern haben wir uns zwei Häuser angesehen.",
    "Welche der beiden Häuser hat euch denn besser gefallen?",
    "Die Häuser am See sind schöner, aber leider auch viel teurer.",
    "Habt ihr gefragt, wann die Häuser das letzte Mal renoviert wurden?",
    "Ja, beide Häuser haben seit drei Jahren eine neue Heizung.",
    "Dann würde ich noch warten, bis die Häuser im Herbst billiger werden.",
    "Meine Schwester meint, solche Häuser sind im Herbst schon verkauft.",
    "Ich rufe morgen früh den Makler an und frage nach den Häusern.",
];

/// Returns the messages' ids.
pub(crate) fn ids<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<&'m str> {
    messages.into_iter().map(|message| message.id.as_str()).collect()
}

/// Counts the words of texts as their tokens.
pub(crate) fn words() -> PerPartTokenCounter {
    PerPartTokenCounter::new(|text: &str| text.split_whitespace().count())
}

/// Returns the assistant's call of a tool.
pub(crate) fn call(id: &str) -> Message {
    let mut message = Message::assistant("calling").with_id(format!("call-{id}"));
    message.content.push(ContentPart::ToolCall { id: id.into(), name: "search".into(), arguments: json!({"q": 1}) });
    message
}

/// Returns the result of a tool's call.
pub(crate) fn result(id: &str) -> Message {
    let content = vec![ContentPart::ToolResult { id: id.into(), content: "found it".into() }];
    Message { content, ..Message::new(Role::Tool, "x").with_id(format!("result-{id}")) }
}

/// Generates conversations of users, agents and tools. Some have results without calls and calls without results.
pub(crate) fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let text = "[a-z]{1,5}( [a-z]{1,5}){0,9}";
    let turn = prop_oneof![
        4 => text.prop_map(|text| vec![Message::user(text)]),
        4 => text.prop_map(|text| vec![Message::assistant(text)]),
        2 => (0u8..20).prop_map(|id| vec![call(&id.to_string()), result(&id.to_string())]),
        1 => (0u8..20).prop_map(|id| vec![result(&id.to_string())]),
        1 => (0u8..20).prop_map(|id| vec![call(&id.to_string())]),
        1 => text.prop_map(|text| vec![Message::new(Role::System, text)]),
    ];
    (proptest::option::of(text), proptest::collection::vec(turn, 0..15)).prop_map(|(system, turns)| {
        let system = system.map(|text| Message::new(Role::System, text));
        let mut messages: Vec<Message> = system.into_iter().chain(turns.into_iter().flatten()).collect();
        for (i, message) in messages.iter_mut().enumerate() {
            message.id = format!("m{i}");
        }
        messages
    })
}

/// Returns true if a result from `cut` on belongs to a call before it: to the nearest call of its id.
pub(crate) fn splits_a_call(list: &[Message], cut: usize) -> bool {
    let calls = |message: &Message, id: &str| {
        message.content.iter().any(|part| matches!(part, ContentPart::ToolCall { id: call, .. } if call == id))
    };
    (cut..list.len()).any(|result| {
        list[result].content.iter().any(|part| match part {
            ContentPart::ToolResult { id, .. } => {
                (0..=result).rev().find(|&at| calls(&list[at], id)).is_some_and(|at| at < cut)
            }
            _ => false,
        })
    })
}

fn part() -> impl Strategy<Value = ContentPart> {
    let json = prop_oneof![any::<i64>().prop_map(|n| json!(n)), ".*".prop_map(|text| json!({"a": [text, null]}))];
    let reference =
        || (".{1,9}", proptest::option::of(".*")).prop_map(|(uri, media_type)| MediaReference { uri, media_type });
    prop_oneof![
        ".*".prop_map(|text| ContentPart::Text { text }),
        (".*", ".*", json).prop_map(|(id, name, arguments)| ContentPart::ToolCall { id, name, arguments }),
        (".*", ".*").prop_map(|(id, content)| ContentPart::ToolResult { id, content }),
        reference().prop_map(ContentPart::Image),
        reference().prop_map(ContentPart::Audio),
        reference().prop_map(ContentPart::File),
    ]
}

/// Generates valid messages with every field.
pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let role = proptest::sample::select(&Role::ALL[..]);
    // Years -9999 to 9999.
    let time = (-377_705_023_201_000_000i64..=253_402_207_200_999_999).prop_map(|t| Timestamp::from_micros(t).unwrap());
    (
        ".{1,20}",
        ".{1,20}",
        role,
        proptest::option::of(".{1,20}"),
        proptest::collection::vec(part(), 0..4),
        proptest::option::of(time),
        // Years 2200 to 9999.
        proptest::option::of(
            (7_258_118_400_000_000i64..=253_402_207_200_999_999).prop_map(|t| Timestamp::from_micros(t).unwrap()),
        ),
        proptest::collection::btree_map(".*", any::<bool>(), 0..3),
    )
        .prop_map(|(id, session, role, name, content, created_at, expires_at, metadata)| Message {
            id,
            session,
            role,
            name,
            content,
            created_at,
            expires_at,
            metadata: metadata.into_iter().map(|(key, value)| (key, json!(value))).collect(),
        })
}
