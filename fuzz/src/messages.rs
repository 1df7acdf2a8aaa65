//! Messages in mnemon's own form and in those of other systems, and memory in prompts.

use mnemon::{
    Message, MessageLine, PromptSeal, SealKey, from_anthropic, from_chatgpt, from_gemini, from_langchain,
    from_llamaindex, from_mem0, from_openai, to_openai_lossless,
};
use serde_json::Value;

/// A message that can be stored can be written and read again. Readers of other systems also return messages that are too
/// large to be stored.
fn check(message: &Message) {
    if message.check().is_err() {
        return;
    }
    let line = serde_json::to_string(message).expect("a message can be written");
    let again = MessageLine::parse(&line).expect("a message that was written can be read");
    assert_eq!(again.message, *message);
}

pub(crate) fn lines(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(line) = MessageLine::parse(text) {
        line.message.check().expect("a line that was read can be stored");
        check(&line.message);
    }
}

pub(crate) fn openai(data: &[u8]) {
    let Ok(values) = serde_json::from_slice::<Vec<Value>>(data) else { return };
    if let Ok(messages) = from_openai(&values) {
        let again = to_openai_lossless(&messages);
        let again = from_openai(&again).expect("what was written can be read");
        let texts = |messages: &[Message]| messages.iter().map(Message::text).collect::<Vec<_>>();
        assert_eq!(texts(&again), texts(&messages));
    }
}

/// The first byte says which system the JSON is from.
pub(crate) fn importers(data: &[u8]) {
    let Some((system, json)) = data.split_first() else { return };
    let Ok(value) = serde_json::from_slice::<Value>(json) else { return };
    let list = value.as_array().cloned().unwrap_or_default();
    let lines: Vec<_> = match system % 6 {
        0 => from_chatgpt(&value).collect(),
        1 => from_langchain(&list).collect(),
        2 => from_llamaindex(&list).collect(),
        3 => from_mem0(&list).collect(),
        4 => return from_anthropic(&value).into_iter().flatten().for_each(|message| drop(message.text())),
        _ => return from_gemini(&value).into_iter().flatten().for_each(|message| drop(message.text())),
    };
    lines.into_iter().flatten().for_each(|line| check(&line.message));
}

/// Nothing but what was sealed is taken out of a text.
pub(crate) fn seals(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let seal = PromptSeal { begin: "<memory>\n", before_checksum: "<seal checksum='", end: "'/></memory>" };
    let key = SealKey::new([7; 32]);
    assert_eq!(seal.strip(&text, &key), None, "a seal was forged");
    if text.contains(seal.begin) || text.contains(seal.before_checksum) {
        return;
    }
    let sealed = seal.seal(&text, &key);
    assert_eq!(seal.strip(&sealed, &key).as_deref(), Some(""));
    assert_eq!(seal.strip(&format!("{text} {sealed}"), &key), Some(format!("{text} ")));
}
