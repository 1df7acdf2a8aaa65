//! Blocks: their batches, failures and deadlines.

use mnemon::{BlockScope, RetrievalUnit, StaticBlock, VectorBlock};

use super::*;

/// Ten turns, of which all but the last are flushed one by one.
fn talk(memory: &Memory, turns: std::ops::Range<usize>) {
    for turn in turns {
        memory.blocking().put(vec![user(&turn.to_string(), "one two three")]).unwrap();
    }
}

fn with_block(engine: &Engine, block: Recorder) -> (Memory, Arc<Recorder>) {
    let block = Arc::new(block);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    (memory.block(Arc::clone(&block)).open().unwrap(), block)
}

#[test]
fn a_block_takes_each_batch_once_whatever_fails() {
    for transient in [true, false] {
        let db = Db::new();
        let engine = open(&db);
        // Transient failures may go on for long; others are tried three times a batch.
        let (memory, block) = with_block(&engine, Recorder::failing("r", if transient { 7 } else { 2 }, transient));
        talk(&memory, 0..6);
        while memory.blocking().settle().is_err() {}
        assert_eq!(recorded(&memory, "r"), [["0"], ["1"], ["2"], ["3"], ["4"]]);
        assert_eq!(block.calls.load(Ordering::SeqCst), 5 + if transient { 7 } else { 2 });
        assert_eq!(memory.blocking().status().unwrap()[0].behind, 0);
    }
}

#[test]
fn a_batch_that_cannot_be_taken_is_set_aside_and_named() {
    let db = Db::new();
    let engine = open(&db);
    let (memory, block) = with_block(&engine, Recorder { poison: Some("1"), ..Recorder::new("r") });
    talk(&memory, 0..4);
    while memory.blocking().settle().is_err() {}
    assert_eq!(recorded(&memory, "r"), [["0"], ["2"]]);
    assert_eq!(block.calls.load(Ordering::SeqCst), 2 + 3);
    let status = memory.blocking().status().unwrap().remove(0);
    assert_eq!((status.behind, status.failed.len(), status.failed[0].0), (0, 1, 1));
    assert!(status.failed[0].1.contains("on purpose"));
    assert!(memory.blocking().retry_failed("r").is_err());
    drop((memory, block));
    // Mended, and after a restart.
    drop(engine);
    let engine = open(&db);
    let (memory, _) = with_block(&engine, Recorder::new("r"));
    assert_eq!(memory.blocking().status().unwrap()[0].failed.len(), 1);
    assert_eq!(memory.blocking().retry_failed("r").unwrap(), 1);
    assert_eq!(memory.blocking().status().unwrap()[0].failed, []);
    let state = memory.blocking().block_state("r").unwrap();
    assert_eq!(state, json!([[0, ["0"]], [2, ["2"]], [1, ["1"]]]));
    assert!(matches!(memory.blocking().retry_failed("nobody"), Err(Error::InvalidConfig { .. })));
}

#[test]
fn settle_waits_for_the_try_that_it_asks_for() {
    for round in 0..10 {
        let db = Db::new();
        let mut config = Config::default();
        config.block_retry = Duration::from_secs(3600);
        let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
        let (memory, block) = with_block(&engine, Recorder::failing("r", 1, true));
        talk(&memory, 0..2);
        while memory.blocking().status().unwrap()[0].retrying.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(memory.blocking().settle().is_ok(), "round {round}: an old failure was reported");
        assert_eq!(block.calls.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn untaken_batches_are_taken_after_a_restart() {
    let db = Db::new();
    {
        let engine = open(&db);
        let (memory, _) = with_block(&engine, Recorder::failing("r", usize::MAX, true));
        talk(&memory, 0..5);
        assert!(matches!(memory.blocking().settle(), Err(Error::Block { .. })));
        let status = memory.blocking().status().unwrap().remove(0);
        assert!(status.behind == 4 && status.retrying.unwrap().contains("on purpose"));
    }
    let engine = open(&db);
    let (memory, _) = with_block(&engine, Recorder::new("r"));
    memory.blocking().settle().unwrap();
    assert_eq!(recorded(&memory, "r"), [["0"], ["1"], ["2"], ["3"]]);
}

#[test]
fn a_panic_of_a_block_counts_as_one_failed_attempt() {
    struct Panics(AtomicUsize);
    impl MemoryBlock for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn put(&self, _: &Value, _: &FlushedBatch<'_>) -> Result<Value> {
            panic!("on purpose")
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose")
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    let memory = memory.block(Panics(AtomicUsize::new(0))).block(StaticBlock::new("other", "said")).open().unwrap();
    talk(&memory, 0..2);
    while memory.blocking().settle().is_err() {}
    let status = memory.blocking().status().unwrap().remove(0);
    assert!(status.failed[0].1.contains("panicked"), "{status:?}");
    let prompt = memory.blocking().get(None).unwrap();
    assert_eq!(prompt.failed[0].name, "panics");
    assert!(prompt.messages[0].text().contains("said"));
}

/// Says "late" after this time.
struct Slow(Duration);

impl MemoryBlock for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        std::thread::sleep(self.0);
        Ok("late".into())
    }
}

#[test]
fn a_slow_or_failing_block_is_left_out_and_named() {
    struct Fails;
    impl MemoryBlock for Fails {
        fn name(&self) -> &str {
            "fails"
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Err(Error::InvalidConfig { reason: "on purpose".into() })
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block_deadline(Duration::from_millis(50));
    let memory = memory.block(Slow(Duration::from_millis(600))).block(Fails).block(StaticBlock::new("x", "said"));
    let memory = memory.open().unwrap();
    memory.blocking().put(vec![user("1", "hello")]).unwrap();
    let started = Instant::now();
    let prompt = memory.blocking().get(None).unwrap();
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    let failed: Vec<&str> = prompt.failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!(failed, ["slow", "fails"]);
    assert!(prompt.failed[0].reason.contains("not done within") && prompt.failed[1].reason.contains("on purpose"));
    assert!(prompt.messages[0].text().contains("said") && !prompt.messages[0].text().contains("late"));
    // Not asked for ever while it is busy: a block that hangs costs a few threads, not one a prompt.
    for _ in 0..3 {
        assert!(memory.blocking().get(None).unwrap().failed[0].reason.contains("not done within"));
    }
    let prompt = memory.blocking().get(None).unwrap();
    assert!(prompt.failed[0].reason.contains("busy"), "{:?}", prompt.failed);
    std::thread::sleep(Duration::from_millis(700));
    let patient = engine.memory(&namespace("a"), "s").block(Slow(Duration::from_millis(30))).open().unwrap();
    assert!(patient.blocking().get(None).unwrap().messages[0].text().contains("late"));
}

#[test]
fn blocks_are_asked_at_the_same_time() {
    struct Named(&'static str, Slow);
    impl MemoryBlock for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent> {
            self.1.get(state, query)
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let mut memory = engine.memory(&namespace("a"), "s");
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        memory = memory.block(Named(name, Slow(Duration::from_millis(100))));
    }
    let memory = memory.open().unwrap();
    let started = Instant::now();
    assert_eq!(memory.blocking().get(None).unwrap().failed, []);
    assert!(started.elapsed() < Duration::from_millis(600), "{:?}", started.elapsed());
}

#[test]
fn concurrent_prompts_are_all_complete() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block(Slow(Duration::from_millis(20)));
    let memory = memory.block(StaticBlock::new("x", "said")).open().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let prompt = memory.blocking().get(None).unwrap();
                    assert_eq!(prompt.failed, []);
                    assert!(prompt.messages[0].text().contains("late") && prompt.messages[0].text().contains("said"));
                }
            });
        }
    });
}

#[test]
fn a_block_can_be_tested_by_itself() {
    struct Nothing;
    impl mnemon::Retriever for Nothing {
        fn recall(&self, _: &mnemon::Namespace, query: &mnemon::Query) -> Result<Vec<mnemon::Hit>> {
            assert_eq!(query.text(), "where is it");
            Ok(vec![mnemon::Hit::new(Message::user("here"), 0.5, 1)])
        }
    }
    let messages = vec![Arc::new(Message::user("where is it"))];
    let query = BlockQuery::new(namespace("a"), "s", messages, Arc::new(Nothing));
    let said = VectorBlock::new("v").get(&Value::Null, &query).unwrap();
    assert!(matches!(said, BlockContent::Quoted(told) if told[0].text() == "here"));
}

#[test]
fn a_sticky_block_keeps_the_order_while_its_messages_are_good_enough() {
    /// A retriever that finds these messages, best first.
    struct Ranking(std::sync::Mutex<&'static str>);
    impl mnemon::Retriever for Ranking {
        fn recall(&self, _: &mnemon::Namespace, _: &mnemon::Query) -> Result<Vec<mnemon::Hit>> {
            let hit = |(at, id): (usize, char)| {
                mnemon::Hit::new(Message::user(format!("text {id}")).with_id(id), 1.0 - at as f32 / 100.0, at + 1)
            };
            Ok(self.0.lock().unwrap().chars().enumerate().map(hit).collect())
        }
    }
    let recall = Arc::new(Ranking(Default::default()));
    let ask = |block: &VectorBlock, session: &str, ranking: &'static str| -> String {
        *recall.0.lock().unwrap() = ranking;
        let messages = vec![Arc::new(Message::user("where is it").with_id("shown"))];
        let query = BlockQuery::new(namespace("a"), session, messages, recall.clone());
        let BlockContent::Quoted(told) = block.get(&Value::Null, &query).unwrap() else { panic!("messages") };
        told.into_iter().map(|message| message.id).collect()
    };
    let sticky = VectorBlock::new("v").similarity_top_k(2).keep_previous_hits();
    assert_eq!(ask(&sticky, "s", "abcdef"), "ab");
    assert_eq!(ask(&sticky, "s", "cbad"), "ab", "two and one more are good enough");
    assert_eq!(ask(&sticky, "other", "cbad"), "cb");
    assert_eq!(ask(&sticky, "s", "cdbaef"), "cb", "a is the fourth");
    assert_eq!(ask(&sticky, "s", "defgbc"), "de", "they were found, but are the fifth and the sixth");
    let plain = VectorBlock::new("v").similarity_top_k(2);
    assert_eq!((ask(&plain, "s", "abcdef"), ask(&plain, "s", "cbad")), ("ab".into(), "cb".into()));
}

#[test]
fn a_vector_block_recalls_for_the_last_messages() {
    let db = Db::new();
    let engine = open(&db);
    let space = namespace("a");
    // Another session's.
    let old = engine.memory(&space, "old").limits(limits(7, 1.0, 6)).message_counter(words()).open().unwrap();
    old.blocking().put(vec![user("bike", "the bike is red"), assistant("ok", "noted well")]).unwrap();
    old.blocking().put(vec![user("boat", "the boat is green"), user("bike2", "the bike is red")]).unwrap();
    old.blocking().put(vec![user("last", "unrelated words entirely here")]).unwrap();
    old.blocking().settle().unwrap();
    let told = |block: VectorBlock, question: &str| -> Vec<String> {
        let memory = engine.memory(&space, "new").block(block).open().unwrap();
        let prompt = memory.blocking().get(Some(Message::user(question))).unwrap();
        let text = prompt.messages.first().map(Message::text).unwrap_or_default();
        let elements = text.lines().filter(|line| line.starts_with("<message"));
        elements.map(|line| line.split_once('>').unwrap().1.split_once('<').unwrap().0.to_owned()).collect()
    };
    let block = || VectorBlock::new("v");
    assert_eq!(told(block().similarity_top_k(1), "red bike"), ["the bike is red"], "of equal texts one");
    assert_eq!(told(block().similarity_top_k(2), "boat is green")[0], "the boat is green");
    assert_eq!(told(block().similarity_threshold(0.99), "boat is the green"), ["the boat is green"]);
    assert_eq!(told(block(), " "), [""; 0], "nothing is asked with nothing");
    assert_eq!(told(block().own_session(), "boat is green"), [""; 0]);
    let batch = told(block().similarity_top_k(1).retrieval_unit(RetrievalUnit::Batch), "bike is red");
    assert_eq!(batch, ["the bike is red", "noted well"]);
    let none = block().hit_processor(|hits| Ok(hits.into_iter().filter(|hit| hit.similarity > 2.0).collect()));
    assert_eq!(told(none, "red bike"), [""; 0]);
}

#[test]
fn the_query_is_the_last_messages_in_the_window() {
    struct Asks(VectorBlock, std::sync::Mutex<Vec<String>>);
    let db = Db::new();
    let engine = open(&db);
    let block = Arc::new(Asks(VectorBlock::new("v").retrieval_context_window(2), Default::default()));
    impl MemoryBlock for Asks {
        fn name(&self) -> &str {
            "v"
        }
        fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent> {
            self.1.lock().unwrap().extend(query.messages.iter().map(|message| message.text()));
            self.0.get(state, query)
        }
    }
    engine.blocking().put(&namespace("a"), vec![user("x", "two three"), user("y", "zero one")]).unwrap();
    engine.blocking().flush().unwrap();
    let memory = engine.memory(&namespace("a"), "s").block(Arc::clone(&block));
    let memory = memory.open().unwrap();
    memory.blocking().put(vec![user("1", "zero"), assistant("2", "one"), user("3", "two")]).unwrap();
    let prompt = memory.blocking().get(Some(Message::user("three"))).unwrap();
    assert_eq!(*block.1.lock().unwrap(), ["zero", "one", "two", "three"]);
    let text = prompt.messages[0].text();
    assert!(text.find("two three").unwrap() < text.find("zero one").unwrap_or(usize::MAX), "{text}");
    assert_eq!(ids(&prompt.messages)[1..], ["1", "2", "3"], "the input is not in it");
}

#[test]
fn sessions_may_share_a_block() {
    struct Shared;
    impl MemoryBlock for Shared {
        fn name(&self) -> &str {
            "shared"
        }
        fn scope(&self) -> BlockScope {
            BlockScope::Namespace
        }
        fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
            Ok((state.as_u64().unwrap_or(0) + batch.messages.len() as u64).into())
        }
        fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok(state.to_string().into())
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let open = |session: &str| {
        let memory = engine.memory(&namespace("a"), session).limits(limits(3, 1.0, 1)).message_counter(words());
        memory.block(Shared).open().unwrap()
    };
    let memories: Vec<Memory> = (0..4).map(|session| open(&session.to_string())).collect();
    // At once: their batches meet in one state.
    std::thread::scope(|scope| {
        for (session, memory) in memories.iter().enumerate() {
            scope.spawn(move || {
                for turn in 0..6 {
                    memory.blocking().put(vec![user(&format!("{session}/{turn}"), "one two three")]).unwrap();
                }
            });
        }
    });
    memories.iter().for_each(|memory| memory.blocking().settle().unwrap());
    assert_eq!(memories[0].blocking().block_state("shared").unwrap(), json!(20));
    engine.blocking().delete_session(&namespace("a"), "1").unwrap();
    assert_eq!(memories[0].blocking().block_state("shared").unwrap(), json!(20), "it outlives them");
    engine.blocking().delete_namespace(&namespace("a")).unwrap();
    assert_eq!(memories[0].blocking().block_state("shared").unwrap(), Value::Null);
}

#[test]
fn the_longest_duration_is_a_valid_deadline() {
    let db = Db::new();
    let engine = open(&db);
    let memory =
        engine.memory(&namespace("a"), "s").block_deadline(Duration::MAX).block(Recorder::new("r")).open().unwrap();
    memory.blocking().get(None).unwrap();
}

#[test]
fn an_embedder_that_hangs_costs_few_threads() {
    let db = Db::new();
    let (engine, gate) = gated(&db);
    let memory = engine.memory(&namespace("a"), "s").block_deadline(Duration::from_millis(5)).open().unwrap();
    memory.blocking().put(vec![user("0", "x")]).unwrap();
    let closed = gate.gate.lock().unwrap();
    for i in 0..30 {
        memory.blocking().assemble(user(&format!("p{i}"), "GATE")).unwrap();
    }
    let threads = gate.entered.load(Ordering::SeqCst);
    drop(closed);
    assert!(threads <= 4, "{threads} threads hang");
}
