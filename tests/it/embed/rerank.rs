//! Cross-encoders: small graphs whose score is known, the share of the query's words that the passage contains.

use std::{
    fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use mnemon::{CrossEncoder, Engine, Error, Model, OnnxEmbedder, Query, Reranker, Result};
use proptest::prelude::*;

use crate::support::{
    Db, Hashing, chain, message,
    model_folders::{fixture, reranker_folder, reranker_folder_with, tokenizer},
    namespace, root,
};

/// Words that the tokenizer has whole.
const WORDS: [&str; 12] =
    ["red", "blue", "green", "dog", "cat", "horse", "house", "tree", "river", "runs", "sleeps", "sings"];

fn encoder(name: &str, quantization: &str) -> CrossEncoder {
    CrossEncoder::open(reranker_folder(&fixture(name), quantization).path()).unwrap()
}

fn overlap() -> &'static CrossEncoder {
    static ENCODER: OnceLock<CrossEncoder> = OnceLock::new();
    ENCODER.get_or_init(|| encoder("overlap", "none"))
}

fn apart(encoder: &CrossEncoder, query: &str, passages: &[&str]) -> Vec<f32> {
    passages.iter().map(|passage| encoder.rerank(query, &[passage]).unwrap()[0]).collect()
}

#[test]
fn a_passage_with_more_words_of_the_query_scores_higher() {
    let passages = ["the cat sleeps", "a red dog runs to the river", "", "the dog runs", "dog"];
    let scores = overlap().rerank("red dog runs", &passages).unwrap();
    assert_eq!(scores, [0.0, 1.0, 0.0, 2.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(overlap().rerank("red dog runs", &[]).unwrap(), [0.0; 0]);
    assert_eq!(overlap().name(), "overlap");
    assert_eq!(overlap().description(), "shared words (made here; MIT)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Each passage has the score of its own words, whatever it is scored together with.
    #[test]
    fn the_same_pair_gives_the_same_score(
        query in words(1..8),
        passages in proptest::collection::vec(words(0..50), 0..40),
    ) {
        let texts: Vec<String> = passages.iter().map(|words| words.join(" ")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let question = query.join(" ");
        let scores = overlap().rerank(&question, &texts).unwrap();
        let shares: Vec<f32> = passages
            .iter()
            .map(|words| query.iter().filter(|word| words.contains(word)).count() as f32 / query.len() as f32)
            .collect();
        prop_assert_eq!(&scores, &shares);
        prop_assert_eq!(&scores, &apart(overlap(), &question, &texts));
    }

    /// Three adjacent words are in one window wherever they are, because windows overlap by more than that.
    #[test]
    fn a_long_passage_has_the_score_of_its_best_window(length in 100..400_usize, place in 0.0..1.0) {
        let mut words = vec!["tree"; length];
        let place = ((length - 3) as f64 * place) as usize;
        words[place..place + 3].copy_from_slice(&["red", "dog", "runs"]);
        let passage = words.join(" ");
        prop_assert_eq!(overlap().rerank("red dog runs", &["river", &passage, "red"]).unwrap(), [0.0, 1.0, 1.0 / 3.0]);
    }
}

fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(proptest::sample::select(&WORDS[..]), count)
}

#[test]
fn windows_are_scored_by_themselves() {
    // 61 tokens go beside this question: both ends of the passage are in one window, or in none.
    let question = "red dog runs";
    for (between, score) in [(59, 2.0 / 3.0), (60, 1.0 / 3.0)] {
        let passage = format!("red {}dog", "tree ".repeat(between));
        assert_eq!(overlap().rerank(question, &[&passage]).unwrap(), [score], "{between}");
    }
}

#[test]
fn every_form_of_graph_gives_the_same_scores() {
    let passages = ["red dog", "the cat runs", "the red dog runs to the tree", "dog dog dog"];
    let scores = overlap().rerank("red dog runs", &passages).unwrap();
    for (name, factor) in [("untyped", 1.0), ("flat", 1.0), ("two_classes", 2.0)] {
        let expected: Vec<f32> = scores.iter().map(|score| score * factor).collect();
        assert_eq!(encoder(name, "none").rerank("red dog runs", &passages).unwrap(), expected, "{name}");
    }
}

/// Also if the manifest does not declare it: opening tries it.
#[test]
fn dynamically_quantised_pairs_run_alone() {
    let question = "red dog cat horse blue green tree";
    let passages = ["red dog cat horse sings", "red sings runs runs river", "red dog cat sings sings"];
    for quantization in ["dynamic", "none"] {
        let encoder = encoder("dynamic", quantization);
        let scores = encoder.rerank(question, &passages).unwrap();
        assert_eq!(scores, apart(&encoder, question, &passages), "{quantization}");
    }
}

#[test]
fn calls_from_several_threads_return_the_same_scores() {
    let passages = ["red dog", "cat", "the red dog runs", &"tree ".repeat(200)];
    let expected = overlap().rerank("red dog", &passages).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|_| assert_eq!(overlap().rerank("red dog", &passages).unwrap(), expected)));
        }
    });
}

#[test]
fn odd_texts_are_scored() {
    let long = ["x".repeat(5000), "é".repeat(300), "[SEP] ".repeat(500), "\u{fdfa}".repeat(100)];
    let odd: Vec<&str> = ["", " ", "🙂", "\u{0}", "\u{202e}", "a\u{0301}", "名前"]
        .into_iter()
        .chain(long.iter().map(String::as_str))
        .collect();
    for question in odd[..7].iter().chain(&["red dog"]) {
        let scores = overlap().rerank(question, &odd).unwrap();
        assert!(scores.len() == odd.len() && scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
    }
}

#[test]
fn a_query_may_take_half_of_the_tokens() {
    let question = |words| "dog ".repeat(words);
    assert_eq!(overlap().rerank(&question(32), &[&"dog ".repeat(200)]).unwrap(), [1.0]);
    match overlap().rerank(&question(33), &["dog"]) {
        Err(Error::InvalidQuery { reason }) => {
            assert!(reason.contains("at most 32 tokens, this one has 33"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    // Not tokenised: that would take a hundred and fifty times as much memory.
    match overlap().rerank(&"dog ".repeat(1 << 20), &["dog"]) {
        Err(Error::InvalidQuery { reason }) => assert!(reason.contains("this one has 4194304 bytes"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_score_that_is_no_number_is_an_error() {
    let encoder = encoder("nan", "none");
    assert_eq!(encoder.rerank("dog", &["dog", "cat"]).unwrap(), [1.0, 0.0]);
    match encoder.rerank("", &["dog"]) {
        Err(Error::Reranking { reranker, reason, .. }) => {
            assert_eq!((reranker.as_str(), reason.as_str()), ("overlap", "a score is NaN"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_reranker_folder_is_an_error_that_names_the_fault() {
    let manifest = |folder: &Path, from: &str, to: &str| {
        let path = folder.join("manifest.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    };
    let check = |graph: &[u8], damage: &dyn Fn(&Path), reason: &str| {
        let folder = reranker_folder(graph, "none");
        damage(folder.path());
        let text = chain(&CrossEncoder::open(folder.path()).unwrap_err());
        assert!(text.contains(reason), "{reason}: {text}");
    };
    let sound = fixture("overlap");
    type Damage<'a> = &'a dyn Fn(&Path);
    let folders: &[(Damage, &str)] = &[
        (&|f| fs::remove_file(f.join("manifest.toml")).unwrap(), "manifest.toml"),
        (&|f| fs::remove_file(f.join("tokenizer.json")).unwrap(), "tokenizer.json is missing"),
        (&|f| fs::write(f.join("manifest.toml"), "name = ").unwrap(), "manifest.toml: TOML parse error"),
        (&|f| manifest(f, "max_tokens = 67", "max_tokens = \"many\""), "max_tokens"),
        (&|f| manifest(f, "max_tokens = 67\n", ""), "missing field `max_tokens`"),
        (&|f| manifest(f, "max_tokens = 67", "max_tokens = 40"), "max_tokens is 40; 67 or more are needed"),
        (&|f| manifest(f, "max_tokens = 67", "max_tokens = 200000"), "max_tokens 200000 is not within 1 to 131072"),
        (&|f| manifest(f, "license =", "licence ="), "unknown field `licence`"),
        (&|f| manifest(f, "\"reranker\"", "\"colbert\""), "unknown variant `colbert`"),
        (&|f| manifest(f, "kind = \"reranker\"", ""), "kind is not \"reranker\""),
        (&|f| manifest(f, "\"tokenizer.json\" =", "\"other.json\" ="), "does not name tokenizer.json"),
        (&|f| fs::write(f.join("tokenizer.json"), "{}").unwrap(), "the file was damaged or replaced"),
        (&|f| fs::write(f.join("model.onnx"), fixture("flat")).unwrap(), "the file was damaged or replaced"),
    ];
    for (damage, reason) in folders {
        check(&sound, damage, reason);
    }
    // The names are in the graph's file as they are; the new ones are as long.
    let graphs: [(Vec<u8>, &str); 7] = [
        (replaced(&sound, "attention_mask", "attention_task"), "its inputs are [\"input_ids\", \"attention_task\""),
        (replaced(&sound, "token_type_ids", "position_codes"), "its inputs are"),
        (replaced(&sound, "logits", "scores"), "its outputs are [\"scores\"]; \"logits\" is not among them"),
        (fixture("three_classes"), "logits has shape [3, 3] for 3 pairs"),
        (fixture("double"), "\"logits\" is Tensor<f64>(batch, 1), not a tensor of f32"),
        (b"no graph".to_vec(), "model.onnx: it is not an ONNX file"),
        (b"".to_vec(), "it is not an ONNX file: it has no graph"),
    ];
    for (graph, reason) in graphs {
        check(&graph, &|_| {}, reason);
    }
}

#[test]
fn a_tokenizer_must_tell_query_and_passage_apart() {
    let mut joining: serde_json::Value = serde_json::from_slice(&tokenizer()).unwrap();
    joining["post_processor"].take();
    let rows = [(joining.to_string(), "puts no special token between"), ("{}".into(), "not a valid tokenizer")];
    for (tokenizer, reason) in rows {
        let folder = reranker_folder_with(&fixture("untyped"), tokenizer.as_bytes(), "none");
        let text = CrossEncoder::open(folder.path()).unwrap_err().to_string();
        assert!(text.contains(reason), "{reason}: {text}");
    }
}

fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

#[test]
fn a_model_is_opened_as_what_it_is() {
    let reranker = reranker_folder(&fixture("overlap"), "none");
    let opened: Result<OnnxEmbedder> = Model::open(reranker.path()).and_then(OnnxEmbedder::new);
    assert!(opened.unwrap_err().to_string().ends_with("is opened as a reranker"));
    let opened = CrossEncoder::open(root("models/static-en-256"));
    assert!(opened.unwrap_err().to_string().ends_with("is an embedder, and is opened as one"));
}

/// Scores of another scale than a recall's own, all below them.
struct Gloomy;

impl Reranker for Gloomy {
    fn name(&self) -> &str {
        "gloomy"
    }

    fn rerank(&self, _: &str, passages: &[&str]) -> Result<Vec<f32>> {
        Ok(passages.iter().map(|passage| passage.len() as f32 - 1000.0).collect())
    }
}

#[test]
fn reranked_hits_come_first_however_low_their_scores() {
    let (db, space) = (Db::new(), namespace("a"));
    let builder = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).reranker(Arc::new(Gloomy));
    let engine = builder.open().unwrap();
    let messages = (0..60).map(|i| message(&format!("m{i}"), &format!("red dog {}", "word ".repeat(i))));
    engine.blocking().put(&space, messages.collect()).unwrap();
    engine.blocking().flush().unwrap();
    for depth in [1, 8, 12, 40, 100] {
        for lambda in [None, Some(1.0), Some(0.8)] {
            let query = Query::new("red dog").k(8).rerank(depth).keep_duplicates();
            let query = lambda.map_or(query.clone(), |lambda| query.diversity(lambda));
            let hits = engine.blocking().recall(&space, query).unwrap();
            let scores: Vec<f32> = hits.iter().map(|hit| hit.score).collect();
            assert!(hits.len() == 8 && hits.iter().all(|hit| hit.breakdown.reranked == Some(hit.score)), "{scores:?}");
            assert!(lambda == Some(0.8) || scores.is_sorted_by(|a, b| a >= b), "{depth}, {lambda:?}: {scores:?}");
        }
    }
}
