//! Postgres as administrators and hosts give it: a schema and an extension that others made, limits of time, and what is not
//! supported, which is refused.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use assert_cmd::cargo::CommandCargoExt;
use mnemon::{Config, Engine, Error, Freshness, Message, Query, admin::DatabaseFile};

use super::{open, tables::Counting, try_open};
use crate::support::{
    Db, Hashing, namespace,
    postgres::{Server, query, server},
};

/// A database in which an administrator made a role. Returns its address for the administrator, that for the role, and the
/// role's name.
fn rented(server: &Server, name: &str) -> (String, String, String) {
    let admin = server.database();
    let role = format!("{name}_{}", admin.rsplit('/').next().unwrap());
    query(&admin, &format!("CREATE ROLE {role} LOGIN"), &[]);
    let address = admin.replace("owner@", &format!("{role}@"));
    (admin, address, role)
}

/// Puts a message, and checks that another machine has it with its vector, which it does not make.
fn check_sharing(address: &str, engine: &Engine, space: &str) {
    let space = namespace(space);
    engine.blocking().put(&space, vec![Message::user("a boat in the harbour"), Message::user("a bakery")]).unwrap();
    engine.blocking().flush().unwrap();
    let counting = Arc::new(Counting(Hashing::new(32), AtomicUsize::new(0)));
    let db = Db::new();
    let second = Engine::builder(&db.path).embedder(counting.clone());
    let second = second.shared(address).freshness(Freshness::Latest).open().unwrap();
    let hits = second.blocking().recall(&space, Query::new("boat").k(5)).unwrap();
    assert_eq!((hits.len(), hits.pending()), (2, 0));
    assert_eq!(counting.1.load(Ordering::SeqCst), 0, "the vectors came with the messages");
}

/// Some hosts have extensions in a schema that is in no search path. Here the extension is moved and dropped while engines are
/// open.
#[test]
fn vectors_are_shared_wherever_pgvector_is_and_without_it() {
    let Some(server) = server() else { return };
    let (admin, address, role) = rented(server, "supabase");
    query(&admin, "CREATE SCHEMA extensions", &[]);
    query(&admin, "CREATE EXTENSION vector SCHEMA extensions", &[]);
    query(&admin, &format!("GRANT USAGE ON SCHEMA extensions TO {role}"), &[]);
    query(&admin, &format!("CREATE SCHEMA mnemon AUTHORIZATION {role}"), &[]);
    let kind = || {
        let sql = "SELECT data_type::text, udt_schema::text FROM information_schema.columns \
                   WHERE table_schema = 'mnemon' AND table_name = 'vectors' AND column_name = 'vector'";
        let row = &query(&admin, sql, &[])[0];
        (row.get::<_, String>(0), row.get::<_, String>(1))
    };
    let db = Db::new();
    let engine = open(&db, &address);
    assert_eq!(kind(), ("USER-DEFINED".to_owned(), "extensions".to_owned()));
    check_sharing(&address, &engine, "in/extensions");
    query(&admin, "CREATE SCHEMA elsewhere", &[]);
    query(&admin, "ALTER EXTENSION vector SET SCHEMA elsewhere", &[]);
    assert_eq!(kind().1, "elsewhere");
    check_sharing(&address, &engine, "in/elsewhere");
    query(&admin, &format!("REVOKE USAGE ON SCHEMA extensions FROM {role}"), &[]);
    check_sharing(&address, &engine, "in/elsewhere/hidden");
    query(&admin, "DROP EXTENSION vector CASCADE", &[]);
    check_sharing(&address, &engine, "in/bytes");
    assert_eq!(kind(), ("bytea".to_owned(), "pg_catalog".to_owned()));
    // Those that are opened later find it so.
    query(&admin, "ALTER TABLE mnemon.vectors DROP COLUMN vector", &[]);
    drop(engine);
    let engine = open(&db, &address);
    check_sharing(&address, &engine, "in/bytes/again");
    query(&admin, "DROP TABLE mnemon.vectors", &[]);
    check_sharing(&address, &engine, "in/a/new/table");
}

#[test]
fn an_administrator_is_told_what_a_role_lacks() {
    let Some(server) = server() else { return };
    let (admin, address, role) = rented(server, "app");
    let refused = |expected: &str| {
        let error = try_open(&Db::new(), &address, Freshness::Latest).unwrap_err();
        assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        expected.to_owned()
    };
    refused(&format!("CREATE SCHEMA mnemon AUTHORIZATION {role};"));
    query(&admin, "CREATE SCHEMA mnemon", &[]);
    let remedy = refused(&format!("GRANT USAGE, CREATE ON SCHEMA mnemon TO {role};"));
    query(&admin, &remedy, &[]);
    let db = Db::new();
    let engine = open(&db, &address);
    check_sharing(&address, &engine, "of/role");
    // Another role, without rights.
    let other = format!("other_{role}");
    query(&admin, &format!("CREATE ROLE {other} LOGIN"), &[]);
    let error = try_open(&Db::new(), &address.replace(&format!("{role}@"), &format!("{other}@")), Freshness::Latest);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("GRANT USAGE ON SCHEMA mnemon TO"), "{error}");
}

/// A standby stores nothing. So a new file is refused with what to do; one that is a copy opens, and answers from what it has.
#[test]
fn a_server_that_stores_nothing_is_refused_by_name() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("a/b");
    engine.blocking().put(&space, vec![Message::user("a boat")]).unwrap();
    drop(engine);
    let database = address.rsplit('/').next().unwrap();
    let postgres = server.address("postgres");
    query(&postgres, &format!("ALTER DATABASE {database} SET default_transaction_read_only = on"), &[]);
    let error = try_open(&Db::new(), &address, Freshness::Latest).unwrap_err().to_string();
    assert!(error.contains("standby") && error.contains("name the primary"), "{error}");
    let engine = try_open(&db, &address, Freshness::Local).unwrap();
    assert_eq!(engine.blocking().recall(&space, Query::new("boat")).unwrap().len(), 1);
    let asks = format!("{address}?target_session_attrs=standby");
    let error = try_open(&Db::new(), &asks, Freshness::Local).unwrap_err();
    assert!(matches!(error, Error::InvalidConfig { .. }) && error.to_string().contains("name the primary"), "{error}");
}

#[test]
fn tables_that_citus_distributes_are_refused() {
    let Some(server) = server() else { return };
    let address = server.database();
    drop(open(&Db::new(), &address));
    // The catalogue of Citus as far as it is read.
    for statement in [
        "DO $$ BEGIN SET LOCAL allow_system_table_mods = on; \
         CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod \"char\"); END $$",
        "INSERT INTO pg_catalog.pg_dist_partition VALUES ('mnemon.settings', 'n')",
    ] {
        query(&address, statement, &[]);
    }
    drop(open(&Db::new(), &address));
    query(&address, "INSERT INTO pg_catalog.pg_dist_partition VALUES ('mnemon.vectors', 'h')", &[]);
    let error = try_open(&Db::new(), &address, Freshness::Latest).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{error}");
    assert!(error.to_string().contains("undistribute_table('mnemon.vectors')"), "{error}");
}

/// The time that a statement may take in the next test: all messages in one statement take longer.
const LIMIT: Duration = Duration::from_millis(700);

/// Messages of 1,000 bytes.
fn fill(db: &Db, namespaces: usize, messages: usize) {
    let mut config = Config::default();
    config.idle_flush = None;
    config.flush_size = 100_000;
    let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
    for space in 0..namespaces {
        for first in (0..messages).step_by(1000) {
            let message = |number: usize| Message::user(format!("{number} {}", "a boat in the harbour ".repeat(45)));
            engine
                .blocking()
                .put(&namespace(&format!("s/{space}")), (first..first + 1000).map(message).collect())
                .unwrap();
        }
    }
}

#[test]
fn a_large_namespace_is_shared_under_a_limit_of_time() {
    let Some(server) = server() else { return };
    let address = server.database();
    drop(open(&Db::new(), &address));
    let database = address.rsplit('/').next().unwrap();
    let limit = format!("ALTER DATABASE {database} SET statement_timeout = '{}ms'", LIMIT.as_millis());
    query(&server.address("postgres"), &limit, &[]);
    let db = Db::new();
    fill(&db, 1, 20_000);
    let began = Instant::now();
    let report = DatabaseFile::new(&db.path).share(&address).unwrap();
    println!("20,000 messages were shared in {:?}, with {LIMIT:?} for a statement", began.elapsed());
    assert_eq!((report.namespaces, report.messages), (1, 20_000));
    query(&server.address("postgres"), &format!("ALTER DATABASE {database} RESET statement_timeout"), &[]);
    let other = Db::new();
    let engine = open(&other, &address);
    let space = namespace("s/0");
    assert_eq!(engine.blocking().history(&space, "default").unwrap().len(), 20_000);
}

#[test]
fn a_share_that_was_stopped_goes_on() {
    let Some(server) = server() else { return };
    let address = server.database();
    drop(open(&Db::new(), &address));
    let (namespaces, messages) = (6, 3000);
    let db = Db::new();
    fill(&db, namespaces, messages);
    let seen = || -> Vec<(i64, i64)> {
        let sql = "SELECT n.messages, (SELECT count(*) FROM mnemon.messages AS m WHERE m.namespace = n.name) \
                   FROM mnemon.namespaces AS n WHERE n.name <> ''";
        query(&address, sql, &[]).iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let share = || {
        let mut command = Command::cargo_bin("mnemon").unwrap();
        command.args(["share", "--db"]).arg(&db.path).env("MNEMON_SHARED", &address);
        command
    };
    let mut first = share().spawn().unwrap();
    let began = Instant::now();
    while seen().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is shared");
        thread::sleep(Duration::from_millis(5));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let stopped = seen();
    println!("stopped after {} of {namespaces} namespaces", stopped.len());
    assert!(stopped.iter().all(|found| *found == (messages as i64, messages as i64)), "{stopped:?}");
    assert!(share().status().unwrap().success());
    assert_eq!(seen(), vec![(messages as i64, messages as i64); namespaces]);
    let error = try_open(&db, &address, Freshness::Latest).map(drop);
    assert!(error.is_ok(), "the file is a replica: {error:?}");
}
