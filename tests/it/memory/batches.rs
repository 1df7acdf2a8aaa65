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

/// A block that takes so long for a batch.
struct Slow(Duration);

impl MemoryBlock for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn put(&self, _: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        std::thread::sleep(self.0);
        Ok(json!(batch.messages.len()))
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok("".into())
    }
}

#[test]
fn closing_waits_for_blocks_up_to_a_limit() {
    let second = Duration::from_secs(1);
    for (limit, works, taken) in [(None, second, true), (Some(second / 20), 3 * second, false)] {
        let db = Db::new();
        let open = || {
            let mut config = Config::default();
            config.block_close_wait = limit.unwrap_or(config.block_close_wait);
            Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
        };
        let engine = open();
        let with = |engine: &Engine, works| engine.memory(&namespace("a"), "s").block(Slow(works)).open().unwrap();
        let memory = with(&engine, works);
        memory.blocking().put(vec![user("1", "one"), user("2", "two")]).unwrap();
        memory.blocking().flush().unwrap();
        let begun = Instant::now();
        drop((memory, engine));
        let took = begun.elapsed();
        assert_eq!(took >= works, taken, "{took:?}");
        let engine = open();
        let memory = with(&engine, Duration::ZERO);
        if taken {
            assert_eq!(memory.blocking().block_state("slow").unwrap(), json!(2));
        }
        // What was left is handed over now.
        memory.blocking().settle().unwrap();
        assert_eq!(memory.blocking().block_state("slow").unwrap(), json!(2));
    }
    // A block that failed is not waited for.
    let db = Db::new();
    let mut config = Config::default();
    config.block_retry = 100 * second;
    let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
    let memory = engine.memory(&namespace("a"), "s").block(Recorder::failing("r", 9, true)).open().unwrap();
    memory.blocking().put(vec![user("1", "one")]).unwrap();
    memory.blocking().flush().unwrap();
    assert!(memory.blocking().settle().is_err());
    let begun = Instant::now();
    drop((memory, engine));
    assert!(begun.elapsed() < 4 * second, "{:?}", begun.elapsed());
}

#[test]
fn what_blocks_gave_up_is_listed_and_handed_over_in_all_namespaces() {
    let db = Db::new();
    let engine = open(&db);
    let with = |space: &str, block: Recorder| {
        let memory = engine.memory(&namespace(space), "s").block(block).open().unwrap();
        if memory.blocking().history().unwrap().is_empty() {
            memory.blocking().put(vec![user("1", "one two three")]).unwrap();
            memory.blocking().flush().unwrap();
        }
        while memory.blocking().settle().is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        memory
    };
    let spaces = ["a", "a/b", "c"];
    let failing = spaces.map(|space| with(space, Recorder::failing("r", 3, false)));
    assert!(failing.iter().all(|memory| memory.blocking().status().unwrap()[0].failed.len() == 1));
    drop(failing);
    let listed = |prefix: Option<&str>| -> Vec<String> {
        let prefix = prefix.map(namespace);
        let failed = engine.blocking().failed_batches(prefix.as_ref()).unwrap();
        failed.iter().map(|failed| format!("{} {} {}", failed.namespace, failed.session, failed.batch)).collect()
    };
    assert_eq!(listed(None), ["a s 0", "a/b s 0", "c s 0"]);
    assert_eq!(listed(Some("a")), ["a s 0", "a/b s 0"]);
    assert_eq!(engine.blocking().retry_failed_batches(Some(&namespace("a"))).unwrap().len(), 2);
    assert_eq!(listed(None), ["c s 0"]);
    // They are handed over when their sessions are opened, in whatever order, and one that fails again is listed again.
    let taken = with("a", Recorder::new("r"));
    assert_eq!(recorded(&taken, "r"), [["1"]]);
    with("a/b", Recorder::failing("r", 3, false));
    assert_eq!(listed(None), ["a/b s 0", "c s 0"]);
    assert_eq!(engine.blocking().retry_failed_batches(None).unwrap().len(), 2);
    for space in ["a/b", "c"] {
        assert_eq!(recorded(&with(space, Recorder::new("r")), "r"), [["1"]]);
    }
    assert_eq!(listed(None), [""; 0]);
}
