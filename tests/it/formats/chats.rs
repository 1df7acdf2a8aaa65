//! Exports of ChatGPT, and what the providers' APIs and collections of conversations have.

use mnemon::format::ReadOptions;
use serde_json::{Value, json};

use super::{lines, read, read_with, with};

/// A conversation of ChatGPT whose messages follow each other.
fn conversation(messages: &[Value]) -> String {
    let mut mapping = json!({"root": {"id": "root", "message": null, "parent": null}});
    for (at, message) in messages.iter().enumerate() {
        let parent = at.checked_sub(1).map_or("root".to_owned(), |before| before.to_string());
        let message =
            with(json!({"id": format!("m{at}"), "metadata": {}, "recipient": "all", "weight": 1}), message.clone());
        mapping[at.to_string()] = json!({"id": at.to_string(), "parent": parent, "message": message});
    }
    let last = (messages.len() - 1).to_string();
    json!([{"conversation_id": "c1", "title": "Boats", "current_node": last, "mapping": mapping}]).to_string()
}

fn message(role: &str, content: Value, fields: Value) -> Value {
    with(json!({"author": {"role": role, "name": null}, "content": content}), fields)
}

fn text(role: &str, text: &str) -> Value {
    message(role, json!({"content_type": "text", "parts": [text]}), json!({}))
}

#[test]
fn content_of_an_unknown_kind_stops_no_export_of_chatgpt() {
    for (content, note) in [
        (json!({"content_type": "computer_output", "screenshot": {"content_type": "image_asset_pointer"}}), true),
        (json!({"content_type": "app_pairing_content", "context_parts": [{"text": "window"}]}), true),
        (json!({"content_type": "whatever_comes_next", "text": "with a text"}), false),
        (json!({"content_type": "citable_code_output", "output_str": "L0: invoice"}), false),
        (json!({"content_type": "multimodal_text", "parts": [{"no": "type"}]}), false),
    ] {
        let unknown = message("user", content.clone(), json!({}));
        let said = read(&conversation(&[text("user", "Book the ferry."), unknown, text("assistant", "It is booked.")]));
        assert!(said.errors.is_empty(), "{:?}", said.errors);
        let texts = said.texts();
        assert_eq!((&*texts[0], &*texts[texts.len() - 1]), ("Book the ferry.", "It is booked."));
        assert_eq!(said.notes.len(), usize::from(note), "{content}");
        assert!(!note || said.notes[0].contains("c1"), "{:?}", said.notes);
    }
}

#[test]
fn tools_and_thoughts_of_chatgpt_are_left_out_and_what_is_of_the_person_is_read() {
    let code = json!({"content_type": "code", "language": "json", "text": "{\"name\": \"a canvas\"}"});
    let named = |name: &str| json!({"author": {"role": "tool", "name": name}});
    let instructions = json!({
        "content_type": "user_editable_context", "user_profile": "The user said:\n```I sail.```",
        "user_instructions": "How to answer:\n```Briefly.```",
    });
    let hidden = json!({"metadata": {"is_visually_hidden_from_conversation": true}});
    let attached = json!({"metadata": {"attachments": [{"name": "plan.pdf", "id": "file-1"}]}});
    let messages = [
        message("user", instructions, hidden.clone()),
        message("system", json!({"content_type": "text", "parts": ["hidden"]}), hidden),
        message("user", json!({"content_type": "text", "parts": ["Read it."]}), attached),
        message("tool", json!({"content_type": "text", "parts": ["**Considering**"]}), named("a8km123")),
        message("assistant", code, json!({"recipient": "canmore.create_textdoc"})),
        message(
            "tool",
            json!({"content_type": "execution_output", "text": "a long output of a tool"}),
            named("python"),
        ),
        message("assistant", json!({"content_type": "text", "parts": ["Keeps bees."]}), json!({"recipient": "bio"})),
        message("tool", json!({"content_type": "text", "parts": ["Model set context updated."]}), named("bio")),
        message("assistant", json!({"content_type": "text", "parts": ["Never shown."]}), json!({"weight": 0})),
        text("assistant", "I have read it."),
    ];
    let export = conversation(&messages);
    let said = read(&export);
    let expected = [
        ("user", "I sail.\nBriefly."),
        ("user", "Read it.\n[file: plan.pdf]"),
        ("assistant", "Keeps bees."),
        ("assistant", "I have read it."),
    ];
    assert_eq!(said.said(), expected.map(|(role, text)| (role, text.to_owned())));
    assert_eq!(said.messages[0].1.session, "custom-instructions");
    assert_eq!(said.messages[0].1.id, read(&export).messages[0].1.id);
    let whole = read_with(&export, ReadOptions { tool_output: 10, ..ReadOptions::default() });
    let texts = whole.texts();
    assert_eq!(
        (texts.len(), &*texts[2], &*texts[3]),
        (7, "{\"name\": \"\n[10 of 20 bytes]", "a long out\n[10 of 23 bytes]")
    );
}

#[test]
fn items_of_the_responses_api_have_their_texts() {
    let items = [
        json!({"role": "user", "content": [{"type": "input_text", "text": "I keep bees."}, {"type": "input_image", "image_url": "https://x.test/a.png"}]}),
        json!({"type": "reasoning", "id": "r", "summary": []}),
        json!({"type": "function_call", "call_id": "c", "name": "count", "arguments": "{\"of\": \"hives\"}"}),
        json!({"type": "function_call_output", "call_id": "c", "output": "7"}),
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "How many hives?", "annotations": []}]}),
    ];
    let expected = [("user", "I keep bees."), ("assistant", ""), ("tool", "7"), ("assistant", "How many hives?")];
    let expected = expected.map(|(role, text)| (role, text.to_owned()));
    for text in [lines(&items), json!(items).to_string(), json!({"model": "m", "input": items}).to_string()] {
        let said = read(&text);
        assert_eq!((said.said(), said.errors.len()), (expected.to_vec(), 0), "{text}");
    }
    // The library's function agrees, and writes objects of chat completions.
    let messages = mnemon::from_openai(&items).unwrap();
    let written = mnemon::to_openai(&messages);
    assert_eq!(written.len(), 4);
    assert_eq!(written[0]["content"][0], json!({"type": "text", "text": "I keep bees."}));
    assert_eq!(written[1]["tool_calls"][0]["function"]["name"], "count");
    assert_eq!(written[2], json!({"role": "tool", "tool_call_id": "c", "content": "7"}));
    assert_eq!(mnemon::from_openai(&mnemon::to_openai_lossless(&messages)).unwrap(), messages);
}

#[test]
fn a_line_with_several_messages_is_a_conversation_of_its_own() {
    let chat =
        |text: &str| json!([{"role": "user", "content": text}, {"role": "assistant", "content": "Nice.", "weight": 0}]);
    let sessions = |values: &[Value]| -> Vec<String> {
        let said = read(&lines(values));
        assert!(said.errors.is_empty(), "{:?}", said.errors);
        assert_eq!(said.messages.iter().filter(|(_, message)| message.text().is_empty()).count(), 0);
        let mut sessions: Vec<String> = said.messages.into_iter().map(|(_, message)| message.session).collect();
        sessions.dedup();
        sessions
    };
    let tuning = [json!({"messages": chat("I keep bees.")}), json!({"messages": chat("And goats.")})];
    let named = sessions(&tuning);
    assert_eq!((named.len(), sessions(&tuning)), (2, named.clone()), "the same each time");
    let request =
        json!({"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": chat("x")}});
    let answer = json!({"id": "b", "custom_id": "r1", "error": null, "response": {"status_code": 200, "body": {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Nice."}}],
    }}});
    let failed = json!({"id": "b", "custom_id": "r2", "error": {"code": "expired"}, "response": null});
    assert_eq!(sessions(&[request, answer, failed.clone()]), ["r1"]);
    assert!(read(&lines(&[failed])).notes[0].contains("r2"));
    let wild = json!({"conversation_hash": "w", "model": "m", "conversation": [
        {"role": "user", "content": "I keep bees", "timestamp": "2024-01-01 10:00:00+00:00"}, {"role": "assistant", "content": "Nice"},
    ]});
    assert_eq!(sessions(std::slice::from_ref(&wild)), ["w"]);
    assert_eq!(read(&lines(&[wild])).messages[0].1.created_at.unwrap().to_string(), "2024-01-01T10:00:00Z");
    let share = json!({"id": "s", "conversations": [{"from": "human", "value": "I keep bees"}, {"from": "gpt", "value": "Nice"}]});
    assert_eq!(
        read(&lines(std::slice::from_ref(&share))).said(),
        [("user", "I keep bees".into()), ("assistant", "Nice".into())]
    );
    assert_eq!(read(&json!([share, json!({"messages": chat("x")})]).to_string()).texts().len(), 4, "a list of them");
    assert_eq!(sessions(&[share]), ["s"]);
}

#[test]
fn requests_to_anthropic_and_gemini_are_found_out() {
    let anthropic = json!({"model": "claude", "system": "Be brief.", "messages": [
        {"role": "user", "content": "Where is Ada?"}, {"role": "assistant", "content": [{"type": "text", "text": "In Lyon."}]},
    ]});
    let gemini = json!({"contents": [
        {"role": "user", "parts": [{"text": "Where is Ada?"}]}, {"role": "model", "parts": [{"text": "In Lyon."}]},
    ]});
    for (value, first) in [(anthropic, 1), (gemini, 0)] {
        let said = read(&lines(&[value]));
        let said = &said.said()[first..];
        assert_eq!(said, [("user", "Where is Ada?".to_owned()), ("assistant", "In Lyon.".to_owned())]);
    }
}
