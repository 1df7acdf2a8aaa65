//! The formats of providers against each other: what survives from one to another, and lists that came from each.

use mnemon::{
    ContentPart, Message, Result, Role, TrimOptions, from_anthropic, from_gemini, from_openai, to_anthropic, to_gemini,
    to_openai, trim_messages,
};
use serde_json::{Value, json};

use crate::support::{splits_a_call, words};

/// Checks recorded conversations, a JSON array of `{"what", "conversation", "messages", "written"?}`: each becomes messages of
/// these roles and this content, and the messages become the conversation again, also by way of the lossless form.
pub(super) fn check_recorded(
    recorded: &str,
    from: fn(&Value) -> Result<Vec<Message>>,
    to: fn(&[Message]) -> Value,
    to_lossless: fn(&[Message]) -> Value,
) {
    let recorded: Vec<Value> = serde_json::from_str(recorded).unwrap();
    assert!(recorded.len() >= 6);
    for case in &recorded {
        let what = case["what"].as_str().unwrap();
        let messages = from(&case["conversation"]).unwrap_or_else(|error| panic!("{what}: {error}"));
        let shown = |message: &Message| {
            let message = serde_json::to_value(message).unwrap();
            json!({"role": message["role"], "content": message["content"]})
        };
        assert_eq!(messages.iter().map(shown).collect::<Value>(), case["messages"], "{what}");
        assert_eq!(to(&messages), *case.get("written").unwrap_or(&case["conversation"]), "{what}");
        assert_eq!(from(&to_lossless(&messages)).unwrap(), messages, "{what}");
    }
}

/// Turns without parts that are empty, and without turns of nothing else, which no provider accepts. `field` has the
/// parts.
pub(super) fn without_empty(turns: &Value, field: &str, is_empty: fn(&Value) -> bool) -> Value {
    let mut turns = turns.clone();
    turns.as_array_mut().unwrap().retain_mut(|turn| match turn.get_mut(field) {
        Some(Value::Array(parts)) => {
            parts.retain(|part| !is_empty(part));
            !parts.is_empty()
        }
        Some(Value::String(text)) => !text.trim().is_empty(),
        _ => false,
    });
    turns
}

/// The roles and the content of messages.
fn shape(messages: &[Message]) -> Vec<(Role, Vec<ContentPart>)> {
    messages.iter().map(|message| (message.role, message.content.clone())).collect()
}

/// A conversation with two calls at once, in each format.
fn of_each_provider() -> [(&'static str, Vec<Message>); 3] {
    let function = |id: &str| json!({"id": id, "type": "function", "function": {"name": "tide", "arguments": "{\"harbour\":\"Hull\"}"}});
    let openai = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How high is the tide?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [function("c1"), function("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "7.1 m"},
        {"role": "tool", "tool_call_id": "c2", "content": "6.2 m"},
        {"role": "user", "content": "In feet?"},
        {"role": "assistant", "content": "23 and 20."},
    ]);
    let text = |text: &str| json!({"type": "text", "text": text});
    let tool_use = |id: &str| json!({"type": "tool_use", "id": id, "name": "tide", "input": {"harbour": "Hull"}});
    let tool_result = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    let anthropic = json!({
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "How high is the tide?"},
            {"role": "assistant", "content": [text("I look."), tool_use("c1"), tool_use("c2")]},
            {"role": "user", "content": [tool_result("c1", "7.1 m"), tool_result("c2", "6.2 m"), text("In feet?")]},
            {"role": "assistant", "content": [text("23 and 20.")]},
        ],
    });
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "tide", "args": {"harbour": "Hull"}}});
    let response =
        |id: &str, text: &str| json!({"functionResponse": {"id": id, "name": "tide", "response": {"output": text}}});
    let gemini = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "How high is the tide?"}]},
            {"role": "model", "parts": [{"text": "I look."}, call("c1"), call("c2")]},
            {"role": "user", "parts": [response("c1", "7.1 m"), response("c2", "6.2 m"), {"text": "In feet?"}]},
            {"role": "model", "parts": [{"text": "23 and 20."}]},
        ],
    });
    let read = [
        ("openai", from_openai(openai.as_array().unwrap()).unwrap()),
        ("anthropic", from_anthropic(&anthropic).unwrap()),
        ("gemini", from_gemini(&gemini).unwrap()),
    ];
    // Each is written in all formats as it would be there.
    for (from, messages) in &read {
        assert!(messages.iter().all(|message| message.metadata.is_empty()), "{from}: nothing is kept twice");
        assert_eq!(Value::from(to_openai(messages)), openai, "from {from}");
        assert_eq!(to_anthropic(messages), anthropic, "from {from}");
        assert_eq!(to_gemini(messages), gemini, "from {from}");
    }
    read
}

#[test]
fn texts_calls_and_results_survive_from_each_provider_to_each_other() {
    let [(_, openai), (_, anthropic), (_, gemini)] = of_each_provider();
    assert_eq!(shape(&anthropic), shape(&openai));
    assert_eq!(shape(&gemini), shape(&openai));
}

#[test]
fn a_providers_own_parts_survive_a_way_through_another_provider_in_the_messages_alone() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let turn = json!({"role": "assistant", "content": [thinking, {"type": "text", "text": "In Lyon."}]});
    let messages = from_anthropic(&turn).unwrap();
    assert_eq!(to_gemini(&messages)["contents"], json!([{"role": "model", "parts": [{"text": "In Lyon."}]}]));
    assert_eq!(to_openai(&messages), [json!({"role": "assistant", "content": "In Lyon."})]);
    assert_eq!(to_anthropic(&messages)["messages"], json!([turn]));
}

#[test]
fn lists_of_each_provider_are_trimmed_without_splitting_calls_from_results() {
    for (from, messages) in of_each_provider() {
        for budget in 0..20 {
            let trimmed = trim_messages(&messages, &TrimOptions::last(budget), &words()).unwrap();
            let cut = messages.len() - trimmed.len();
            assert!(trimmed.is_empty() || !splits_a_call(&messages, cut), "{from}, {budget}: {trimmed:?}");
        }
        // The turn of a user begins with the user's words, not with the result of a tool.
        let mut trim = TrimOptions::last(8);
        trim.start_on = vec![Role::User];
        let trimmed = trim_messages(&messages, &trim, &words()).unwrap();
        assert_eq!(trimmed.iter().map(Message::text).collect::<Vec<_>>(), ["In feet?", "23 and 20."], "{from}");
        // Results whose call is gone are dropped.
        let call = messages.iter().position(|message| message.role == Role::Assistant).unwrap();
        let trimmed = trim_messages(&messages[call + 1..], &TrimOptions::last(100), &words()).unwrap();
        assert!(trimmed.iter().all(|message| message.role != Role::Tool) && trimmed.len() == 2, "{from}");
    }
}
