//! Recalls that need no embedder are not held up by one, and no write waits for one.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use mnemon::{
    Embedder, Error, Hits, Language, Message, MetadataFilter, ModelIdentity, Precision, Query, RankingStrategy, Result,
    Scope,
};
use parking_lot::Mutex;

use super::{SPACE, hashing, ids, put, said};
use crate::support::{Db, Hashing, message, namespace, schemas::back_to_schema_3};

/// The longest that a test waits for something that must not be waited for.
const HANGS: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(5);

/// Embeds documents; embeds a query, or splits it, after a delay, and fails then if it is told to.
struct Slow {
    inner: Hashing,
    delay: Mutex<Duration>,
    fails: AtomicBool,
    queries: AtomicU32,
}

impl Slow {
    fn new(window_bytes: usize) -> Arc<Self> {
        let (delay, queries) = (Mutex::default(), AtomicU32::new(0));
        Arc::new(Slow { inner: hashing(32, window_bytes), delay, fails: AtomicBool::new(false), queries })
    }

    fn wait(&self) {
        let delay = *self.delay.lock();
        thread::sleep(delay);
    }
}

impl Embedder for Slow {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.inner.windows(text)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.inner.embed_documents(texts)
    }

    /// Ignores deadlines, as [`Embedder::embed_query_before`] does by default.
    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        self.wait();
        if self.fails.load(Ordering::Relaxed) {
            let reason = "down on purpose".into();
            return Err(Error::EmbedderUnavailable { reason, transient: true, retry_after: None, source: None });
        }
        self.inner.embed_query(text)
    }
}

fn recall(engine: &mnemon::Engine, query: Query) -> Result<Hits> {
    engine.blocking().recall(&namespace(SPACE), query)
}

fn lexical(text: &str) -> Query {
    Query::new(text).strategy(RankingStrategy::Lexical)
}

#[test]
fn a_lexical_recall_does_not_embed() {
    let (db, embedder) = (Db::new(), Slow::new(usize::MAX));
    let engine = db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    put(&engine, vec![message("1", "a red dog"), message("2", "the blue cat"), message("3", "a green tree")]);
    *embedder.delay.lock() = HANGS;
    embedder.fails.store(true, Ordering::Relaxed);
    let started = Instant::now();
    for query in [lexical("cats"), lexical("cats").within(Duration::from_millis(100)), lexical("cats").diversity(0.5)] {
        let hits = recall(&engine, query).unwrap();
        assert_eq!(hits[0].message.id, "2");
        assert!(!hits.cut_short() && hits.answerability() > 0.0);
    }
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(embedder.queries.load(Ordering::Relaxed), 0);
}

#[test]
fn a_lexical_recall_fills_up_with_the_newest_messages() {
    let db = Db::new();
    let engine = db.open();
    let session = |i: usize| if i.is_multiple_of(2) { "even" } else { "odd" };
    let text = |i: usize| if i == 150 { "the blue cat".to_owned() } else { format!("word{i}") };
    put(&engine, (0..300).map(|i| message(&format!("m{i}"), &text(i)).in_session(session(i))).collect());
    let found = |query: Query| recall(&engine, query.keep_duplicates()).unwrap();
    assert_eq!(ids(&found(lexical("cat").k(4))), ["m150", "m299", "m298", "m297"]);
    assert_eq!(ids(&found(lexical("cat").k(3).session("odd"))), ["m299", "m297", "m295"]);
    assert_eq!(ids(&found(lexical("cat").k(3).session("even").except(["m150", "m296"]))), ["m298", "m294", "m292"]);
    assert_eq!(found(lexical("cat").k(1000)).len(), 300);
    assert!(found(lexical("cat").k(10)).iter().all(|hit| hit.similarity == 0.0));
}

#[test]
fn a_hybrid_recall_whose_embedder_fails_too_late_answers_by_words() {
    let (db, embedder) = (Db::new(), Slow::new(usize::MAX));
    let engine = db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    put(&engine, vec![message("1", "a red dog"), message("2", "the blue cat")]);
    *embedder.delay.lock() = Duration::from_millis(200);
    embedder.fails.store(true, Ordering::Relaxed);
    let query = || Query::new("cats").k(1);
    let hits = recall(&engine, query().within(Duration::from_millis(50))).unwrap();
    assert!(hits.cut_short() && ids(&hits) == ["2"]);
    let late = |query: Query| recall(&engine, query.within(Duration::from_millis(50)));
    assert!(late(query().strategy(RankingStrategy::Dense)).is_err(), "words are no answer");
    assert_eq!(ids(&late(query().answerable(0.3)).unwrap()), ["2"]);
    assert!(late(Query::new("trains").answerable(0.3)).unwrap().is_empty());
}

#[test]
fn a_hybrid_recall_whose_embedder_is_down_answers_by_words_and_says_so() {
    let (db, embedder) = (Db::new(), Slow::new(usize::MAX));
    let engine = db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    put(&engine, vec![message("1", "a red dog"), message("2", "the blue cat"), message("3", "a green tree")]);
    let query = || Query::new("Where is the blue cat?").k(2);
    assert_eq!(recall(&engine, query()).unwrap().not_embedded(), None);
    embedder.fails.store(true, Ordering::Relaxed);
    // A question that was asked before is in the cache.
    let query = || Query::new("Which cats are blue?").k(2);
    for query in
        [query(), query().strategy(RankingStrategy::ReciprocalRank), query().within(SOON), query().min_score(0.1)]
    {
        let hits = recall(&engine, query).unwrap();
        assert_eq!(hits[0].message.id, "2");
        assert!(!hits.cut_short() && hits.not_embedded().unwrap().contains("down on purpose"));
    }
    let scope = Scope::new().namespace(&namespace(SPACE));
    let hits = engine.blocking().recall_in(&scope, query()).unwrap();
    assert!(hits[0].message.id == "2" && hits.not_embedded().is_some());
    assert_eq!(recall(&engine, lexical("cats")).unwrap().not_embedded(), None, "words were asked for");
    let dense = recall(&engine, query().strategy(RankingStrategy::Dense));
    assert!(matches!(dense, Err(Error::EmbedderUnavailable { .. })), "words are no answer");
    // The answerability is that of the words.
    assert_eq!(recall(&engine, query().answerable(0.3)).unwrap()[0].message.id, "2");
    let nothing = recall(&engine, Query::new("Which trains are late?").answerable(0.3)).unwrap();
    assert!(nothing.is_empty() && nothing.not_embedded().is_some());
    embedder.fails.store(false, Ordering::Relaxed);
    assert_eq!(recall(&engine, query()).unwrap().not_embedded(), None);
}

/// Nor does it hold up the next query for long: what it tells too late is kept for it.
#[test]
fn an_embedder_that_ignores_the_deadline_keeps_nobody_waiting() {
    let (db, embedder) = (Db::new(), Slow::new(usize::MAX));
    let engine = db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    let liked = |mut message: Message| {
        message.metadata.insert("liked".into(), true.into());
        message
    };
    put(
        &engine,
        vec![message("1", "a red dog"), liked(message("2", "the blue cat")), message("3", "a cat and a mouse")],
    );
    engine.blocking().put(&namespace("other"), vec![message("4", "the cat of the other house")]).unwrap();
    engine.blocking().flush().unwrap();
    // The namespaces are loaded, and the filter is evaluated once.
    let filter = || MetadataFilter::eq("liked", true).unwrap();
    recall(&engine, lexical("dog").filter(filter())).unwrap();
    engine.blocking().recall(&namespace("other"), lexical("dog")).unwrap();
    *embedder.delay.lock() = SOON;
    let query = |text: &str| Query::new(text).within(Duration::from_millis(100));
    let started = Instant::now();
    let hits = recall(&engine, query("cats").k(2)).unwrap();
    assert!(hits.cut_short() && hits.iter().any(|hit| hit.message.id == "2"), "{:?}", ids(&hits));
    assert_eq!(ids(&recall(&engine, query("blue cats").filter(filter())).unwrap()), ["2"], "with a filter");
    let scope = Scope::new().namespace(&namespace(SPACE)).namespace(&namespace("other"));
    let hits = engine.blocking().recall_in(&scope, query("of all cats").k(3)).unwrap();
    let mut found: Vec<&str> = hits.iter().map(|hit| &*hit.message.id).collect();
    found.sort_unstable();
    assert_eq!(found, ["2", "3", "4"], "in several namespaces");
    let dense = recall(&engine, query("no cats").strategy(RankingStrategy::Dense));
    assert!(matches!(dense, Err(Error::DeadlineExceeded)), "words are no answer");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    // Once the question is embedded it is answered from the cache, in less time than the embedder takes. A job that got no thread
    // before its deadline embeds nothing.
    while recall(&engine, query("cats").k(2)).unwrap().cut_short() {
        assert!(started.elapsed() < 6 * HANGS);
    }
}

#[test]
fn a_long_query_is_embedded_until_its_time_is_over() {
    let (db, embedder) = (Db::new(), Slow::new(40));
    let engine = db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    put(&engine, vec![message("1", "a red dog"), message("2", "the blue cat")]);
    *embedder.delay.lock() = Duration::from_millis(100);
    let text = format!("cat {}", "of all the houses ".repeat(200));
    for query in [Query::new(&text), Query::new(&text).strategy(RankingStrategy::Dense)] {
        let started = Instant::now();
        let hits = recall(&engine, query.k(2).within(Duration::from_millis(250))).unwrap();
        assert!(hits.cut_short() && started.elapsed() < SOON, "{:?}", started.elapsed());
    }
    assert!(embedder.queries.load(Ordering::Relaxed) < 20);
}

/// Waits, when it splits a text, until the test lets it go on.
struct Gated {
    inner: Hashing,
    gate: Mutex<Option<Gate>>,
    is_stuck: AtomicBool,
}

struct Gate {
    entered: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl Gated {
    fn new() -> Arc<Self> {
        Arc::new(Gated { inner: hashing(32, 48), gate: Mutex::default(), is_stuck: AtomicBool::new(false) })
    }

    /// Has the next split wait. Returns when it was entered, and what lets it go on.
    fn close(&self) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((entered, was_entered), (open, go_on)) = (mpsc::channel(), mpsc::channel());
        *self.gate.lock() = Some(Gate { entered, go_on });
        (was_entered, open)
    }
}

impl Embedder for Gated {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        let gate = self.gate.lock().take();
        if let Some(gate) = gate {
            gate.entered.send(()).unwrap();
            self.is_stuck.fetch_or(gate.go_on.recv_timeout(HANGS).is_err(), Ordering::Relaxed);
        }
        self.inner.windows(text)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.inner.embed_documents(texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.inner.embed_query(text)
    }
}

fn long(id: &str, last: &str) -> Message {
    message(id, &format!("{} {last}", "hay ".repeat(40)))
}

#[test]
fn no_write_waits_for_an_embedder_that_splits_texts() {
    let (db, embedder) = (Db::new(), Gated::new());
    let engine = db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    put(&engine, vec![message("short", "houses"), long("long", "needles")]);
    let (entered, go_on) = embedder.close();
    thread::scope(|scope| {
        let changing = scope.spawn(|| engine.blocking().set_language(&namespace(SPACE), Language::German));
        entered.recv_timeout(HANGS).expect("a long text is split again for another language");
        engine.blocking().put(&namespace(SPACE), vec![long("new", "haystack")]).unwrap();
        engine.blocking().delete(&namespace(SPACE), vec!["short".into()]).unwrap();
        // Nobody listens if the split gave up waiting.
        let _ = go_on.send(());
        changing.join().unwrap().unwrap();
    });
    assert!(!embedder.is_stuck.load(Ordering::Relaxed), "the writes waited for the split");
    engine.blocking().flush().unwrap();
    assert_eq!(said(&engine, "needles"), ["long"]);
    assert_eq!(said(&engine, "haystack"), ["new"]);
    drop(engine);
    db.assert_sound();
}

/// A namespace is loaded whose lexical index must be rebuilt; meanwhile texts come, change and go.
#[test]
fn texts_that_change_while_a_lexical_index_is_rebuilt_are_found() {
    let (db, embedder) = (Db::with_precision(Precision::F32), Gated::new());
    let open = || db.open_with(Arc::clone(&embedder) as Arc<dyn Embedder>);
    let engine = open();
    put(
        &engine,
        vec![message("short", "houses"), long("long", "needles"), long("other", "threads"), long("gone", "pins")],
    );
    drop(engine);
    let file = crate::support::open_tables(&db.path);
    let write = file.begin_write().unwrap();
    back_to_schema_3(&write);
    write.commit().unwrap();
    drop(file);
    let engine = open();
    let (entered, go_on) = embedder.close();
    thread::scope(|scope| {
        let recalling = scope.spawn(|| said(&engine, "threads"));
        entered.recv_timeout(HANGS).expect("long texts are split again");
        put(&engine, vec![long("new", "haystack"), long("other", "ropes"), message("brief", "straw")]);
        super::delete(&engine, &["gone"]);
        let _ = go_on.send(());
        assert_eq!(recalling.join().unwrap(), [""; 0]);
    });
    assert!(!embedder.is_stuck.load(Ordering::Relaxed), "the writes waited for the split");
    for (word, id) in
        [("needles", "long"), ("haystack", "new"), ("ropes", "other"), ("straw", "brief"), ("houses", "short")]
    {
        assert_eq!(said(&engine, word), [id]);
    }
    assert_eq!(said(&engine, "pins"), [""; 0]);
    drop(engine);
    db.assert_sound();
}
