//! Gemini's format of conversations: lossless both ways.

use mnemon::{ContentPart, MediaReference, Message, Role, from_gemini, to_gemini, to_gemini_lossless};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    openai::{call, json_value, odd_message, reference, result, text, with},
    providers::{check_recorded, without_empty},
};

#[test]
fn the_documented_shapes_survive_and_become_messages() {
    check_recorded(include_str!("fixtures/gemini.json"), from_gemini, to_gemini, to_gemini_lossless);
}

#[test]
fn messages_become_gemini_objects() {
    let check = |messages: &[Message], system: Value, wanted: Value| {
        let written = to_gemini(messages);
        assert_eq!(written["contents"], wanted);
        assert_eq!(written.get("systemInstruction").unwrap_or(&Value::Null), &system);
        assert_eq!(from_gemini(&to_gemini_lossless(messages)).unwrap(), messages);
        assert_eq!(to_gemini(&from_gemini(&written).unwrap()), written);
    };
    let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    check(&[], Value::Null, json!([]));
    check(&[Message::user("hi").by("Bob")], Value::Null, json!([user("hi")]));
    check(
        &[Message::system("a"), Message::user("hi"), Message::system("b"), Message::assistant("ho")],
        json!({"parts": [{"text": "a"}, {"text": "b"}]}),
        json!([user("hi"), {"role": "model", "parts": [{"text": "ho"}]}]),
    );
    // Calls and results of other providers have ids, and results have the names of their calls.
    let q = json!({"q": 1});
    let function = |id: &str| json!({"functionCall": {"id": id, "name": "search", "args": {"q": 1}}});
    let response =
        |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "search", "response": response}});
    check(
        &[
            with(Role::Assistant, vec![text("a"), call("c1", q.clone()), call("c2", q.clone())]),
            with(Role::Tool, vec![result("c1", "found")]),
            with(Role::Tool, vec![result("c2", "{\"metres\": 7.1}")]),
            Message::user("and now?"),
        ],
        Value::Null,
        json!([
            {"role": "model", "parts": [{"text": "a"}, function("c1"), function("c2")]},
            {"role": "user", "parts": [
                response("c1", json!({"output": "found"})), response("c2", json!({"metres": 7.1})), {"text": "and now?"},
            ]},
        ]),
    );
    // The ids that calls without one get are not written, and a result without a call has its id as its name.
    let named = |id: &str| ContentPart::ToolCall { id: id.into(), name: "f".into(), arguments: Value::Null };
    check(
        &[
            with(Role::Assistant, vec![named("f"), named("f-2"), call("c", json!("odd"))]),
            with(Role::Tool, vec![result("f", "1"), result("f-2", "2"), result("lost", "[3]")]),
        ],
        Value::Null,
        json!([
            {"role": "model", "parts": [
                {"functionCall": {"name": "f", "args": {}}},
                {"functionCall": {"name": "f", "args": {}}},
                {"functionCall": {"id": "c", "name": "search", "args": {"input": "odd"}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "1"}}},
                {"functionResponse": {"name": "f", "response": {"output": "2"}}},
                {"functionResponse": {"name": "lost", "response": {"output": "[3]"}}},
            ]},
        ]),
    );
    let media = vec![
        ContentPart::Image(reference("data:image/png;base64,AAAA")),
        ContentPart::Audio(reference("file:///a.wav")),
        ContentPart::Video(MediaReference { uri: "gs://a/b.mp4".into(), media_type: Some("video/mp4".into()) }),
        ContentPart::File(reference("https://example.org/a.pdf")),
        text(""),
    ];
    let parts = json!([
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "[audio: file:///a.wav]"},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a/b.mp4"}},
        {"fileData": {"fileUri": "https://example.org/a.pdf"}},
    ]);
    check(&[with(Role::User, media.clone())], Value::Null, json!([{"role": "user", "parts": parts}]));
    check(&[with(Role::Assistant, media)], Value::Null, json!([{"role": "model", "parts": parts}]));
    let image = vec![ContentPart::Image(reference("https://example.org/a.png"))];
    check(&[with(Role::System, image)], json!({"parts": [{"text": "[image: https://example.org/a.png]"}]}), json!([]));
}

#[test]
fn a_response_of_gemini_becomes_the_next_message_of_the_assistant() {
    let part = json!({"text": "In Lyon.", "thoughtSignature": "EqQB"});
    let response = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14},
        "modelVersion": "m",
    });
    let [answer] = &from_gemini(&response).unwrap()[..] else { panic!("one message") };
    assert_eq!((answer.role, answer.text().as_str()), (Role::Assistant, "In Lyon."));
    let written = to_gemini(&[Message::user("Where is Ada?"), answer.clone()]);
    assert_eq!(written["contents"][1], json!({"role": "model", "parts": [part]}), "as a request may have it");
    for refused in [json!({"candidates": []}), json!({"candidates": [{"finishReason": "SAFETY"}]})] {
        let error = from_gemini(&refused).unwrap_err().to_string();
        assert!(error.contains("the response has no content"), "{error}");
    }
}

#[test]
fn a_system_instruction_may_be_named_in_snake_case() {
    let instruction = json!({"role": "system", "parts": [{"text": "Be brief."}]});
    let messages = from_gemini(&json!({"system_instruction": instruction, "contents": []})).unwrap();
    assert_eq!((messages[0].role, messages[0].text().as_str()), (Role::System, "Be brief."));
    assert_eq!(to_gemini(&messages)["systemInstruction"], instruction);
    let messages = from_gemini(&json!({"systemInstruction": "Be brief.", "contents": []})).unwrap();
    assert_eq!(to_gemini(&messages)["systemInstruction"], "Be brief.");
    // Beside another system message, its parts are kept.
    let both = [messages[0].clone(), Message::system("memory")];
    assert_eq!(to_gemini(&both)["systemInstruction"], json!({"parts": [{"text": "Be brief."}, {"text": "memory"}]}));
}

#[test]
fn a_bad_conversation_is_an_error_that_names_place_and_fault() {
    let user = |part: Value| json!({"role": "user", "parts": [part]});
    let in_list = [
        (json!("hi"), "expected a JSON object"),
        (json!({"role": "assistant", "parts": []}), "role \"assistant\" is not one of user, model"),
        (json!({"role": 1, "parts": []}), "role is not a string"),
        (json!({"role": "user", "content": "hi"}), "parts is missing, and content is no field of a content"),
        (
            json!({"choices": [{"message": {"role": "assistant", "content": "hi"}}]}),
            "parts is missing, and choices is no field of a content",
        ),
        (
            json!({"messages": []}),
            "parts is missing, and messages is no field of a content; read other formats with from_openai",
        ),
        (json!({"role": "user", "parts": "hi"}), "parts is not an array"),
        (user(json!("hi")), "parts[0]: expected a JSON object"),
        (user(json!({"text": 1})), "parts[0]: text is not a string"),
        (user(json!({"inlineData": "AAAA"})), "parts[0]: inlineData is not an object"),
        (user(json!({"inline_data": {"mimeType": "image/png"}})), "parts[0]: data is missing"),
        (user(json!({"fileData": {"mimeType": "image/png"}})), "parts[0]: fileUri is missing"),
        (user(json!({"functionCall": {"args": {}}})), "parts[0]: name is missing"),
        (user(json!({"functionResponse": {"id": 1, "name": "f"}})), "parts[0]: id is not a string"),
        (json!({"role": "user", "parts": [], "mnemon": 5}), "mnemon: expected {\"id\", \"session\""),
    ];
    for (object, reason) in in_list {
        let error = from_gemini(&json!([user(json!({"text": "fine"})), object])).unwrap_err().to_string();
        assert!(error.contains(&format!("contents[1]: {reason}")), "{error}");
    }
    for (conversation, reason) in [
        (json!("hi"), "expected an object with contents, an array of them, or one of them"),
        (json!({"contents": 5}), "contents is not an array"),
        (json!({"systemInstruction": 5, "contents": []}), "systemInstruction: expected a JSON object"),
        (
            json!({"systemInstruction": {"parts": []}, "messages": []}),
            "contents is missing, and messages is of another format",
        ),
    ] {
        let error = from_gemini(&conversation).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// The parts of the format, with odd ones among them.
fn part() -> impl Strategy<Value = Value> {
    let word = || ".{0,6}".prop_map(Value::from);
    let id = || proptest::option::of("[ab]{0,2}");
    let name = || "[ab]";
    let media_type =
        || proptest::sample::select(vec!["image/png", "audio/wav", "video/mp4", "text/plain", "", "x;base64,"]);
    let uri = || proptest::sample::select(vec!["https://a.org/x", "gs://a", "files/a", "data:a;base64,b", ""]);
    let with_id = |mut function: Value, id: Option<String>| {
        if let Some(id) = id {
            function["id"] = id.into();
        }
        function
    };
    let arguments = prop_oneof![json_value(), "[a-z]".prop_map(|key| json!({key: 1}))];
    let response = prop_oneof![
        1 => json_value(),
        1 => word().prop_map(|text| json!({"result": text})),
        3 => word().prop_map(|text| json!({"output": text})),
        2 => "[a-z]".prop_map(|key| json!({key: 1})),
    ];
    prop_oneof![
        5 => word().prop_map(|text| json!({"text": text})),
        1 => word().prop_map(|text| json!({"text": text, "thought": true})),
        1 => word().prop_map(|text| json!({"text": text, "thoughtSignature": "s"})),
        1 => (media_type(), word()).prop_map(|(kind, data)| json!({"inlineData": {"mimeType": kind, "data": data}})),
        1 => (media_type(), word()).prop_map(|(kind, data)| json!({"inline_data": {"mime_type": kind, "data": data}})),
        1 => (media_type(), uri()).prop_map(|(kind, uri)| json!({"fileData": {"mimeType": kind, "fileUri": uri}})),
        1 => uri().prop_map(|uri| json!({"fileData": {"fileUri": uri}})),
        3 => (id(), name(), arguments).prop_map(move |(id, name, args)| {
            json!({"functionCall": with_id(json!({"name": name, "args": args}), id)})
        }),
        1 => name().prop_map(|name| json!({"functionCall": {"name": name}, "thoughtSignature": "s"})),
        3 => (id(), name(), response).prop_map(move |(id, name, response)| {
            json!({"functionResponse": with_id(json!({"name": name, "response": response}), id)})
        }),
        1 => name().prop_map(|name| json!({"functionResponse": {"name": name}})),
        1 => word().prop_map(|code| json!({"executableCode": {"language": "PYTHON", "code": code}})),
        1 => word().prop_map(|output| json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": output}})),
        1 => json_value().prop_map(|x| json!({"unknown": x})),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    let role = proptest::sample::select(vec![
        Some("user"),
        Some("user"),
        Some("model"),
        Some("model"),
        Some("function"),
        None,
    ]);
    let parts = proptest::option::weighted(0.95, proptest::collection::vec(part(), 0..4));
    (role, parts).prop_map(|(role, parts)| {
        let fields = [("role", role.map(Value::from)), ("parts", parts.map(Value::from))];
        fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    })
}

fn is_empty(part: &Value) -> bool {
    *part == json!({"text": ""}) || *part == json!({})
}

/// The API refuses empty texts and contents. An empty text with a signature is none.
#[test]
fn empty_contents_are_not_sent_back() {
    let signed = json!({"text": "", "thoughtSignature": "s"});
    let read = from_gemini(&json!({"contents": [
        {"role": "user", "parts": [{"text": "Where is Ada?"}, {"text": ""}]},
        {"role": "model", "parts": []},
        {"role": "user", "parts": [{"text": ""}]},
        {"role": "model", "parts": [signed]},
        {"role": "model"},
    ]}));
    let read = read.unwrap();
    assert_eq!(read.len(), 5);
    let sent = json!([
        {"role": "user", "parts": [{"text": "Where is Ada?"}]},
        {"role": "model", "parts": [signed]},
    ]);
    assert_eq!(to_gemini(&read), json!({ "contents": sent }));
    assert_eq!(from_gemini(&to_gemini_lossless(&read)).unwrap(), read);
}

proptest! {
    #[test]
    fn messages_survive_the_lossless_form(messages in proptest::collection::vec(odd_message("gemini", content()), 0..5)) {
        let form = to_gemini_lossless(&messages);
        prop_assert_eq!(&from_gemini(&form).unwrap(), &messages);
        let form: Value = serde_json::from_str(&form.to_string()).unwrap();
        prop_assert_eq!(&from_gemini(&form).unwrap(), &messages);
    }

    #[test]
    fn conversations_survive_messages(
        contents in proptest::collection::vec(content(), 0..6),
        system in proptest::option::of(proptest::collection::vec(part(), 0..3)),
    ) {
        let mut conversation = json!({"contents": contents});
        if let Some(parts) = system {
            conversation["systemInstruction"] = json!({"parts": parts});
        }
        let messages = from_gemini(&conversation).unwrap();
        let written = to_gemini(&messages);
        prop_assert_eq!(&written["contents"], &without_empty(&conversation["contents"], "parts", is_empty));
        if !conversation["systemInstruction"]["parts"].as_array().is_some_and(|parts| parts.iter().any(is_empty)) {
            prop_assert_eq!(&written["systemInstruction"], &conversation["systemInstruction"]);
        }
        let again = from_gemini(&to_gemini_lossless(&messages)).unwrap();
        prop_assert_eq!(again, messages);
    }

    #[test]
    fn any_json_is_messages_or_an_error(value in json_value(), parts in json_value(), mnemon in json_value()) {
        let _ = from_gemini(&value);
        let _ = from_gemini(&json!({"role": "user", "parts": parts, "mnemon": mnemon}));
        let _ = from_gemini(&json!({"systemInstruction": parts, "contents": value}));
        let _ = from_gemini(&json!({"candidates": value}));
    }

    /// New objects are as the API demands: the sides alternate, no content is empty, arguments and responses are
    /// objects.
    #[test]
    fn new_objects_are_valid(mut messages in proptest::collection::vec(odd_message("gemini", content()), 0..6)) {
        messages.iter_mut().for_each(|message| message.metadata.clear());
        let written = to_gemini(&messages);
        let mut before = String::new();
        for content in written["contents"].as_array().unwrap() {
            let role = content["role"].as_str().unwrap();
            prop_assert!(role != before && ["user", "model"].contains(&role));
            before = role.to_owned();
            let parts = content["parts"].as_array().unwrap();
            prop_assert!(!parts.is_empty());
            for part in parts {
                prop_assert!(part.get("functionCall").is_none_or(|call| call["args"].is_object()));
                prop_assert!(part.get("functionResponse").is_none_or(|result| result["response"].is_object()));
            }
        }
    }
}
