//! Engines whose database is in memory.

use std::{path::Path, sync::Arc};

use mnemon::{BufferLimits, Config, Engine, Error, Message, Query, ReindexOptions};

use crate::support::{Hashing, go_on, message, namespace, recall::recalled_ids as ids, words};

fn open() -> Engine {
    let config = Config::default().flush_size(100_000);
    Engine::builder_in_memory().config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

#[test]
fn everything_but_durability_works_in_memory() {
    let (engine, space) = (open(), namespace("a"));
    let blocking = engine.blocking();
    let messages: Vec<Message> = (0..300).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect();
    assert_eq!(blocking.put(&space, messages).unwrap().new, 300);
    assert_eq!(blocking.flush().unwrap().embedded, 300);
    assert_eq!(blocking.delete(&space, vec!["m7".into()]).unwrap(), 1);
    assert_eq!(ids(&engine, &space, Query::new("word42").k(1)), ["m42"]);

    let limits = BufferLimits::default().token_limit(4).chat_history_token_ratio(1.0);
    let memory = engine.memory(&space, "chat").limits(limits).message_counter(words()).open().unwrap();
    for text in ["the red bicycle", "a green boat", "seven cats"] {
        memory.blocking().put(vec![Message::user(text).with_id(text)]).unwrap();
    }
    memory.blocking().settle().unwrap();
    assert_eq!(memory.blocking().messages().unwrap().len(), 1);
    assert_eq!(ids(&engine, &space, Query::new("red bicycle").k(1)), ["the red bicycle"]);

    let report = blocking.reindex(Arc::new(Hashing::new(16)), ReindexOptions::default(), go_on).unwrap();
    assert_eq!((report.gate.unwrap().failed, engine.model().dimension), (None, 16));
    assert_eq!(ids(&engine, &space, Query::new("word42").k(1)), ["m42"]);
    assert_eq!(ids(&open(), &space, Query::new("word42")), [""; 0], "each engine has a database of its own");
    assert!(matches!(Engine::builder_in_memory().open_read_only(), Err(Error::InvalidConfig { .. })));
}

#[test]
fn the_name_of_a_database_in_memory_is_refused_as_a_path() {
    let errors = [
        Engine::open(":memory:").err(),
        Engine::open_read_only(":memory:").err(),
        mnemon::stats(":memory:").err(),
        mnemon::verify(":memory:").err(),
    ];
    for error in errors {
        assert!(error.unwrap().to_string().contains("opened without a path"));
    }
    assert!(!Path::new(":memory:").exists());
}

#[test]
fn an_empty_path_is_refused() {
    for error in [Engine::open("").err(), Engine::open_read_only("").err(), mnemon::stats("").err()] {
        let error = error.unwrap();
        assert!(error.to_string().contains("the path of the database is empty"), "{error}");
    }
}
