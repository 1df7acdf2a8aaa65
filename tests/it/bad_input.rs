//! Wrong calls, wrong files, wrong models: a clear error, and nothing lost.

use std::{fs, path::Path, sync::Arc};

use mnemon::{Embedder, Error, Message, Model, ModelIdentity, OnnxEmbedder, Part, Query, Result};

use crate::support::{Db, Hashing, chain, message, namespace};

#[test]
fn wrong_queries() {
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

fn with_parts(content: Vec<Part>) -> Message {
    Message { content, ..message("2", "text") }
}

fn nested(depth: usize) -> serde_json::Value {
    (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]))
}

#[test]
fn one_wrong_message_stops_its_put_whole() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace("a");
    let bad = [
        message("", "text"),
        message(&"x".repeat(513), "text"),
        message("2", "  "),
        message("2", "text").in_session(""),
        message("2", "text").by("x".repeat(513)),
        message("2", &"x".repeat(mnemon::MAX_MESSAGE_BYTES + 1)),
        // As JSON, in which parts are stored, these are too large: six bytes a control character, many empty parts.
        with_parts(vec![Part::ToolResult { id: "c".into(), content: "\0".repeat(800_000) }]),
        with_parts(vec![Part::Text { text: "x".into() }; 100_000]),
        // Written, this could not be read again.
        with_parts(vec![Part::ToolCall { id: "c".into(), name: "f".into(), arguments: nested(200) }]),
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
    let largest = message(&name, &"x".repeat(mnemon::MAX_MESSAGE_BYTES)).in_session(name.clone()).by(name.clone());
    engine.blocking().put(&space, vec![largest.clone()]).unwrap();
    assert_eq!(engine.blocking().get(&space, &name).unwrap(), Some(largest));
}

/// Gives whatever it is told to.
struct Liar {
    identity: ModelIdentity,
    rows: Vec<Vec<f32>>,
    windows: Vec<std::ops::Range<usize>>,
}

impl Embedder for Liar {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn windows(&self, _text: &str) -> Vec<std::ops::Range<usize>> {
        self.windows.clone()
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        assert!(!self.rows.is_empty(), "a panic on purpose");
        Ok(self.rows.iter().cycle().take(texts.len().max(self.rows.len())).cloned().collect())
    }

    fn embed_query(&self, _text: &str) -> Result<Vec<f32>> {
        Ok(self.rows[0].clone())
    }
}

#[test]
fn wrong_vectors_are_not_stored() {
    let identity = Hashing::new(2).identity().clone();
    for (rows, reason) in [
        (vec![vec![1.0]], "a vector of 1 components"),
        (vec![vec![f32::NAN, 0.0]], "not finite"),
        (vec![vec![f32::INFINITY, 0.0]], "not finite"),
        (vec![vec![3.0, 4.0]], "a vector of length 5"),
        (vec![vec![1.0, 0.0], vec![1.0, 0.0]], "2 vectors for 1 texts"),
    ] {
        let db = Db::new();
        let engine =
            db.open_with(Arc::new(Liar { identity: identity.clone(), rows, windows: std::iter::once(0..4).collect() }));
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
fn an_embedder_that_panics_or_splits_wrongly_stops_nothing_else() {
    let identity = Hashing::new(2).identity().clone();
    let whole = std::iter::once(0..4).collect::<Vec<_>>();
    for (rows, windows, reason) in [
        (vec![], whole, "the embedder panicked"),
        (vec![vec![1.0, 0.0]], vec![], "split into 0 windows"),
        (vec![vec![1.0, 0.0]], vec![0..4, 2..9], "outside of itself"),
        (vec![vec![1.0, 0.0]], vec![0..1; 70_000], "split into 70000 windows"),
    ] {
        let db = Db::new();
        let engine = db.open_with(Arc::new(Liar { identity: identity.clone(), rows, windows }));
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
fn another_model_is_named_and_so_is_the_remedy() {
    let db = Db::new();
    db.open().blocking().put(&namespace("a"), vec![message("1", "text")]).unwrap();
    let error = db.try_open_with(Arc::new(Hashing::new(48))).unwrap_err();
    assert!(matches!(error, Error::ModelMismatch { .. }));
    let text = error.to_string();
    for part in ["hashing (32 dimensions", "hashing (48 dimensions", "mnemon reindex"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(db.open().blocking().get(&namespace("a"), "1").unwrap().is_some());
}

#[test]
fn a_database_that_is_open_is_locked() {
    let db = Db::new();
    let engine = db.open();
    for error in [db.try_open_with(Arc::new(Hashing::new(32))).unwrap_err(), mnemon::verify(&db.path).unwrap_err()] {
        assert!(matches!(error, Error::DatabaseLocked { .. }), "{error}");
    }
    // Another process is told the same.
    let output =
        assert_cmd::Command::cargo_bin("mnemon").unwrap().args(["stats", "--db"]).arg(&db.path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("already open in another process"));
    drop(engine);
    mnemon::verify(&db.path).unwrap();
}

#[test]
fn a_missing_database_is_not_made_by_looking() {
    let db = Db::new();
    assert!(matches!(mnemon::stats(&db.path).unwrap_err(), Error::DatabaseNotFound { .. }));
    assert!(matches!(mnemon::verify(&db.path).unwrap_err(), Error::DatabaseNotFound { .. }));
    assert!(!db.path.exists());
    let folder = db_at(db.folder.path()).unwrap_err();
    assert!(matches!(folder, Error::Storage(_) | Error::NotADatabase { .. }), "a folder is no file: {folder}");
}

fn db_at(path: &Path) -> Result<mnemon::Engine> {
    mnemon::Engine::builder(path).embedder(Arc::new(Hashing::new(32))).open()
}

#[test]
fn foreign_and_newer_files() {
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
    change(&db.path, redb::TableDefinition::new("meta"), "schema", &99u32.to_le_bytes());
    let error = db_at(&db.path).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, supported: 5, .. }), "{error}");
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

#[test]
fn a_segment_of_other_rows_than_are_counted_is_left_alone_and_made_anew() {
    let db = Db::new();
    let space = namespace("a");
    let put = |engine: &mnemon::Engine, ids: std::ops::Range<usize>| {
        let messages = ids.map(|i| message(&format!("m{i}"), &format!("word{i}")));
        engine.blocking().put(&space, messages.collect()).unwrap();
        engine.blocking().flush().unwrap();
    };
    put(&db.open(), 0..10);
    {
        let database = redb::Database::open(&db.path).unwrap();
        let transaction = database.begin_write().unwrap();
        let segments = redb::TableDefinition::<(u32, u32, u32), (u32, u32)>::new("segments");
        transaction.open_table(segments).unwrap().insert((1, 0, 0), (1, 1)).unwrap();
        transaction.open_table(segments).unwrap().insert((1, 0, u32::MAX), (1, 1)).unwrap();
        transaction.commit().unwrap();
    }
    // Would be merged with it.
    put(&db.open(), 10..20);
    let problems = mnemon::verify(&db.path).unwrap().problems;
    assert!(problems[0].contains("it has 10 rows, not 1; loading repairs it"), "{problems:?}");
    let engine = db.open();
    for word in ["word3", "word13"] {
        let query = Query::new(word).strategy(mnemon::Strategy::Lexical).k(1);
        assert_eq!(engine.blocking().recall(&space, query).unwrap()[0].message.text(), word);
    }
    drop(engine);
    db.assert_sound();
}

#[test]
fn damage_inside_is_named_by_verify() {
    let make = || {
        let db = Db::new();
        let engine = db.open();
        engine.blocking().put(&namespace("a"), (0..100).map(|i| message(&format!("m{i}"), "text")).collect()).unwrap();
        engine.blocking().flush().unwrap();
        drop(engine);
        db
    };
    let edit = |db: &Db, change: &dyn Fn(&redb::WriteTransaction)| {
        let database = redb::Database::open(&db.path).unwrap();
        let transaction = database.begin_write().unwrap();
        change(&transaction);
        transaction.commit().unwrap();
    };
    type Bytes = &'static [u8];
    let messages = redb::TableDefinition::<(u32, u64), Bytes>::new("messages");
    let ids = redb::TableDefinition::<(u32, &str), u64>::new("ids");
    let vectors = redb::TableDefinition::<(u32, u32, u32), Bytes>::new("vectors");
    let places = redb::TableDefinition::<(u32, u32, u64), (u32, u32)>::new("places");
    let pending = redb::TableDefinition::<(u32, u32, u64), u64>::new("pending");
    let free = redb::TableDefinition::<(u32, u32, u32), ()>::new("free_rows");
    type Damage<'a> = &'a dyn Fn(&redb::WriteTransaction);
    let rows: &[(&str, Damage, &str)] = &[
        (
            "a message lost",
            &|t| drop(t.open_table(messages).unwrap().remove((0, 7)).unwrap()),
            "100 ids for 99 messages",
        ),
        (
            "a message cut",
            &|t| drop(t.open_table(messages).unwrap().insert((0, 7), &b"Mn\x01\x01\x05"[..]).unwrap()),
            "does not decode",
        ),
        ("an id astray", &|t| drop(t.open_table(ids).unwrap().insert((0, "m3"), 4).unwrap()), "leads elsewhere"),
        ("a block lost", &|t| drop(t.open_table(vectors).unwrap().remove((1, 0, 0)).unwrap()), "counted"),
        (
            "a block cut",
            &|t| drop(t.open_table(vectors).unwrap().insert((1, 0, 0), &b"Mn\x02\x01xyz"[..]).unwrap()),
            "7 bytes",
        ),
        (
            "a place astray",
            &|t| drop(t.open_table(places).unwrap().insert((1, 0, 5), (6, 1)).unwrap()),
            "is not window 0",
        ),
        ("a place lost", &|t| drop(t.open_table(places).unwrap().remove((1, 0, 5)).unwrap()), "has vectors: false"),
        (
            "a row said to be free",
            &|t| drop(t.open_table(free).unwrap().insert((1, 0, 5), ()).unwrap()),
            "is free, but not dead",
        ),
        ("pending twice", &|t| drop(t.open_table(pending).unwrap().insert((1, 0, 5), 0).unwrap()), "is pending: true"),
    ];
    for (what, change, named) in rows {
        let db = make();
        edit(&db, change);
        let report = mnemon::verify(&db.path).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains(named)), "{what}: {:?}", report.problems);
        // And the command says so by its exit status.
        let output =
            assert_cmd::Command::cargo_bin("mnemon").unwrap().args(["verify", "--db"]).arg(&db.path).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{what}");
    }
}

/// A copy of the default model's folder, to be damaged.
fn model_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/static-en-256");
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn damaged_model_folders() {
    let load = |folder: &Path| Model::open(folder).and_then(OnnxEmbedder::new);
    let manifest = |folder: &Path, from: &str, to: &str| {
        let path = folder.join("manifest.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    };
    load(model_folder().path()).unwrap();
    type Damage<'a> = &'a dyn Fn(&Path);
    let rows: &[(Damage, &str)] = &[
        (&|f| fs::remove_file(f.join("manifest.toml")).unwrap(), "manifest.toml"),
        (&|f| fs::remove_file(f.join("tokenizer.json")).unwrap(), "tokenizer.json is missing"),
        (&|f| fs::write(f.join("manifest.toml"), "name = ").unwrap(), "manifest"),
        (&|f| manifest(f, "pooling = \"none\"", "pooling = \"best\""), "pooling"),
        (&|f| manifest(f, "normalize = true", "normalize = false"), "normalize = false is not supported"),
        (&|f| manifest(f, "dimension = 256", "dimension = 128"), "instead of [1, 128], which manifest.toml says"),
        (&|f| manifest(f, "max_tokens = 512", "max_tokens = 20"), "leave 20 tokens for a text"),
        (&|f| manifest(f, "\"tokenizer.json\" =", "\"config.json\" ="), "manifest.toml"),
        (&|f| manifest(f, "\"tokenizer.json\" =", "\"other.json\" ="), "does not name tokenizer.json"),
        (&|f| manifest(f, "\"config.json\" =", "\"other.json\" ="), "other.json is missing"),
        (&|f| manifest(f, "\"config.json\" =", "\"../config.json\" ="), "a file's plain name"),
        (&|f| manifest(f, "[files]", "[files]\n\"more.json\" = \"123\""), "is no sha256"),
        (&|f| manifest(f, "dimension = 256", "dimension = 0"), "not within 1 to 65535"),
        (&|f| manifest(f, "max_tokens = 512", "max_tokens = 0"), "not within 1 to 131072"),
        (&|f| manifest(f, "dimension = 256", "dimension = 256\nmodel_dimension = 128"), "256 of 128"),
        (&|f| manifest(f, "pooling =", "output = \"\"\npooling ="), "output is empty"),
        (&|f| manifest(f, "quantization = \"none\"", "quantization = \"dynamic\""), "padding_exact cannot hold"),
        (
            &|f| {
                let path = f.join("model.onnx");
                let mut bytes = fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            "the file is damaged or was exchanged",
        ),
    ];
    for (damage, reason) in rows {
        let folder = model_folder();
        damage(folder.path());
        let text = chain(&load(folder.path()).unwrap_err());
        assert!(text.contains(reason), "{reason}: {text}");
    }
    let missing = Model::find("no-such-model").unwrap_err().to_string();
    assert!(missing.contains("no-such-model") && missing.contains("models"), "{missing}");
}

#[test]
fn no_onnx_runtime() {
    let db = Db::new();
    let nowhere = db.folder.path().join("nowhere.so");
    let file = db.folder.path().join("messages.jsonl");
    fs::write(&file, serde_json::to_string(&Message::user("hi")).unwrap()).unwrap();
    let broken = db.folder.path().join("libonnxruntime.so");
    fs::write(&broken, "not a library").unwrap();
    for runtime in [&nowhere, &broken] {
        let output = assert_cmd::Command::cargo_bin("mnemon")
            .unwrap()
            .env("ORT_DYLIB_PATH", runtime)
            .args(["ingest", "--namespace", "a", "--db"])
            .args([&db.path, &file])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        for part in [runtime.to_str().unwrap(), "ORT_DYLIB_PATH", "make runtime", "pip install onnxruntime"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
