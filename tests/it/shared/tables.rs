//! What a person sees in Postgres.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mnemon::{
    DocumentOptions, Embedder, Engine, Error, Forget, Freshness, Message, ModelIdentity, Query, Result, Timestamp,
};
use serde_json::json;

use super::{open, try_open};
use crate::{
    support::{
        Db, Hashing, namespace,
        postgres::{query, server},
    },
    transfer,
};

#[test]
fn the_tables_answer_questions_that_a_person_has() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("acme/ada");
    let mut question = Message::user("when is my rowing lesson?").with_id("m1").in_session("monday").by("Ada");
    question.metadata.insert("channel".into(), "mail".into());
    let answer = Message::assistant("on Thursday").with_id("m2").in_session("monday");
    let odd = Message::user("a\u{0}b\u{1}c \u{1f6a3}").with_id("m3").in_session("tuesday");
    engine.blocking().put(&space, vec![question, answer, odd]).unwrap();
    let documents = engine.documents(&space);
    documents.blocking().put("likes", json!({"drink": "tea", "since": 2019}), DocumentOptions::default()).unwrap();
    engine.blocking().flush().unwrap();
    engine.blocking().delete(&space, vec!["m2".into()]).unwrap();
    let text = |sql: &str| -> Vec<String> { query(&address, sql, &[]).iter().map(|row| row.get(0)).collect() };
    // As docs/several-machines.md has them.
    assert_eq!(
        text(
            "SELECT session || ' ' || role || ' ' || coalesce(name, '') || ': ' || content FROM mnemon.messages \
              WHERE namespace = 'acme/ada' AND NOT deleted AND metadata->>'channel' = 'mail' ORDER BY seq"
        ),
        ["monday user Ada: when is my rowing lesson?"]
    );
    assert_eq!(
        text("SELECT value->>'drink' FROM mnemon.documents WHERE namespace = 'acme/ada' AND key = 'likes'"),
        ["tea"]
    );
    assert_eq!(
        text("SELECT name || ' ' || messages || ' ' || documents FROM mnemon.namespaces WHERE present AND name <> ''"),
        ["acme/ada 2 1"]
    );
    let deleted = "SELECT seq::text || coalesce(content, ' nothing') FROM mnemon.messages WHERE deleted";
    assert_eq!(text(deleted), ["1 nothing"]);
    let vectors = "SELECT count(*)::text FROM mnemon.vectors AS v JOIN mnemon.messages AS m USING (namespace, seq) \
                   WHERE NOT is_text AND m.revision = v.revision";
    assert_eq!(text(vectors), ["2"]);
    let nearest = "SELECT m.id FROM mnemon.vectors AS v JOIN mnemon.messages AS m USING (namespace, seq) WHERE NOT v.is_text \
                   ORDER BY v.vector <=> (SELECT vector FROM mnemon.vectors WHERE NOT is_text ORDER BY seq LIMIT 1) LIMIT 1";
    assert_eq!(text(nearest), ["m1"], "pgvector");
    // Every character comes back.
    let other = Db::new();
    let found = open(&other, &address).blocking().get(&space, "m3").unwrap().unwrap();
    assert_eq!(found.text(), "a\u{0}b\u{1}c \u{1f6a3}");
}

/// All rows of all tables, as texts.
fn all_rows(address: &str) -> String {
    let tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'mnemon' ORDER BY 1";
    let rows = query(address, tables, &[]).into_iter().flat_map(|table| {
        let table: String = table.get(0);
        let rows = query(address, &format!("SELECT row::text FROM mnemon.\"{table}\" AS row"), &[]);
        rows.into_iter().map(move |row| format!("{table}: {}\n", row.get::<_, String>(0)))
    });
    rows.collect()
}

#[test]
fn no_row_keeps_the_name_of_what_was_deleted() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b, c) = (Db::new(), Db::new(), Db::new());
    let (first, second) = (open(&a, &address), open(&b, &address));
    let space = namespace("acme/ada");
    let fill = || {
        let message = Message::user("a text").with_id("m1").in_session("zephyr-session");
        first.blocking().put(&space, vec![message, Message::user("another text").in_session("kept-session")]).unwrap();
        let memory = first.memory(&space, "zephyr-memory");
        let limits = mnemon::BufferLimits::new(60, 0.7, 10).unwrap().idle_time(std::time::Duration::from_secs(3600));
        let memory = memory.limits(limits).message_counter(crate::support::words()).open().unwrap();
        memory.blocking().put(vec![Message::user("I row on Thursdays.")]).unwrap();
        let documents = first.documents(&space);
        for key in ["zephyr-document", "kept-document"] {
            documents.blocking().put(key, json!({"a": "some text"}), DocumentOptions::default()).unwrap();
        }
    };
    let names = |engine: &Engine| -> Vec<String> {
        let sessions = engine.blocking().sessions(&space).unwrap().into_iter().map(|found| found.session);
        let documents = ["zephyr-document", "kept-document"]
            .into_iter()
            .filter(|key| engine.documents(&space).blocking().get(key).unwrap().is_some());
        sessions.chain(documents.map(String::from)).collect()
    };
    let all = ["kept-session", "zephyr-memory", "zephyr-session", "zephyr-document", "kept-document"];
    for _ in 0..3 {
        fill();
        assert_eq!(names(&second), all);
        assert!(all_rows(&address).contains("zephyr-session"), "the search finds what is there");
        first.blocking().forget(Forget::session(&space, "zephyr-session")).unwrap();
        first.blocking().forget(Forget::session(&space, "zephyr-memory")).unwrap();
        first.documents(&space).blocking().delete("zephyr-document").unwrap();
        let rows = all_rows(&address);
        let left: Vec<&str> = rows.lines().filter(|row| row.contains("zephyr")).collect();
        assert_eq!(left, [""; 0]);
        // Another machine hears which they are all the same, and a new one has none of them.
        assert_eq!(names(&second), ["kept-session", "kept-document"]);
        assert_eq!(names(&first), ["kept-session", "kept-document"]);
    }
    // What was deleted and stored again while a machine did not look is there.
    first.blocking().forget(Forget::session(&space, "kept-session")).unwrap();
    first.documents(&space).blocking().delete("kept-document").unwrap();
    fill();
    assert_eq!(names(&second), all);
    assert_eq!(transfer::export(&open(&c, &address)), transfer::export(&second));
    drop((first, second));
    a.assert_sound();
    b.assert_sound();
}

#[test]
fn a_schema_of_the_first_version_is_upgraded() {
    let Some(server) = server() else { return };
    let address = server.database();
    let database = address.rsplit('/').next().unwrap();
    let (a, b, c) = (Db::new(), Db::new(), Db::new());
    let (first, second) = (open(&a, &address), open(&b, &address));
    let space = namespace("acme/ada");
    for session in ["zephyr", "kept"] {
        first.blocking().put(&space, vec![Message::user("a text").in_session(session)]).unwrap();
    }
    let documents = first.documents(&space);
    documents.blocking().put("zephyr", json!({"a": "some text"}), DocumentOptions::default()).unwrap();
    assert_eq!(second.blocking().sessions(&space).unwrap().len(), 2);
    drop(second);
    first.blocking().delete_session(&space, "zephyr").unwrap();
    documents.blocking().delete("zephyr").unwrap();
    drop((first, documents));
    let hidden = || {
        all_rows(&address)
            .lines()
            .filter(|row| (row.contains(",t,") || row.contains("\u{1}x")) && !row.starts_with("namespaces"))
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let before = hidden();
    assert!(
        before.iter().any(|row| row.starts_with("sessions")) && before.iter().any(|row| row.starts_with("documents")),
        "{before:?}"
    );
    // As version 1 left it.
    query(&address, &format!("CREATE ROLE upgraded_{database} LOGIN"), &[]);
    for sql in [
        "UPDATE mnemon.sessions SET name = 'zephyr' WHERE deleted",
        "UPDATE mnemon.documents SET key = 'zephyr' WHERE deleted",
        "DROP TRIGGER check_common ON mnemon.namespaces",
        "DROP POLICY nodes_of_tenants ON mnemon.nodes",
        "ALTER TABLE mnemon.nodes DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE mnemon.nodes DROP COLUMN role",
        "DROP POLICY audit_select ON mnemon.audit",
        "DROP POLICY audit_insert ON mnemon.audit",
        "CREATE POLICY audit_of_tenants ON mnemon.audit USING (true) WITH CHECK (true)",
        "INSERT INTO mnemon.nodes VALUES ('00000000-0000-0000-0000-000000000001', 0, 0, now())",
        "ALTER TABLE mnemon.messages DROP COLUMN expires_at",
        "ALTER TABLE mnemon.document_texts DROP COLUMN expires_at",
        "ALTER TABLE mnemon.old_messages DROP COLUMN expires_at",
        "ALTER TABLE mnemon.namespaces DROP COLUMN ttl_micros",
        "DROP TABLE mnemon.message_versions",
        "DROP TABLE mnemon.stamps",
        "ALTER TABLE mnemon.namespaces DROP COLUMN stamp",
        "ALTER TABLE mnemon.vectors DROP COLUMN text_hash",
        "UPDATE mnemon.settings SET value = '1' WHERE name IN ('schema', 'oldest')",
        &format!("GRANT USAGE ON SCHEMA mnemon TO upgraded_{database}"),
        &format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mnemon TO upgraded_{database}"),
    ] {
        query(&address, sql, &[]);
    }
    // Only the owner of the schema upgrades it.
    let error =
        try_open(&c, &address.replace("owner@", &format!("upgraded_{database}@")), Freshness::Latest).unwrap_err();
    assert!(error.to_string().contains("owns the schema"), "{error}");
    drop(open(&a, &address));
    assert_eq!(hidden(), before, "the names are hidden as this version hides them");
    assert!(!all_rows(&address).contains("zephyr"));
    let text = |sql: &str| -> Vec<String> { query(&address, sql, &[]).iter().map(|row| row.get(0)).collect() };
    assert_eq!(text("SELECT value FROM mnemon.settings WHERE name IN ('schema', 'oldest') ORDER BY name"), ["4", "4"]);
    assert_eq!(text("SELECT count(*)::text FROM mnemon.nodes"), ["0"], "older programs write nothing more");
    let policies =
        "SELECT policyname::text FROM pg_policies WHERE schemaname = 'mnemon' AND tablename = 'audit' ORDER BY 1";
    assert_eq!(text(policies), ["audit_insert", "audit_select"]);
    // A copy that did not hear of the deletion does.
    let second = open(&b, &address);
    assert_eq!(second.blocking().sessions(&space).unwrap().len(), 1);
    assert_eq!(second.documents(&space).blocking().get("zephyr").unwrap(), None);
    second.blocking().put(&space, vec![Message::user("it goes on")]).unwrap();
}

/// What one machine puts with a time, and what a namespace lets expire, expires on all, and one of them deletes it.
#[test]
fn expiry_is_that_of_all_machines() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let (first, second) = (open(&a, &address), open(&b, &address));
    let space = namespace("acme/ada");
    first.blocking().set_ttl(&space, Some(60.0)).unwrap();
    let soon = |milliseconds: i64| Timestamp::from_micros(Timestamp::now().as_micros() + milliseconds * 1000).unwrap();
    second.blocking().put(&space, vec![Message::user("by the namespace").with_id("m1")]).unwrap();
    first.blocking().put(&space, vec![Message::user("the ferry").with_id("m2").expiring_at(soon(3000))]).unwrap();
    let expires = |engine: &Engine, id: &str| engine.blocking().get(&space, id).unwrap().unwrap().expires_at;
    assert!(expires(&first, "m1").is_some() && expires(&first, "m1") == expires(&second, "m1"));
    assert_eq!(expires(&second, "m2"), expires(&first, "m2"));
    assert_eq!(second.blocking().namespaces(None, None, 1).unwrap().namespaces[0].ttl_minutes, Some(60.0));
    let text = |sql: &str| -> Vec<String> { query(&address, sql, &[]).iter().map(|row| row.get(0)).collect() };
    let begun = std::time::Instant::now();
    while text("SELECT id FROM mnemon.messages WHERE NOT deleted") != ["m1"] {
        assert!(begun.elapsed().as_secs() < 20, "nobody deletes it");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for engine in [&first, &second] {
        assert_eq!(engine.blocking().get(&space, "m2").unwrap(), None);
        assert!(expires(engine, "m1").is_some());
    }
    drop((first, second));
    a.assert_sound();
    b.assert_sound();
}

/// Each machine has the versions of all, also one that comes later, and forgets those that another one forgot.
#[test]
fn versions_are_those_of_all_machines() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b, c) = (Db::new(), Db::new(), Db::new());
    let (first, second) = (open(&a, &address), open(&b, &address));
    let space = namespace("acme/ada");
    let put = |engine: &Engine, text: &str, session: &str| {
        engine.blocking().put(&space, vec![Message::user(text).with_id("m").in_session(session)]).unwrap();
        Timestamp::now()
    };
    let texts = |engine: &Engine| -> Vec<String> {
        let versions = engine.blocking().versions(&space, "m").unwrap();
        versions.into_iter().map(|version| version.message.text()).collect()
    };
    let as_of = |engine: &Engine, time: Timestamp| -> Vec<String> {
        let hits = engine.blocking().recall(&space, Query::new("ferry").as_of(time)).unwrap();
        hits.into_iter().map(|hit| hit.message.text()).collect()
    };
    put(&first, "the ferry leaves at one", "s");
    assert_eq!(texts(&second), [""; 0]);
    let known = Timestamp::now();
    put(&second, "the ferry leaves at two", "s");
    put(&first, "the ferry leaves at three", "s");
    let expected = ["the ferry leaves at one", "the ferry leaves at two"];
    for engine in [&first, &second] {
        assert_eq!(texts(engine), expected);
        assert_eq!(as_of(engine, known), expected[..1]);
    }
    put(&second, "the ferry leaves at three", "t");
    let third = open(&c, &address);
    for engine in [&first, &second, &third] {
        assert_eq!(texts(engine), expected, "it moved to another session");
    }
    assert_eq!(transfer::export(&first), transfer::export(&third));
    let rows = || all_rows(&address).matches("leaves at two").count();
    assert_eq!(rows(), 1);
    third.blocking().forget(Forget::messages(&space, ["m"])).unwrap();
    put(&third, "the ferry leaves at four", "s");
    for engine in [&first, &second, &third] {
        assert_eq!((texts(engine), rows()), (vec![], 0));
    }
    drop((first, second, third));
    [a, b, c].iter().for_each(|db| drop(db.assert_sound()));
}

#[test]
fn what_is_to_be_tried_again_is_tried_again() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    // Two of three transactions lose against others, as beside the puts of other machines, or meet a timeout.
    for sql in [
        "CREATE SEQUENCE tries",
        "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') % 3 <> 0 THEN \
         RAISE EXCEPTION 'lost' USING ERRCODE = (ARRAY['40001', '40P01', '57014', '55P03'])[1 + currval('tries') % 4]; END IF; \
         RETURN NEW; END $$",
        "CREATE TRIGGER lose BEFORE UPDATE ON mnemon.namespaces FOR EACH ROW WHEN (OLD.name <> '') EXECUTE FUNCTION lose()",
    ] {
        query(&address, sql, &[]);
    }
    let failed: Vec<String> = (0..120)
        .filter_map(|number| {
            let space = namespace(&format!("acme/{number}"));
            engine.blocking().put(&space, vec![Message::user("a text")]).unwrap();
            engine.blocking().delete_namespace(&space).err().map(|error| error.to_string())
        })
        .collect();
    assert_eq!(failed, [""; 0], "{} of 120 deletions failed", failed.len());
}

/// Counts the texts that are embedded.
pub(super) struct Counting(pub(super) Hashing, pub(super) AtomicUsize);

impl Embedder for Counting {
    fn identity(&self) -> &ModelIdentity {
        self.0.identity()
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.1.fetch_add(texts.len(), Ordering::SeqCst);
        self.0.embed_documents(texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.0.embed_query(text)
    }
}

#[test]
fn a_text_is_embedded_by_one_machine() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let first = open(&a, &address);
    let space = namespace("acme/ada");
    let messages = (0..50).map(|number| Message::user(format!("text number {number}"))).collect();
    first.blocking().put(&space, messages).unwrap();
    first.documents(&space).blocking().put("k", json!({"a": "some text"}), DocumentOptions::default()).unwrap();
    first.blocking().flush().unwrap();
    let counting = Arc::new(Counting(Hashing::new(32), AtomicUsize::new(0)));
    let second = Engine::builder(&b.path).embedder(counting.clone());
    let second = second.shared(&address).freshness(Freshness::Latest).open().unwrap();
    let query = || Query::new("text number 7").k(5);
    let hits = second.blocking().recall(&space, query()).unwrap();
    assert_eq!(hits.pending(), 0, "the vectors came with the messages");
    assert_eq!(*hits, *first.blocking().recall(&space, query()).unwrap());
    assert_eq!(counting.1.load(Ordering::SeqCst), 0);
}

#[test]
fn a_schema_that_is_too_new_and_a_foreign_file_are_refused() {
    let Some(server) = server() else { return };
    let (address, other) = (server.database(), server.database());
    let (a, b) = (Db::new(), Db::new());
    drop(open(&a, &address));
    let error = try_open(&a, &other, Freshness::Latest).unwrap_err();
    assert!(matches!(error, Error::InvalidConfig { .. }) && error.to_string().contains("another shared"), "{error}");
    let error = b.open_own_of(&a);
    assert!(error.to_string().contains("copy of a shared database"), "{error}");
    // A newer release added what does not concern this one.
    query(&address, "UPDATE mnemon.settings SET value = '5' WHERE name = 'schema'", &[]);
    query(&address, "ALTER TABLE mnemon.messages ADD COLUMN mood text", &[]);
    let engine = open(&a, &address);
    engine.blocking().put(&namespace("acme"), vec![Message::user("an older program goes on")]).unwrap();
    drop(engine);
    query(&address, "UPDATE mnemon.settings SET value = '5' WHERE name = 'oldest'", &[]);
    let error = try_open(&b, &address, Freshness::Latest).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{error}");
    assert!(error.to_string().contains("version 5"), "{error}");
}

impl Db {
    /// Opens the file of another one without its shared database. Returns the error.
    fn open_own_of(&self, copy: &Db) -> Error {
        std::fs::copy(&copy.path, &self.path).unwrap();
        let error = self.try_open_with(Arc::new(Hashing::new(32))).unwrap_err();
        std::fs::remove_file(&self.path).unwrap();
        error
    }
}
