//! Wrong queries are errors that name the fault; odd queries are answered.

use std::{sync::Arc, time::Duration};

use mnemon::{Engine, Error, MAX_K, Query, RankingStrategy, Role};

use super::{SPACE, Terse, filled, put, recall};
use crate::support::{Db, Hashing, chain, message, namespace};

#[test]
fn wrong_settings_are_named() {
    let (_db, engine) = filled(vec![message("1", "text")]);
    let ask = || Query::new("text");
    for (query, reason) in [
        (ask().k(0), "k is 0"),
        (ask().k(MAX_K + 1), "k is 10001"),
        (ask().strategy(RankingStrategy::Weighted(-0.1)), "weighted is -0.1"),
        (ask().strategy(RankingStrategy::Weighted(1.1)), "weighted is 1.1"),
        (ask().strategy(RankingStrategy::Weighted(f32::NAN)), "weighted is NaN"),
        (ask().diversity(f32::INFINITY), "diversity is inf"),
        (ask().diversity(f32::NAN), "diversity is NaN"),
        (ask().answerable(-1.0), "answerable is -1"),
        (ask().answerable(f32::NAN), "answerable is NaN"),
        (ask().per_batch(0), "per_batch is 0"),
        (ask().half_life(Duration::ZERO), "half_life is 0"),
        (ask().rerank(0), "rerank is 0"),
        (ask().rerank(MAX_K + 1), "rerank is 10001"),
        (ask().rerank(5), "no reranker"),
        (Query::new("\u{3000}\t\n"), "text is empty"),
    ] {
        let error = engine.blocking().recall(&namespace(SPACE), query).unwrap_err();
        assert!(matches!(error, Error::InvalidQuery { .. }) && error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn odd_texts_are_answered() {
    let (_db, engine) = filled((0..50).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect());
    for text in [
        "the of and",
        "???",
        "👍👎",
        "\0\u{1}\u{7f}",
        "\u{202e}\u{200b}",
        "e\u{301}\u{301}",
        "'",
        &"word7 ".repeat(20_000),
        &"x".repeat(100_000),
        &"a.".repeat(50_000),
        &"last week ".repeat(10_000),
        &"東京".repeat(20_000),
        &(0..5000).map(|i| format!("w{i} ")).collect::<String>(),
    ] {
        let hits = recall(&engine, Query::new(text));
        assert_eq!(hits.len(), 10, "{text:.20}");
        assert!(hits.iter().all(|hit| hit.score.is_finite()) && (0.0..=1.0).contains(&hits.answerability()));
    }
}

#[test]
fn a_recall_with_nothing_to_find_is_empty() {
    let (_db, engine) = filled(vec![message("1", "text")]);
    for query in [
        Query::new("text").session("none"),
        Query::new("text").role(Role::Tool),
        Query::new("text").except(["1"]),
        Query::new("text").until("1900-01-01T00:00:00Z".parse().unwrap()),
    ] {
        for query in [query.clone(), query.clone().strategy(RankingStrategy::Lexical), query.k(MAX_K).diversity(0.5)] {
            let hits = recall(&engine, query);
            assert!(hits.is_empty() && hits.answerability() == 0.0);
        }
    }
    let none = engine.blocking().recall(&namespace("none"), Query::new("text")).unwrap();
    assert!(none.is_empty() && none.answerability() == 0.0);
    assert_eq!(recall(&engine, Query::new("text").except(["none", "", "1 "])).len(), 1, "unknown ids are ignored");
    assert_eq!(recall(&engine, Query::new("text").previous(["none", "1", "1"])).len(), 1);
}

#[test]
fn a_recall_without_time_says_that_it_was_cut_short() {
    let (_db, engine) = filled((0..3000).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect());
    for budget in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let hits = recall(&engine, Query::new("word7").within(budget).k(5));
        assert!(hits.cut_short() || hits.len() == 5, "{budget:?}");
        assert_eq!(hits.cut_short(), budget < Duration::from_secs(1));
        // Every other choice that costs time.
        let costly = Query::new("word7").within(budget).k(5).diversity(0.3).per_batch(1).answerable(0.0);
        match engine.blocking().recall(&namespace(SPACE), costly) {
            Ok(hits) => assert!(hits.len() <= 5),
            Err(error) => {
                assert!(matches!(error, Error::DeadlineExceeded) && budget < Duration::from_secs(1), "{error}")
            }
        }
    }
}

/// A reranker that fails, panics or gives nonsense costs that answer alone.
#[test]
fn a_failing_reranker_is_named() {
    struct Broken;
    impl mnemon::Reranker for Broken {
        fn name(&self) -> &str {
            "broken"
        }
        fn rerank(&self, query: &str, passages: &[&str]) -> mnemon::Result<Vec<f32>> {
            match query {
                "panic" => panic!("on purpose"),
                "nan" => Ok(vec![f32::NAN; passages.len()]),
                "few" => Ok(vec![1.0]),
                _ => Ok(vec![f32::MAX; passages.len()]),
            }
        }
    }
    let db = Db::new();
    let engine =
        Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).reranker(Arc::new(Broken)).open().unwrap();
    put(&engine, (0..20).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect());
    for (text, reason) in [("panic", "panicked"), ("nan", "NaN"), ("few", "1 scores")] {
        let error = engine.blocking().recall(&namespace(SPACE), Query::new(text).rerank(10)).unwrap_err();
        assert!(matches!(error, Error::Reranking { .. }) && chain(&error).contains(reason), "{error}");
        assert_eq!(recall(&engine, Query::new(text)).len(), 10);
    }
    assert_eq!(recall(&engine, Query::new("max").rerank(10).diversity(0.5)).len(), 10);
    drop(engine);
    let engine =
        Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).reranker(Arc::new(Terse)).open().unwrap();
    assert_eq!(recall(&engine, Query::new("word1").rerank(MAX_K).k(20)).len(), 20);
}

#[test]
fn wrong_queries_are_errors_and_odd_ones_are_answered() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace("a");
    engine.blocking().put(&space, vec![message("1", "text")]).unwrap();
    engine.blocking().flush().unwrap();
    let (early, late) = ("2024-01-01T00:00:00Z".parse().unwrap(), "2024-01-02T00:00:00Z".parse().unwrap());
    for (query, reason) in [
        (Query::new("text").k(0), "k is 0"),
        (Query::new("text").k(1_000_000), "k is 1000000"),
        (Query::new(""), "text is empty"),
        (Query::new(" \n "), "text is empty"),
        (Query::new("text").since(late).until(early), "no time is both"),
    ] {
        let error = engine.blocking().recall(&space, query).unwrap_err();
        assert!(matches!(error, Error::InvalidQuery { .. }) && error.to_string().contains(reason), "{error}");
    }
    // Odd, not wrong.
    for text in ["🙂", "\u{202e}abc", "\0", &"word ".repeat(20_000), &"x".repeat(100_000)] {
        assert_eq!(engine.blocking().recall(&space, Query::new(text)).unwrap().len(), 1);
    }
}
