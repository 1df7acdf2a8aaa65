//! Errors as they are shown.

use mnemon::{Engine, Error, Message, MessageLine, Model, Query, from_openai};
use serde_json::json;

use crate::support::{chain, root};

#[test]
fn debug_shows_the_remedy_and_the_sources_in_one_line() {
    let error = Error::ModelMismatch { stored: "a".into(), given: "b".into() };
    assert_eq!(format!("{error:?}"), error.to_string());
    let io = std::io::Error::other("the disk is full");
    assert_eq!(format!("{:?}", Error::Storage(io.into())), "the store failed: the disk is full");
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
