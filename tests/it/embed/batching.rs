//! Batch invariance: a text has the same vector, to the bit, alone and in every batch.

use std::{ops::Range, sync::OnceLock};

use mnemon::{Embedder, Model, OnnxEmbedder};
use proptest::prelude::*;

use super::{WORDS, embedder, manifest};
use crate::support::{sample, skipped};

/// Returns models of every kind of batching, by name.
fn models() -> &'static [(&'static str, OnnxEmbedder)] {
    static MODELS: OnceLock<Vec<(&str, OnnxEmbedder)>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let mut models = vec![
            ("bundled", OnnxEmbedder::new(Model::bundled()).unwrap()),
            ("encoder", embedder("encoder", &manifest(&[("document_prefix", "\"red \"")]))),
            // The manifests of these promise batch invariance wrongly; opening them finds it out.
            ("odd", embedder("encoder_odd", &manifest(&[("dimension", "7")]))),
            ("unsaid", embedder("encoder_dynamic", &manifest(&[]))),
            ("padded", embedder("encoder", &manifest(&[("padding_exact", "true")]))),
            ("dynamic", embedder("encoder_dynamic", &manifest(&[("quantization", "\"dynamic\"")]))),
            ("pooled", embedder("encoder_pooled", &manifest(&[("pooling", "\"none\"")]))),
        ];
        for name in ["all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"] {
            match Model::find(name) {
                Ok(model) => models.push((name, OnnxEmbedder::new(model).unwrap())),
                Err(_) => skipped(&format!("batching of {name}: run `make model-minilm`")),
            }
        }
        models
    })
}

/// Returns the vectors of the texts, embedded one by one.
fn alone(embedder: &OnnxEmbedder, texts: &[&str]) -> Vec<Vec<f32>> {
    texts.iter().flat_map(|text| embedder.embed_documents(&[text]).unwrap()).collect()
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof![
        8 => proptest::sample::select(WORDS.map(|(word, _)| word.to_owned()).to_vec()),
        1 => "[a-z]{1,12}|\\PC{1,4}|[.,!?]",
    ];
    let text = proptest::collection::vec(word, 0..20).prop_map(|words| words.join(" "));
    proptest::collection::vec(text, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_text_has_the_same_vector_in_every_batch(texts in texts(), callers in 1..5_usize) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for (name, embedder) in models() {
            let expected = alone(embedder, &texts);
            prop_assert_eq!(&embedder.embed_documents(&texts).unwrap(), &expected, "{}", name);
            let passages = embedder.embed_passages(&texts).unwrap();
            for ((text, passages), vector) in texts.iter().zip(&passages).zip(&expected) {
                prop_assert_eq!(passages.len(), 1);
                prop_assert_eq!(&passages[0].range, &(0..text.len()));
                prop_assert_eq!(&passages[0].vector, vector, "{}", name);
            }
            // At once, in pieces, and backwards.
            std::thread::scope(|scope| {
                for caller in 0..callers {
                    let (texts, expected) = (&texts, &expected);
                    scope.spawn(move || {
                        let mine: Vec<usize> = (0..texts.len()).rev().filter(|i| i % callers == caller).collect();
                        for some in mine.chunks(7) {
                            let given: Vec<&str> = some.iter().map(|&i| texts[i]).collect();
                            let found = embedder.submit(&given).unwrap().wait().unwrap();
                            assert!(some.iter().zip(found).all(|(&i, row)| row == expected[i]), "{name}");
                        }
                    });
                }
            });
        }
    }

    /// Each window of a long text has the vector of its own text.
    #[test]
    fn windows_are_embedded_as_if_alone(words in proptest::collection::vec(0..WORDS.len(), 100..700), seed in any::<u8>()) {
        let words: Vec<&str> = words.into_iter().map(|word| WORDS[word].0).collect();
        let long = words.join(if seed % 2 == 0 { " " } else { ", " });
        for (name, embedder) in models() {
            let passages = embedder.embed_passages(&["red", &long, "dog"]).unwrap();
            let ranges: Vec<_> = passages[1].iter().map(|passage| passage.range.clone()).collect();
            prop_assert_eq!(&ranges, &embedder.windows(&long), "{}", name);
            let pieces: Vec<&str> = ranges.iter().map(|range| &long[range.clone()]).collect();
            for (passage, vector) in passages[1].iter().zip(alone(embedder, &pieces)) {
                prop_assert_eq!(&passage.vector, &vector, "{}", name);
            }
            prop_assert!(*name == "bundled" || ranges.len() > 1 || words.len() < 260, "{}", name);
        }
    }
}

/// Questions are of a session of their own; where there is no prefix, they are documents.
#[test]
fn a_query_has_the_bits_of_a_document() {
    let lines = std::fs::read_to_string(sample("messages.jsonl")).unwrap();
    let texts: Vec<String> =
        lines.lines().take(40).map(|line| mnemon::MessageLine::parse(line).unwrap().message.text()).collect();
    for (name, embedder) in models().iter().filter(|(name, _)| *name != "encoder") {
        for text in &texts {
            let document = embedder.embed_documents(&[text]).unwrap().remove(0);
            assert_eq!(embedder.embed_query(text).unwrap(), document, "{name}");
        }
    }
}

/// A text that is too long for one vector is refused: nothing is cut.
#[test]
fn a_text_too_long_for_one_vector_is_an_error() {
    let embedder = embedder("encoder", &manifest(&[]));
    let fitting = "red dog ".repeat(39);
    let long = format!("{fitting}river river");
    assert_eq!((embedder.windows(&fitting).len(), embedder.windows(&long).len()), (1, 2));
    assert_eq!(embedder.embed_documents(&[&fitting]).unwrap(), [embedder.embed_query(&fitting).unwrap()]);
    for text in [long.clone(), "red ".repeat(100_000)] {
        for error in [embedder.embed_documents(&["red", &text]).unwrap_err(), embedder.embed_query(&text).unwrap_err()]
        {
            assert!(error.to_string().contains("embed its windows"), "{error}");
        }
    }
    assert_eq!(embedder.embed_passages(&[&long]).unwrap()[0].len(), 2);
}

/// Text that is tokenised in pieces is covered as one that is not: by windows that share something with their
/// neighbours.
#[test]
fn a_very_long_text_is_embedded_in_windows() {
    let lines = std::fs::read_to_string(sample("messages.jsonl")).unwrap();
    let mut text = String::new();
    for line in lines.lines().cycle() {
        text += &mnemon::MessageLine::parse(line).unwrap().message.text();
        text += " ";
        if text.len() > 300_000 {
            break;
        }
    }
    let (_, embedder) = &models()[0];
    let windows = embedder.windows(&text);
    assert_eq!((windows[0].start, windows.last().unwrap().end), (0, text.len()));
    // Halves of a window that was too long by itself touch.
    let overlap = |pair: &&[Range<usize>]| pair[0].end - pair[1].start >= 100;
    assert!(windows.windows(2).filter(overlap).count() >= windows.len() * 9 / 10, "{windows:?}");
    for window in &windows {
        assert_eq!(embedder.windows(&text[window.clone()]), vec![0..window.len()]);
        assert!((500..4000).contains(&window.len()) || window.end == text.len(), "{window:?}");
    }
}

/// A question's prefix without a space is one word with the text's first, which may have more tokens then.
#[test]
fn every_window_can_be_embedded_as_a_query() {
    let embedder = embedder("encoder", &manifest(&[("query_prefix", "\"zq\""), ("document_prefix", "\"blue \"")]));
    for first in ["red", "river", "elephants", "sleeping", "xylophone", "neighbourhood"] {
        for words in [10, 65, 70, 72, 73, 74, 75, 76, 77, 78, 150] {
            let text = format!("{first}{}", " dog".repeat(words));
            let windows = embedder.windows(&text);
            assert_eq!((windows[0].start, windows[windows.len() - 1].end), (0, text.len()));
            assert!(words > 70 || windows.len() == 1, "{text}: {windows:?}");
            for window in windows {
                embedder.embed_query(&text[window]).unwrap();
            }
        }
    }
}
