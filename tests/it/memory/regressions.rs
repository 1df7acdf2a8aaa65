//! What a review found, each once a defect: kept so that none comes back.
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use mnemon::{BlockScope, Embedder, HistoryStore, InsertMethod, MessageUpdate, ModelIdentity, Query, Reference};

use super::*;

#[test]
fn ping_pong_lost() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![Message::user("ping"), Message::assistant("pong")]).unwrap();
    memory.blocking().get(Some(Message::user("ping"))).unwrap();
    let report = memory.blocking().put(vec![Message::user("ping"), Message::assistant("pong")]).unwrap();
    assert_eq!(memory.blocking().history().unwrap().len(), 4, "{report:?}");
}

#[test]
fn image_turn_lost() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let turn = |uri: &str| {
        let mut m = Message::user("what is this?");
        m.content.push(Part::Image(Reference { uri: uri.into(), media_type: None }));
        vec![m, Message::assistant("a cat")]
    };
    memory.blocking().put(turn("a.png")).unwrap();
    memory.blocking().get(None).unwrap();
    memory.blocking().put(turn("b.png")).unwrap();
    assert_eq!(memory.blocking().history().unwrap().len(), 4);
}

#[test]
fn remove_all_and_put_again_loses_all() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "hello"), assistant("2", "hi")]).unwrap();
    memory.blocking().get(None).unwrap();
    let up = vec![
        MessageUpdate::RemoveAll,
        MessageUpdate::Put(Message::user("hello")),
        MessageUpdate::Put(Message::assistant("hi")),
    ];
    let report = memory.blocking().update(up).unwrap();
    assert_eq!(memory.blocking().history().unwrap().len(), 2, "{report:?}");
}

#[test]
fn remove_and_put_again_loses_all() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "hello"), assistant("2", "hi")]).unwrap();
    memory.blocking().get(None).unwrap();
    let up = vec![
        MessageUpdate::Remove("1".into()),
        MessageUpdate::Remove("2".into()),
        MessageUpdate::Put(Message::user("hello")),
        MessageUpdate::Put(Message::assistant("hi")),
    ];
    let report = memory.blocking().update(up).unwrap();
    assert_eq!(memory.blocking().history().unwrap().len(), 2, "{report:?}");
}

#[test]
fn image_lost() {
    let db = Db::new();
    let engine = open(&db);
    let image = |uri: &str| Part::Image(Reference { uri: uri.into(), media_type: None });
    let mut old = Message::user("the red bike").in_session("old");
    old.content.push(image("old.png"));
    engine.blocking().put(&namespace("a"), vec![old]).unwrap();
    engine.blocking().flush().unwrap();
    let memory = engine.memory(&namespace("a"), "s").insert_method(InsertMethod::User).open().unwrap();
    let mut asks = user("1", "is this the red bike");
    asks.content.push(image("mine.png"));
    memory.blocking().put(vec![asks.clone()]).unwrap();
    let prompt = memory.blocking().assemble(asks.clone()).unwrap();
    let mut back = prompt.messages.clone();
    back.push(assistant("2", "yes"));
    memory.blocking().put(back).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].content, asks.content);
}

struct Count(AtomicUsize);
impl MemoryBlock for Count {
    fn name(&self) -> &str {
        "shared"
    }
    fn scope(&self) -> BlockScope {
        BlockScope::Namespace
    }
    fn put(&self, state: &Value, batch: &Batch<'_>) -> Result<Value> {
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
fn shared_block_doubled_by_restore() {
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
fn new_shared_block_doubled_by_fork() {
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
fn moved_in_survives_restore() {
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
fn role_change_doubles_batches() {
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
fn unbuffered_in_batch() {
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
fn change_block_aba() {
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

struct Gate {
    inner: Hashing,
    gate: Mutex<()>,
    entered: AtomicUsize,
}
impl Embedder for Gate {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }
    fn windows(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        self.inner.windows(text)
    }
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        if texts.iter().any(|t| t.contains("GATE")) {
            self.entered.fetch_add(1, Ordering::SeqCst);
            drop(self.gate.lock().unwrap());
        }
        self.inner.embed_documents(texts)
    }
    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        if text.contains("GATE") {
            self.entered.fetch_add(1, Ordering::SeqCst);
            drop(self.gate.lock().unwrap());
        }
        self.inner.embed_query(text)
    }
}
fn gated(db: &Db) -> (Engine, Arc<Gate>) {
    let gate = Arc::new(Gate { inner: Hashing::new(32), gate: Mutex::new(()), entered: AtomicUsize::new(0) });
    (db.try_open_with(Arc::clone(&gate) as Arc<dyn Embedder>).unwrap(), gate)
}

#[test]
fn vectors_of_another_text() {
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
    assert!(hits[0].score > 0.99, "{}", hits[0].score);
}

#[test]
fn block_with_engine_deadlocks() {
    // Holds the engine until it is dropped.
    #[allow(dead_code)]
    struct Holds(Engine, mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);
    impl MemoryBlock for Holds {
        fn name(&self) -> &str {
            "h"
        }
        fn put(&self, s: &Value, _: &Batch<'_>) -> Result<Value> {
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

fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || tx.send(work()));
    rx.recv_timeout(Duration::from_secs(5)).expect("hangs or panicked")
}

#[test]
fn retry_after_kills_the_thread() {
    struct Later(AtomicUsize);
    impl MemoryBlock for Later {
        fn name(&self) -> &str {
            "l"
        }
        fn put(&self, _: &Value, _: &Batch<'_>) -> Result<Value> {
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
fn deadline_max() {
    let db = Db::new();
    let engine = open(&db);
    let memory =
        engine.memory(&namespace("a"), "s").block_deadline(Duration::MAX).block(Recorder::new("r")).open().unwrap();
    memory.blocking().get(None).unwrap();
}

#[test]
fn long_reason_corrupts() {
    struct Bad;
    impl MemoryBlock for Bad {
        fn name(&self) -> &str {
            "b"
        }
        fn put(&self, _: &Value, _: &Batch<'_>) -> Result<Value> {
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
fn cancelled_call_keeps_the_file_open() {
    use std::{
        future::Future,
        task::{Context, Waker},
    };
    let db = Db::new();
    let (engine, gate) = gated(&db);
    engine.blocking().put(&namespace("a"), vec![user("1", "x")]).unwrap();
    let closed = gate.gate.lock().unwrap();
    {
        let space = namespace("a");
        let mut f = Box::pin(engine.recall(&space, Query::new("GATE")));
        let _ = f.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        while gate.entered.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now()
        }
    }
    let (t, gate2) = (std::thread::spawn(move || drop(engine)), Arc::clone(&gate));
    std::thread::sleep(Duration::from_millis(200));
    let returned = t.is_finished();
    let locked = db.try_open_with(Arc::new(Hashing::new(32))).err().map(|e| e.to_string());
    drop(closed);
    drop(gate2);
    assert!(!(returned && locked.is_some()), "drop returned, but: {locked:?}");
}
#[test]
fn same_id_and_text_in_two_sessions() {
    let db = Db::new();
    let engine = open(&db);
    for s in ["s", "t"] {
        let memory = engine.memory(&namespace("a"), s).open().unwrap();
        let put = memory.blocking().put(vec![user("1", "hello")]);
        assert_eq!(put.is_ok(), s == "s", "an id is one message's; never a silent nothing");
        assert_eq!(memory.blocking().history().unwrap().len(), usize::from(s == "s"));
    }
}

#[test]
fn removed_comes_back() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "secret"), assistant("2", "ok")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    memory.blocking().update(vec![MessageUpdate::Remove("1".into())]).unwrap();
    memory.blocking().put(prompt.messages).unwrap();
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["2"]);
}

#[test]
fn edit_undone_by_prompt() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "old"), assistant("2", "ok")]).unwrap();
    let prompt = memory.blocking().get(None).unwrap();
    memory.blocking().put(vec![user("1", "edited")]).unwrap();
    memory.blocking().put(prompt.messages).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "edited");
}

#[test]
fn selector_shortens_store() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("1", "long text"), assistant("2", "ok")]).unwrap();
    struct Cut;
    impl mnemon::MessageSelector for Cut {
        fn select(&self, m: &[Message]) -> Vec<Message> {
            m.iter()
                .map(|m| Message { content: vec![Part::Text { text: m.text()[..2].into() }], ..m.clone() })
                .collect()
        }
    }
    let prompt = memory.blocking().assemble(mnemon::Assembly::new(user("3", "hm")).selector(Cut)).unwrap();
    memory.blocking().put(prompt.messages).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "long text");
}

#[test]
fn verify_is_blind() {
    let db = Db::new();
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
    for t in ["blocks", "cursors", "checkpoints", "batches", "sessions"] {
        std::fs::write(&db.path, &base).unwrap();
        let file = redb::Database::open(&db.path).unwrap();
        let w = file.begin_write().unwrap();
        {
            let b: redb::TableDefinition<(u32, u32, &str), &[u8]> = redb::TableDefinition::new(t);
            let c: redb::TableDefinition<(u32, u32, u32), &[u8]> = redb::TableDefinition::new(t);
            let d: redb::TableDefinition<(u32, u32, u32), (u64, u64)> = redb::TableDefinition::new(t);
            let e: redb::TableDefinition<(u32, &str), u32> = redb::TableDefinition::new(t);
            match t {
                "blocks" | "cursors" => drop(w.open_table(b).unwrap().insert((0, 0, "r"), b"junk".as_slice()).unwrap()),
                "checkpoints" => drop(w.open_table(c).unwrap().insert((0, 0, 0), b"junk".as_slice()).unwrap()),
                "batches" => drop(w.open_table(d).unwrap().insert((7, 9, 0), (5, 2)).unwrap()),
                _ => drop(w.open_table(e).unwrap().insert((0, "twin"), 0).unwrap()),
            }
        }
        w.commit().unwrap();
        drop(file);
        if mnemon::verify(&db.path).unwrap().problems.is_empty() {
            unseen.push(t)
        }
    }
    assert_eq!(unseen, [""; 0]);
}

#[test]
fn blank_is_stored() {
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block(mnemon::StaticBlock::new("x", "said")).open().unwrap();
    let given = memory.blocking().get(None).unwrap().messages.remove(0).text();
    memory.blocking().put(vec![user("1", &format!("{given}\n\n"))]).unwrap();
    assert!(memory.blocking().history().unwrap().iter().all(|m| !m.text().trim().is_empty()));
}

#[test]
fn a_hanging_block_starves_another() {
    struct Hang(&'static str, Arc<Mutex<()>>);
    impl MemoryBlock for Hang {
        fn name(&self) -> &str {
            self.0
        }
        fn put(&self, _: &Value, _: &Batch<'_>) -> Result<Value> {
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
    std::thread::sleep(Duration::from_millis(1500));
    let state = second.blocking().block_state("ok").unwrap();
    drop(held);
    assert_eq!(state, json!(1));
}

#[test]
fn update_as_add_messages() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    let up = || vec![MessageUpdate::Remove("x".into()), MessageUpdate::Put(user("x", "hello"))];
    assert_eq!(mnemon::add_messages(vec![], up()).is_ok(), memory.blocking().update(up()).is_ok());
}

#[test]
fn session_is_set() {
    let db = Db::new();
    let engine = open(&db);
    let memory = memory(&engine, BufferLimits::default());
    memory.blocking().put(vec![user("x", "hello").in_session("")]).unwrap();
}

#[test]
fn edit_of_told_message_dropped() {
    struct Tells(Vec<Message>);
    impl MemoryBlock for Tells {
        fn name(&self) -> &str {
            "tells"
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok(BlockContent::Messages(self.0.clone()))
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").limits(limits(3, 1.0, 1)).message_counter(words());
    let memory = memory.block(Tells(vec![user("1", "one two three")])).open().unwrap();
    memory.blocking().put(vec![user("1", "one two three"), user("2", "one two three")]).unwrap();
    memory.blocking().get(None).unwrap();
    memory.blocking().put(vec![user("1", "edited by the user")]).unwrap();
    assert_eq!(memory.blocking().history().unwrap()[0].text(), "edited by the user");
}

#[test]
fn metadata_key() {
    let db = Db::new();
    let engine = open(&db);
    let store = engine.history_store(&namespace("a"));
    let mut m = user("1", "hello");
    m.metadata.insert("mnemon.id".into(), json!("evil"));
    store.append("s", &[m.clone()]).unwrap();
    assert_eq!(store.messages("s").unwrap()[0].id, "1");
}

#[test]
fn recalled_threads_grow() {
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

#[test]
fn cancelled_flush_is_forgotten() {
    use std::{
        future::Future,
        task::{Context, Waker},
    };
    let db = Db::new();
    let engine = open(&db);
    let gate = Arc::new(Mutex::new(()));
    let entered = Arc::new(AtomicUsize::new(0));
    let (g, e) = (gate.clone(), entered.clone());
    let count = move |m: &Message| {
        if m.text().contains("GATE") {
            e.fetch_add(1, Ordering::SeqCst);
            drop(g.lock().unwrap());
        }
        m.text().split_whitespace().count()
    };
    let memory = engine
        .memory(&namespace("a"), "s")
        .limits(limits(3, 1.0, 1))
        .message_counter(count)
        .block(Recorder::new("r"))
        .open()
        .unwrap();
    let closed = gate.lock().unwrap();
    let other = memory.clone();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut f = Box::pin(memory.put(vec![user("1", "GATE two three"), user("2", "one two three")]));
        while entered.load(Ordering::SeqCst) == 0 {
            let _ = f.as_mut().poll(&mut cx);
        }
        let report = other.blocking().put(vec![user("3", "one two three")]).unwrap();
        assert_eq!(report.flushed.len(), 0);
    }
    drop(closed);
    std::thread::sleep(Duration::from_millis(500));
    memory.blocking().settle().unwrap();
    assert_eq!(ids(&memory.blocking().messages().unwrap()), ["3"]);
}

#[test]
fn reindex_beside_buffers() {
    use std::ops::ControlFlow;
    let db = Db::new();
    let other = Hashing::new(16);
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
    mnemon::reindex(&db.path, &other, |p| if p.done == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        .unwrap();
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
    mnemon::reindex(&db.path, &other, |p| if p.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        .unwrap();
    db.assert_sound();
    {
        let engine = open(&db);
        let memory = memory(&engine, limits(8, 1.0, 3));
        memory.blocking().restore(0).unwrap();
        engine.blocking().delete_session(&namespace("a"), "f").unwrap();
    }
    db.assert_sound();
    mnemon::reindex(&db.path, &other, |_| ControlFlow::Continue(())).unwrap();
    let r = db.assert_sound();
    assert_eq!((r.messages, r.pending), (6, 0));
}

#[test]
fn blocks_not_told_after_cancel() {
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
    while engine.blocking().sessions(&namespace("a")).unwrap().first().is_none_or(|i| i.batches == 0) {
        assert!(f.as_mut().poll(&mut cx).is_pending());
    }
    drop(f);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(memory.blocking().status().unwrap()[0].behind, 0);
}

#[test]
fn stale_told_ids() {
    // Two prompts at once; the first comes back.
    struct Tells(AtomicUsize);
    impl MemoryBlock for Tells {
        fn name(&self) -> &str {
            "tells"
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            let n = self.0.fetch_add(1, Ordering::SeqCst);
            Ok(BlockContent::Messages(vec![user(&format!("far{n}"), "told")]))
        }
    }
    let db = Db::new();
    let engine = open(&db);
    let memory = engine.memory(&namespace("a"), "s").block(Tells(AtomicUsize::new(0))).open().unwrap();
    memory.blocking().put(vec![user("1", "hello")]).unwrap();
    let first = memory.blocking().get(None).unwrap();
    memory.blocking().get(None).unwrap();
    memory.blocking().put(first.messages).unwrap();
    assert_eq!(ids(&memory.blocking().history().unwrap()), ["1"]);
}

#[test]
fn late_commit_after_restore() {
    struct Slow(Arc<Mutex<()>>, AtomicUsize);
    impl MemoryBlock for Slow {
        fn name(&self) -> &str {
            "r"
        }
        fn put(&self, s: &Value, b: &Batch<'_>) -> Result<Value> {
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

#[test]
fn upgrade() {
    let db = Db::new();
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
        let file = redb::Database::open(&db.path).unwrap();
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
fn stress() {
    let db = Db::new();
    let engine = open(&db);
    let begin = |e: &Engine, s: &str| {
        e.memory(&namespace("a"), s)
            .limits(limits(12, 1.0, 3))
            .message_counter(words())
            .block(Recorder::new("r"))
            .open()
            .unwrap()
    };
    let memories = [begin(&engine, "s"), begin(&engine, "t")];
    memories.iter().for_each(|m| drop(m.blocking().put(vec![Message::user("hi")]).unwrap()));
    std::thread::scope(|scope| {
        for t in 0..6u64 {
            let (engine, memories) = (&engine, &memories);
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
                    match next(14) {
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
                        _ => drop(engine.blocking().recall(&namespace("a"), Query::new("w"))),
                    }
                }
            });
        }
    });
    let seen: Vec<_> = memories
        .iter()
        .map(|m| {
            m.blocking().settle().unwrap();
            m.blocking().messages().unwrap()
        })
        .collect();
    let hits = engine.blocking().recall(&namespace("a"), Query::new("w").k(1000)).unwrap().len();
    drop(memories);
    drop(engine);
    db.assert_sound();
    let engine = open(&db);
    let again: Vec<_> = ["s", "t"].map(|s| begin(&engine, s).blocking().messages().unwrap()).into();
    assert_eq!(seen, again);
    assert_eq!(hits, engine.blocking().recall(&namespace("a"), Query::new("w").k(1000)).unwrap().len());
}

#[test]
fn starved() {
    struct Hang(&'static str, Arc<Mutex<()>>);
    impl MemoryBlock for Hang {
        fn name(&self) -> &str {
            self.0
        }
        fn put(&self, _: &Value, _: &Batch<'_>) -> Result<Value> {
            if self.0 == "hang" {
                drop(self.1.lock().unwrap());
            }
            Ok(json!(1))
        }
        fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
            Ok("".into())
        }
    }
    let mut starved = 0;
    for _ in 0..3 {
        let db = Db::new();
        let engine = open(&db);
        let lock = Arc::new(Mutex::new(()));
        let turns = |p: &str| vec![user(&format!("{p}1"), "one two three"), user(&format!("{p}2"), "one two three")];
        let begin = |s: &str| engine.memory(&namespace("a"), s).limits(limits(3, 1.0, 1)).message_counter(words());
        begin("first").open().unwrap().blocking().put(turns("a")).unwrap();
        let first = begin("first").block(Hang("ok", lock.clone())).open().unwrap();
        while first.blocking().status().unwrap()[0].behind > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        let held = lock.lock().unwrap();
        begin("second").open().unwrap().blocking().put(turns("b")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let second = begin("second").block(Hang("hang", lock.clone())).block(Hang("ok", lock.clone())).open().unwrap();
        std::thread::sleep(Duration::from_millis(150));
        starved += usize::from(second.blocking().block_state("ok").unwrap() != json!(1));
        drop(held);
    }
    assert_eq!(starved, 0);
}
