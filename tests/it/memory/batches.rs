//! Which messages a batch has, and blocks that hang or fail while they take batches.

use super::*;

#[test]
fn a_message_belongs_to_one_batch() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(4, 1.0, 4)).message_counter(words());
    let memory = memory.block(Recorder::new("r")).open().unwrap();
    memory.blocking().put(vec![system("0", "be"), user("1", "one two three"), user("2", "one two three")]).unwrap();
    memory.blocking().settle().unwrap();
    assert_eq!(recorded(&memory, "r"), [["1"]]);
    memory.blocking().put(vec![user("0", "be"), user("3", "one two three")]).unwrap();
    memory.blocking().settle().unwrap();
    assert_eq!(recorded(&memory, "r").concat(), ["1", "0", "2"]);
}

#[test]
fn a_message_that_was_never_buffered_belongs_to_no_batch() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(6, 1.0, 6)).message_counter(words());
    let memory = memory.block(Recorder::new("r")).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three")]).unwrap();
    engine.blocking().put(&namespace("a"), vec![user("x", "never in the buffer").in_session("s")]).unwrap();
    memory.blocking().put(vec![assistant("2", "one two three")]).unwrap();
    let report = memory.blocking().put(vec![user("3", "one two three")]).unwrap();
    assert_eq!(report.flushed, [["1", "2"]]);
    memory.blocking().settle().unwrap();
    assert_eq!(recorded(&memory, "r"), report.flushed);
}

#[test]
fn a_block_may_hold_the_engine() {
    // Holds the engine until it is dropped.
    #[allow(dead_code)]
    struct Holds(Engine, mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);
    impl MemoryBlock for Holds {
        fn name(&self) -> &str {
            "h"
        }
        fn put(&self, s: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
            self.1.send(()).unwrap();
            self.2.lock().unwrap().recv().unwrap();
            Ok(s.clone())
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok("".into())
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let (tx, rx) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    let memory = memory.block(Holds(engine.clone(), tx, Mutex::new(gone))).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    rx.recv().unwrap();
    drop((memory, engine));
    go.send(()).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match db.try_open_with(Arc::new(Hashing::new(32))) {
            Ok(_) => break,
            Err(e) if Instant::now() > until => panic!("{e}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[test]
fn a_service_cannot_make_a_block_wait_for_ever() {
    struct Later(AtomicUsize);
    impl MemoryBlock for Later {
        fn name(&self) -> &str {
            "l"
        }
        fn put(&self, _: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::Chat {
                    reason: "x".into(),
                    transient: true,
                    retry_after: Some(Duration::from_secs(u64::MAX)),
                    source: None,
                }),
                _ => Ok(json!("taken")),
            }
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok("".into())
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    let memory = memory.block(Later(AtomicUsize::new(0))).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    let m = memory.clone();
    within(move || while m.blocking().settle().is_err() {});
    assert_eq!(memory.blocking().block_state("l").unwrap(), json!("taken"));
}

#[test]
fn a_long_reason_of_a_failure_is_shortened() {
    struct Bad;
    impl MemoryBlock for Bad {
        fn name(&self) -> &str {
            "b"
        }
        fn put(&self, _: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
            Err(Error::InvalidConfig { reason: "x".repeat(5 << 20) })
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok("".into())
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine
        .memory(&namespace("a"), "s")
        .limits(limits(3, 1.0, 1))
        .message_counter(words())
        .block(Bad)
        .open()
        .unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    memory.blocking().get(None).unwrap();
    memory.blocking().status().unwrap();
}

#[test]
fn a_block_that_hangs_keeps_no_other_from_its_batches() {
    struct Hang(&'static str, Arc<Mutex<()>>);
    impl MemoryBlock for Hang {
        fn name(&self) -> &str {
            self.0
        }
        fn put(&self, _: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
            if self.0 == "hang" {
                drop(self.1.lock().unwrap());
            }
            Ok(json!(1))
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok("".into())
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let lock = Arc::new(Mutex::new(()));
    let turns = |p: &str| vec![user(&format!("{p}1"), "one two three"), user(&format!("{p}2"), "one two three")];
    let begin = |s: &str| engine.memory(&namespace("a"), s).limits(limits(3, 1.0, 1)).message_counter(words());
    let first = begin("first").block(Hang("ok", lock.clone())).open().unwrap();
    first.blocking().put(turns("a")).unwrap();
    while first.blocking().status().unwrap()[0].behind > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    let held = lock.lock().unwrap();
    let second = begin("second").open().unwrap();
    second.blocking().put(turns("b")).unwrap(); // flushed, no blocks yet
    let second = begin("second").block(Hang("hang", lock.clone())).block(Hang("ok", lock.clone())).open().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while second.blocking().block_state("ok").unwrap().is_null() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let state = second.blocking().block_state("ok").unwrap();
    drop(held);
    assert_eq!(state, json!(1));
}

#[test]
fn blocks_take_a_batch_whose_put_was_cancelled() {
    use std::{
        future::Future,
        task::{Context, Waker},
    };
    let db = Db::new();
    let engine = open(&db);
    let memory = engine
        .memory(&namespace("a"), "s")
        .limits(limits(3, 1.0, 1))
        .message_counter(words())
        .block(Recorder::new("r"))
        .open()
        .unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut f = Box::pin(memory.put(vec![user("1", "one two three"), user("2", "one two three")]));
    // Until the flush is committed; it may be done by then.
    while engine.blocking().sessions(&namespace("a")).unwrap().first().is_none_or(|info| info.batches == 0) {
        if f.as_mut().poll(&mut cx).is_ready() {
            break;
        }
    }
    drop(f);
    let until = Instant::now() + Duration::from_secs(10);
    while recorded(&memory, "r").is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(recorded(&memory, "r"), [["1"]]);
}
