//! Errors as they are shown.

use std::sync::Arc;

use mnemon::{Engine, Error, Message, MessageLine, Model, Query, from_openai};
use serde_json::json;

use crate::support::{chain, root};

#[test]
fn debug_shows_the_remedy_and_the_sources_in_one_line() {
    let error = Error::ModelMismatch { stored: "a".into(), given: "b".into() };
    assert_eq!(format!("{error:?}"), error.to_string());
    let io = std::io::Error::other("the disk is full");
    assert_eq!(
        format!("{:?}", Error::Storage(io.into())),
        "a file could not be read or written: the disk is full; mend the cause first"
    );
    // A source with the same label, and one that the reason quotes already.
    let inner = Error::Embedding { reason: "no memory".into(), source: None };
    let error = Error::Embedding { reason: "message \"m\" stays pending".into(), source: Some(inner.into()) };
    assert_eq!(format!("{error:?}"), "embedding failed: message \"m\" stays pending: no memory");
    let io = std::io::Error::other("the disk is full");
    let error = Error::Embedding { reason: format!("it stopped: {io}"), source: Some(io.into()) };
    assert_eq!(format!("{error:?}"), "embedding failed: it stopped: the disk is full");
    // What `main` prints.
    let refused = Engine::builder("none.redb").create(false).open().map(drop);
    assert!(format!("{:?}", refused.unwrap_err()).contains("no such database; check the path"));
}

/// Every error as its reader sees it, who has its text alone. `fixtures/errors.txt` is there to be read.
#[test]
fn each_text_has_what_happened_the_facts_and_the_remedy() {
    let texts: Vec<String> = errors().into_iter().map(|(name, error)| format!("{name}\n    {error}\n")).collect();
    let text = texts.join("\n");
    let path = root("tests/it/fixtures/errors.txt");
    if std::env::var_os("MNEMON_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let changed: Vec<&str> = text.lines().filter(|line| !committed.contains(line)).collect();
    let changed = changed.join("\n");
    assert!(committed == text, "read these, and run the test with MNEMON_UPDATE=1 if they are good:\n{changed}");
    // All of them.
    let source = std::fs::read_to_string(root("src/error.rs")).unwrap();
    let variants = source.split("pub enum Error {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let variants = variants.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(char::is_uppercase));
    let variants: Vec<&str> = variants.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap()).collect();
    assert_eq!(errors().iter().map(|(name, _)| *name).collect::<Vec<_>>(), variants);
}

/// What a newcomer meets in the first hour. The text alone has the cause and what to do.
#[test]
fn the_errors_of_the_first_hour_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let hashing = |dimension| Arc::new(crate::support::Hashing::new(dimension));
    let opened = |builder: mnemon::EngineBuilder| builder.open().map(drop).unwrap_err().to_string();
    let own = folder.join("own.redb");
    drop(Engine::builder(&own).embedder(hashing(8)).open().unwrap());
    let long = Engine::builder_in_memory().embedder(Arc::new(Long)).open().unwrap();
    let space = crate::support::namespace("a");
    long.blocking().put(&space, vec![Message::user("x").with_id("m")]).unwrap();
    let flushed = long.blocking().flush().unwrap_err().to_string();
    assert!(long.blocking().get(&space, "m").unwrap().is_some(), "the text is stored");
    let missing = folder.join("no/such/x.redb");
    for (text, parts) in [
        (opened(Engine::builder(&missing).embedder(hashing(8))), &["no/such/x.redb", "No such file"][..]),
        (opened(Engine::builder(&own)), &["\"hashing\" not found", "open the database with that embedder"]),
        (opened(Engine::builder(&own).embedder(hashing(16))), &["made with model hashing", "reindex"]),
        (flushed, &["a vector of length 2, not 1", "stay stored", "correct the embedder"]),
        (opened(Engine::builder(folder.join("none.redb")).create(false)), &["none.redb", "check the path"]),
    ] {
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
    }
}

/// Each variant, in the order of the source, with facts as they are.
fn errors() -> Vec<(&'static str, Error)> {
    let (path, namespace, reason) =
        (|| "memory.redb".into(), || "acme/user-42".to_owned(), |text: &str| text.to_owned());
    let full = || Some("No space left on device (os error 28)".into());
    vec![
        ("InvalidNamespace", Error::InvalidNamespace { given: "a//b".into(), reason: "a label is empty" }),
        ("InvalidCursor", Error::InvalidCursor { given: "x".into(), reason: "it is not one of this list" }),
        (
            "InvalidMessage",
            Error::InvalidMessage { reason: reason("the id is empty; leave it out, or give one of 1 to 512 bytes") },
        ),
        ("InvalidDocument", Error::InvalidDocument { reason: reason("the key is empty; give one of 1 to 512 bytes") }),
        ("AnswerTooLarge", Error::AnswerTooLarge { limit: 8 << 20, is_busy: false }),
        ("DocumentChanged", Error::DocumentChanged { namespace: namespace(), key: "boat".into() }),
        ("MessagesChanged", Error::MessagesChanged { namespace: namespace() }),
        ("SessionNotFound", Error::SessionNotFound { namespace: namespace(), session: "monday".into() }),
        ("SessionExists", Error::SessionExists { session: "monday".into() }),
        ("CheckpointNotFound", Error::CheckpointNotFound { checkpoint: 7 }),
        ("InvalidImport", Error::InvalidImport { line: 3, reason: reason("the export ends here: it was cut off") }),
        ("NamespaceNotEmpty", Error::NamespaceNotEmpty { namespace: namespace() }),
        ("InvalidQuery", Error::InvalidQuery { reason: reason("the text is empty; ask something, or give a vector") }),
        (
            "InvalidFilter",
            Error::InvalidFilter { reason: reason("$like is no operator; the operators are $eq, $ne, $in") },
        ),
        ("InvalidConfig", Error::InvalidConfig { reason: reason("threads is 0; give 1 or more") }),
        (
            "InvalidVector",
            Error::InvalidVector { reason: reason("mine (256 dimensions): a vector of length 2, not 1") },
        ),
        (
            "ModelNotFound",
            Error::ModelNotFound { name: "bge-small".into(), looked: vec!["/usr/share/mnemon/models".into()] },
        ),
        (
            "InvalidModel",
            Error::InvalidModel {
                path: "bge-small".into(),
                reason: reason("model.onnx cannot be read"),
                source: full(),
            },
        ),
        (
            "ModelHashMismatch",
            Error::ModelHashMismatch {
                path: "bge-small/model.onnx".into(),
                expected: "12ab".into(),
                found: "34cd".into(),
            },
        ),
        (
            "Download",
            Error::Download {
                model: "bge-small".into(),
                reason: reason("huggingface.co does not answer"),
                source: None,
            },
        ),
        ("ModelMismatch", Error::ModelMismatch { stored: "static-en-256".into(), given: "bge-small".into() }),
        ("ReindexRunning", Error::ReindexRunning),
        ("NoPrevious", Error::NoPrevious { kept: None, given: "bge-small".into() }),
        ("RuntimeNotFound", Error::RuntimeNotFound { looked: vec!["libonnxruntime.so: no such file".into()] }),
        (
            "RuntimeNotDownloaded",
            Error::RuntimeNotDownloaded { reason: reason("the package index does not answer"), source: None },
        ),
        (
            "Embedding",
            Error::Embedding { reason: reason("ONNX Runtime failed on 3 texts"), source: Some("no memory".into()) },
        ),
        (
            "EmbedderUnavailable",
            Error::EmbedderUnavailable {
                reason: reason("http://localhost:11434/v1 does not know the key (401)"),
                transient: false,
                retry_after: None,
                source: None,
            },
        ),
        ("DeadlineExceeded", Error::DeadlineExceeded),
        (
            "DeviceUnavailable",
            Error::DeviceUnavailable {
                device: "cuda:0".into(),
                reason: reason("this ONNX Runtime was built without it"),
                source: None,
            },
        ),
        (
            "Reranking",
            Error::Reranking { reranker: "cross".into(), reason: reason("1 score for 2 passages"), source: None },
        ),
        (
            "Chat",
            Error::Chat {
                reason: reason("the server is busy (503)"),
                transient: true,
                retry_after: None,
                source: None,
            },
        ),
        (
            "ChatUnavailable",
            Error::ChatUnavailable { reason: reason("the server does not know the key (401)"), source: None },
        ),
        ("DatabaseLocked", Error::DatabaseLocked { path: path(), holder: Some(4711) }),
        ("LegalHold", Error::LegalHold { namespace: namespace(), held: "acme".into(), reason: reason("case 12") }),
        ("ReadOnly", Error::ReadOnly { path: path() }),
        ("WriteAccessNeeded", Error::WriteAccessNeeded { path: path(), reason: reason("it was not closed properly") }),
        ("InvalidFile", Error::InvalidFile { file: "a.jsonl".into(), line: 3, reason: reason("it is no JSON") }),
        ("OtherFormat", Error::OtherFormat { file: "a.json".into(), given: "mnemon", fitting: Some("openai") }),
        ("InvalidHistory", Error::InvalidHistory { path: "a.jsonl".into(), line: 3, reason: reason("it is no JSON") }),
        ("NotADatabase", Error::NotADatabase { path: path(), reason: reason("it is a PNG image") }),
        ("FileExists", Error::FileExists { path: path() }),
        ("KeyNeeded", Error::KeyNeeded { path: path() }),
        ("WrongKey", Error::WrongKey { path: path() }),
        ("NotEncrypted", Error::NotEncrypted { path: path() }),
        ("KeyUnavailable", Error::KeyUnavailable { reason: reason("mnemon.key has 31 bytes"), source: None }),
        ("DatabaseMoved", Error::DatabaseMoved { path: path() }),
        ("OlderDatabase", Error::OlderDatabase { path: path(), expected: "12-ab".into(), found: "7-cd".into() }),
        ("DatabaseNotFound", Error::DatabaseNotFound { path: path() }),
        ("NewerSchema", Error::NewerSchema { path: path(), found: 9, supported: 8 }),
        ("Corrupted", Error::Corrupted { what: reason("page 12 of the file is damaged: its checksum does not match") }),
        (
            "OutcomeUnknown",
            Error::OutcomeUnknown { cause: reason("syncing the file: Input/output error (os error 5)") },
        ),
        ("SharedDatabase", Error::SharedDatabase { reason: reason("it does not answer"), transient: true }),
        ("Storage", Error::Storage("writing page 515: No space left on device (os error 28)".into())),
        ("Block", Error::Block { name: "facts".into(), reason: reason("the chat model failed: it is busy") }),
        ("Panicked", Error::Panicked { message: reason("index out of bounds") }),
        (
            "ThreadNotStarted",
            Error::ThreadNotStarted { name: "mnemon-store".into(), source: "Resource temporarily unavailable".into() },
        ),
        ("Closed", Error::Closed),
    ]
}

/// An embedder whose vectors have the length 2.
struct Long;

impl mnemon::Embedder for Long {
    fn identity(&self) -> &mnemon::ModelIdentity {
        static IDENTITY: std::sync::LazyLock<mnemon::ModelIdentity> = std::sync::LazyLock::new(|| {
            mnemon::ModelIdentity { name: "long".into(), dimension: 4, hash: "0".repeat(64) }
        });
        &IDENTITY
    }

    fn embed_documents(&self, texts: &[&str]) -> mnemon::Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|_| vec![2.0, 0.0, 0.0, 0.0]).collect())
    }

    fn embed_query(&self, _: &str) -> mnemon::Result<Vec<f32>> {
        Ok(vec![2.0, 0.0, 0.0, 0.0])
    }
}

#[test]
fn no_error_says_a_thing_twice() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("manifest.toml"), "name = ").unwrap();
    let line = |line: &str| MessageLine::parse(line).unwrap_err();
    let mut errors = vec![
        line(r#"{"role": "robot", "content": "x"}"#),
        line(r#"{"role": "user", "content": "x", "timestamp": "yesterday"}"#),
        line(r#"{"role": "user", "content": 5}"#),
        line(r#"{"role": "user", "content": "x", "namespace": "//"}"#),
        line("[]"),
        from_openai(&[json!({"role": "robot", "content": "x"})]).unwrap_err(),
        from_openai(&[json!({"role": "user", "content": "x", "mnemon": {"timestamp": "yesterday"}})]).unwrap_err(),
        from_openai(&[json!("x")]).unwrap_err(),
        "robot".parse::<mnemon::Role>().unwrap_err(),
        "yesterday".parse::<mnemon::Timestamp>().unwrap_err(),
        "//".parse::<mnemon::Namespace>().unwrap_err(),
        "best".parse::<mnemon::RankingStrategy>().unwrap_err(),
        "{".parse::<mnemon::MetadataFilter>().unwrap_err(),
        r#"{"a": {"$like": 1}}"#.parse::<mnemon::MetadataFilter>().unwrap_err(),
        Model::open(folder.path()).unwrap_err(),
    ];
    let engine = Engine::builder_in_memory().embedder(std::sync::Arc::new(crate::support::Hashing::new(8)));
    let engine = engine.open().unwrap();
    let space = crate::support::namespace("a");
    errors.push(engine.blocking().put(&space, vec![Message::user("x").with_id("")]).unwrap_err());
    errors.push(engine.blocking().recall(&space, Query::new("")).unwrap_err());
    for error in errors {
        // The whole chain, as programs print it that follow the sources.
        let text = chain(&error);
        for label in [
            "invalid message",
            "invalid query",
            "invalid filter",
            "invalid setting",
            "invalid namespace",
            "manifest.toml: ",
        ] {
            assert!(text.matches(label).count() <= 1, "{text}");
        }
        let parts: Vec<&str> = text.split(": ").collect();
        for (at, part) in parts.iter().enumerate() {
            assert!(!parts[..at].contains(part), "{part:?} is said twice: {text}");
        }
    }
}

/// The command, the server and the Python package show the texts of the library, and their users know none of its calls.
#[test]
fn no_text_names_a_call_of_the_library() {
    // What only a Rust program can meet.
    const ALLOWED: [&str; 2] = ["src/history/conformance.rs", "crates/cli/src/bench/"];
    let mut found = Vec::new();
    let mut folders = vec![root("src"), root("crates/cli/src"), root("crates/server/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root("")).unwrap().to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !ALLOWED.iter().any(|allowed| name.starts_with(allowed)) {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
                let lines = code.lines().filter(|line| !["//", "#["].iter().any(|mark| line.trim().starts_with(mark)));
                let is_call = |name: &str| name.contains("::") || name == "Arc";
                let calls = lines.filter(|line| line.split('`').skip(1).step_by(2).any(is_call));
                found.extend(calls.map(|line| format!("{name}: {}", line.trim())));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
