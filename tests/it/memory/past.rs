//! Restores and forks while work is running that was begun before them.

use mnemon::{BlockScope, Query};

use super::*;

struct Count(AtomicUsize);
impl MemoryBlock for Count {
    fn name(&self) -> &str {
        "shared"
    }
    fn scope(&self) -> BlockScope {
        BlockScope::Namespace
    }
    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        if self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |l| l.checked_sub(1)).is_ok() {
            return Err(Error::Chat {
                reason: "x".into(),
                transient: true,
                retry_after: Some(Duration::from_secs(3600)),
                source: None,
            });
        }
        Ok((state.as_u64().unwrap_or(0) + batch.messages.len() as u64).into())
    }
    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok("".into())
    }
}

#[test]
fn a_shared_block_takes_nothing_twice_after_a_restore() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    let memory = memory.block(Count(AtomicUsize::new(1))).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let c = memory.blocking().checkpoint("").unwrap(); // the block is behind by one batch
    while memory.blocking().settle().is_err() {}
    assert_eq!(memory.blocking().block_state("shared").unwrap(), json!(1));
    memory.blocking().restore(c).unwrap();
    while memory.blocking().settle().is_err() {}
    assert_eq!(memory.blocking().block_state("shared").unwrap(), json!(1));
}

#[test]
fn a_shared_block_that_is_new_takes_nothing_twice_after_a_restore() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words()).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    let c = memory.blocking().checkpoint("").unwrap();
    let with = |s: &str| {
        engine
            .memory(&namespace("a"), s)
            .limits(limits(3, 1.0, 1))
            .message_counter(words())
            .block(Count(AtomicUsize::new(0)))
            .open()
            .unwrap()
    };
    let memory = with("s");
    memory.blocking().settle().unwrap();
    memory.blocking().restore(c).unwrap();
    memory.blocking().settle().unwrap();
    assert_eq!(memory.blocking().block_state("shared").unwrap(), json!(1));
}

#[test]
fn a_message_moved_into_a_session_is_not_part_of_its_past() {
    let db = Db::new();
    let engine = open(&db);
    let m = || user("m", "moves").in_session("t");
    engine.blocking().put(&namespace("a"), vec![m()]).unwrap();
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("x", "hello")]).unwrap();
    let c = memory.blocking().checkpoint("").unwrap();
    engine.blocking().put(&namespace("a"), vec![m().in_session("s")]).unwrap();
    memory.blocking().restore(c).unwrap();
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["x"]);
}

#[test]
fn a_change_begun_before_a_restore_is_repeated() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let memory = {
        drop(memory);
        engine.memory(&namespace("a"), "s").block(Recorder::new("r")).open().unwrap()
    };
    memory.blocking().put(vec![user("x", "hello")]).unwrap();
    let c = memory.blocking().checkpoint("").unwrap();
    memory.blocking().change_block("r", |_| Ok(json!(["undone"]))).unwrap();
    let mut first = true;
    let other = memory.clone();
    memory
        .blocking()
        .change_block("r", move |state| {
            if std::mem::take(&mut first) {
                other.blocking().restore(c).unwrap();
                other.blocking().change_block("r", |_| Ok(json!(["kept"]))).unwrap();
            }
            let mut list = state.as_array().cloned().unwrap_or_default();
            list.push(json!("added"));
            Ok(list.into())
        })
        .unwrap();
    assert_eq!(memory.blocking().block_state("r").unwrap(), json!(["kept", "added"]));
}

#[test]
fn a_restored_message_has_its_own_vector() {
    let db = Db::new();
    let (engine, gate) = gated(&db);
    let memory = memory(&engine, limits(3, 1.0, 1));
    memory.blocking().put(vec![user("m", "red bike here"), user("n", "one two three")]).unwrap();
    engine.blocking().flush().unwrap();
    let c = memory.blocking().checkpoint("").unwrap();
    memory.blocking().put(vec![user("m", "GATE completely other words")]).unwrap();
    std::thread::scope(|scope| {
        let closed = gate.gate.lock().unwrap();
        let flush = scope.spawn(|| engine.blocking().flush().unwrap());
        while gate.entered.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now()
        }
        engine.blocking().delete(&namespace("a"), vec!["m".into()]).unwrap();
        memory.blocking().restore(c).unwrap();
        drop(closed);
        flush.join().unwrap();
    });
    engine.blocking().flush().unwrap();
    let hits = engine.blocking().recall(&namespace("a"), Query::new("red bike here")).unwrap();
    assert_eq!(hits[0].message.text(), "red bike here");
    assert!(hits[0].similarity > 0.99, "{}", hits[0].similarity);
}

#[test]
fn the_result_of_a_batch_taken_before_a_restore_is_discarded() {
    struct Slow(Arc<Mutex<()>>, AtomicUsize);
    impl MemoryBlock for Slow {
        fn name(&self) -> &str {
            "r"
        }
        fn put(&self, s: &Value, b: &FlushedBatch<'_>) -> Result<Value> {
            if self.1.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(Error::Chat {
                    reason: "x".into(),
                    transient: true,
                    retry_after: Some(Duration::from_secs(3600)),
                    source: None,
                });
            }
            drop(self.0.lock().unwrap());
            let mut l = s.as_array().cloned().unwrap_or_default();
            l.push(json!(b.messages[0].text()));
            Ok(l.into())
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok("".into())
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let lock = Arc::new(Mutex::new(()));
    let block = Arc::new(Slow(lock.clone(), AtomicUsize::new(0)));
    let memory = engine
        .memory(&namespace("a"), "s")
        .limits(limits(3, 1.0, 1))
        .message_counter(words())
        .block(block.clone() as Arc<dyn MemoryBlock>)
        .open()
        .unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    while block.1.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now()
    }
    std::thread::sleep(Duration::from_millis(50));
    let c = memory.blocking().checkpoint("").unwrap();
    memory.blocking().put(vec![user("1", "undone text")]).unwrap();
    let held = lock.lock().unwrap();
    assert!(memory.blocking().retry_failed("r").unwrap() == 0);
    let m = memory.clone();
    let t = std::thread::spawn(move || while m.blocking().settle().is_err() {});
    while block.1.load(Ordering::SeqCst) == 1 {
        std::thread::yield_now()
    }
    memory.blocking().restore(c).unwrap();
    drop(held);
    t.join().unwrap();
    assert_eq!(memory.blocking().block_state("r").unwrap(), json!(["one two three"]));
}
