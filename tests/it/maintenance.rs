//! `stats` and `verify`: what they find in a database, and that they never create one.

use mnemon::{Error, Query};

use crate::support::{Db, message, namespace};

#[test]
fn stats_and_verify_do_not_create_a_database() {
    let db = Db::new();
    assert!(matches!(mnemon::stats(&db.path).unwrap_err(), Error::DatabaseNotFound { .. }));
    assert!(matches!(mnemon::verify(&db.path).unwrap_err(), Error::DatabaseNotFound { .. }));
    assert!(!db.path.exists());
}

#[test]
fn a_segment_with_a_wrong_row_count_is_named_and_rebuilt() {
    let db = Db::new();
    let space = namespace("a");
    let put = |engine: &mnemon::Engine, ids: std::ops::Range<usize>| {
        let messages = ids.map(|i| message(&format!("m{i}"), &format!("word{i}")));
        engine.blocking().put(&space, messages.collect()).unwrap();
        engine.blocking().flush().unwrap();
    };
    put(&db.open(), 0..10);
    {
        let database = crate::support::open_tables(&db.path);
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
        let query = Query::new(word).strategy(mnemon::RankingStrategy::Lexical).k(1);
        assert_eq!(engine.blocking().recall(&space, query).unwrap()[0].message.text(), word);
    }
    drop(engine);
    db.assert_sound();
}

#[test]
fn verify_names_damaged_records() {
    let make = || {
        let db = Db::new();
        let engine = db.open();
        engine.blocking().put(&namespace("a"), (0..100).map(|i| message(&format!("m{i}"), "text")).collect()).unwrap();
        engine.blocking().flush().unwrap();
        drop(engine);
        db
    };
    let edit = |db: &Db, change: &dyn Fn(&redb::WriteTransaction)| {
        let database = crate::support::open_tables(&db.path);
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
            &|t| drop(t.open_table(vectors).unwrap().insert((1, 0, 0), &b"Mn\x05\x01xyz"[..]).unwrap()),
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
