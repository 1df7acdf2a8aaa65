//! Queries of many sentences, and that the first hits do not depend on how many are asked for. By the bundled model, on the
//! committed chats with long answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mnemon::{Engine, MAX_QUERY_BYTES, Message, Model, Namespace, OnnxEmbedder, Query, Role, Scope};
use serde_json::Value;

use crate::support::{Db, root};

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root("datasets/long-answers").join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The messages of the set, and its questions with their namespaces.
fn long_answers(db: &Db) -> (Engine, Vec<(Namespace, String)>) {
    let engine = db.open_with(Arc::new(OnnxEmbedder::new(Model::bundled()).unwrap()));
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let messages = lines("messages.jsonl");
    let messages = messages.iter().map(|line| {
        let mut message = Message::new(text(line, "role").parse::<Role>().unwrap(), text(line, "content"));
        message = message.with_id(text(line, "id")).in_session(text(line, "session"));
        (text(line, "namespace").parse().unwrap(), message.at(text(line, "created_at").parse().unwrap()))
    });
    engine.blocking().put_all(messages.collect()).unwrap();
    engine.blocking().flush().unwrap();
    let question = |line: &Value| (text(line, "namespace").parse().unwrap(), text(line, "query"));
    (engine, lines("queries.jsonl").iter().map(question).collect())
}

#[test]
fn the_first_hits_do_not_depend_on_k() {
    let db = Db::new();
    let (engine, questions) = long_answers(&db);
    for (namespace, question) in questions {
        for query in [Query::new(&question), Query::new(format!("Be brief. Be kind. {question}"))] {
            let ids = |k: usize| -> Vec<String> {
                let hits = engine.blocking().recall(&namespace, query.clone().k(k)).unwrap();
                hits.iter().map(|hit| hit.message.id.clone()).collect()
            };
            let most = ids(130);
            for k in [1, 3, 10, 20, 60] {
                assert_eq!(ids(k), most[..k], "{k}: {question}");
            }
        }
    }
}

#[test]
fn the_piece_that_asks_decides_and_is_named() {
    let db = Db::new();
    let (engine, _) = long_answers(&db);
    let namespace: Namespace = "long/nadia".parse().unwrap();
    let question = "What did Joost and I pay for the barge?";
    let recall = |text: &str| engine.blocking().recall(&namespace, Query::new(text).k(1)).unwrap();
    let alone = recall(question);
    assert!(alone[0].breakdown.piece.is_none() && alone[0].message.id == "na-s01-01");
    let general = "Thank you for your help earlier. Please keep the answer short. No need to apologise.";
    for text in [format!("{general} {question}"), format!("{question} {general}")] {
        let hits = recall(&text);
        assert_eq!(hits[0].message.id, "na-s01-01", "{text}");
        let piece = hits[0].breakdown.piece.clone().unwrap();
        assert!(text[piece.clone()].contains(question), "{}", &text[piece]);
        let terms = &hits[0].breakdown;
        let content = terms.dense + terms.lexical + terms.neighbor + terms.whole;
        let message = terms.speaker + terms.question + terms.length + terms.time;
        assert!((hits[0].score - content - message).abs() < 1e-3, "{:?}", hits[0]);
        assert!(hits.answerability() > 0.8 * alone.answerability());
        // The same from several namespaces, one of which has nothing.
        let scope = Scope::new().namespace(&namespace).namespace(&"long/nobody".parse().unwrap());
        let several = engine.blocking().recall_in(&scope, Query::new(&text).k(1)).unwrap();
        assert_eq!(several[0].message.id, "na-s01-01");
    }
}

/// In an unoptimised build, on a busy machine: only what grows without bound is too slow.
#[test]
fn huge_queries_are_answered_in_bounded_time() {
    let db = Db::new();
    let (engine, _) = long_answers(&db);
    let namespace: Namespace = "long/nadia".parse().unwrap();
    let code = "let x = barge(3).unwrap();\n".repeat(2_000);
    for text in [
        "barge".repeat(MAX_QUERY_BYTES / 5),
        "word ".repeat(MAX_QUERY_BYTES / 5),
        "Is this one of many? And so on it goes. ".repeat(5_000),
        format!("```\n{code}```"),
        code,
        "?".repeat(100_000),
    ] {
        let begin = Instant::now();
        engine.blocking().recall(&namespace, Query::new(&text)).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20), "{:.30}: {:?}", text, begin.elapsed());
    }
}
