//! Anthropic's format of conversations: lossless both ways.

use mnemon::{ContentPart, MediaReference, Message, Role, from_anthropic, to_anthropic, to_anthropic_lossless};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    openai::{call, json_value, odd_message, reference, result, text, with},
    providers::{check_recorded, without_empty},
};
use crate::support::{Db, namespace};

#[test]
fn the_documented_shapes_survive_and_become_messages() {
    check_recorded(include_str!("fixtures/anthropic.json"), from_anthropic, to_anthropic, to_anthropic_lossless);
}

#[test]
fn messages_become_anthropic_objects() {
    let check = |messages: &[Message], system: Value, wanted: Value| {
        let written = to_anthropic(messages);
        assert_eq!(written["messages"], wanted);
        assert_eq!(written.get("system").unwrap_or(&Value::Null), &system);
        assert_eq!(from_anthropic(&to_anthropic_lossless(messages)).unwrap(), messages);
        assert_eq!(to_anthropic(&from_anthropic(&written).unwrap()), written);
    };
    check(&[], Value::Null, json!([]));
    check(&[Message::user("hi").by("Bob")], Value::Null, json!([{"role": "user", "content": "hi"}]));
    let text_block = |text: &str| json!({"type": "text", "text": text});
    check(
        &[Message::system("a"), Message::user("hi"), Message::system("b"), Message::assistant("ho")],
        json!([text_block("a"), text_block("b")]),
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [text_block("ho")]}]),
    );
    // Messages of one side are joined, and the results come first.
    let q = json!({"q": 1});
    let tool_use = |id: &str| json!({"type": "tool_use", "id": id, "name": "search", "input": {"q": 1}});
    let tool_result = |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    check(
        &[
            with(Role::Assistant, vec![text("a"), call("c1", q.clone()), call("c2", q.clone())]),
            with(Role::Tool, vec![result("c1", "found")]),
            with(Role::Tool, vec![text("seen"), result("c2", "")]),
            Message::user("and now?"),
        ],
        Value::Null,
        json!([
            {"role": "assistant", "content": [text_block("a"), tool_use("c1"), tool_use("c2")]},
            {"role": "user", "content":
                [tool_result("c1", "found"), tool_result("c2", ""), text_block("seen"), text_block("and now?")]},
        ]),
    );
    // Ids that the API refuses.
    check(
        &[
            with(Role::Assistant, vec![call("a b", q.clone())]),
            with(Role::Tool, vec![result("a b", "1")]),
            with(Role::Assistant, vec![call("a b", q.clone()), call("", q.clone())]),
            with(Role::Tool, vec![result("a b", "2"), result("", "3")]),
        ],
        Value::Null,
        json!([
            {"role": "assistant", "content": [tool_use("a_b")]},
            {"role": "user", "content": [tool_result("a_b", "1")]},
            {"role": "assistant", "content": [tool_use("a_b-2"), tool_use("call")]},
            {"role": "user", "content": [tool_result("a_b-2", "2"), tool_result("call", "3")]},
        ]),
    );
    // Arguments, blank texts, and calls in the message of a user.
    check(
        &[with(
            Role::User,
            vec![
                text(" "),
                call("c1", json!("odd")),
                call("c2", Value::Null),
                call("c3", json!("{\"q\":1}")),
                text("b"),
            ],
        )],
        Value::Null,
        json!([
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "search", "input": {"input": "odd"}},
                {"type": "tool_use", "id": "c2", "name": "search", "input": {}},
                tool_use("c3"),
            ]},
            {"role": "user", "content": "b"},
        ]),
    );
    let media = vec![
        ContentPart::Image(reference("https://example.org/a.png")),
        ContentPart::Image(reference("data:image/png;base64,AAAA")),
        ContentPart::Image(reference("file_1")),
        ContentPart::Image(reference("file:///a.png")),
        ContentPart::Audio(reference("data:audio/mpeg;base64,AAAA")),
        ContentPart::Video(MediaReference { uri: "a.mp4".into(), media_type: Some("video/mp4".into()) }),
        ContentPart::File(reference("data:application/pdf;base64,AAAA")),
        ContentPart::File(reference("data:text/csv;base64,AAAA")),
        ContentPart::File(reference("https://example.org/a.pdf")),
    ];
    let source = |kind: &str, source: Value| json!({"type": kind, "source": source});
    check(
        &[with(Role::User, media)],
        Value::Null,
        json!([{"role": "user", "content": [
            source("image", json!({"type": "url", "url": "https://example.org/a.png"})),
            source("image", json!({"type": "base64", "media_type": "image/png", "data": "AAAA"})),
            source("image", json!({"type": "file", "file_id": "file_1"})),
            text_block("[image: file:///a.png]"),
            text_block("[audio]"),
            text_block("[video: a.mp4]"),
            source("document", json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"})),
            text_block("[file]"),
            source("document", json!({"type": "url", "url": "https://example.org/a.pdf"})),
        ]}]),
    );
    check(
        &[with(Role::Assistant, vec![ContentPart::Image(reference("https://example.org/a.png"))])],
        Value::Null,
        json!([{"role": "assistant", "content": [text_block("[image: https://example.org/a.png]")]}]),
    );
}

#[test]
fn a_response_of_anthropic_becomes_the_next_message_of_the_assistant() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
        {"type": "text", "text": "In Lyon."},
    ]);
    let response = json!({
        "id": "msg_01", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 5},
    });
    let [answer] = &from_anthropic(&response).unwrap()[..] else { panic!("one message") };
    assert_eq!((answer.role, answer.text().as_str()), (Role::Assistant, "In Lyon."));
    let written = to_anthropic(&[Message::user("Where is Ada?"), answer.clone()]);
    assert_eq!(written["messages"][1], json!({"role": "assistant", "content": content}), "as a request may have it");
}

#[test]
fn an_unchanged_message_keeps_what_only_anthropic_knows() {
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "torn"});
    let turn = json!({"role": "user", "content": [result, {"type": "text", "text": "so?"}]});
    let messages = from_anthropic(&json!([turn])).unwrap();
    assert_eq!(messages.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::Tool, Role::User]);
    // Beside other messages, and under other ids.
    let stored: Vec<Message> = messages.iter().map(|m| m.clone().with_id(m.text()).in_session("s")).collect();
    let around = [&[Message::user("before")], &stored[..], &[Message::user("after")]].concat();
    let user = |text: &str| json!({"role": "user", "content": text});
    assert_eq!(to_anthropic(&around)["messages"], json!([user("before"), turn, user("after")]));
    // Without the other half of its turn, or with another text, a message is written anew.
    let plain = json!({"type": "tool_result", "tool_use_id": "t1", "content": "torn"});
    assert_eq!(to_anthropic(&stored[..1])["messages"], json!([{"role": "user", "content": [plain]}]));
    let mut changed = stored.clone();
    changed[1].content = vec![text("and?")];
    let wanted = json!([{"role": "user", "content": [plain, {"type": "text", "text": "and?"}]}]);
    assert_eq!(to_anthropic(&changed)["messages"], wanted);
    // The breakpoint of a cache survives a second system message.
    let block = json!({"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}});
    let mut system = from_anthropic(&json!({"system": [block], "messages": []})).unwrap();
    system.push(Message::system("memory"));
    assert_eq!(to_anthropic(&system)["system"], json!([block, {"type": "text", "text": "memory"}]));
}

#[test]
fn a_message_in_lossless_form_may_be_extended() {
    let tool = Message { created_at: None, ..with(Role::Tool, vec![result("c1", "found")]).with_id("m1") };
    let mut form = to_anthropic_lossless(std::slice::from_ref(&tool));
    form["messages"][0]["content"].as_array_mut().unwrap().push(json!({"type": "text", "text": "thanks"}));
    form["messages"].as_array_mut().unwrap().push(json!({"role": "assistant", "content": "welcome"}));
    let read = from_anthropic(&form).unwrap();
    assert_eq!((read[0].id.as_str(), &read[0].content), ("m1", &tool.content));
    assert_eq!((read[1].role, read[1].text().as_str(), read[2].text().as_str()), (Role::User, "thanks", "welcome"));
}

#[test]
fn a_bad_conversation_is_an_error_that_names_place_and_fault() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let in_list = [
        (json!("hi"), "expected a JSON object"),
        (json!({}), "role is missing"),
        (json!({"role": "tool", "tool_call_id": "c1", "content": "hi"}), "role \"tool\" is not one of user, assistant"),
        (json!({"role": "user"}), "content is missing"),
        (json!({"role": "user", "parts": [{"text": "hi"}]}), "content is missing"),
        (json!({"role": "assistant", "content": null, "tool_calls": []}), "tool_calls is a field of OpenAI's format"),
        (user(json!(5)), "content is not a string or an array of blocks"),
        (user(json!(["hi"])), "content[0]: expected a JSON object"),
        (user(json!([{"text": "hi"}])), "content[0]: type is missing"),
        (user(json!([{"type": "text", "text": 1}])), "content[0]: text is not a string"),
        (user(json!([{"type": "image"}])), "content[0]: source is not an object"),
        (user(json!([{"type": "image", "source": {"type": "url"}}])), "content[0]: url is missing"),
        (user(json!([{"type": "tool_use", "id": "t1"}])), "content[0]: name is missing"),
        (user(json!([{"type": "tool_result", "content": "hi"}])), "content[0]: tool_use_id is missing"),
        (
            user(json!([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text"}]}])),
            "content[0]: content[0]: text is missing",
        ),
        (json!({"role": "user", "content": "hi", "mnemon": 5}), "mnemon: expected {\"id\", \"session\""),
    ];
    for (object, reason) in in_list {
        let error = from_anthropic(&json!([user(json!("fine")), object])).unwrap_err().to_string();
        assert!(error.contains(&format!("messages[1]: {reason}")), "{error}");
    }
    for (conversation, reason) in [
        (json!("hi"), "expected an object with messages, an array of them, or one of them"),
        (json!({"messages": 5}), "messages is not an array"),
        (json!({"system": 5, "messages": []}), "system: content is not a string"),
    ] {
        let error = from_anthropic(&conversation).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// The messages of the format, with odd ones among them.
fn turn() -> impl Strategy<Value = Value> {
    let word = || ".{0,6}".prop_map(Value::from);
    let id = || "[ab]{0,2}".prop_map(Value::from);
    let plain_text = || word().prop_map(|text| json!({"type": "text", "text": text}));
    let source = || {
        prop_oneof![
            word().prop_map(|data| json!({"type": "base64", "media_type": "image/png", "data": data})),
            word().prop_map(|data| json!({"type": "base64", "media_type": "application/pdf", "data": data})),
            word().prop_map(|url| json!({"type": "url", "url": url})),
            Just(json!({"type": "url", "url": "https://a.org/x"})),
            Just(json!({"type": "file", "file_id": "file_1"})),
            word().prop_map(|data| json!({"type": "text", "media_type": "text/plain", "data": data})),
            json_value().prop_map(|x| json!({"type": "unknown", "x": x})),
        ]
    };
    let media = || {
        prop_oneof![
            source()
                .prop_filter("images have no text", |source| source["type"] != "text")
                .prop_map(|source| json!({"type": "image", "source": source})),
            source().prop_map(|source| json!({"type": "document", "source": source})),
            source().prop_map(|source| json!({"type": "document", "source": source, "title": "t"})),
        ]
    };
    let result_content = prop_oneof![
        3 => word(),
        1 => Just(Value::Null),
        2 => proptest::collection::vec(prop_oneof![plain_text(), media().boxed()], 0..3).prop_map(Value::from),
    ];
    let block = prop_oneof![
        4 => plain_text(),
        1 => word().prop_map(|text| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})),
        2 => media(),
        2 => (id(), json_value()).prop_map(|(id, input)| json!({"type": "tool_use", "id": id, "name": "n", "input": input})),
        2 => (id(), "[a-z]").prop_map(|(id, key)| json!({"type": "tool_use", "id": id, "name": "n", "input": {key: 1}})),
        1 => id().prop_map(|id| json!({"type": "tool_use", "id": id, "name": "n"})),
        4 => (id(), result_content.clone())
            .prop_map(|(id, content)| json!({"type": "tool_result", "tool_use_id": id, "content": content})),
        1 => (id(), result_content)
            .prop_map(|(id, content)| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": true})),
        1 => word().prop_map(|text| json!({"type": "thinking", "thinking": text, "signature": "s"})),
        1 => word().prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        1 => json_value().prop_map(|x| json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": x})),
        1 => json_value().prop_map(|x| json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": x})),
        1 => json_value().prop_map(|x| json!({"type": "unknown", "unknown": x})),
    ];
    let content = prop_oneof![2 => word(), 5 => proptest::collection::vec(block, 0..4).prop_map(Value::from)];
    let extra = proptest::option::weighted(0.1, json_value());
    let role = proptest::sample::select(vec!["user", "user", "assistant", "assistant", "system"]);
    (role, content, extra).prop_map(|(role, content, extra)| {
        let mut turn = json!({"role": role, "content": content});
        if let Some(extra) = extra {
            turn["extra"] = extra;
        }
        turn
    })
}

fn system() -> impl Strategy<Value = Option<Value>> {
    let word = || ".{0,6}".prop_map(Value::from);
    let block = prop_oneof![
        word().prop_map(|text| json!({"type": "text", "text": text})),
        word().prop_map(|text| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})),
    ];
    proptest::option::of(prop_oneof![word(), proptest::collection::vec(block, 0..3).prop_map(Value::from)])
}

fn is_blank(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_some_and(|text| text.trim().is_empty())
}

/// The API refuses a request with a blank text, although it answers with some.
#[test]
fn blank_texts_are_not_sent_back() {
    let call = json!({"type": "tool_use", "id": "c1", "name": "find", "input": {}});
    let blank = json!({"type": "text", "text": "\n\n"});
    let read = from_anthropic(&json!({"system": " ", "messages": [
        {"role": "user", "content": "Where is Ada?"},
        {"role": "assistant", "content": [blank, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "in Lyon"}]},
        {"role": "assistant", "content": []},
        {"role": "user", "content": ""},
    ]}));
    let read = read.unwrap();
    assert_eq!(read.len(), 6, "a message without text is a message");
    let sent = json!([
        {"role": "user", "content": "Where is Ada?"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "in Lyon"}]},
    ]);
    assert_eq!(to_anthropic(&read), json!({ "messages": sent }));
    assert_eq!(from_anthropic(&to_anthropic_lossless(&read)).unwrap(), read);
}

proptest! {
    #[test]
    fn messages_survive_the_lossless_form(messages in proptest::collection::vec(odd_message("anthropic", turn()), 0..5)) {
        let form = to_anthropic_lossless(&messages);
        prop_assert_eq!(&from_anthropic(&form).unwrap(), &messages);
        let form: Value = serde_json::from_str(&form.to_string()).unwrap();
        prop_assert_eq!(&from_anthropic(&form).unwrap(), &messages);
    }

    #[test]
    fn conversations_survive_messages(turns in proptest::collection::vec(turn(), 0..6), system in system()) {
        let mut conversation = json!({"messages": turns});
        if let Some(system) = system {
            conversation["system"] = system;
        }
        let messages = from_anthropic(&conversation).unwrap();
        let written = to_anthropic(&messages);
        prop_assert_eq!(&written["messages"], &without_empty(&conversation["messages"], "content", is_blank));
        if !conversation["system"].as_array().is_some_and(|blocks| blocks.iter().any(is_blank)) {
            let is_there = !conversation["system"].as_str().is_some_and(|text| text.trim().is_empty());
            prop_assert_eq!(&written["system"], if is_there { &conversation["system"] } else { &Value::Null });
        }
        let again = from_anthropic(&to_anthropic_lossless(&messages)).unwrap();
        prop_assert_eq!(again, messages);
    }

    #[test]
    fn any_json_is_messages_or_an_error(value in json_value(), content in json_value(), mnemon in json_value()) {
        let _ = from_anthropic(&value);
        let _ = from_anthropic(&json!({"role": "user", "content": content, "mnemon": mnemon}));
        let _ = from_anthropic(&json!({"system": content, "messages": value}));
    }

    /// New objects are as the API demands: the sides alternate, results come first, ids of calls are valid and unique.
    #[test]
    fn new_objects_are_valid(mut messages in proptest::collection::vec(odd_message("anthropic", turn()), 0..6)) {
        messages.iter_mut().for_each(|message| message.metadata.clear());
        let written = to_anthropic(&messages);
        let mut ids = std::collections::HashSet::new();
        let mut before = String::new();
        for turn in written["messages"].as_array().unwrap() {
            let role = turn["role"].as_str().unwrap();
            prop_assert!(role != before && ["user", "assistant"].contains(&role));
            before = role.to_owned();
            let Some(blocks) = turn["content"].as_array() else { continue };
            prop_assert!(!blocks.is_empty());
            prop_assert!(blocks.is_sorted_by_key(|block| block["type"] != "tool_result"));
            for block in blocks {
                prop_assert!(block["type"] != "text" || !block["text"].as_str().unwrap().trim().is_empty());
                if block["type"] == "tool_use" {
                    let id = block["id"].as_str().unwrap();
                    prop_assert!(!id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                    prop_assert!(ids.insert(id.to_owned()), "{} is used twice", id);
                    prop_assert!(block["input"].is_object());
                }
            }
        }
    }
}

/// A stream that was cut has thinking without a signature, which the API refuses.
#[test]
fn thinking_without_a_signature_is_left_out() {
    let thinking = |signature: &str| json!({"type": "thinking", "thinking": "Hm.", "signature": signature});
    let text = json!({"type": "text", "text": "In Lyon."});
    let turn = |blocks: Value| json!({"role": "assistant", "content": blocks});
    for (blocks, left) in [
        (json!([thinking("EqQB"), text]), json!([thinking("EqQB"), text])),
        (json!([thinking(""), text]), json!([text])),
        (json!([{"type": "thinking", "thinking": "Hm."}, text]), json!([text])),
        (
            json!([{"type": "redacted_thinking", "data": "x"}, text]),
            json!([{"type": "redacted_thinking", "data": "x"}, text]),
        ),
    ] {
        let messages = from_anthropic(&json!([turn(blocks.clone())])).unwrap();
        assert_eq!(to_anthropic(&messages)["messages"], json!([turn(left)]), "{blocks}");
        assert_eq!(from_anthropic(&to_anthropic_lossless(&messages)).unwrap(), messages);
    }
    let none = from_anthropic(&json!([turn(json!([thinking("")]))])).unwrap();
    assert_eq!(to_anthropic(&none)["messages"], json!([]));
}

/// A response that the API paused is sent back as it was, with the model's next part behind it.
#[test]
fn a_paused_turn_goes_on() {
    let call =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "berth"}});
    let response = |blocks: Value, reason: &str| json!({"type": "message", "id": "msg_1", "role": "assistant", "model": "m", "content": blocks, "stop_reason": reason});
    let paused = from_anthropic(&response(json!([call]), "pause_turn")).unwrap();
    let sent = to_anthropic(&paused);
    assert_eq!(sent["messages"], json!([{"role": "assistant", "content": [call]}]));
    let ended = from_anthropic(&response(json!([call]), "end_turn")).unwrap();
    assert!(!ended[0].metadata["anthropic"].to_string().contains("stop_reason"));

    let db = Db::new();
    let engine = db.open();
    let memory = engine.memory(&namespace("a"), "s").open().unwrap();
    let question = Message::user("Where is the boat?").with_id("q");
    let prompt = |memory: &mnemon::Memory| {
        let prompt = memory.blocking().assemble(mnemon::AssembleRequest::new(question.clone()).recall(0)).unwrap();
        (to_anthropic(&prompt.messages)["messages"].clone(), prompt.left_out)
    };
    let wanted = json!([{"role": "user", "content": "Where is the boat?"}, {"role": "assistant", "content": [call]}]);
    prompt(&memory);
    memory.add_step(paused[0].clone());
    assert_eq!(prompt(&memory), (wanted.clone(), vec![]), "as a step");
    let other = engine.memory(&namespace("a"), "t").open().unwrap();
    let question_there = question.clone().with_id("q2");
    other.blocking().put(vec![question_there.clone(), paused[0].clone().with_id("p")]).unwrap();
    let there = other.blocking().assemble(mnemon::AssembleRequest::new(question_there).recall(0)).unwrap();
    assert_eq!(to_anthropic(&there.messages)["messages"], wanted, "stored");
    // The rest of the answer, and the next question.
    let rest = json!([{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, {"type": "text", "text": "At berth 4."}]);
    let rest = from_anthropic(&response(rest, "end_turn")).unwrap();
    other.blocking().put(vec![rest[0].clone()]).unwrap();
    let next = other.blocking().assemble(mnemon::AssembleRequest::new(Message::user("Thanks.")).recall(0)).unwrap();
    let roles: Vec<Value> = to_anthropic(&next.messages)["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["content"][0]["type"].clone())
        .collect();
    assert_eq!(roles[1..3], [json!("server_tool_use"), json!("web_search_tool_result")]);
}

#[test]
fn a_prompt_names_the_message_whose_thinking_has_no_signature() {
    let db = Db::new();
    let memory = db.open().memory(&namespace("a"), "s").open().unwrap();
    let cut = json!([{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "In Lyon."}]}]);
    let cut = from_anthropic(&cut).unwrap()[0].clone().with_id("cut");
    memory.blocking().put(vec![Message::user("Where?").with_id("q"), cut]).unwrap();
    let prompt = memory.blocking().assemble(Message::user("And now?")).unwrap();
    assert_eq!(prompt.left_out, ["cut"]);
    assert_eq!(
        to_anthropic(&prompt.messages)["messages"][1],
        json!({"role": "assistant", "content": [{"type": "text", "text": "In Lyon."}]})
    );
}
