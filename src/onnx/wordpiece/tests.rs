use std::{fs, path::Path, sync::LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::{PaddingParams, TruncationParams};

use super::*;
use crate::onnx::tokenizer::word_starts;

static BUNDLED: LazyLock<(Tokenizer, WordPiece)> = LazyLock::new(|| both(bundled()));

static WITHOUT_VOCABULARY: LazyLock<Value> = LazyLock::new(|| {
    let mut tokenizer = bundled();
    tokenizer["model"]["vocab"] = json!({});
    tokenizer
});

pub(in crate::onnx) fn bundled() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/static-en-256/tokenizer.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Returns the bundled tokenizer with only these pieces in its vocabulary.
fn small(pieces: &[&str]) -> Value {
    let mut tokenizer = WITHOUT_VOCABULARY.clone();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let ids = special.into_iter().chain(pieces.iter().copied()).enumerate();
    tokenizer["model"]["vocab"] = ids.map(|(id, piece)| (piece.to_owned(), json!(id))).collect();
    tokenizer
}

fn read(tokenizer: Value) -> Tokenizer {
    serde_json::from_value(tokenizer).unwrap()
}

fn both(tokenizer: Value) -> (Tokenizer, WordPiece) {
    let tokenizer = read(tokenizer);
    let wordpiece = WordPiece::of(&tokenizer).unwrap();
    (tokenizer, wordpiece)
}

/// Checks that ids and the starts of words are those of `tokenizers`, that the ids of some words are those of their
/// text by itself, and that exactly the texts with an added token are declined; for words, also those with marks.
fn check((tokenizer, wordpiece): &(Tokenizer, WordPiece), text: &str) {
    let mut ids = vec![7];
    let covered = wordpiece.encode(text, &mut ids);
    let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    assert_eq!(covered, !added.values().any(|token| text.contains(&token.content)), "{text:?}");
    let expected = tokenizer.encode_fast(text, true).unwrap();
    assert_eq!(ids[1..], if covered { expected.get_ids() } else { &[] }[..], "{text:?}");

    let words = wordpiece.words(text);
    let mut has_marks = false;
    wordpiece.characters.each_word(text, |word, _| has_marks |= !word.chars().all(is_starter)).unwrap();
    assert_eq!(words.is_some(), covered && !has_marks, "{text:?}");
    let Some((ids, starts)) = words else { return };
    let expected = tokenizer.encode(text, false).unwrap();
    assert_eq!(ids, expected.get_ids(), "{text:?}");
    assert_eq!(starts, word_starts(&expected), "{text:?}");
    for tokens in [1, 4] {
        let firsts = (0..ids.len()).step_by(tokens).map(|token| starts.partition_point(|&start| start < starts[token]));
        let mut firsts: Vec<usize> = firsts.collect();
        firsts.dedup();
        for (i, &first) in firsts.iter().enumerate() {
            let end = firsts.get(i + 1).copied().unwrap_or(ids.len());
            let part = &text[starts[first]..starts.get(end).copied().unwrap_or(text.len())];
            let expected = tokenizer.encode_fast(part, false).unwrap();
            assert_eq!(ids[first..end], *expected.get_ids(), "{part:?} of {text:?}");
        }
    }
}

#[test]
fn the_messages_of_the_datasets_have_the_same_ids() {
    for file in ["sample/messages", "sample/queries", "long-answers/messages", "long-answers/queries"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("datasets/{file}.jsonl"));
        for line in fs::read_to_string(file).unwrap().lines() {
            check(&BUNDLED, line);
            let line: Value = serde_json::from_str(line).unwrap();
            check(&BUNDLED, line["content"].as_str().or(line["query"].as_str()).unwrap());
        }
    }
}

/// Checks the first two planes of Unicode, which contain nearly all characters.
#[test]
fn every_character_has_the_same_ids() {
    let all: Vec<char> = ('\0'..'\u{20000}').collect();
    for (lowercase, others) in [(true, true), (false, false)] {
        let mut tokenizer = bundled();
        tokenizer["normalizer"] = json!({
            "type": "BertNormalizer", "lowercase": lowercase, "clean_text": others, "handle_chinese_chars": others,
            "strip_accents": null,
        });
        let both = both(tokenizer);
        // Separated by spaces, because a character that depends on its neighbors changes how its whole stretch is
        // handled.
        for characters in all.chunks(64) {
            check(&both, &characters.iter().map(|c| format!("a{c}b ")).collect::<String>());
            check(&both, &characters.iter().map(|c| format!("{c}\u{327} ")).collect::<String>());
        }
    }
}

/// Checks canonical ordering. The marks are spacing marks, which are not stripped.
#[test]
fn adjacent_marks_are_reordered() {
    let both = both(small(&["a", "##\u{302E}", "##\u{1B44}"]));
    for text in ["a\u{302E}\u{1B44}", "a\u{1B44}\u{302E}", "a\u{302E}\u{301}\u{1B44}"] {
        check(&both, text);
        assert_eq!(both.0.encode_fast(text, true).unwrap().get_ids(), [101, 5, 7, 6, 102], "{text:?}");
    }
    // The last word has the first mark and begins with the second, which comes before it and is stripped.
    let text = "a?\u{302E}\u{316}a";
    check(&BUNDLED, text);
    assert_eq!(word_starts(&BUNDLED.0.encode(text, false).unwrap()), [0, 1, 5]);
}

/// Checks that common characters do not depend on their neighbors. Otherwise such texts would be as slow as with
/// `tokenizers`.
#[test]
fn common_characters_do_not_depend_on_neighbors() {
    let characters = &BUNDLED.1.characters;
    for (c, expected) in [
        ('A', Character::Part('a')),
        ('é', Character::Part('e')),
        ('Ж', Character::Part('ж')),
        ('🎉', Character::Part('🎉')),
        ('’', Character::Alone('’')),
        ('$', Character::Alone('$')),
        ('中', Character::Alone('中')),
        ('\u{A0}', Character::Space),
        ('\u{301}', Character::Nothing),
        ('\u{200D}', Character::Nothing),
        ('\u{B}', Character::Nothing),
        ('한', Character::Other),
        ('\u{302E}', Character::Other),
    ] {
        assert_eq!(characters.of_char(c), expected, "{c:?}");
    }
}

#[test]
fn long_words_and_long_texts_have_the_same_ids() {
    for word in ["a", "é", "e\u{301}", "漢", "🎉", "한", "x\u{B}", "\u{AD}"] {
        for count in [1, 49, 50, 51, 99, 100, 101, 200] {
            check(&BUNDLED, &word.repeat(count));
            check(&BUNDLED, &format!("so {}ing.", word.repeat(count)));
        }
    }
    for stretch in ["a", "a.", "é", "한", "\u{301}", "漢\u{302E}"] {
        check(&BUNDLED, &stretch.repeat((1 << 17) / stretch.len()));
    }
}

#[test]
fn texts_with_added_tokens_are_declined() {
    let mut tokenizer = small(&["a"]);
    tokenizer["added_tokens"][4]["content"] = json!("é\tX");
    let both = both(tokenizer);
    for (text, covered) in [
        ("[SEP]", false),
        ("ab[SEP]c", false),
        ("a é\tX", false),
        ("[sep] [ SEP] [SE", true),
        ("é\tx e\u{301}\tX é X", true),
    ] {
        assert_eq!(both.1.encode(text, &mut Vec::new()), covered, "{text:?}");
        check(&both, text);
    }
}

#[test]
fn other_layouts_are_declined() {
    assert!(WordPiece::of(&read(small(&[]))).is_some());
    let processor = "/post_processor";
    for (at, value) in [
        ("/normalizer", json!(null)),
        ("/normalizer", json!({ "type": "Lowercase" })),
        ("/pre_tokenizer", json!(null)),
        ("/pre_tokenizer", json!({ "type": "Whitespace" })),
        ("/model", json!({ "type": "WordLevel", "vocab": { "[UNK]": 0 }, "unk_token": "[UNK]" })),
        ("/model/unk_token", json!("unknown")),
        ("/added_tokens/0/normalized", json!(true)),
        (processor, json!(null)),
        (processor, json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true })),
        ("/post_processor/special_tokens", json!({})),
        ("/post_processor/single", json!([])),
        ("/post_processor/single/1/Sequence/id", json!("B")),
        ("/post_processor/single/0", json!({ "Sequence": { "id": "A", "type_id": 0 } })),
    ] {
        let mut tokenizer = small(&[]);
        *tokenizer.pointer_mut(at).unwrap() = value.clone();
        assert!(WordPiece::of(&read(tokenizer)).is_none(), "{at} {value}");
    }
    let mut tokenizer = read(small(&[]));
    tokenizer.with_padding(Some(PaddingParams::default()));
    assert!(WordPiece::of(&tokenizer).is_none());
    tokenizer.with_padding(None).with_truncation(Some(TruncationParams::default())).unwrap();
    assert!(WordPiece::of(&tokenizer).is_none());
}

#[test]
fn unusual_tokenizers_give_the_same_ids() {
    let huge = "a".repeat(1 << 20);
    let pieces = ["", "##", "####", "#", "a", "##a", "##\u{301}", "\0", " ", "a b", "é", "##👩‍💻", huge.as_str()];
    let template = json!([
        { "SpecialToken": { "id": "[CLS]", "type_id": 0 } },
        { "SpecialToken": { "id": "[SEP]", "type_id": 0 } },
        { "Sequence": { "id": "A", "type_id": 0 } },
    ]);
    for (at, value) in [
        ("/model/max_input_chars_per_word", json!(0)),
        ("/model/max_input_chars_per_word", json!(usize::MAX)),
        ("/model/continuing_subword_prefix", json!("")),
        ("/model/vocab/a", json!(u32::MAX)),
        ("/added_tokens", json!([])),
        ("/post_processor/single", template),
        ("/post_processor/special_tokens/[CLS]", json!({ "id": "[CLS]", "ids": [], "tokens": [] })),
        ("/post_processor", json!({ "type": "BertProcessing", "cls": ["x", 9], "sep": ["y", u32::MAX] })),
    ] {
        let mut tokenizer = small(&pieces);
        *tokenizer.pointer_mut(at).unwrap() = value;
        let both = both(tokenizer);
        for text in ["", " ", "a", "aaa aé a b", "##a# a##a", "a\u{301}\0b", "a👩‍💻"] {
            check(&both, text);
        }
    }
}

pub(in crate::onnx) fn any_text() -> impl Strategy<Value = String> {
    let samples = [
        "don’t ",
        "naïve ",
        "STRASSE straße ",
        "İstanbul ",
        "ΣΊΣΥΦΟΣ ",
        "👍🏽 ",
        "❤️",
        "👩‍💻",
        "…",
        "##ing",
        "\t",
        "\u{85}",
        "\u{3000}",
        "[SEP]",
        "[sep]",
        "[CLS",
        "[MASK] ",
        "[UNK]",
    ];
    let piece = prop_oneof![
        6 => "[a-zA-Z]{1,9}[ '.,!?-]{0,2}",
        3 => prop::sample::select(samples.map(str::to_owned).to_vec()),
        2 => any::<String>(),
        2 => "[\u{80}-\u{24F}\u{2000}-\u{206F}]{1,6}",
        1 => "[\0-\u{7F}]{1,6}",
        1 => "[\u{300}-\u{345}\u{302A}-\u{302F}\u{1B44}\u{F71}-\u{F84}\u{1D15E}-\u{1D172}a]{1,6}",
        1 => "[\u{400}-\u{4FF}]{1,8}|[\u{5D0}-\u{670}]{1,8}|[가-힣ᄀ-ᇿ]{1,4}|[一-鿿ぁ-ヿ]{1,6}|[\u{900}-\u{DFF}]{1,8}",
        1 => "[a-z]{95,105}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Tokenizers whose vocabulary uses few characters, so that random words consist of its pieces.
pub(in crate::onnx) fn any_tokenizer() -> impl Strategy<Value = Value> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<Option<bool>>());
    let prefix = prop::sample::select(vec!["##", "", "a", "é#"]);
    (flags, prefix, 0..12usize, prop::collection::btree_set("[abéE中’]{0,4}", 0..40)).prop_map(
        |((lowercase, clean_text, handle_chinese_chars, strip_accents), prefix, longest, pieces)| {
            let further: Vec<String> = pieces.iter().map(|piece| format!("{prefix}{piece}")).collect();
            let pieces: Vec<&str> = pieces.iter().chain(&further).map(String::as_str).collect();
            let mut tokenizer = small(&pieces);
            tokenizer["normalizer"] = json!({
                "type": "BertNormalizer", "lowercase": lowercase, "clean_text": clean_text,
                "handle_chinese_chars": handle_chinese_chars, "strip_accents": strip_accents,
            });
            tokenizer["model"]["continuing_subword_prefix"] = json!(prefix);
            tokenizer["model"]["max_input_chars_per_word"] = json!(longest);
            tokenizer
        },
    )
}

// The environment variable `PROPTEST_CASES` sets the number of cases.
proptest! {
    #[test]
    fn any_text_has_the_same_ids(text in any_text()) {
        check(&BUNDLED, &text);
    }

    #[test]
    fn any_tokenizer_gives_the_same_ids(
        tokenizer in any_tokenizer(),
        texts in prop::collection::vec("[abéÉAE中’ \u{301}\u{B}]{0,16}", 8),
        other in any_text(),
    ) {
        let both = both(tokenizer);
        texts.iter().for_each(|text| check(&both, text));
        check(&both, &other);
    }
}
