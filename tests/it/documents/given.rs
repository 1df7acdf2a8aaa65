//! Documents with vectors that the program gives.

use std::sync::Arc;

use mnemon::{
    Config, DocumentOperation, DocumentOptions, DocumentSearch, EncryptionKey, Engine, Error, Freshness, Message,
    Precision, Query, RankingStrategy, ReindexOptions, models::GivenVectors,
};
use serde_json::json;

use super::{documents, keys, search};
use crate::support::{Db, Hashing, go_on, namespace, postgres::server};

fn given(dimension: usize) -> Arc<GivenVectors> {
    Arc::new(GivenVectors::new("theirs", dimension))
}

fn open(db: &Db) -> Engine {
    Engine::builder(&db.path).embedder(given(3)).open().unwrap()
}

fn put(engine: &Engine, key: &str, text: &str, vector: &[f32]) {
    let options = DocumentOptions::default().index(["text"]).vectors([vector]);
    documents(engine).blocking().put(key, json!({"text": text}), options).unwrap();
}

/// Keys and scores of the documents nearest to a vector.
fn near(engine: &Engine, vector: [f32; 3]) -> Vec<(String, f32)> {
    let found = documents(engine).blocking().search(search().vector(vector)).unwrap();
    found.into_iter().map(|found| (found.key, (found.score.unwrap() * 1e3).round() / 1e3)).collect()
}

fn expected(rows: &[(&str, f32)]) -> Vec<(String, f32)> {
    rows.iter().map(|(key, score)| ((*key).to_owned(), *score)).collect()
}

const X: [f32; 3] = [1.0, 0.0, 0.0];

#[test]
fn given_vectors_outlive_edits_exports_and_reindexing() {
    let db = Db::new();
    let engine = open(&db);
    put(&engine, "boat", "a red boat", &[0.6, 0.8, 0.0]);
    // Scaled to length 1.
    put(&engine, "bike", "a green bike", &[0.0, 5.0, 0.0]);
    put(&engine, "kite", "a blue kite", &[4.0, 3.0, 0.0]);
    engine.blocking().flush().unwrap();
    let all = expected(&[("kite", 0.8), ("boat", 0.6), ("bike", 0.0)]);
    assert_eq!(near(&engine, X), all);
    drop(engine);

    // Opened without an embedder; a model is refused.
    let engine = Engine::open(&db.path).unwrap();
    assert_eq!(near(&engine, [9.0, 0.0, 0.0]), all);
    let vectors = documents(&engine).blocking().vectors(vec!["kite".into(), "none".into()]).unwrap();
    assert!((vectors[0][0][0] - 0.8).abs() < 1e-3 && vectors[1].is_empty(), "{vectors:?}");

    // Another vector of the same text, and another text without one, which words alone find.
    put(&engine, "boat", "a red boat", &[0.0, 0.0, 1.0]);
    documents(&engine).blocking().put("bike", json!({"text": "a tandem"}), DocumentOptions::default()).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(near(&engine, X), expected(&[("kite", 0.8), ("boat", 0.0)]));
    assert_eq!(near(&engine, [0.0, 0.0, 1.0])[0], ("boat".to_owned(), 1.0));
    assert_eq!(keys(&documents(&engine).blocking().search(search().query("tandem").limit(1)).unwrap()), ["bike"]);
    let both = search().query("tandem").vector([0.0, 0.0, 1.0]);
    let found = documents(&engine).blocking().search(both).unwrap();
    assert!(keys(&found)[..2].contains(&"bike") && keys(&found)[..2].contains(&"boat"), "{found:?}");

    // Exact after a change of precision: the vectors of the texts are whole.
    for precision in [Precision::I8, Precision::F32] {
        let mut options = ReindexOptions::default();
        options.precision = Some(precision);
        let report = engine.blocking().reindex(given(3), options, go_on).unwrap();
        assert!(report.switched, "{report:?}");
    }
    let vectors = documents(&engine).blocking().vectors(vec!["kite".into()]).unwrap();
    assert_eq!(vectors[0], [[0.8, 0.6, 0.0]]);

    let mut lines = Vec::new();
    engine.blocking().export_all(&mut lines).unwrap();
    drop(engine);
    db.assert_sound();
    let copy = Db::new();
    let engine = open(&copy);
    engine.blocking().import(lines.as_slice()).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(near(&engine, [0.0, 0.0, 1.0])[0], ("boat".to_owned(), 1.0));
    let narrow = Engine::builder_in_memory().embedder(given(2)).open().unwrap();
    let error = narrow.blocking().import(lines.as_slice()).unwrap_err().to_string();
    assert!(error.contains("3 components"), "{error}");
    // A model makes its own.
    let model = Engine::builder_in_memory().embedder(Arc::new(Hashing::new(32))).open().unwrap();
    model.blocking().import(lines.as_slice()).unwrap();
    model.blocking().flush().unwrap();
    let vectors = documents(&model).blocking().vectors(vec!["boat".into(), "bike".into()]).unwrap();
    assert!(vectors.iter().all(|of| of.len() == 1 && of[0].len() == 32), "{vectors:?}");
}

#[test]
fn equal_texts_have_vectors_of_their_own() {
    let engine = Engine::builder_in_memory().embedder(given(3)).open().unwrap();
    let options = DocumentOptions::default().index(["a", "b"]).vectors([X, [0.0, 1.0, 0.0]]);
    documents(&engine).blocking().put("twins", json!({"a": "same", "b": "same"}), options).unwrap();
    engine.blocking().flush().unwrap();
    for vector in [X, [0.0, 1.0, 0.0]] {
        assert_eq!(near(&engine, vector), expected(&[("twins", 1.0)]));
    }
    assert_eq!(documents(&engine).blocking().vectors(vec!["twins".into()]).unwrap()[0].len(), 2);
}

#[test]
fn messages_of_given_databases_are_found_by_words() {
    let engine = Engine::builder_in_memory().embedder(given(3)).config(Config::default()).open().unwrap();
    let (space, blocking) = (namespace("a"), engine.blocking());
    blocking.put(&space, vec![Message::user("I row on Thursdays"), Message::user("the bakery opens")]).unwrap();
    blocking.flush().unwrap();
    assert_eq!(blocking.recall(&space, Query::new("when do I row?")).unwrap()[0].message.text(), "I row on Thursdays");
    let found = |query: Query| blocking.recall(&space, query.answerable(0.3)).unwrap().len();
    assert_eq!([found(Query::new("when do I row?")), found(Query::new("which train is late?"))], [2, 0]);
    let memory = engine.memory(&space, "s").open().unwrap();
    let prompt = |text: &str| memory.blocking().assemble(Message::user(text)).unwrap().messages[0].text().to_owned();
    assert!(prompt("when do I row?").contains("I row on Thursdays"));
    assert!(!prompt("which train is late?").contains("Thursdays"));
    let error = blocking.recall(&space, Query::new("row").strategy(RankingStrategy::Dense)).unwrap_err();
    assert!(matches!(&error, Error::InvalidQuery { .. }) && error.to_string().contains("given"), "{error}");
}

#[test]
fn vectors_that_do_not_fit_are_refused() {
    let engine = Engine::builder_in_memory().embedder(given(3)).open().unwrap();
    let model = Engine::builder_in_memory().embedder(Arc::new(Hashing::new(3))).open().unwrap();
    let refused = |engine: &Engine, vectors: Vec<Vec<f32>>, reason: &str| {
        let options = DocumentOptions::default().index(["text"]).vectors(vectors);
        let (namespace, value) = (namespace("acme/user-42"), json!({"text": "a boat"}));
        let whole = DocumentOptions::default();
        let other = DocumentOperation::Put {
            namespace: namespace.clone(),
            key: "other".into(),
            value: json!("x"),
            options: whole,
        };
        let put = DocumentOperation::Put { namespace, key: "boat".into(), value, options };
        let error = engine.blocking().document_batch(vec![other, put]).unwrap_err();
        assert!(matches!(&error, Error::InvalidDocument { .. }) && error.to_string().contains(reason), "{error}");
        assert!(documents(engine).blocking().get("other").unwrap().is_none(), "nothing of the batch is stored");
    };
    refused(&engine, vec![vec![1.0; 2]], "2 components");
    refused(&engine, vec![vec![f32::NAN, 0.0, 0.0]], "not finite");
    refused(&engine, vec![vec![1.0; 3]; 2], "2 vectors for 1");
    refused(&model, vec![vec![1.0; 3]], "give none");
    for vector in [vec![1.0; 2], vec![f32::INFINITY; 3]] {
        put(&engine, "boat", "a boat", &X);
        let error = documents(&engine).blocking().search(DocumentSearch::default().vector(vector)).unwrap_err();
        assert!(matches!(error, Error::InvalidQuery { .. }), "{error}");
    }
    let db = Db::new();
    drop(open(&db));
    for other in [Arc::new(GivenVectors::new("others", 3)), given(4)] {
        assert!(matches!(Engine::builder(&db.path).embedder(other).open(), Err(Error::ModelMismatch { .. })));
    }
    assert!(matches!(Engine::builder_in_memory().embedder(given(0)).open(), Err(Error::InvalidVector { .. })));
}

#[test]
fn machines_that_share_a_database_have_the_given_vectors_of_all() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let copy = |db: &Db| {
        let builder = Engine::builder(&db.path).embedder(given(3)).shared(&address);
        builder.freshness(Freshness::Latest).open().unwrap()
    };
    let (first, second) = (copy(&a), copy(&b));
    put(&first, "x", "a red boat", &X);
    put(&second, "y", "a blue car", &[0.0, 1.0, 0.0]);
    for engine in [&first, &second] {
        documents(engine).blocking().search(search()).unwrap();
        engine.blocking().flush().unwrap();
        assert_eq!(near(engine, X), expected(&[("x", 1.0), ("y", 0.0)]));
    }
    drop((first, second));
    a.assert_sound();
    b.assert_sound();
}

#[test]
fn an_encrypted_file_has_given_vectors() {
    let db = Db::new();
    let config = Config::default().encryption_key(EncryptionKey::from_bytes([7; 32]));
    let builder = || Engine::builder(&db.path).config(config.clone());
    let engine = builder().embedder(given(3)).open().unwrap();
    put(&engine, "x", "a red boat", &X);
    engine.blocking().flush().unwrap();
    drop(engine);
    let engine = builder().open().unwrap();
    assert_eq!(near(&engine, X), expected(&[("x", 1.0)]), "opened without an embedder");
}
