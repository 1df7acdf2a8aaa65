//! The engine's threads: how many there are, what waits for what, and how the last handle closes the file.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use mnemon::{
    BlockContent, BlockQuery, BufferLimits, Config, Embedder, Engine, Error, Memory, MemoryBlock, Message,
    ModelIdentity, PromptSection, Query, Renderer, Result, SealKey,
};
use serde_json::Value;

use crate::support::{Db, Hashing, message, namespace, within};

/// The longest that work of a test may take before it counts as a deadlock.
const DEADLOCK: Duration = Duration::from_secs(120);

/// A gate that a thread waits at for as long as it is closed.
#[derive(Default)]
struct Gate {
    lock: Mutex<()>,
    entered: AtomicUsize,
}

impl Gate {
    fn close(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap()
    }

    fn pass(&self) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        drop(self.lock.lock().unwrap());
    }

    /// Waits until so many threads have come to it.
    fn wait_for(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.entered.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < until, "nobody came to the gate");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// An embedder whose queries wait at a gate.
struct Gated(Hashing, Arc<Gate>);

impl Embedder for Gated {
    fn identity(&self) -> &ModelIdentity {
        self.0.identity()
    }
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.0.embed_documents(texts)
    }
    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.1.pass();
        self.0.embed_query(text)
    }
}

fn open(db: &Db, threads: usize, embedder: Arc<dyn Embedder>) -> Engine {
    let mut config = Config::default();
    (config.threads, config.flush_size) = (threads, 100_000);
    config.idle_flush = None;
    Engine::builder(&db.path).config(config).embedder(embedder).open().unwrap()
}

fn gated(db: &Db, threads: usize) -> (Engine, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    (open(db, threads, Arc::new(Gated(Hashing::new(32), Arc::clone(&gate)))), gate)
}

/// A memory that flushes whatever is more than three words.
fn memory(engine: &Engine, count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Memory {
    let limits = BufferLimits::new(3, 1.0, 1).unwrap();
    let count = move |message: &Message| count(&message.text());
    engine.memory(&namespace("a"), "s").limits(limits).message_counter(count).open().unwrap()
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// Polls a future once, as an executor would, and says whether it is done.
fn poll_once(future: std::pin::Pin<&mut impl Future>) -> bool {
    matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
}

/// A block that takes 50 ms to answer.
#[cfg(target_os = "linux")]
struct SlowBlock;

#[cfg(target_os = "linux")]
impl MemoryBlock for SlowBlock {
    fn name(&self) -> &str {
        "slow"
    }
    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        thread::sleep(Duration::from_millis(50));
        Ok("".into())
    }
}

#[cfg(target_os = "linux")]
#[test]
fn concurrent_prompts_use_few_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let db = Db::new();
    let engine = db.open();
    let memory = engine.memory(&namespace("a"), "s").block(SlowBlock).open().unwrap();
    memory.blocking().put(vec![message("1", "a word")]).unwrap();
    let before = threads();
    let (most, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(threads(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        runtime().block_on(async {
            let prompts: Vec<_> = (0..1000)
                .map(|i| {
                    let memory = memory.clone();
                    tokio::spawn(async move { memory.assemble(message(&format!("p{i}"), "a word")).await.unwrap() })
                })
                .collect();
            for prompt in prompts {
                prompt.await.unwrap();
            }
        });
        is_over.store(true, Ordering::Relaxed);
    });
    // Other tests run beside this one, with some threads of their own.
    let most = most.into_inner();
    assert!(most < before + 400, "{most} threads, {before} before");
}

/// A renderer that waits at a gate when it looks for memory in a message.
struct GatedRenderer(Arc<Gate>);

impl Renderer for GatedRenderer {
    fn render(&self, _: &[PromptSection<'_>], _: &SealKey) -> String {
        String::new()
    }
    fn strip(&self, _: &str, _: &SealKey) -> Option<String> {
        self.0.pass();
        None
    }
}

#[test]
fn a_put_to_a_memory_does_not_block_the_thread_that_polls_it() {
    within(DEADLOCK, || {
        let db = Db::new();
        let engine = db.open();
        let gate = Arc::new(Gate::default());
        let renderer = GatedRenderer(Arc::clone(&gate));
        let memory = engine.memory(&namespace("a"), "s").renderer(renderer).open().unwrap();
        let (polled, is_polled) = mpsc::channel();
        let closed = gate.close();
        thread::scope(|scope| {
            let memory = &memory;
            scope.spawn(move || {
                let mut put = pin!(memory.put(vec![message("1", "a word")]));
                polled.send(poll_once(put.as_mut())).unwrap();
                tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(put).unwrap();
            });
            let polled = is_polled.recv_timeout(Duration::from_secs(5));
            drop(closed);
            assert_eq!(polled, Ok(false));
        });
    });
}

#[test]
fn a_flush_of_a_memory_takes_no_thread_from_recalls() {
    within(DEADLOCK, || {
        let db = Db::new();
        let engine = open(&db, 1, Arc::new(Hashing::new(32)));
        let gate = Arc::new(Gate::default());
        let counted = Arc::clone(&gate);
        let memory = memory(&engine, move |text| {
            counted.pass();
            words(text)
        });
        let closed = gate.close();
        runtime().block_on(async {
            let flushing = tokio::spawn({
                let memory = memory.clone();
                async move { memory.put(vec![message("1", "one two three"), message("2", "four five six")]).await }
            });
            gate.wait_for(1);
            let space = namespace("a");
            let recall = engine.recall(&space, Query::new("one"));
            let recalled = tokio::time::timeout(Duration::from_secs(5), recall).await;
            drop(closed);
            recalled.expect("the recall waits for the flush").unwrap();
            assert_eq!(flushing.await.unwrap().unwrap().flushed, [["1"]]);
        });
    });
}

#[test]
fn the_file_is_closed_after_a_cancelled_flush_of_a_memory() {
    let db = Db::new();
    let runtime = runtime();
    for i in 0..30 {
        let engine = db.try_open_with(Arc::new(Hashing::new(32))).expect("closed by the round before");
        let memory = memory(&engine, words);
        runtime.block_on(async {
            memory.put(vec![message(&format!("m{i}"), "one two three")]).await.unwrap();
            let _ = tokio::time::timeout(Duration::from_micros(300), memory.flush()).await;
        });
        drop((memory, engine));
    }
    db.assert_sound();
}

/// Operations that need no embedder.
async fn operations(engine: &Engine, memory: &Memory) {
    assert!(engine.get(&namespace("a"), "1").await.unwrap().is_some());
    engine.put(&namespace("a"), vec![message("2", "two")]).await.unwrap();
    engine.delete(&namespace("a"), vec!["2".into()]).await.unwrap();
    let turns = vec![message("3", "one two three"), message("4", "four five six")];
    assert_eq!(memory.put(turns).await.unwrap().flushed.concat(), ["1", "3"]);
    assert_eq!(memory.messages().await.unwrap().len(), 1);
    assert_eq!(memory.history().await.unwrap().len(), 3);
}

#[test]
fn gets_and_puts_return_while_recalls_hang() {
    within(DEADLOCK, || {
        let db = Db::new();
        let (engine, gate) = gated(&db, 2);
        let memory = memory(&engine, words);
        memory.blocking().put(vec![message("1", "one two")]).unwrap();
        let closed = gate.close();
        let runtime = runtime();
        let recalls: Vec<_> = (0..100)
            .map(|_| {
                let (engine, memory) = (engine.clone(), memory.clone());
                runtime.spawn(async move {
                    engine.recall(&namespace("a"), Query::new("one")).await.unwrap();
                    memory.assemble(message("p", "one")).await.unwrap();
                })
            })
            .collect();
        let prompts: Vec<_> = (0..100)
            .map(|_| {
                let memory = memory.clone();
                runtime.spawn(async move { drop(memory.assemble(message("p", "one")).await.unwrap()) })
            })
            .collect();
        gate.wait_for(3);
        let done = runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(5), operations(&engine, &memory)).await });
        drop(closed);
        done.expect("an operation waits for the recalls");
        for task in recalls.into_iter().chain(prompts) {
            runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn a_panic_of_a_token_counter_is_an_error_of_its_own() {
    let db = Db::new();
    let engine = db.open();
    let memory =
        memory(&engine, |text| if text.contains("bad") { panic!("cannot count {text:?}") } else { words(text) });
    let check = |result: Result<mnemon::MemoryReport>| match result {
        Err(Error::Panicked { message }) => assert!(message.contains("cannot count"), "{message}"),
        other => panic!("{other:?}"),
    };
    check(runtime().block_on(memory.put(vec![message("1", "bad")])));
    check(memory.blocking().put(vec![message("2", "bad again")]));
    for id in ["1", "2"] {
        assert!(engine.blocking().get(&namespace("a"), id).unwrap().is_some(), "stored before the panic");
    }
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn a_thread_of_the_program_with_a_name_like_the_engines_waits_at_close() {
    within(DEADLOCK, || {
        let db = Db::new();
        let (engine, gate) = gated(&db, 2);
        engine.blocking().put(&namespace("a"), vec![message("1", "one")]).unwrap();
        let closed = gate.close();
        {
            let space = namespace("a");
            let mut recall = pin!(engine.recall(&space, Query::new("one")));
            assert!(!poll_once(recall.as_mut()));
            gate.wait_for(1);
        }
        let closing = thread::Builder::new().name("mnemon-x".into()).spawn(move || drop(engine)).unwrap();
        thread::sleep(Duration::from_millis(200));
        let returned = closing.is_finished();
        drop(closed);
        closing.join().unwrap();
        assert!(!returned, "the drop returned before the recall ended");
        db.try_open_with(Arc::new(Hashing::new(32))).unwrap();
    });
}

/// A block that waits at a gate whenever a prompt asks it.
struct GatedBlock(Arc<Gate>);

impl MemoryBlock for GatedBlock {
    fn name(&self) -> &str {
        "gated"
    }
    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        self.0.pass();
        Ok("".into())
    }
}

#[test]
fn closing_does_not_wait_for_a_block_that_hangs() {
    within(DEADLOCK, || {
        let db = Db::new();
        let engine = db.open();
        let gate = Arc::new(Gate::default());
        let memory = engine.memory(&namespace("a"), "s").block_deadline(Duration::from_secs(3600));
        let memory = memory.block(GatedBlock(Arc::clone(&gate))).open().unwrap();
        memory.blocking().put(vec![message("1", "one")]).unwrap();
        let closed = gate.close();
        {
            let mut prompt = pin!(memory.get(None));
            assert!(!poll_once(prompt.as_mut()));
            gate.wait_for(1);
        }
        let started = Instant::now();
        drop((memory, engine));
        db.try_open_with(Arc::new(Hashing::new(32))).unwrap();
        assert!(started.elapsed() < Duration::from_secs(60));
        drop(closed);
    });
}

/// An embedder that notes which thread embeds queries.
struct Noting(Hashing, Mutex<Option<thread::ThreadId>>);

impl Embedder for Noting {
    fn identity(&self) -> &ModelIdentity {
        self.0.identity()
    }
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.0.embed_documents(texts)
    }
    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        *self.1.lock().unwrap() = Some(thread::current().id());
        self.0.embed_query(text)
    }
}

#[test]
fn a_blocking_recall_runs_on_the_calling_thread_and_an_async_one_does_not() {
    let db = Db::new();
    let embedder = Arc::new(Noting(Hashing::new(32), Mutex::default()));
    let engine = open(&db, 2, Arc::clone(&embedder) as _);
    engine.blocking().put(&namespace("a"), vec![message("1", "one")]).unwrap();
    engine.blocking().recall(&namespace("a"), Query::new("one")).unwrap();
    assert_eq!(embedder.1.lock().unwrap().take(), Some(thread::current().id()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(engine.recall(&namespace("a"), Query::new("one"))).unwrap();
    assert_ne!(embedder.1.lock().unwrap().take(), Some(thread::current().id()));
}
