//! Counting tokens of texts and of messages, also with the help of the usage that a provider reports.

use mnemon::{
    ApproximateTokenCounter, CalibratedTokenCounter, Error, HuggingFaceTokenizer, Message, MessageTokenCounter,
    TokenCounter, TrimOptions, trim_messages,
};
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

#[test]
fn reported_usage_calibrates_the_estimate() {
    let counter = CalibratedTokenCounter::new(words());
    let prompt = [Message::user("one two three four"), Message::assistant("five six seven eight nine ten")];
    assert_eq!((counter.ratio(), counter.count(&prompt[0])), (1.0, 4));
    // The provider counts half as much again; a clone learns it too.
    let clone = counter.clone();
    counter.observe(&prompt, 15);
    assert_eq!((clone.ratio(), clone.count(&prompt[0])), (1.5, 6));
    // Prompts without tokens tell nothing.
    counter.observe(&[], 100);
    counter.observe(&prompt, 0);
    assert_eq!(counter.ratio(), 1.5);
    // Ten words do not fit into ten tokens any more.
    let kept =
        |counter: &dyn MessageTokenCounter| trim_messages(&prompt, &TrimOptions::last(10), counter).unwrap().len();
    assert_eq!((kept(&words()), kept(&counter)), (2, 1));
}

#[test]
fn newer_usage_counts_more() {
    let counter = CalibratedTokenCounter::new(|_: &Message| 100_000);
    let prompt = [Message::user("long")];
    counter.observe(&prompt, 100_000);
    assert_eq!(counter.ratio(), 1.0);
    // The older observation has half the weight of the newer one.
    counter.observe(&prompt, 400_000);
    assert_eq!(counter.ratio(), 3.0);
}
