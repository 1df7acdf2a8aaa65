//! Counting tokens of texts and of messages.

use mnemon::{ApproximateTokenCounter, Error, HuggingFaceTokenizer, MessageTokenCounter, TokenCounter};
use serde_json::json;

use crate::support::{root, words};

#[test]
fn tokens_of_a_text_are_counted_by_rule_and_by_tokenizer() {
    assert_eq!(
        [0, 1, 1, 2].to_vec(),
        ["", "a", "abcd", "abcde"].map(|text| ApproximateTokenCounter.count(text)).to_vec()
    );
    let file = root("models/static-en-256/tokenizer.json");
    let tokenizer = HuggingFaceTokenizer::open(&file).unwrap();
    assert_eq!(tokenizer.count("unaffable bicycles, 12!"), 7, "una ##ffa ##ble bicycles , 12 !");
    assert_eq!(tokenizer.count(""), 0);
    assert!(matches!(HuggingFaceTokenizer::open("Cargo.toml"), Err(Error::InvalidModel { .. })));
}

#[test]
fn tiktoken_counts_as_openai_does() {
    use mnemon::Tiktoken;
    // As the encodings' authors give them.
    assert_eq!(Tiktoken::cl100k_base().count("tiktoken is great!"), 6);
    assert_eq!(Tiktoken::o200k_base().count("tiktoken is great!"), 6);
    assert_eq!(Tiktoken::cl100k_base().count("antidisestablishmentarianism"), 6);
    assert_eq!(Tiktoken::o200k_base().count("お誕生日おめでとう"), 8);
    assert_eq!(Tiktoken::cl100k_base().count("お誕生日おめでとう"), 9);
    // Plain text, not a command to the model.
    assert!(Tiktoken::o200k_base().count("<|endoftext|>") > 1);
}

#[test]
fn every_part_of_a_message_costs_tokens() {
    let mut tokens = words();
    let parts = json!({"id": "m", "role": "assistant", "name": "two words", "content": [
        {"type": "text", "text": "one two three"},
        {"type": "tool_call", "id": "c", "name": "search", "arguments": {"q": "a b"}},
        {"type": "tool_result", "id": "c", "content": "four words are here"},
        {"type": "image", "uri": "a.png"}, {"type": "audio", "uri": "a.ogg"}, {"type": "video", "uri": "a.mp4"},
        {"type": "file", "uri": "a.pdf"},
    ]});
    let message = mnemon::MessageLine::parse(&parts.to_string()).unwrap().message;
    // Name 2, text 3, call 1 and its arguments {"q":"a b"} 2, result 4.
    assert_eq!(tokens.count(&message), 2 + 3 + 1 + 2 + 4 + 3 * 256 + 2048);
    (tokens.per_message, tokens.per_media, tokens.per_file) = (5, 1, 10);
    assert_eq!(tokens.count(&message), 12 + 5 + 3 + 10);
}
