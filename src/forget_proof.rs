//! The proof of forgetting: after a call to forget, no live record of the store and no byte of the cache's file contains
//! 8 consecutive bytes of a forgotten text, vector, id or name.
//!
//! These are unit tests, because no public call returns all live records of the store.

use std::{
    collections::HashSet,
    ops::{ControlFlow, Range},
    path::Path,
    sync::Arc,
};

use serde_json::{Map, Value, json};

use crate::{
    BlockContent, BlockQuery, BlockScope, BufferLimits, Config, DocumentOptions, Embedder, Engine, FlushedBatch,
    Forget, MemoryBlock, Message, MessageUpdate, MetadataFilter, ModelIdentity, Namespace, Precision, ReindexOptions,
    Result, Timestamp,
    store::{dump, vector_bytes},
};

/// The length of the byte sequences that are looked for.
const PART: usize = 8;
const DIMENSION: usize = 16;

/// The models that the tests use, in this order.
const MODELS: [&str; 3] = ["one", "two", "three"];

/// An embedder whose vectors are hashes of texts, in chunks of 48 bytes, or of 40 with the last model.
struct HashEmbedder(ModelIdentity);

impl HashEmbedder {
    fn new(name: &str) -> Self {
        HashEmbedder(ModelIdentity { name: name.into(), dimension: DIMENSION, hash: name.into() })
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let seed = text.bytes().chain(self.0.hash.bytes());
        let mut state =
            seed.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as f32 / (1u64 << 30) as f32) - 1.0
        };
        let vector: Vec<f32> = (0..DIMENSION).map(|_| next()).collect();
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.into_iter().map(|x| x / norm).collect()
    }
}

impl Embedder for HashEmbedder {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        let bytes = if self.0.name == MODELS[2] { 40 } else { 48 };
        (0..text.len().max(1)).step_by(bytes).map(|begin| begin..(begin + bytes).min(text.len())).collect()
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        Ok(self.vector(text))
    }
}

/// A block whose state is the texts of its batches.
struct TextBlock(&'static str, BlockScope);

impl MemoryBlock for TextBlock {
    fn name(&self) -> &str {
        self.0
    }

    fn scope(&self) -> BlockScope {
        self.1
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let mut texts = state.as_array().cloned().unwrap_or_default();
        texts.extend(batch.messages.iter().map(|message| message.text().into()));
        Ok(texts.into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(if state.is_null() { "".into() } else { state.to_string().into() })
    }
}

/// The texts, ids and names of something that is forgotten, of which no trace may be left.
#[derive(Default)]
struct Traces {
    texts: Vec<String>,
    names: Vec<String>,
}

impl Traces {
    fn text(&mut self, text: String) -> String {
        self.texts.push(text.clone());
        text
    }

    fn name(&mut self, name: &str) -> String {
        self.names.push(name.to_owned());
        name.to_owned()
    }

    /// Returns all sequences of [`PART`] bytes in the texts, names and vectors.
    fn parts(&self) -> HashSet<Vec<u8>> {
        let mut whole: Vec<Vec<u8>> =
            self.texts.iter().chain(&self.names).map(|text| text.clone().into_bytes()).collect();
        for model in MODELS.map(HashEmbedder::new) {
            for text in &self.texts {
                let chunks = model.windows(text).into_iter().map(|range| &text[range]);
                for chunk in chunks.chain([text.as_str()]) {
                    let vector = model.vector(chunk);
                    let precisions = [Precision::F32, Precision::F16, Precision::I8];
                    whole.extend(precisions.map(|precision| vector_bytes(precision, &vector)));
                }
            }
        }
        whole.iter().flat_map(|bytes| bytes.windows(PART).map(<[u8]>::to_vec)).collect()
    }
}

/// Returns a random word of 24 letters, which shares no sequence of letters with the words of other calls.
fn word(state: &mut u64) -> String {
    (0..24)
        .map(|_| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + ((*state >> 33) % 26) as u8)
        })
        .collect()
}

fn found(haystack: &[u8], parts: &HashSet<Vec<u8>>) -> Option<String> {
    haystack.windows(PART).find(|part| parts.contains(*part)).map(|part| String::from_utf8_lossy(part).into_owned())
}

struct Fixture {
    folder: tempfile::TempDir,
    engine: Engine,
    seed: u64,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Fixture { engine: open(folder.path(), "one"), folder, seed: 7 }
    }

    fn word(&mut self) -> String {
        word(&mut self.seed)
    }

    /// Stores messages in all states in a session: flushed, edited, deleted but kept at a checkpoint, buffered, and put
    /// directly. Returns the ids.
    fn session(&mut self, namespace: &Namespace, session: &str, traces: &mut Traces) -> Vec<String> {
        let memory = self.engine.memory(namespace, session).limits(BufferLimits::new(60, 0.5, 20).unwrap());
        let memory = memory.block(TextBlock("own", BlockScope::Session)).block(TextBlock("all", BlockScope::Namespace));
        let memory = memory.open().unwrap();
        let mut ids = Vec::new();
        let mut message = |test: &mut Self, metadata: bool| {
            let (id, first, second) = (test.word(), test.word(), test.word());
            let text = traces.text(format!("{first} {second} {first}"));
            ids.push(traces.name(&id));
            let mut message = Message::user(text).with_id(id);
            message.created_at = Some(Timestamp::now());
            if metadata {
                message.metadata = Map::from_iter([("mark".to_owned(), json!(traces.name(&test.word())))]);
            }
            message
        };
        for at in 0..8 {
            let message = message(self, at % 2 == 0);
            memory.blocking().put(vec![message]).unwrap();
        }
        memory.blocking().settle().unwrap();
        memory.blocking().checkpoint("").unwrap();
        let direct = message(self, true);
        let late = message(self, false);
        // An edit and a deletion, whose old messages the checkpoint keeps.
        let edited = traces.text(self.word());
        memory.blocking().update(vec![MessageUpdate::Put(Message::user(edited).with_id(ids[1].clone()))]).unwrap();
        self.engine.blocking().delete(namespace, vec![ids[2].clone()]).unwrap();
        let direct = Message { session: session.to_owned(), ..direct };
        self.engine.blocking().put(namespace, vec![direct]).unwrap();
        self.engine.blocking().flush().unwrap();
        // This message is pending or in the buffer.
        memory.blocking().put(vec![late]).unwrap();
        // The journal records a question that repeats a message, and the ids of the hits.
        let query = crate::Query::new(traces.texts[0].clone()).ids(ids.clone());
        assert!(!self.engine.blocking().recall(namespace, query).unwrap().is_empty());
        assert!(!self.engine.blocking().journal(namespace, 1, None).unwrap().is_empty());
        ids
    }

    fn document(&mut self, namespace: &Namespace, traces: &mut Traces) -> String {
        let (key, text) = (self.word(), self.word());
        let documents = self.engine.documents(namespace);
        let options = DocumentOptions::default().index(["text"]).ttl_minutes(1000.0);
        for text in [traces.text(self.word()), traces.text(text)] {
            documents.blocking().put(traces.name(&key), json!({ "text": text }), options.clone()).unwrap();
        }
        self.engine.blocking().flush().unwrap();
        key
    }

    /// Adds a second generation with another precision. The first is kept.
    fn reindex(&self) {
        let mut options = ReindexOptions::default();
        (options.precision, options.samples) = (Some(Precision::I8), 0);
        self.reindex_to(MODELS[1], options);
    }

    fn reindex_to(&self, model: &str, options: ReindexOptions) {
        let moved =
            self.engine.blocking().reindex(Arc::new(HashEmbedder::new(model)), options, |_| ControlFlow::Continue(()));
        assert!(moved.unwrap().switched);
    }

    /// Asserts that traces are stored, in places where [`Fixture::assert_gone`] looks.
    fn assert_there(&self, traces: &Traces) {
        let parts = traces.parts();
        let tables: HashSet<String> = self
            .tables()
            .into_iter()
            .filter(|(_, bytes)| found(bytes, &parts).is_some())
            .map(|(name, _)| name)
            .collect();
        assert!(tables.contains("messages") && tables.contains("vectors"), "{tables:?}");
        assert!(found(&self.cache(), &parts).is_some(), "the cache has vectors");
    }

    fn assert_gone(&self, traces: &Traces) {
        let parts = traces.parts();
        for (table, bytes) in self.tables() {
            assert_eq!(found(&bytes, &parts), None, "in the table {table}");
        }
        assert_eq!(found(&self.cache(), &parts), None, "in the cache's file");
        let mut export = Vec::new();
        self.engine.blocking().export_all(&mut export).unwrap();
        assert_eq!(found(&export, &parts), None, "in the export");
    }

    fn tables(&self) -> Vec<(String, Vec<u8>)> {
        dump(&self.engine.core().store().read().unwrap())
    }

    fn cache(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("cache")).unwrap()
    }

    /// Purges the file and asserts that no traces are left in it and in other files of its folder. Then closes the engine
    /// and verifies the file.
    fn close(self, traces: &Traces) {
        let Fixture { folder, engine, .. } = self;
        engine.blocking().purge().unwrap();
        let parts = traces.parts();
        for file in folder.path().read_dir().unwrap() {
            let path = file.unwrap().path();
            assert_eq!(found(&std::fs::read(&path).unwrap(), &parts), None, "in {}", path.display());
        }
        let purged = engine.blocking().audit().unwrap().entries;
        assert!(purged.iter().all(|entry| entry.forgotten() == Default::default() || entry.purged_at.is_some()));
        assert!(engine.blocking().audit().unwrap().is_sound());
        drop(engine);
        assert_eq!(crate::verify(folder.path().join("memory.redb")).unwrap().problems, [""; 0]);
    }
}

fn open(folder: &Path, model: &str) -> Engine {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush) = (100_000, None);
    (config.journal, config.keep_versions) = (100, true);
    config.embedding_cache_file = Some(folder.join("cache"));
    Engine::builder(folder.join("memory.redb"))
        .config(config)
        .embedder(Arc::new(HashEmbedder::new(model)))
        .open()
        .unwrap()
}

fn namespace(name: &str) -> Namespace {
    name.parse().unwrap()
}

/// Fills the database with a session to keep and one to forget, in one namespace or in two.
fn filled(test: &mut Fixture, kept: &Namespace, gone: &Namespace) -> (Traces, Vec<String>, String) {
    let session = test.word();
    test.session(kept, "the session that stays", &mut Traces::default());
    test.document(kept, &mut Traces::default());
    let mut traces = Traces::default();
    let ids = test.session(gone, &session, &mut traces);
    test.reindex();
    test.assert_there(&traces);
    let (journal, parts) = (test.tables().into_iter().find(|(table, _)| table == "journal").unwrap().1, traces.parts());
    assert!(found(&journal, &parts).is_some(), "the journal has the question");
    let versions = test.tables().into_iter().find(|(table, _)| table == "message_versions").unwrap().1;
    assert!(found(&versions, &parts).is_some(), "an edited message has a version");
    (traces, ids, session)
}

#[test]
fn forgotten_messages_leave_no_traces() {
    let mut test = Fixture::new();
    let space = namespace("the namespace");
    let (traces, ids, session) = filled(&mut test, &space, &space);
    let (some, rest) = ids.split_at(5);
    let receipt = test.engine.blocking().forget(Forget::messages(&space, some)).unwrap();
    let forgotten = receipt.forgotten();
    assert_eq!((forgotten.messages, forgotten.sessions, forgotten.namespaces), (4, 0, 0), "one was deleted before");
    assert!(forgotten.old_messages >= 2 && forgotten.block_states >= 2 && forgotten.vectors > 0, "{forgotten:?}");
    assert!(forgotten.segments > 0 && forgotten.cached > 0, "{forgotten:?}");
    // The session still has messages. When the last of them is forgotten, its name is too.
    let receipt = test.engine.blocking().forget(Forget::messages(&space, rest)).unwrap();
    assert_eq!((receipt.forgotten().sessions, receipt.forgotten().namespaces), (1, 0));
    let traces = Traces { names: traces.names.iter().cloned().chain([session]).collect(), ..traces };
    test.assert_gone(&traces);
    assert_eq!(test.engine.blocking().sessions(&space).unwrap().len(), 1);
    test.close(&traces);
}

#[test]
fn forgetting_half_of_a_session_keeps_the_other_half() {
    let mut test = Fixture::new();
    let space = namespace("the namespace");
    let (mut traces, mut others) = (Traces::default(), Traces::default());
    let engine = test.engine.clone();
    let memory = engine.memory(&space, "s").limits(BufferLimits::new(60, 0.5, 20).unwrap());
    let memory = memory.block(TextBlock("own", BlockScope::Session)).open().unwrap();
    for at in 0..16 {
        let (traces, first, second) = (if at % 2 == 0 { &mut traces } else { &mut others }, test.word(), test.word());
        let message = Message::user(traces.text(format!("{first} {second} {first}")))
            .with_id(traces.name(&format!("{at} {}", test.word())));
        memory.blocking().put(vec![message]).unwrap();
    }
    memory.blocking().flush().unwrap();
    memory.blocking().settle().unwrap();
    engine.blocking().flush().unwrap();
    test.reindex();
    engine.blocking().forget(Forget::messages(&space, traces.names.clone())).unwrap();
    test.assert_gone(&traces);
    test.assert_there(&others);
    let ids: Vec<String> = memory.blocking().history().unwrap().into_iter().map(|message| message.id).collect();
    assert_eq!(ids, others.names);
    for (id, text) in others.names.iter().zip(&others.texts) {
        let hits = engine.blocking().recall(&space, crate::Query::new(text).k(1)).unwrap();
        assert_eq!(hits[0].message.id, *id);
    }
    drop((memory, engine));
    test.close(&traces);
}

/// The messages are with and without a name, of one chunk and of several. The cache has vectors of three models, and the
/// database knows two of them.
#[test]
fn questions_about_forgotten_messages_leave_no_traces() {
    let mut test = Fixture::new();
    let (space, other) = (namespace("the namespace"), namespace("another"));
    let (mut traces, mut others) = (Traces::default(), Traces::default());
    let (mut ids, mut questions) = (Vec::new(), Vec::new());
    for at in 0..12 {
        let words: Vec<String> = (0..if at < 6 { 1 } else { 5 }).map(|_| test.word()).collect();
        let mut message = Message::user(traces.text(words.join(" "))).with_id(traces.name(&test.word()));
        if at % 2 == 0 {
            message.name = Some(traces.name(&test.word()));
        }
        ids.push(message.id.clone());
        questions.extend([
            message.text(),
            traces.text(message.searchable()),
            traces.text(format!("{} {}", test.word(), message.text())),
        ]);
        test.engine.blocking().put(&space, vec![message]).unwrap();
        let stays = others.text(test.word());
        test.engine.blocking().put(&other, vec![Message::user(stays)]).unwrap();
    }
    test.engine.blocking().flush().unwrap();
    let ask = |test: &Fixture| {
        for question in &questions {
            test.engine.blocking().recall(&space, crate::Query::new(question)).unwrap();
        }
        // A block asks with the text of the last message.
        let memory = test.engine.memory(&space, "s").block(crate::VectorBlock::new("recalled")).open().unwrap();
        memory.blocking().put(vec![Message::user(&questions[0])]).unwrap();
        memory.blocking().get(None).unwrap();
        memory.blocking().clear().unwrap();
    };
    ask(&test);
    for model in &MODELS[1..] {
        // The models are compared with the questions, and with texts of messages.
        test.reindex_to(model, ReindexOptions { min_recall: 0.0, ..ReindexOptions::default() });
        ask(&test);
    }
    test.assert_there(&traces);
    let receipt = test.engine.blocking().forget(Forget::messages(&space, ids)).unwrap();
    assert!(receipt.forgotten().cached > questions.len() as u64, "{:?}", receipt.forgotten());
    test.assert_gone(&traces);
    test.assert_there(&others);
    // The cache in memory has nothing left either, so each question is embedded again.
    let misses = || test.engine.blocking().cache_stats().unwrap().misses;
    for question in questions.iter().collect::<HashSet<_>>() {
        let before = misses();
        test.engine.embedder().embed_query(question).unwrap();
        assert_eq!(misses(), before + 1, "{question:?} was in memory");
    }
    // The questions of the loop above are forgotten by the next call, even if it forgets no message.
    assert!(found(&test.cache(), &traces.parts()).is_some());
    test.engine.blocking().forget(Forget::session(&space, "none")).unwrap();
    test.assert_gone(&traces);
    test.close(&traces);
}

#[test]
fn earlier_texts_of_forgotten_messages_and_documents_leave_no_traces() {
    let mut test = Fixture::new();
    let space = namespace("the namespace");
    let (mut traces, mut others) = (Traces::default(), Traces::default());
    let documents = test.engine.documents(&space);
    let options = DocumentOptions::default().index(["list[*]"]);
    // A text that moves to another place is not embedded again.
    let stays = others.text(test.word());
    test.engine.blocking().put(&space, vec![Message::user(stays.clone())]).unwrap();
    for _ in 0..3 {
        let message = Message::user(traces.text(test.word())).with_id("m");
        test.engine.blocking().put(&space, vec![message]).unwrap();
        let list = json!({ "list": [traces.text(test.word()), stays, traces.text(test.word())] });
        documents.blocking().put("key", list, options.clone()).unwrap();
        test.engine.blocking().flush().unwrap();
        assert!(found(&test.cache(), &traces.parts()).is_some());
    }
    let misses = test.engine.blocking().cache_stats().unwrap().misses;
    let list = json!({ "list": ["new", traces.texts[7], stays, traces.texts[8]] });
    documents.blocking().put("key", list, options).unwrap();
    test.engine.blocking().flush().unwrap();
    assert!(test.engine.blocking().cache_stats().unwrap().misses <= misses + 2);
    test.engine.blocking().forget(Forget::messages(&space, ["m"])).unwrap();
    test.engine.blocking().forget(Forget::documents(&space, ["key"])).unwrap();
    test.assert_gone(&traces);
    drop(documents);
    test.close(&traces);
}

#[test]
fn a_forgotten_session_leaves_no_traces() {
    let mut test = Fixture::new();
    let space = namespace("the namespace");
    let (mut traces, _, session) = filled(&mut test, &space, &space);
    let receipt = test.engine.blocking().forget(Forget::session(&space, &*session)).unwrap();
    assert_eq!((receipt.forgotten().sessions, receipt.forgotten().namespaces), (1, 0));
    traces.name(&session);
    test.assert_gone(&traces);
    test.close(&traces);
}

#[test]
fn messages_that_match_a_filter_leave_no_traces() {
    let mut test = Fixture::new();
    let space = namespace("the namespace");
    let (traces, _, session) = filled(&mut test, &space, &space);
    let filter = MetadataFilter::eq("$session", session).unwrap();
    let receipt = test.engine.blocking().forget(Forget::matching(&space, filter)).unwrap();
    assert_eq!(receipt.forgotten().sessions, 1);
    test.assert_gone(&traces);
    test.close(&traces);
}

#[test]
fn a_forgotten_namespace_leaves_no_traces() {
    for by_prefix in [false, true] {
        let mut test = Fixture::new();
        let first = test.word();
        let gone = namespace(&format!("{first}/{}", test.word()));
        let (mut traces, _, session) = filled(&mut test, &namespace("another"), &gone);
        test.document(&gone, &mut traces);
        traces.name(&session);
        gone.as_str().split('/').for_each(|label| drop(traces.name(label)));
        test.engine.blocking().set_language(&gone, crate::Language::German).unwrap();
        let what = if by_prefix { Forget::prefix(&namespace(&first)) } else { Forget::from(&gone) };
        let receipt = test.engine.blocking().forget(what).unwrap();
        let forgotten = receipt.forgotten();
        assert_eq!((forgotten.sessions, forgotten.namespaces, forgotten.documents), (1, 1, 1));
        test.assert_gone(&traces);
        // A new namespace of this name has nothing of the old one.
        test.engine.blocking().put(&gone, vec![Message::user("new").with_id("new")]).unwrap();
        test.engine.blocking().flush().unwrap();
        assert_eq!(test.engine.blocking().recall(&gone, crate::Query::new("new")).unwrap().len(), 1);
        test.engine.blocking().delete_namespace(&gone).unwrap();
        test.close(&traces);
    }
}

#[test]
fn forgotten_documents_leave_no_traces() {
    let mut test = Fixture::new();
    let space = namespace("the namespace");
    test.session(&space, "s", &mut Traces::default());
    test.document(&space, &mut Traces::default());
    let mut traces = Traces::default();
    let key = test.document(&space, &mut traces);
    test.reindex();
    test.assert_there(&traces);
    let receipt = test.engine.blocking().forget(Forget::documents(&space, [key])).unwrap();
    assert_eq!((receipt.forgotten().documents, receipt.forgotten().messages), (1, 0));
    test.assert_gone(&traces);
    test.close(&traces);
}

#[test]
fn plain_deletions_remove_the_names_too() {
    let mut test = Fixture::new();
    let (first, second) = (namespace(&test.word()), namespace(&test.word()));
    for space in [&first, &second] {
        test.engine.blocking().put(space, vec![Message::user("a text")]).unwrap();
        test.document(space, &mut Traces::default());
    }
    test.engine.blocking().flush().unwrap();
    test.engine.blocking().delete_namespace(&first).unwrap();
    test.engine.blocking().delete_namespaces(&second).unwrap();
    let third = namespace(&test.word());
    test.engine.blocking().put(&third, vec![Message::user("a text")]).unwrap();
    test.engine.blocking().delete_session(&third, crate::DEFAULT_SESSION).unwrap();
    let names = [&first, &second, &third].map(|space| space.to_string()).to_vec();
    let traces = Traces { names, ..Traces::default() };
    test.assert_gone(&traces);
    test.close(&traces);
}
