//! Files that are imported into an engine: what becomes of their messages.

use mnemon::{
    Config, ContentPart, EncryptionKey, Engine, Error, Message, Namespace, PutReport,
    format::{FileImport, ImportReport, ImportTarget, MessageEdit, ReadOptions, Source},
};

use super::{lines, read_with};
use crate::support::{Db, namespace};

/// Stores messages in an engine.
struct Target<'e>(&'e Engine);

impl ImportTarget for Target<'_> {
    fn put(&mut self, messages: Vec<(Namespace, Message)>) -> mnemon::Result<PutReport> {
        self.0.blocking().put_all(messages)
    }

    fn delete(&mut self, namespace: &Namespace, id: String) -> mnemon::Result<u64> {
        self.0.blocking().delete(namespace, vec![id])
    }
}

fn import(engine: &Engine, text: &str, options: ReadOptions) -> mnemon::Result<ImportReport> {
    let mut import = FileImport::new(engine, options, None)?;
    import.run(&mut Source::stream("file", text.as_bytes())?, &mut Target(engine))?;
    Ok(import.report().clone())
}

fn of(name: &str) -> ReadOptions {
    ReadOptions { namespace: Some(namespace(name)), ..ReadOptions::default() }
}

fn chat() -> String {
    let line = |text: &str| serde_json::json!({ "role": "user", "content": text });
    lines(&["The bridge is closed.", "Since when?", "The bridge is closed."].map(line))
}

#[test]
fn a_message_has_the_same_id_each_time_in_each_namespace() {
    let engine = Engine::in_memory().unwrap();
    let ids = |read: super::Read| read.messages.into_iter().map(|(_, message)| message.id).collect::<Vec<_>>();
    let read = ids(read_with(&chat(), ReadOptions::default()));
    assert_eq!(read, ids(read_with(&chat(), of("a"))));
    assert!(read[0] != read[2], "two equal lines are two messages");
    for name in ["a", "b"] {
        assert_eq!(import(&engine, &chat(), of(name)).unwrap().new, 3);
        let again = import(&engine, &chat(), of(name)).unwrap();
        assert_eq!((again.unchanged, again.formats["mnemon"] + again.new), (3, 1));
        for id in &read {
            assert!(engine.blocking().get(&namespace(name), id).unwrap().is_some());
        }
    }
}

#[test]
fn a_message_is_changed_before_its_id_is_computed() {
    let edit = MessageEdit::new(|message| {
        message.content = vec![ContentPart::Text { text: message.text().replace("bridge", "[bridge removed]") }];
        Ok(())
    });
    let read = read_with(&chat(), ReadOptions { edit: Some(edit), ..ReadOptions::default() });
    assert_eq!(read.texts()[0], "The [bridge removed] is closed.");
    let plain = read_with(&chat(), ReadOptions::default());
    let id = |read: &super::Read, at: usize| read.messages[at].1.id.clone();
    assert!(id(&read, 0) != id(&plain, 0) && id(&read, 1) == id(&plain, 1));
    let failing = MessageEdit::new(|_| Err(Error::InvalidMessage { reason: "not this one".to_owned() }));
    let read = read_with(&chat(), ReadOptions { edit: Some(failing), ..ReadOptions::default() });
    assert!(read.messages.is_empty() && read.errors[0].contains("not this one"), "{:?}", read.errors);
}

#[test]
fn nothing_is_imported_into_an_engine_that_only_reads() {
    let db = Db::new();
    import(&Engine::open(&db.path).unwrap(), &chat(), of("a")).unwrap();
    let engine = Engine::open_read_only(&db.path).unwrap();
    for text in [&*chat(), ""] {
        assert!(matches!(import(&engine, text, of("a")), Err(Error::ReadOnly { .. })));
    }
}

#[test]
fn files_are_imported_into_an_encrypted_database() {
    let db = Db::new();
    let open = || {
        let mut config = Config::default();
        config.encryption_key = Some(EncryptionKey::from_bytes([7; 32]));
        Engine::builder(&db.path).config(config).open().unwrap()
    };
    assert_eq!(import(&open(), &chat(), of("a")).unwrap().new, 3);
    assert_eq!(import(&open(), &chat(), of("a")).unwrap().unchanged, 3);
    let file = std::fs::read(&db.path).unwrap();
    assert!(!file.windows(6).any(|bytes| bytes == b"bridge"));
}
