//! Wrong messages, wrong embedders and wrong files: an error that names the fault, and no data is lost.

use std::{fs, path::Path, sync::Arc};

use mnemon::{
    Bm25ExampleSelector, ContentPart, DocumentSearch, EngineExampleSelector, Error, ExampleSelector, MAX_QUERY_BYTES,
    MaxMarginalRelevanceExampleSelector, Message, NgramOverlapExampleSelector, Query, Result, Scope,
    SemanticSimilarityExampleSelector,
};

use crate::support::{Db, Hashing, chain, embedders::Scripted, message, namespace};

fn with_parts(content: Vec<ContentPart>) -> Message {
    Message { content, ..message("2", "text") }
}

fn nested(depth: usize) -> serde_json::Value {
    (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]))
}

#[test]
fn one_wrong_message_rejects_its_whole_put() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace("a");
    let bad = [
        message("", "text"),
        message(&"x".repeat(513), "text"),
        message("2", "text").in_session(""),
        message("2", "text").by("x".repeat(513)),
        message("2", &"x".repeat(mnemon::MAX_MESSAGE_BYTES + 1)),
        // As JSON, in which parts are stored, these are too large: six bytes a control character, many empty parts.
        with_parts(vec![ContentPart::ToolResult { id: "c".into(), content: "\0".repeat(800_000) }]),
        with_parts(vec![ContentPart::Text { text: "x".into() }; 100_000]),
        // Written, this could not be read again.
        with_parts(vec![ContentPart::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(200) }]),
        {
            let mut message = message("2", "text");
            message.metadata.insert("deep".into(), nested(200));
            message
        },
    ];
    for bad in bad {
        let result = engine.blocking().put(&space, vec![message("1", "text"), bad]);
        assert!(matches!(result.unwrap_err(), Error::InvalidMessage { .. }));
        assert_eq!(engine.blocking().get(&space, "1").unwrap(), None);
    }
    // The largest of everything is right.
    let name = "x".repeat(512);
    let mut largest = message(&name, &"x".repeat(mnemon::MAX_MESSAGE_BYTES)).in_session(name.clone()).by(name.clone());
    let beside = r#"{"":""}"#.len();
    largest.metadata.insert(String::new(), "x".repeat(mnemon::MAX_METADATA_BYTES - beside).into());
    engine.blocking().put(&space, vec![largest.clone()]).unwrap();
    assert_eq!(engine.blocking().get(&space, &name).unwrap(), Some(largest.clone()));
    engine.blocking().flush().unwrap();
    drop(engine);
    assert!(mnemon::DatabaseFile::new(&db.path).verify().unwrap().problems.is_empty());
    let hits = db.open().blocking().recall(&space, Query::new("x")).unwrap();
    assert_eq!(hits.into_iter().map(|hit| hit.message).collect::<Vec<_>>(), [largest]);
}

#[test]
fn a_query_has_a_greatest_length() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace("a");
    engine.blocking().put(&space, vec![message("1", "text")]).unwrap();
    let longest = "text ".repeat(MAX_QUERY_BYTES / 5) + &"x".repeat(MAX_QUERY_BYTES % 5);
    assert_eq!(engine.blocking().recall(&space, Query::new(&*longest)).unwrap().len(), 1);
    let text = longest + "x";
    let model = || Arc::new(Hashing::new(2));
    let documents = engine.documents(&space);
    let results = [
        engine.blocking().recall(&space, Query::new(&*text)).map(drop),
        engine.blocking().recall_in(&[&space].into_iter().collect::<Scope>(), Query::new(&*text)).map(drop),
        documents.blocking().search(DocumentSearch::default().query(&*text)).map(drop),
        EngineExampleSelector::new(&engine, &space).select(&text).map(drop),
        Bm25ExampleSelector::new(vec![]).select(&text).map(drop),
        NgramOverlapExampleSelector::new(vec![]).select(&text).map(drop),
        SemanticSimilarityExampleSelector::new(vec![], model()).unwrap().select(&text).map(drop),
        MaxMarginalRelevanceExampleSelector::new(vec![], model()).unwrap().select(&text).map(drop),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::InvalidQuery { reason } if reason.contains("the maximum is")), "{error}");
    }
}

/// Returns an embedder with these vectors, repeated for each text, and these windows. It panics if there is no vector.
fn embedder(rows: Vec<Vec<f32>>, windows: Vec<std::ops::Range<usize>>) -> Scripted {
    let vectors = move |texts: &[&str]| {
        assert!(!rows.is_empty(), "a panic on purpose");
        Ok(rows.iter().cycle().take(texts.len().max(rows.len())).cloned().collect())
    };
    Scripted::new(2, vectors).with_windows(windows)
}

#[test]
fn wrong_vectors_are_not_stored() {
    for (rows, reason) in [
        (vec![vec![1.0]], "a vector of 1 components"),
        (vec![vec![f32::NAN, 0.0]], "not finite"),
        (vec![vec![f32::INFINITY, 0.0]], "not finite"),
        (vec![vec![3.0, 4.0]], "a vector of length 5"),
        (vec![vec![1.0, 0.0], vec![1.0, 0.0]], "2 vectors for 1 texts"),
    ] {
        let db = Db::new();
        let engine = db.open_with(Arc::new(embedder(rows, std::iter::once(0..4).collect())));
        let space = namespace("a");
        engine.blocking().put(&space, vec![message("1", "text")]).unwrap();
        let error = chain(&engine.blocking().flush().unwrap_err());
        assert!(error.contains(reason), "{error}");
        drop(engine);
        assert_eq!(db.assert_sound().pending, 1);
        // With a model that works, all is well.
        let engine = db.open_with(Arc::new(Hashing::new(2)));
        engine.blocking().flush().unwrap();
        assert_eq!(engine.blocking().recall(&space, Query::new("text")).unwrap().len(), 1);
    }
}

#[test]
fn an_embedder_that_panics_or_splits_wrongly_harms_nothing_else() {
    let whole = std::iter::once(0..4).collect::<Vec<_>>();
    for (rows, windows, reason) in [
        (vec![], whole, "the embedder panicked"),
        (vec![vec![1.0, 0.0]], vec![], "split into 0 windows"),
        (vec![vec![1.0, 0.0]], vec![0..4, 2..9], "a window is not a range of the text"),
        (vec![vec![1.0, 0.0]], vec![0..1; 70_000], "split into 70000 windows"),
    ] {
        let db = Db::new();
        let engine = db.open_with(Arc::new(embedder(rows, windows)));
        let space = namespace("a");
        engine.blocking().put(&space, vec![message("1", "text")]).unwrap();
        for _ in 0..2 {
            let error = chain(&engine.blocking().flush().unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(engine.blocking().pending().unwrap(), 1);
        assert!(engine.blocking().recall(&space, Query::new("text")).is_err());
        // The engine lives: it stores, and a flush answers.
        engine.blocking().put(&space, vec![message("2", "text")]).unwrap();
        drop(engine);
        db.assert_sound();
    }
}

#[test]
fn opening_with_another_model_names_both_and_the_remedy() {
    let db = Db::new();
    db.open().blocking().put(&namespace("a"), vec![message("1", "text")]).unwrap();
    let error = db.try_open_with(Arc::new(Hashing::new(48))).unwrap_err();
    assert!(matches!(error, Error::ModelMismatch { .. }));
    let text = error.to_string();
    for part in ["hashing (32 dimensions", "hashing (48 dimensions", "by a reindex"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(db.open().blocking().get(&namespace("a"), "1").unwrap().is_some());
}

#[test]
fn a_database_that_is_open_is_locked() {
    let db = Db::new();
    let engine = db.open();
    let error = db.try_open_with(Arc::new(Hashing::new(32))).unwrap_err();
    assert!(matches!(error, Error::DatabaseLocked { .. }), "{error}");
    let (own, other) = match cfg!(target_os = "linux") {
        true => ("this process".to_owned(), format!("the process {}", std::process::id())),
        false => ["another process or in this one".to_owned(), "another process or in this one".to_owned()].into(),
    };
    assert!(error.to_string().contains(&format!("already open in {own};")), "{error}");
    // Another process is told the same.
    let mut command = assert_cmd::Command::cargo_bin("mnemon").unwrap();
    let line = r#"{"namespace": "a", "role": "user", "content": "x"}"#;
    let output = command.args(["ingest", "--db"]).arg(&db.path).arg("-").write_stdin(line).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("already open in {other};")), "{output:?}");
    drop(engine);
    mnemon::verify(&db.path).unwrap();
}

fn db_at(path: &Path) -> Result<mnemon::Engine> {
    mnemon::Engine::builder(path).embedder(Arc::new(Hashing::new(32))).open()
}

#[test]
fn a_folder_is_not_a_database() {
    let db = Db::new();
    let error = db_at(db.folder.path()).unwrap_err();
    assert!(matches!(error, Error::Storage(_) | Error::NotADatabase { .. }), "{error}");
}

#[test]
fn foreign_and_newer_files_are_refused_and_left_unchanged() {
    let db = Db::new();
    fs::write(&db.path, "not a database, but some text that is long enough\n".repeat(200)).unwrap();
    let before = fs::read(&db.path).unwrap();
    assert!(matches!(db_at(&db.path).unwrap_err(), Error::NotADatabase { .. }));
    assert_eq!(fs::read(&db.path).unwrap(), before, "left as it was");

    let db = Db::new();
    let table = redb::TableDefinition::<&str, &[u8]>::new("recipes");
    let change = |path: &Path, table: redb::TableDefinition<&str, &[u8]>, key: &str, value: &[u8]| {
        let database = redb::Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert(key, value).unwrap();
        transaction.commit().unwrap();
    };
    change(&db.path, table, "soup", b"water");
    let error_text = db_at(&db.path).unwrap_err().to_string();
    assert!(error_text.contains("another program"), "{error_text}");

    let db = Db::new();
    db.open().blocking().put(&namespace("a"), vec![message("1", "text")]).unwrap();
    drop(crate::support::open_tables(&db.path));
    change(&db.path, redb::TableDefinition::new("meta"), "schema", &99u32.to_le_bytes());
    let error = db_at(&db.path).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, supported: 12, .. }), "{error}");
}

#[test]
fn truncated_files_are_errors() {
    let db = Db::new();
    let engine = db.open();
    engine.blocking().put(&namespace("a"), (0..300).map(|i| message(&format!("m{i}"), "text")).collect()).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    let whole = fs::read(&db.path).unwrap();
    for cut in [1, 10, 100, 511, 1000, 4096, 5000, 8192, 20_000, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        let copy = Db::new();
        fs::write(&copy.path, &whole[..cut]).unwrap();
        let result = db_at(&copy.path);
        assert!(
            matches!(result, Err(Error::NotADatabase { .. } | Error::Corrupted { .. } | Error::Storage(_))),
            "cut at {cut}: {result:?}"
        );
    }
}
