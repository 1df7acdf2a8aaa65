//! Example selectors for few-shot prompts, compared with LangChain's, and checked against their own limits.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use mnemon::{
    Bm25ExampleSelector, EngineExampleSelector, Error, ExampleSelector, FewShotExample, Language,
    LengthBasedExampleSelector, MaxMarginalRelevanceExampleSelector, Message, NgramOverlapExampleSelector,
    RankingStrategy, Result, SemanticSimilarityExampleSelector,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{
    Db, Hashing,
    embedders::Scripted,
    namespace, normalized,
    recorded::{check, compare},
};

/// A case may differ if it is marked so; the reason is the defect that mnemon does not share.
const DIFFERENCES: &[(&str, &str)] = &[
    ("equal-similarity", "among equals the later comes first, or any; mnemon: the earlier"),
    ("no-examples", "no examples are an error; mnemon: none are chosen"),
];

/// Returns an embedder with a table of vectors.
fn given(dimension: usize, vectors: BTreeMap<String, Vec<f32>>) -> Arc<Scripted> {
    Arc::new(Scripted::new(dimension, move |texts| Ok(texts.iter().map(|text| vectors[*text].clone()).collect())))
}

fn examples(inputs: &[&str]) -> Vec<FewShotExample> {
    inputs.iter().map(|input| FewShotExample::new(*input, input.to_uppercase())).collect()
}

fn inputs(selector: &dyn ExampleSelector, input: &str) -> Vec<String> {
    selector.select(input).unwrap().into_iter().map(|example| example.input).collect()
}

#[test]
fn selectors_choose_as_langchain_does() {
    check("examples.jsonl", DIFFERENCES, 230, |case| {
        let number = |name: &str| case[name].as_u64().unwrap() as usize;
        let input = case["input"].as_str().unwrap_or("query");
        // By number: examples may be equal.
        let listed: Vec<FewShotExample> = match case["examples"].as_array() {
            Some(all) => {
                let text = |example: &Value, name: &str| example[name].as_str().unwrap().to_owned();
                all.iter().map(|example| FewShotExample::new(text(example, "input"), text(example, "output"))).collect()
            }
            None => Vec::new(),
        };
        let mut vectors: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for (number, vector) in case["vectors"].as_array().into_iter().flatten().enumerate() {
            vectors.insert(format!("{number:03}"), serde_json::from_value(vector.clone()).unwrap());
        }
        let numbered: Vec<FewShotExample> = vectors.keys().map(|number| FewShotExample::new(number, "")).collect();
        vectors.insert("query".into(), serde_json::from_value(case["query"].clone()).unwrap_or_default());
        let embedder = || given(vectors["query"].len(), vectors.clone());
        let chosen = match case["kind"].as_str().unwrap() {
            "length" => LengthBasedExampleSelector::new(listed.clone(), number("max_length")).select(input),
            "ngram" => {
                let mut selector = NgramOverlapExampleSelector::new(listed.clone());
                selector.threshold = case["threshold"].as_f64().unwrap();
                selector.select(input)
            }
            "similarity" => {
                let mut selector = SemanticSimilarityExampleSelector::new(numbered.clone(), embedder()).unwrap();
                selector.k = number("k");
                selector.select(input)
            }
            "marginal" => {
                let mut selector = MaxMarginalRelevanceExampleSelector::new(numbered.clone(), embedder()).unwrap();
                (selector.k, selector.fetch_k) = (number("k"), number("fetch_k"));
                selector.select(input)
            }
            kind => return Err(format!("an unknown kind, {kind}")),
        };
        if !case["error"].is_null() {
            return Err(format!("{chosen:?}, not {}", case["error"]));
        }
        let all = if listed.is_empty() { numbered } else { listed };
        let theirs: Vec<usize> = serde_json::from_value(case["output"].clone()).unwrap();
        compare(&chosen.unwrap(), &theirs.into_iter().map(|number| all[number].clone()).collect())
    });
}

#[test]
fn lengths_are_measured_by_the_given_function() {
    let mut selector = LengthBasedExampleSelector::new(examples(&["aa", "bb", "cc"]), 12);
    // "Input: aa\nOutput: AA" is four words.
    assert_eq!(inputs(&selector, "one two three four"), ["aa", "bb"]);
    selector.format = Arc::new(|example| example.input.clone());
    assert_eq!(inputs(&selector, "one two three four"), ["aa", "bb", "cc"]);
    selector.length = Arc::new(|text: &str| text.len());
    assert_eq!(inputs(&selector, "12345678"), ["aa", "bb"]);
    assert_eq!(inputs(&selector, "1234567890123"), [""; 0]);
}

#[test]
fn the_nearest_window_of_an_example_counts() {
    let mut embedder = Hashing::new(64);
    embedder.window_bytes = 40;
    let embedder = Arc::new(embedder);
    let filler = "lorem ipsum dolor sit amet consectetur ".repeat(5);
    let long = format!("{filler} purple elephants dance {filler}");
    let all = examples(&["red apples", &long, "green pears", "blue plums"]);
    let mut selector = SemanticSimilarityExampleSelector::new(all.clone(), embedder.clone()).unwrap();
    selector.k = 1;
    assert_eq!(inputs(&selector, "purple elephants dance"), [long.as_str()]);
    // Of a long question too.
    let mut selector =
        SemanticSimilarityExampleSelector::new(examples(&["red apples", "green pears"]), embedder.clone()).unwrap();
    selector.k = 1;
    assert_eq!(inputs(&selector, &format!("{filler} green pears {filler}")), ["green pears"]);
    // An example of many windows is chosen once.
    let mut selector = MaxMarginalRelevanceExampleSelector::new(all, embedder.clone()).unwrap();
    selector.lambda = 0.0;
    assert_eq!(inputs(&selector, &long).iter().collect::<BTreeSet<_>>().len(), 4);
    let embedded = embedder.embedded.load(Ordering::Relaxed);
    selector.select("again").unwrap();
    assert_eq!(embedder.embedded.load(Ordering::Relaxed), embedded, "examples are embedded once");
}

#[test]
fn marginal_relevance_prefers_unlike_examples() {
    let vectors =
        [("query", [1.0, 0.2, 0.0]), ("a", [1.0, 0.0, 0.0]), ("a again", [1.0, 0.01, 0.0]), ("b", [0.0, 1.0, 0.0])];
    let vectors = vectors.map(|(name, vector)| (name.to_owned(), normalized(vector.to_vec()))).into();
    let mut selector =
        MaxMarginalRelevanceExampleSelector::new(examples(&["a", "a again", "b"]), given(3, vectors)).unwrap();
    selector.k = 2;
    assert_eq!(inputs(&selector, "query"), ["a again", "b"]);
    selector.lambda = 1.0;
    assert_eq!(inputs(&selector, "query"), ["a again", "a"]);
    (selector.lambda, selector.fetch_k) = (0.0, 2);
    assert_eq!(inputs(&selector, "query"), ["a again", "a"], "chosen from the two nearest");
}

#[test]
fn wrong_settings_and_failing_embedders_are_errors() {
    let error = |result: Result<Vec<FewShotExample>>| result.unwrap_err().to_string();
    let embedder = Arc::new(Hashing::new(8));
    let mut selector = MaxMarginalRelevanceExampleSelector::new(examples(&["a"]), embedder.clone()).unwrap();
    for lambda in [-0.1, 1.1, f64::NAN] {
        selector.lambda = lambda;
        assert!(error(selector.select("a")).contains("not within 0 to 1"));
    }
    let mut selector = NgramOverlapExampleSelector::new(examples(&["a"]));
    selector.threshold = f64::NAN;
    assert!(error(selector.select("a")).contains("threshold is NaN"));
    embedder.broken.store(true, Ordering::Relaxed);
    assert!(matches!(
        SemanticSimilarityExampleSelector::new(examples(&["a"]), embedder.clone()),
        Err(Error::Embedding { .. })
    ));
    // Nothing to embed, nothing to fail.
    assert_eq!(inputs(&SemanticSimilarityExampleSelector::new(Vec::new(), embedder.clone()).unwrap(), "a"), [""; 0]);
    assert_eq!(inputs(&MaxMarginalRelevanceExampleSelector::new(Vec::new(), embedder).unwrap(), "a"), [""; 0]);
    assert_eq!(inputs(&LengthBasedExampleSelector::new(Vec::new(), 10), "a"), [""; 0]);
    assert_eq!(inputs(&NgramOverlapExampleSelector::new(Vec::new()), "a"), [""; 0]);
    // One that gives vectors that are none.
    let vectors = [("a".to_owned(), vec![f32::NAN])].into();
    assert!(matches!(
        SemanticSimilarityExampleSelector::new(examples(&["a"]), given(1, vectors)),
        Err(Error::InvalidVector { .. })
    ));
}

#[test]
fn bm25_selects_the_examples_that_share_rare_words() {
    let all = ["paint the green fence", "paint the red door", "paint a painting of the sea", "call the bank"];
    let mut selector = Bm25ExampleSelector::new(examples(&all));
    assert_eq!(inputs(&selector, "Which doors did you call red?"), [all[1], all[3]]);
    assert_eq!(inputs(&selector, "painted")[0], all[2], "twice, and by its stem");
    assert_eq!(inputs(&selector, "painted").len(), 3, "only those that share a word");
    for nothing in ["", "the of a", "zebra"] {
        assert_eq!(inputs(&selector, nothing), [""; 0], "{nothing:?}");
    }
    // Equals keep their order, also those that are added later.
    selector.add(examples(&["zebra one", "zebra two"]));
    selector.add(examples(&["zebra ten"]));
    assert_eq!(inputs(&selector, "a zebra"), ["zebra one", "zebra two", "zebra ten"]);
    selector.k = 2;
    assert_eq!(inputs(&selector, "a zebra"), ["zebra one", "zebra two"]);
    assert_eq!(inputs(&Bm25ExampleSelector::new(Vec::new()), "a"), [""; 0]);
    let german = Bm25ExampleSelector::with_language(examples(&["Häuser streichen"]), Language::German);
    assert_eq!(inputs(&german, "ein Haus"), ["Häuser streichen"]);
}

#[test]
fn bm25_selects_among_more_examples_than_a_segment_holds() {
    let all: Vec<FewShotExample> = (0..70_000).map(|number| FewShotExample::new(format!("word{number}"), "")).collect();
    let selector = Bm25ExampleSelector::new(all);
    for number in [0, 65_535, 65_536, 69_999] {
        // The others have a part of the word.
        assert_eq!(inputs(&selector, &format!("word{number}"))[0], format!("word{number}"));
    }
}

#[test]
fn examples_can_be_added_to_selectors_by_vectors() {
    let embedder = Arc::new(Hashing::new(32));
    let mut similar = SemanticSimilarityExampleSelector::new(examples(&["red apples"]), embedder.clone()).unwrap();
    let mut marginal = MaxMarginalRelevanceExampleSelector::new(examples(&["red apples"]), embedder.clone()).unwrap();
    (similar.k, marginal.k) = (1, 1);
    let later = examples(&["green pears", "blue plums"]);
    similar.add(later.clone()).unwrap();
    marginal.add(later).unwrap();
    for input in ["red apples", "green pears", "blue plums"] {
        assert_eq!(inputs(&similar, input), [input]);
        assert_eq!(inputs(&marginal, input), [input]);
    }
    embedder.broken.store(true, Ordering::Relaxed);
    assert!(matches!(similar.add(examples(&["grey grapes"])), Err(Error::Embedding { .. })));
    embedder.broken.store(false, Ordering::Relaxed);
    assert_ne!(inputs(&similar, "grey grapes"), ["grey grapes"], "none is added");
}

#[test]
fn examples_in_the_engine_are_found_by_recall_and_outlive_it() {
    let db = Db::new();
    let home = namespace("acme/examples");
    {
        let engine = db.open();
        let selector = EngineExampleSelector::new(&engine, &home);
        assert_eq!(inputs(&selector, "anything"), [""; 0]);
        selector.add_blocking(examples(&["red apples", "green pears", "blue plums"])).unwrap();
        // The same example again is not another one; another output is.
        selector.add_blocking(examples(&["red apples"])).unwrap();
        selector.add_blocking(vec![FewShotExample::new("red apples", "another output")]).unwrap();
        assert_eq!(inputs(&selector, "red apples").iter().filter(|input| *input == "red apples").count(), 2);
    }
    let engine = db.open();
    let mut selector = EngineExampleSelector::new(&engine, &home);
    selector.k = 1;
    for strategy in [RankingStrategy::Hybrid, RankingStrategy::Dense, RankingStrategy::Lexical] {
        selector.strategy = strategy;
        assert_eq!(selector.select("green pears").unwrap(), examples(&["green pears"]), "{strategy}");
    }
    // Added later, from an async program.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let found = runtime.block_on(async {
        selector.add(examples(&["grey grapes"])).await.unwrap();
        selector.find("grey grapes").await.unwrap()
    });
    assert_eq!(found, examples(&["grey grapes"]));
    // Other messages of the namespace are no examples.
    engine.blocking().put(&home, vec![Message::user("grey grapes are no example")]).unwrap();
    engine.blocking().flush().unwrap();
    selector.k = 10;
    assert_eq!(selector.select("grey grapes").unwrap().len(), 5);
    let gone = EngineExampleSelector::message(&examples(&["grey grapes"])[0]).id;
    assert_eq!(engine.blocking().delete(&home, vec![gone]).unwrap(), 1);
    assert!(!inputs(&selector, "grey grapes").contains(&"grey grapes".to_owned()));
    selector.k = 0;
    assert!(matches!(selector.select("grey grapes"), Err(Error::InvalidQuery { .. })));
    drop((selector, engine));
    db.assert_sound();
}

#[test]
fn the_engine_lends_its_embedder() {
    let db = Db::new();
    let engine = db.open();
    let embedder = engine.embedder();
    assert_eq!(embedder.identity(), &engine.model());
    let mut selector =
        SemanticSimilarityExampleSelector::new(examples(&["red apples", "green pears"]), embedder).unwrap();
    selector.k = 1;
    drop(engine);
    assert_eq!(inputs(&selector, "green pears"), ["green pears"], "also when the engine is closed");
}

fn phrases(most: usize) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[ab]( [a-d]){0,6}", 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_selector_obeys_its_limits(all in phrases(12), input in "[a-d]( [a-d]){0,6}", k in 0usize..15, fetch_k in 0usize..15) {
        // Told apart by number, as inputs may be equal.
        let all: Vec<FewShotExample> =
            all.into_iter().enumerate().map(|(number, input)| FewShotExample::new(input, number.to_string())).collect();
        let embedder = Arc::new(Hashing::new(16));
        let mut similar = SemanticSimilarityExampleSelector::new(all.clone(), embedder.clone()).unwrap();
        let mut marginal = MaxMarginalRelevanceExampleSelector::new(all.clone(), embedder).unwrap();
        (similar.k, marginal.k, marginal.fetch_k) = (k, k, fetch_k);
        let overlap = NgramOverlapExampleSelector::new(all.clone());
        let by_length = LengthBasedExampleSelector::new(all.clone(), 4 * k);
        let selectors: [(&dyn ExampleSelector, usize); 4] =
            [(&similar, k), (&marginal, k.min(fetch_k)), (&overlap, usize::MAX), (&by_length, k)];
        for (selector, most) in selectors {
            let chosen = selector.select(&input).unwrap();
            prop_assert!(chosen.len() <= most.min(all.len()));
            prop_assert!(chosen.iter().all(|example| all.contains(example)));
            prop_assert_eq!(chosen.iter().map(|example| &example.output).collect::<BTreeSet<_>>().len(), chosen.len());
        }
        prop_assert_eq!(similar.select(&input).unwrap().len(), k.min(all.len()));
        prop_assert_eq!(marginal.select(&input).unwrap().len(), k.min(fetch_k).min(all.len()));
        prop_assert_eq!(overlap.select(&input).unwrap().len(), all.len(), "all are in order");
        // Only similarity counts.
        (marginal.lambda, marginal.fetch_k) = (1.0, fetch_k.max(k));
        prop_assert_eq!(marginal.select(&input).unwrap(), similar.select(&input).unwrap());
        // A higher threshold gives the beginning of the same.
        let mut fewer = overlap.clone();
        fewer.threshold = 0.1 * k as f64;
        prop_assert!(overlap.select(&input).unwrap().starts_with(&fewer.select(&input).unwrap()));
    }
}
