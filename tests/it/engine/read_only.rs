//! Engines that are open for reading: beside a process that writes, on files that may not be written, and after a kill.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mnemon::{
    BufferLimits, Config, Engine, Error, FlushedBatch, Language, MemoryBlock, Message, Precision, Query,
    ReindexOptions, Result,
};
use serde_json::Value;

use crate::support::{Db, Hashing, children, go_on, killing, message, namespace, schemas, words};

/// The variable that tells a child its database.
const DB: &str = "MNEMON_READ_ONLY_DB";

fn open_read_only(path: &Path) -> Result<Engine> {
    Engine::builder(path).embedder(Arc::new(Hashing::new(32))).open_read_only()
}

fn put(engine: &Engine, numbers: std::ops::Range<usize>, text: &str) {
    let messages = numbers.map(|i| message(&format!("m{i}"), &format!("word{i} {text}"))).collect();
    engine.blocking().put(&namespace("a"), messages).unwrap();
    engine.blocking().flush().unwrap();
}

/// Returns the ids of the messages with this word that a recall finds.
fn found(engine: &Engine, word: &str) -> Vec<String> {
    let hits = engine.blocking().recall(&namespace("a"), Query::new(word).k(1000)).unwrap();
    let mut messages: Vec<Message> = hits.into_iter().map(|hit| hit.message).collect();
    messages.retain(|message| message.text().split(' ').any(|own| own == word));
    messages.into_iter().map(|message| message.id).collect()
}

#[test]
fn a_second_process_reads_beside_an_engine_that_writes() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, 0..100, "old");
    let mut command = children::command(module_path!(), "read_in_steps");
    command.env(DB, &db.path);
    let mut reader = children::Steps::start(command);
    reader.step();
    // Enough that the pages of the reader's state would be used again if it did not hold them.
    for round in 0..20 {
        put(&engine, 0..100, &format!("round{round}"));
    }
    engine.blocking().delete(&namespace("a"), vec!["m7".into()]).unwrap();
    reader.step();
    reader.step();
    reader.finish();
    drop(engine);
    db.assert_sound();
}

#[test]
#[ignore = "a child of a_second_process_reads_beside_an_engine_that_writes"]
fn read_in_steps() {
    let path = std::env::var(DB).unwrap();
    let path = Path::new(&path);
    children::begin_step();
    let engine = open_read_only(path).unwrap();
    assert_eq!(found(&engine, "word42"), ["m42"]);
    children::end_step();

    children::begin_step();
    for _ in 0..2 {
        assert_eq!(found(&engine, "word7"), ["m7"], "the state of its opening");
        assert_eq!(found(&engine, "round19"), [""; 0]);
        for i in 0..100 {
            let text = engine.blocking().get(&namespace("a"), &format!("m{i}")).unwrap().unwrap().text();
            assert_eq!(text, format!("word{i} old"));
        }
    }
    children::end_step();

    children::begin_step();
    let now = engine.reopen().unwrap();
    assert_eq!((found(&now, "word7"), found(&engine, "word7")), (vec![], vec!["m7".to_owned()]));
    assert_eq!(found(&now, "round19").len(), 99);
    assert_eq!(mnemon::stats(path).unwrap().namespaces[0].messages, 99);
    let report = mnemon::verify(path).unwrap();
    assert_eq!((report.problems.len(), report.messages, report.pages_checked), (0, 99, false));
    children::end_step();
}

/// Opens and reads without end while another thread replaces and deletes messages, reuses rows, and folds the graph.
#[test]
fn what_a_reader_sees_is_a_state_between_two_commits() {
    let db = Db::new();
    let config = Config::default().flush_size(100_000).exact_threshold(100);
    let builder = Engine::builder(&db.path).config(config.clone()).embedder(Arc::new(Hashing::new(32)));
    let writer = builder.open().unwrap();
    let space = namespace("a");
    // In each state, all messages are of the same round.
    let put_round = |round: usize| {
        let text = |i: usize| message(&format!("m{i}"), &format!("word{i} round{round}"));
        writer.blocking().put(&space, (0..200).map(text).collect()).unwrap();
    };
    put_round(0);
    writer.blocking().flush().unwrap();
    let (over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                put_round(rounds.fetch_add(1, Ordering::Relaxed) + 1);
                writer.blocking().flush().unwrap();
                writer.blocking().delete(&space, (0..50).map(|i| format!("extra{i}")).collect()).unwrap();
                let extra = (0..50).map(|i| message(&format!("extra{i}"), "extra")).collect();
                writer.blocking().put(&namespace("b"), extra).unwrap();
            }
        });
        let builder = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32)));
        let mut reader = builder.open_read_only().unwrap();
        for _ in 0..25 {
            let text = reader.blocking().get(&space, "m0").unwrap().unwrap().text();
            let round = text.split_once(' ').unwrap().1.to_owned();
            for i in (0..200).step_by(7) {
                let text = reader.blocking().get(&space, &format!("m{i}")).unwrap().unwrap().text();
                assert_eq!(text, format!("word{i} {round}"));
            }
            for hit in reader.blocking().recall(&space, Query::new("word42").k(3)).unwrap() {
                assert!(hit.message.text().ends_with(&round), "{} {round}", hit.message.text());
            }
            let report = mnemon::verify(&db.path).unwrap();
            assert_eq!((report.problems, report.pages_checked), (vec![], false));
            reader = reader.reopen().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(rounds.load(Ordering::Relaxed) > 3, "the writer went on meanwhile");
    drop(writer);
    assert!(db.assert_sound().pages_checked);
}

#[test]
fn a_read_only_file_in_a_read_only_folder_is_read_and_does_not_change() {
    let db = Db::new();
    put(&db.open(), 0..100, "old");
    let before = fs::read(&db.path).unwrap();
    let allow = |path: &Path, writing: bool| {
        let mut permissions = fs::metadata(path).unwrap().permissions();
        #[cfg(unix)]
        std::os::unix::fs::PermissionsExt::set_mode(
            &mut permissions,
            if path.is_dir() { 0o555 } else { 0o444 } | if writing { 0o200 } else { 0 },
        );
        #[cfg(not(unix))]
        permissions.set_readonly(!writing);
        fs::set_permissions(path, permissions).unwrap();
    };
    allow(&db.path, false);
    allow(db.folder.path(), false);
    let mut command = children::command(module_path!(), "read_all");
    command.env(DB, &db.path);
    // No permission keeps root from writing: the child is nobody.
    #[cfg(unix)]
    if fs::File::options().append(true).open(&db.path).is_ok() {
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
    }
    let mut child = children::Steps::start(command);
    child.step();
    child.finish();
    assert!(fs::read(&db.path).unwrap() == before);
    allow(db.folder.path(), true);
}

#[test]
#[ignore = "a child of a_read_only_file_in_a_read_only_folder_is_read_and_does_not_change"]
fn read_all() {
    let path = std::env::var(DB).unwrap();
    let path = Path::new(&path);
    children::begin_step();
    assert_eq!(found(&open_read_only(path).unwrap(), "word42"), ["m42"]);
    assert_eq!(mnemon::stats(path).unwrap().namespaces[0].messages, 100);
    let report = mnemon::verify(path).unwrap();
    assert_eq!((report.problems.len(), report.messages, report.pages_checked), (0, 100, true));
    let error = Engine::builder(path).embedder(Arc::new(Hashing::new(32))).open().unwrap_err();
    assert!(format!("{error:?}").contains("opening it for reading only needs no write permission"), "{error:?}");
    children::end_step();
}

/// A block that counts its batches.
struct Counting(Arc<AtomicUsize>);

impl MemoryBlock for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn get(&self, _: &Value, _: &mnemon::BlockQuery) -> Result<mnemon::BlockContent> {
        Ok(mnemon::BlockContent::default())
    }

    fn takes_batches(&self) -> bool {
        true
    }

    fn put(&self, _: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Value::Null)
    }
}

#[test]
fn what_would_write_is_an_error_with_the_remedy() {
    let db = Db::new();
    let space = namespace("a");
    let limits = BufferLimits::default().token_limit(3).chat_history_token_ratio(1.0);
    {
        let engine = db.open();
        put(&engine, 0..10, "old");
        let memory = engine.memory(&space, "chat").limits(limits).message_counter(words()).open().unwrap();
        let turns = ["the red bicycle", "a green boat"].map(Message::user);
        memory.blocking().put(turns.into()).unwrap();
        engine.blocking().flush().unwrap();
        // A pending message, and batches that no block has taken.
        engine.blocking().put(&space, vec![message("pending", "waiting")]).unwrap();
    }
    let before = fs::read(&db.path).unwrap();
    let engine = open_read_only(&db.path).unwrap();
    let blocking = engine.blocking();
    let batches = Arc::new(AtomicUsize::new(0));
    let memory = engine.memory(&space, "chat").limits(limits).message_counter(words());
    let memory = memory.block(Counting(Arc::clone(&batches))).open().unwrap();
    let errors = [
        blocking.put(&space, vec![message("new", "new")]).err(),
        blocking.flush().err(),
        blocking.delete(&space, vec!["m1".into()]).err(),
        blocking.delete_namespace(&space).err(),
        blocking.delete_session(&space, "chat").err(),
        blocking.copy_session(&space, "chat", "copy").err(),
        blocking.set_language(&space, Language::German).err(),
        blocking.set_ttl(&space, Some(60.0)).err(),
        blocking.reindex(Arc::new(Hashing::new(16)), ReindexOptions::default(), go_on).err(),
        blocking.drop_previous().err(),
        memory.blocking().put(vec![Message::user("hello")]).err(),
        memory.blocking().flush().err(),
        memory.blocking().checkpoint("now").err(),
    ];
    for (number, error) in errors.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {number}"));
        assert!(matches!(error, Error::ReadOnly { .. }), "call {number}: {error}");
        assert!(error.to_string().contains("open it for writing to change it"), "{error}");
    }
    assert_eq!((blocking.pending().unwrap(), batches.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(memory.blocking().get(None).unwrap().messages.len(), 1);
    assert_eq!(found(&engine, "bicycle").len(), 1);
    drop((memory, engine));
    assert!(fs::read(&db.path).unwrap() == before);
}

#[test]
fn a_file_that_must_be_repaired_or_upgraded_is_named_and_still_counted_and_verified() {
    let killed = Db::new();
    killing::kill_after(module_path!(), "put_for_ever", &killed.path, 0, Duration::from_millis(20));
    let old = Db::with_precision(Precision::F32);
    put(&old.open(), 0..10, "old");
    {
        let file = crate::support::open_tables(&old.path);
        let write = file.begin_write().unwrap();
        schemas::back_to_schema_3(&write);
        write.commit().unwrap();
    }
    for (db, reason) in [(killed, "it was not closed properly"), (old, "it was written by an older version")] {
        let before = fs::read(&db.path).unwrap();
        let error = open_read_only(&db.path).unwrap_err();
        assert!(matches!(error, Error::WriteAccessNeeded { .. }), "{error}");
        assert!(error.to_string().contains(reason) && error.to_string().contains("open it once"), "{error}");
        assert!(mnemon::stats(&db.path).unwrap().namespaces[0].messages > 0);
        assert!(db.assert_sound().pages_checked);
        assert!(fs::read(&db.path).unwrap() == before, "{reason}: the file has changed");
        let is_old = reason.contains("older version");
        let writer = db.open();
        if is_old {
            // The upgraded namespace has no lexical index yet.
            let query = |engine: &Engine| engine.blocking().recall(&namespace("a"), Query::new("word1").k(1));
            let error = query(&open_read_only(&db.path).unwrap()).unwrap_err();
            assert!(matches!(error, Error::WriteAccessNeeded { .. }), "{error}");
            query(&writer).unwrap();
        }
        assert_eq!(found(&open_read_only(&db.path).unwrap(), "word1"), ["m1"]);
    }
}

#[test]
#[ignore = "a child of a_file_that_must_be_repaired_or_upgraded_is_named_and_still_counted_and_verified"]
fn put_for_ever() {
    let (path, _) = killing::child_arguments();
    let engine = Engine::builder(path).embedder(Arc::new(Hashing::new(32))).open().unwrap();
    for i in 0.. {
        put(&engine, i * 10..i * 10 + 10, "old");
        println!("\nack {i}");
    }
}

#[test]
fn without_other_readers_the_file_is_locked() {
    let db = Db::new();
    let config = Config::default().other_readers(false);
    let embedder = Arc::new(Hashing::new(32));
    let engine = Engine::builder(&db.path).config(config).embedder(embedder).open().unwrap();
    put(&engine, 0..10, "old");
    for error in [
        open_read_only(&db.path).err(),
        mnemon::stats(&db.path).err(),
        mnemon::verify(&db.path).err(),
        db.try_open_with(Arc::new(Hashing::new(32))).err(),
    ] {
        assert!(matches!(error, Some(Error::DatabaseLocked { .. })), "{error:?}");
    }
    drop(engine);
    // Readers keep no writer out.
    let reader = open_read_only(&db.path).unwrap();
    let engine = db.open();
    put(&engine, 10..20, "new");
    assert_eq!((found(&reader, "word15"), found(&reader.reopen().unwrap(), "word15").len()), (vec![], 1));
}

#[test]
fn the_command_reads_beside_an_engine_that_writes() {
    let db = Db::new();
    let engine = Engine::open(&db.path).unwrap();
    put(&engine, 0..10, "bicycle");
    let recall: &[&str] = &["recall", "--namespace", "a", "the bicycle", "--db"];
    for (arguments, wanted) in [(&["stats", "--db"][..], "10"), (&["verify", "--db"], "sound"), (recall, "bicycle")] {
        let mut command = assert_cmd::Command::cargo_bin("mnemon").unwrap();
        let output = command.args(arguments).arg(&db.path).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && stdout.contains(wanted), "{arguments:?}: {stdout}");
    }
}
