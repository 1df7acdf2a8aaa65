//! The bundled model: vectors, batches and windows.

use std::sync::OnceLock;

use mnemon::{Embedder, Model, OnnxEmbedder};
use proptest::prelude::*;

use crate::support::{root, sample, skipped};

fn embedder() -> &'static OnnxEmbedder {
    static EMBEDDER: OnceLock<OnnxEmbedder> = OnceLock::new();
    EMBEDDER.get_or_init(|| OnnxEmbedder::new(Model::bundled()).unwrap())
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn the_bundled_model_is_the_committed_folder() {
    let folder = root("models/static-en-256");
    let committed = Model::open(&folder).unwrap();
    assert_eq!(committed.identity(), Model::bundled().identity());
    // Opening the folder reads every file against the manifest's hashes; the bundled bytes are these files.
    let by_folder = OnnxEmbedder::new(committed).unwrap().embed_query("the same").unwrap();
    assert_eq!(by_folder, embedder().embed_query("the same").unwrap());
    assert_eq!(Model::find(Model::DEFAULT).unwrap().identity(), Model::bundled().identity());
}

#[test]
fn texts_near_in_meaning_have_near_vectors() {
    let [bike, bicycle, soup] =
        ["my bike has a flat tyre", "the bicycle's wheel is punctured", "boil the carrots and add some salt"]
            .map(|text| embedder().embed_query(text).unwrap());
    assert!(cosine(&bike, &bicycle) > cosine(&bike, &soup) + 0.2);
    assert!((cosine(&bike, &bike) - 1.0).abs() < 1e-5);
}

/// Texts of many lengths, from the sample.
fn texts() -> Vec<String> {
    let lines = std::fs::read_to_string(sample("messages.jsonl")).unwrap();
    lines.lines().map(|line| mnemon::MessageLine::parse(line).unwrap().message.text()).collect()
}

/// Whatever a text is embedded with, its vector has the same bytes.
fn check_batching(embedder: &OnnxEmbedder, texts: &[String]) {
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = embedder.embed_documents(&all).unwrap();
    for size in [1, 7] {
        let apart: Vec<_> = all.chunks(size).flat_map(|chunk| embedder.embed_documents(chunk).unwrap()).collect();
        assert!(together == apart, "in batches of {size}");
    }
    let backwards: Vec<&str> = all.iter().rev().copied().collect();
    let mut reversed = embedder.embed_documents(&backwards).unwrap();
    reversed.reverse();
    assert!(together == reversed, "backwards");
}

#[test]
fn a_text_has_the_same_bytes_in_every_batch() {
    check_batching(embedder(), &texts());
}

#[test]
fn a_text_has_the_same_bytes_in_every_batch_of_minilm() {
    for name in ["all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8"] {
        match Model::find(name) {
            Ok(model) => check_batching(&OnnxEmbedder::new(model).unwrap(), &texts()[..60]),
            Err(_) => {
                skipped(&format!("a_text_has_the_same_bytes_in_every_batch_of_minilm, {name}: run `make model-minilm`"))
            }
        }
    }
}

#[test]
fn odd_texts_are_embedded() {
    let odd = ["", " ", "🙂", "\u{0}", "\u{202e}", "a\u{0301}", "名前", &"x".repeat(5000), &"é".repeat(300)];
    for row in embedder().embed_documents(&odd).unwrap() {
        let norm = cosine(&row, &row).sqrt();
        assert!(row.len() == 256 && (norm == 0.0 || (norm - 1.0).abs() < 1e-3), "{norm}");
    }
    assert_eq!(embedder().embed_documents(&[]).unwrap(), Vec::<Vec<f32>>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Windows cover the text without a hole, in order, and the model takes each in one piece: a window's own
    /// windows are itself.
    #[test]
    fn windows_cover_every_text_in_order(words in proptest::collection::vec("[a-z]{1,12}|[0-9]{1,8}|\\PC{1,5}|[.,!?]", 1..1500)) {
        let text = words.join(" ");
        let windows = embedder().windows(&text);
        prop_assert_eq!(windows[0].start, 0);
        prop_assert_eq!(windows.last().unwrap().end, text.len());
        prop_assert!(windows.windows(2).all(|pair| pair[1].start <= pair[0].end && pair[0].start < pair[1].start));
        for window in &windows {
            let piece = &text[window.clone()];
            prop_assert_eq!(embedder().windows(piece), vec![0..piece.len()]);
        }
    }
}

#[test]
fn long_words_are_split_too() {
    for text in ["x".repeat(1 << 20), "0123456789".repeat(2000), format!("{} end", "a,".repeat(3000))] {
        let windows = embedder().windows(&text);
        assert_eq!((windows[0].start, windows.last().unwrap().end), (0, text.len()));
        assert!(windows.windows(2).all(|pair| pair[1].start <= pair[0].end));
    }
}
