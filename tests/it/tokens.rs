//! Counting tokens of texts and of messages, also with the help of the usage that a provider reports.

use mnemon::{
    ApproximateTokenCounter, CalibratedTokenCounter, ContentPart, Error, HuggingFaceTokenizer, Message,
    MessageTokenCounter, Role, TokenCounter, TrimOptions, trim_messages,
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
    // What has a known size counts by it: a picture of 1,000 x 1,000 pixels, and PDFs of two pages, one of them compressed.
    let png =
        [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &1000u32.to_be_bytes(), &1000u32.to_be_bytes(), b"\x08\x06\0\0\0"]
            .concat();
    let pages =
        b"1 0 obj <</Type /Pages /Count 2>> endobj 2 0 obj <</Type/Page>> endobj 3 0 obj <</Type /Page /Parent 1 0 R>>";
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, pages).unwrap();
    let packed =
        [&b"%PDF-1.7 1 0 obj <</Type /ObjStm /N 3>> stream\r\n"[..], &packed.finish().unwrap(), b"endstream"].concat();
    let uri = |kind: &str, bytes: &[u8]| {
        use base64::Engine as _;
        format!("data:{kind};base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes))
    };
    let count = |part: ContentPart| tokens.count(&Message::from_parts(Role::User, vec![part]));
    let media = |kind: &str, bytes: &[u8]| mnemon::MediaReference { uri: uri(kind, bytes), media_type: None };
    assert_eq!(count(ContentPart::Image(media("image/png", &png))), 1296);
    assert_eq!(count(ContentPart::Image(media("image/png", b"no picture"))), 256);
    assert_eq!(count(ContentPart::File(media("application/pdf", pages))), 6000);
    assert_eq!(count(ContentPart::File(media("application/pdf", &packed))), 6000);
    assert_eq!(count(ContentPart::File(media("application/pdf", b"%PDF-1.7 encrypted"))), 2048);
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
