//! `verify` finds no problem after concurrent puts, deletes, restores and reindexes of memories.
//!
//! `MNEMON_STRESS_SECONDS` sets how long; default 1.

use mnemon::{MessageUpdate, Precision, Query};

use super::*;

#[test]
fn verify_sees_what_is_wrong_beside_messages() {
    let db = Db::with_precision(Precision::F32);
    let engine = open(&db);
    let memory = engine
        .memory(&namespace("a"), "s")
        .limits(limits(3, 1.0, 1))
        .message_counter(words())
        .block(Recorder::new("r"))
        .open()
        .unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    memory.blocking().settle().unwrap();
    memory.blocking().checkpoint("").unwrap();
    drop((memory, engine));
    let base = std::fs::read(&db.path).unwrap();
    let mut unseen = Vec::new();
    for t in ["blocks", "cursors", "checkpoints", "batches", "sessions", "windows", "idle"] {
        std::fs::write(&db.path, &base).unwrap();
        let file = crate::support::open_tables(&db.path);
        let w = file.begin_write().unwrap();
        crate::support::schemas::back_to_schema_1(&w);
        w.commit().unwrap();
        drop(file);
        if mnemon::verify(&db.path).unwrap().problems.is_empty() {
            unseen.push(t)
        }
    }
    assert_eq!(unseen, [""; 0]);
}

#[test]
fn a_reindex_runs_beside_buffers_deletes_and_restores() {
    use crate::support::{go_on, stop_after};
    use std::ops::ControlFlow;
    let db = Db::new();
    let reindex = |progress: &mut dyn FnMut(mnemon::ReindexProgress) -> ControlFlow<()>| {
        crate::support::reindex(&db, Hashing::new(16), None, progress).unwrap();
    };
    {
        let engine = open(&db);
        let memory = memory(&engine, limits(8, 1.0, 3));
        for i in 0..6 {
            memory.blocking().put(vec![user(&i.to_string(), &format!("word{i} two three"))]).unwrap();
        }
        memory.blocking().settle().unwrap();
        memory.blocking().checkpoint("").unwrap();
    }
    db.assert_sound();
    reindex(&mut stop_after(0));
    db.assert_sound();
    {
        let engine = open(&db);
        let memory = memory(&engine, limits(8, 1.0, 3));
        for i in 6..9 {
            memory.blocking().put(vec![user(&i.to_string(), &format!("word{i} two three"))]).unwrap();
        }
        memory.blocking().put(vec![user("0", "changed")]).unwrap();
        memory.blocking().update(vec![MessageUpdate::Remove("1".into()), MessageUpdate::Remove("4".into())]).unwrap();
        memory.blocking().settle().unwrap();
        memory.blocking().fork(Some(0), "f").unwrap();
    }
    db.assert_sound();
    reindex(&mut stop_after(1));
    db.assert_sound();
    {
        let engine = open(&db);
        let memory = memory(&engine, limits(8, 1.0, 3));
        memory.blocking().restore(0).unwrap();
        engine.blocking().delete_session(&namespace("a"), "f").unwrap();
    }
    db.assert_sound();
    reindex(&mut go_on);
    let r = db.assert_sound();
    assert_eq!((r.messages, r.pending), (6, 0));
}

#[test]
fn a_database_of_schema_1_is_upgraded() {
    let db = Db::with_precision(Precision::F32);
    {
        let engine = open(&db);
        engine
            .blocking()
            .put(
                &namespace("a"),
                (0..20).map(|i| user(&i.to_string(), "some text").in_session(format!("s{}", i % 3))).collect(),
            )
            .unwrap();
        engine.blocking().flush().unwrap();
        engine.blocking().put(&namespace("b"), vec![user("1", "pending")]).unwrap();
    }
    {
        let file = crate::support::open_tables(&db.path);
        let w = file.begin_write().unwrap();
        {
            let b: redb::TableDefinition<(u32, u32, &str), &[u8]> = redb::TableDefinition::new("blocks");
            let c: redb::TableDefinition<(u32, u32, &str), &[u8]> = redb::TableDefinition::new("cursors");
            w.delete_table(b).unwrap();
            w.delete_table(c).unwrap();
            w.delete_table(redb::TableDefinition::<(u32, u32, u64), u8>::new("history")).unwrap();
            w.delete_table(redb::TableDefinition::<(u32, u32, u32), (u64, u64)>::new("batches")).unwrap();
            w.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("checkpoints")).unwrap();
            w.delete_table(redb::TableDefinition::<(u32, u32, u64, u32), &[u8]>::new("old_messages")).unwrap();
            w.delete_table(redb::TableDefinition::<(u32, u32, &str, u32), &[u8]>::new("old_blocks")).unwrap();
            crate::support::schemas::back_to_schema_2(&w);
            w.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta"))
                .unwrap()
                .insert("schema", 1u32.to_le_bytes().as_slice())
                .unwrap();
        }
        w.commit().unwrap();
    }
    let engine = open(&db);
    assert_eq!(engine.blocking().history(&namespace("a"), "s1").unwrap().len(), 7);
    let memory = engine.memory(&namespace("a"), "s1").open().unwrap();
    memory.blocking().put(vec![user("n", "hi")]).unwrap();
    engine.blocking().delete_session(&namespace("a"), "s2").unwrap();
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn the_state_in_memory_equals_the_stored_state() {
    stress(|_| ());
}

/// Buffers, blocks and checkpoints have nothing to do with vectors; what leaves a buffer, or comes back, must be in
/// both generations.
#[test]
fn the_state_in_memory_equals_the_stored_state_during_a_reindex() {
    stress(|engine| {
        for _ in 0..3 {
            let there =
                engine.blocking().reindex(Arc::new(Hashing::new(16)), Default::default(), crate::support::go_on);
            assert!(there.unwrap().switched);
            assert!(engine.blocking().rollback(Arc::new(Hashing::new(32)), crate::support::go_on).unwrap().switched);
        }
    });
}

fn stress(meanwhile: impl FnOnce(&Engine)) {
    let db = Db::new();
    let engine = open(&db);
    let begin = |e: &Engine, s: &str| {
        e.memory(&namespace("a"), s)
            .limits(limits(12, 1.0, 3).idle_time(Duration::from_millis(20)))
            .message_counter(words())
            .block(Recorder::new("r"))
            .open()
            .unwrap()
    };
    let memories = [begin(&engine, "s"), begin(&engine, "t")];
    memories.iter().for_each(|m| drop(m.blocking().put(vec![Message::user("hi")]).unwrap()));
    // Their prompts show the whole windows.
    let watch = |e: &Engine, s: &str| e.memory(&namespace("a"), s).limits(limits(1_000_000, 1.0, 1)).open().unwrap();
    let shown = |m: &Memory| -> Vec<Message> { m.blocking().get(None).unwrap().messages };
    let watchers = [watch(&engine, "s"), watch(&engine, "t")];
    std::thread::scope(|scope| {
        for t in 0..6u64 {
            let (engine, memories, watchers) = (&engine, &memories, &watchers);
            scope.spawn(move || {
                let mut x = 77 + t * 1000;
                let mut next = move |n: u64| {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (x >> 33) % n
                };
                let seconds = std::env::var("MNEMON_STRESS_SECONDS").map_or(1, |seconds| seconds.parse().unwrap());
                let until = Instant::now() + Duration::from_secs(seconds);
                while Instant::now() < until {
                    let m = &memories[next(2) as usize];
                    let id = next(30).to_string();
                    match next(18) {
                        0..=5 => drop(m.blocking().put(vec![
                            user(&id, &"w ".repeat(1 + next(5) as usize)),
                            Message::assistant(format!("x{}", next(9))),
                        ])),
                        6 => drop(m.blocking().update(vec![MessageUpdate::Remove(id)])),
                        7 => drop(m.blocking().checkpoint("")),
                        8 => {
                            let checkpoints = m.blocking().checkpoints().unwrap_or_default();
                            if let Some(checkpoint) = checkpoints.last() {
                                drop(m.blocking().restore(checkpoint.number))
                            }
                        }
                        9 => drop(
                            engine
                                .blocking()
                                .put(&namespace("a"), vec![user(&id, "moved now").in_session(m.session())]),
                        ),
                        10 => drop(engine.blocking().delete(&namespace("a"), vec![id])),
                        11 => drop(engine.blocking().flush()),
                        12 if next(6) == 0 => drop(engine.blocking().delete_session(&namespace("a"), m.session())),
                        12 => drop(m.blocking().get(None)),
                        13 => drop(m.blocking().flush()),
                        14 => drop(m.blocking().set(vec![user(&id, "w set"), Message::assistant("done")])),
                        15 if next(6) == 0 => drop(m.blocking().clear()),
                        16 if next(6) == 0 => drop(m.blocking().reset()),
                        15 => drop(m.blocking().assemble(Message::user("w"))),
                        16 => drop(watchers[next(2) as usize].blocking().get(None)),
                        _ => drop(engine.blocking().recall(&namespace("a"), Query::new("w"))),
                    }
                }
            });
        }
        meanwhile(&engine);
    });
    // The timer of idle sessions has nothing to do any more.
    for m in &memories {
        let never = BufferLimits::default().idle_time(None);
        let last = engine.memory(&namespace("a"), m.session()).limits(never).open().unwrap();
        last.blocking().put(vec![Message::user("the end")]).unwrap();
    }
    let seen: Vec<_> = memories
        .iter()
        .map(|m| {
            m.blocking().settle().unwrap();
            m.blocking().messages().unwrap()
        })
        .collect();
    let hits = engine.blocking().recall(&namespace("a"), Query::new("w").k(1000)).unwrap().len();
    let watched = watchers.each_ref().map(shown);
    drop((memories, watchers));
    drop(engine);
    db.assert_sound();
    let engine = open(&db);
    assert_eq!(watched, ["s", "t"].map(|s| shown(&watch(&engine, s))));
    let again: Vec<_> = ["s", "t"].map(|s| begin(&engine, s).blocking().messages().unwrap()).into();
    assert_eq!(seen, again);
    assert_eq!(hits, engine.blocking().recall(&namespace("a"), Query::new("w").k(1000)).unwrap().len());
}
