//! Chunks of the fast WordPiece beside those of `tokenizers`.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    onnx::text_encoder::{Bounds, MAX_BYTES, split},
    onnx::wordpiece::tests::{any_text, any_tokenizer, bundled},
};

static BUNDLED: LazyLock<Both> = LazyLock::new(|| both(&bundled()));

/// A tokenizer with and without the fast WordPiece.
type Both = [TextTokenizer; 2];

fn both(json: &Value) -> Both {
    let json = serde_json::to_vec(json).unwrap();
    let [fast, slow] = [(), ()].map(|()| TextTokenizer::from_json(&json).unwrap());
    assert!(fast.word_piece.is_some());
    [fast, TextTokenizer { word_piece: None, ..slow }]
}

/// Checks that both split a text in the same chunks with the same tokens. Returns the number of chunks.
fn check(tokenizers: &Both, text: &str, max_tokens: usize, other: Option<(&str, usize)>) -> usize {
    let [found, expected] = tokenizers.each_ref().map(|tokenizer| {
        let chunks = split(tokenizer, text, Bounds { prefix: "", max_tokens, other }).unwrap();
        chunks.into_iter().map(|chunk| (chunk.range, chunk.tokens)).collect::<Vec<_>>()
    });
    assert!(found == expected, "{max_tokens} tokens: {found:?}, expected {expected:?}: {text:?}");
    found.len()
}

#[test]
fn texts_of_several_pieces_have_the_same_chunks() {
    let words = "The 2nd of May: don’t forget naïve İstanbul, 한국어 🙂 中文 e\u{301}\u{302E} ";
    for (text, least) in [
        (words.repeat(200_000 / words.len()), 100),
        // Words that no chunk and no piece can hold, added tokens, and pieces without a token.
        (format!("{}.{words}", "x".repeat(2 * MAX_BYTES)), 2),
        (format!("{} [SEP] {words}", words.repeat(100)), 2),
        (format!("{words}{}{words}", " \u{200B}".repeat(MAX_BYTES)), 2),
    ] {
        assert!(check(&BUNDLED, &text, 512, None) >= least, "{text:.100}");
    }
    let mut long_words = bundled();
    long_words["model"]["max_input_chars_per_word"] = json!(usize::MAX);
    assert!(check(&both(&long_words), &format!("so {}.", "xyzzy".repeat(1000)), 64, None) > 50);
}

#[test]
fn the_words_of_english_are_known() {
    let [tokenizer, other] = &*BUNDLED;
    let check = |text: &str, least: f32, most: f32| {
        let share = tokenizer.known_words(text);
        assert!((least..=most).contains(&share), "{share}: {text}");
    };
    check("When did Caroline go to the support group?", 1.0, 1.0);
    check("Who drives the van on moving day?", 0.9, 1.0);
    check("Wer fährt beim Umzug den Transporter?", 0.0, 0.4);
    check("¿Quién conduce la furgoneta el día de la mudanza?", 0.0, 0.5);
    check("引っ越しの日に誰がトラックを運転しますか", 0.0, 0.0);
    check("ब्रिज पर कौन मिलेगा?", 0.0, 0.4);
    check("42?", 1.0, 1.0);
    check("", 1.0, 1.0);
    assert_eq!(other.known_words("Wer fährt?"), 1.0, "the pieces of other tokenizers tell nothing");
}

// The environment variable `PROPTEST_CASES` sets the number of cases.
proptest! {
    #[test]
    fn any_text_has_the_same_chunks(
        texts in prop::collection::vec(any_text(), 1..12),
        max_tokens in 4..40usize,
        has_other in any::<bool>(),
    ) {
        check(&BUNDLED, &texts.concat(), max_tokens, has_other.then_some(("[UNK] a", max_tokens + 2)));
    }

    #[test]
    fn any_tokenizer_gives_the_same_chunks(
        tokenizer in any_tokenizer(),
        text in "[abéÉAE中’ \u{301}\u{B}]{0,160}",
        max_tokens in 4..40usize,
    ) {
        check(&both(&tokenizer), &text, max_tokens, None);
    }
}
