//! `CachedEmbedder`: a text is embedded once, with the vector that it has without a cache.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use mnemon::{CacheStats, CachedEmbedder, Config, Embedder, Engine, Error, Query};
use proptest::prelude::*;

use crate::support::{
    Db, Hashing,
    embedders::{Call, Hooked, Scripted},
    message, namespace,
};

const MAX_FILE: u64 = 4 << 20;

fn hashing(dimension: usize) -> Arc<Hashing> {
    let mut hashing = Hashing::new(dimension);
    hashing.window_bytes = 40;
    Arc::new(hashing)
}

fn cached(inner: &Arc<Hashing>, memory: usize, file: Option<&Path>) -> CachedEmbedder {
    let builder = CachedEmbedder::builder(inner.clone()).memory_bytes(memory);
    match file {
        Some(path) => builder.file(path, MAX_FILE),
        None => builder,
    }
    .open()
    .unwrap()
}

fn texts(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("text number {i}")).collect()
}

fn refs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn counts(stats: CacheStats) -> (u64, u64) {
    (stats.hits, stats.misses)
}

#[test]
fn a_text_is_embedded_once_as_document_query_and_passages() {
    let inner = hashing(32);
    let embedder = cached(&inner, 1 << 20, None);
    let long = "words that go on and on until they fill more than one window, and a little on top";
    let rows = embedder.embed_documents(&["a", "b", "a"]).unwrap();
    assert_eq!(rows, inner.embed_documents(&["a", "b", "a"]).unwrap());
    assert_eq!(counts(embedder.stats()), (1, 2), "twice in a call is once");
    assert_eq!(embedder.embed_documents(&["b", "a", "c"]).unwrap(), inner.embed_documents(&["b", "a", "c"]).unwrap());
    assert_eq!(embedder.embed_query("a").unwrap(), inner.embed_query("a").unwrap());
    for _ in 0..2 {
        let passages = embedder.embed_passages(&["a", long]).unwrap();
        assert_eq!(passages, inner.embed_passages(&["a", long]).unwrap());
        assert!(passages[1].len() > 1);
    }
    assert_eq!(counts(embedder.stats()), (5, 6));
    assert_eq!(embedder.stats().entries, 6);
    assert_eq!(embedder.embed_documents(&[]).unwrap(), Vec::<Vec<f32>>::new());
}

#[test]
fn models_that_share_a_cache_find_their_own_vectors() {
    let (small, large) = (hashing(32), hashing(48));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let first = cached(&small, 1 << 20, Some(&path));
    let second = first.with_embedder(large.clone());
    for _ in 0..2 {
        assert_eq!(first.embed_query("text").unwrap().len(), 32);
        assert_eq!(second.embed_query("text").unwrap(), large.embed_query("text").unwrap());
    }
    assert_eq!((counts(first.stats()), first.stats()), ((2, 2), second.stats()), "one cache");
}

#[test]
fn the_cache_file_is_used_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let texts = texts(0..5000);
    for (run, memory) in [0, 0, 1 << 30].into_iter().enumerate() {
        let inner = hashing(64);
        let embedder = cached(&inner, memory, Some(&path));
        for _ in 0..2 {
            for batch in texts.chunks(300) {
                assert_eq!(
                    embedder.embed_documents(&refs(batch)).unwrap(),
                    hashing(64).embed_documents(&refs(batch)).unwrap()
                );
            }
        }
        assert_eq!(inner.embedded.load(Ordering::Relaxed), if run == 0 { 5000 } else { 0 }, "run {run}");
        let locked = CachedEmbedder::builder(inner).file(&path, MAX_FILE).open();
        assert!(matches!(locked, Err(Error::DatabaseLocked { .. })), "{locked:?}");
    }
    let stats = mnemon::cache_file_stats(&path).unwrap();
    assert_eq!((stats.entries, stats.hits, stats.misses, stats.evictions), (5000, 25_000, 5000, 0));
    assert_eq!(stats.bytes, fs::metadata(&path).unwrap().len());
}

#[test]
fn errors_are_not_cached() {
    let calls = AtomicUsize::new(0);
    // Five kinds of failures, then a right vector.
    let failing = Scripted::new(2, move |texts| {
        let row = match calls.fetch_add(1, Ordering::Relaxed) {
            0 => return Err(Error::Embedding { reason: "on purpose".into(), source: None }),
            1 => vec![f32::NAN, 0.0],
            2 => vec![2.0, 0.0],
            3 => return Ok(Vec::new()),
            4 => panic!("on purpose"),
            _ => vec![1.0, 0.0],
        };
        Ok(vec![row; texts.len()])
    });
    let embedder = CachedEmbedder::builder(Arc::new(failing)).open().unwrap();
    for _ in 0..5 {
        embedder.embed_documents(&["text"]).unwrap_err();
        assert_eq!(embedder.stats().entries, 0);
    }
    assert_eq!(embedder.embed_documents(&["text"]).unwrap(), [[1.0, 0.0]]);
    assert_eq!(counts(embedder.stats()), (0, 1));
}

#[test]
fn the_cache_in_memory_is_bounded() {
    let bound = 256 << 10;
    let inner = hashing(64);
    let embedder = cached(&inner, bound, None);
    for batch in texts(0..10_000).chunks(100) {
        embedder.embed_documents(&refs(batch)).unwrap();
        assert!(embedder.stats().bytes <= bound as u64);
    }
    let stats = embedder.stats();
    assert!(stats.entries > 300 && stats.entries + stats.evictions == 10_000, "{stats:?}");
    // What is larger than all of it is embedded each time.
    let huge = "word ".repeat(100_000);
    assert_eq!(embedder.embed_passages(&[&huge]).unwrap(), inner.embed_passages(&[&huge]).unwrap());
    assert!(embedder.stats().bytes <= bound as u64);
}

#[test]
fn the_cache_file_is_bounded_and_keeps_the_newest_entries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let mut next = 0;
    for _ in 0..3 {
        let inner = hashing(256);
        let embedder = cached(&inner, 0, Some(&path));
        for round in 0..40 {
            // Of one window, and now and then of hundreds.
            let mut batch = texts(next..next + 256);
            next += 256;
            batch[round] = format!("long {next} ").repeat(15 * round);
            let rows = embedder.embed_passages(&refs(&batch)).unwrap();
            assert_eq!(embedder.embed_passages(&refs(&batch)).unwrap(), rows);
            assert!(fs::metadata(&path).unwrap().len() <= MAX_FILE, "{next}");
        }
    }
    let stats = mnemon::cache_file_stats(&path).unwrap();
    assert_eq!(stats.entries + stats.evictions, next as u64);
    assert!(stats.evictions > 0 && stats.entries > 1000, "{stats:?}");
    let inner = hashing(256);
    let embedder = cached(&inner, 0, Some(&path));
    embedder.embed_passages(&refs(&texts(next - 200..next))).unwrap();
    assert_eq!(inner.embedded.load(Ordering::Relaxed), 0);
}

#[test]
fn threads_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let inner = hashing(32);
    let embedder = cached(&inner, 64 << 10, Some(&folder.path().join("cache")));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (embedder, inner) = (&embedder, &inner);
            scope.spawn(move || {
                for i in 0..400 {
                    let batch = texts((i * 7 + thread) % 300..(i * 7 + thread) % 300 + 40);
                    assert_eq!(
                        embedder.embed_documents(&refs(&batch)).unwrap(),
                        inner.embed_documents(&refs(&batch)).unwrap()
                    );
                }
            });
        }
    });
    let stats = embedder.stats();
    assert_eq!((stats.hits + stats.misses, stats.file.unwrap().entries), (4 * 400 * 40, 339));
}

/// Number of texts in a file that is to be damaged.
const FILLED: usize = 60;

fn filled() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    cached(&hashing(32), 0, Some(&path)).embed_documents(&refs(&texts(0..FILLED))).unwrap();
    (folder, path)
}

/// Asserts that embedding with this file gives the right vectors, and returns how many were found in it.
fn assert_right(path: &Path) -> u64 {
    let inner = hashing(32);
    let embedder = cached(&inner, 0, Some(path));
    let texts = texts(0..FILLED + 10);
    for _ in 0..2 {
        assert_eq!(embedder.embed_documents(&refs(&texts)).unwrap(), inner.embed_documents(&refs(&texts)).unwrap());
    }
    embedder.stats().hits - texts.len() as u64
}

#[test]
fn other_files_are_refused_and_left_as_they_are() {
    let db = Db::new();
    db.open().blocking().put(&namespace("a"), vec![message("m", "text")]).unwrap();
    let text = db.folder.path().join("text");
    fs::write(&text, "mnemonics, of which there are many\n".repeat(1000)).unwrap();
    let disk = db.folder.path().join("disk");
    fs::write(&disk, [vec![0; 32_768], b"CD001".to_vec()].concat()).unwrap();
    for path in [&db.path, &text, &disk] {
        let before = fs::read(path).unwrap();
        let refused = CachedEmbedder::builder(hashing(32)).file(path, MAX_FILE).open();
        assert!(
            matches!(&refused, Err(Error::InvalidConfig { reason }) if reason.contains("give another path")),
            "{refused:?}"
        );
        assert!(matches!(mnemon::cache_file_stats(path), Err(Error::InvalidConfig { .. })));
        assert_eq!(fs::read(path).unwrap(), before);
    }
    let missing = db.folder.path().join("none");
    assert!(matches!(mnemon::cache_file_stats(&missing), Err(Error::InvalidConfig { .. })));
    let low = CachedEmbedder::builder(hashing(32)).file(&missing, (1 << 20) - 1).open();
    assert!(matches!(low, Err(Error::InvalidConfig { .. })), "{low:?}");
    assert!(!missing.exists());
    let nowhere = CachedEmbedder::builder(hashing(32)).file(missing.join("cache"), MAX_FILE).open();
    assert!(matches!(nowhere, Err(Error::Storage(_))), "{nowhere:?}");
}

#[test]
fn a_lower_bound_of_the_file_applies_from_the_next_opening() {
    let (_folder, path) = filled();
    let inner = hashing(256);
    let many = cached(&inner, 0, Some(&path)).embed_documents(&refs(&texts(0..3000)));
    let bytes = |path| mnemon::cache_file_stats(path).unwrap().bytes;
    assert!(many.is_ok() && bytes(&path) > 1 << 20);
    // A file of the user's, what a killed process left, and what one is writing.
    let beside = |end: &str| path.with_file_name(format!("{}{end}", path.file_name().unwrap().to_str().unwrap()));
    let [mine, left, held] = [".new", ".1-0.new", ".2-0.new"].map(beside);
    [&mine, &left, &held].into_iter().for_each(|file| fs::write(file, "mine").unwrap());
    let holder = fs::File::open(&held).unwrap();
    holder.lock().unwrap();
    #[cfg(unix)]
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let embedder = CachedEmbedder::builder(inner.clone()).memory_bytes(0).file(&path, 1 << 20).open().unwrap();
    embedder.embed_documents(&refs(&texts(2800..3000))).unwrap();
    assert_eq!(embedder.stats().misses, 0, "the last are left");
    drop(embedder);
    assert!(bytes(&path) <= 1 << 20);
    assert_eq!([&mine, &left, &held].map(|file| file.exists()), [true, false, true]);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 3, "nothing else is left");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o777, 0o600);
}

#[test]
fn a_cache_file_of_another_version_is_replaced() {
    let (_folder, path) = filled();
    let mut bytes = fs::read(&path).unwrap();
    bytes[16] += 2;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(mnemon::cache_file_stats(&path), Err(Error::InvalidConfig { .. })));
    assert_eq!((assert_right(&path), assert_right(&path)), (0, FILLED as u64 + 10));
}

#[test]
fn a_cut_or_damaged_cache_file_gives_no_wrong_vector() {
    let (folder, path) = filled();
    let whole = fs::read(&path).unwrap();
    let check = |bytes: &[u8], what: &str| {
        let damaged = folder.path().join("damaged");
        fs::write(&damaged, bytes).unwrap();
        let found = assert_right(&damaged);
        assert_eq!(assert_right(&damaged), FILLED as u64 + 10, "{what}: it is mended");
        found
    };
    assert_eq!(check(&whole, "whole"), FILLED as u64);
    let header = 48;
    let record = (whole.len() - header) / FILLED;
    assert_eq!(check(&[0; 4096], "nothing but zeros"), 0);
    for cut in [0, 1, 15, 16, 20, header - 1, header, header + 1, header + 43, header + record, whole.len() - 1] {
        let found = check(&whole[..cut], &format!("cut at {cut}"));
        assert_eq!(found, (cut.saturating_sub(header) / record) as u64);
    }
    // All of the header and of two records, then any.
    let places = (0..header + 2 * record).chain((0..200).map(|i| i * 7919 % whole.len()));
    for (i, place) in places.enumerate() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (i % 8);
        let found = check(&bytes, &format!("byte {place}"));
        let before = place.saturating_sub(header) / record;
        let is_version = (16..20).contains(&place);
        assert!(is_version || found >= before as u64, "byte {place}: {found}");
    }
}

/// A step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Documents(bool, Vec<String>),
    Passages(bool, Vec<String>),
    Query(bool, String),
    /// Closes and reopens the cache with this many bytes of memory.
    Reopen(usize),
    /// Overwrites bytes of the file: position, value, number of bytes.
    Damage(usize, u8, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = || "[ab ]{0,3}|[ab]{1,4} [a-c ]{30,90}|[äß€ ]{0,40}";
    let list = || prop::collection::vec(text(), 0..8);
    let step = prop_oneof![
        4 => (any::<bool>(), list()).prop_map(|(model, texts)| Step::Documents(model, texts)),
        4 => (any::<bool>(), list()).prop_map(|(model, texts)| Step::Passages(model, texts)),
        2 => (any::<bool>(), text()).prop_map(|(model, text)| Step::Query(model, text)),
        1 => prop_oneof![Just(0usize), Just(4 << 10), Just(1 << 20)].prop_map(Step::Reopen),
        1 => (any::<usize>(), any::<u8>(), 1usize..200).prop_map(|(place, value, length)| Step::Damage(place, value, length)),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_calls_return_the_same_with_and_without_a_cache(steps in steps()) {
        let models = [hashing(8), hashing(12)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let open = |memory| {
            let builder = CachedEmbedder::builder(models[0].clone()).memory_bytes(memory).file(&path, 1 << 20);
            let first = builder.open().unwrap();
            let second = first.with_embedder(models[1].clone());
            [first, second]
        };
        let mut embedders = open(1 << 20);
        for step in steps {
            match step {
                Step::Documents(model, texts) => {
                    let (cached, plain) = (&embedders[usize::from(model)], &models[usize::from(model)]);
                    prop_assert_eq!(cached.embed_documents(&refs(&texts)).unwrap(), plain.embed_documents(&refs(&texts)).unwrap());
                }
                Step::Passages(model, texts) => {
                    let (cached, plain) = (&embedders[usize::from(model)], &models[usize::from(model)]);
                    prop_assert_eq!(cached.embed_passages(&refs(&texts)).unwrap(), plain.embed_passages(&refs(&texts)).unwrap());
                }
                Step::Query(model, text) => {
                    let (cached, plain) = (&embedders[usize::from(model)], &models[usize::from(model)]);
                    prop_assert_eq!(cached.embed_query(&text).unwrap(), plain.embed_query(&text).unwrap());
                }
                Step::Reopen(memory) => {
                    drop(embedders);
                    embedders = open(memory);
                }
                Step::Damage(place, value, length) => {
                    let mut bytes = fs::read(&path).unwrap();
                    let (place, end) = (place % bytes.len(), bytes.len());
                    // Not its name, by which it is told from other files.
                    bytes[place.max(16).min(end)..(place.max(16) + length).min(end)].fill(value);
                    // In place, while it is open.
                    fs::write(&path, bytes).unwrap();
                }
            }
        }
    }
}

/// The embedder finds out whether the text or the model is at fault with a text that is not in the cache.
#[test]
fn a_failing_model_is_not_called_for_each_message() {
    let db = Db::new();
    let space = namespace("a");
    let mut inner = Hashing::new(16);
    inner.poison = Some("poison");
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let embedder = Arc::new(Hooked::new(inner, move |call| {
        counter.fetch_add(usize::from(matches!(call, Call::Documents(_))), Ordering::Relaxed);
        Ok(())
    }));
    let engine = db.open_with(embedder.clone());
    let numbered = |text: &str| (0..100).map(|i| message(&format!("{text}{i}"), &format!("{text} {i}"))).collect();
    engine.blocking().put(&space, numbered("fine")).unwrap();
    engine.blocking().put(&space, vec![message("bad", "poison")]).unwrap();
    assert!(matches!(engine.blocking().flush(), Err(Error::Embedding { .. })));
    engine.blocking().put(&space, numbered("more")).unwrap();
    embedder.inner.broken.store(true, Ordering::Relaxed);
    calls.store(0, Ordering::Relaxed);
    assert!(matches!(engine.blocking().flush(), Err(Error::Embedding { .. })));
    assert_eq!(calls.load(Ordering::Relaxed), 2, "the batch, and a text that is new");
}

#[test]
fn an_engine_embeds_a_text_once() {
    let db = Db::new();
    let file = db.folder.path().join("cache");
    let inner = Arc::new(Hashing::new(32));
    let open = |memory, file: Option<&Path>| {
        let mut config = Config::default();
        config.embedding_cache = memory;
        config.embedding_cache_file = file.map(Path::to_path_buf);
        Engine::builder(&db.path).config(config).embedder(inner.clone()).open().unwrap()
    };
    let space = namespace("a");
    let messages = |prefix: &str| (0..50).map(|i| message(&format!("{prefix}{i}"), &format!("text {i}"))).collect();
    let engine = open(1 << 20, None);
    engine.blocking().put(&space, messages("a")).unwrap();
    engine.blocking().flush().unwrap();
    engine.blocking().put(&space, messages("b")).unwrap();
    engine.blocking().flush().unwrap();
    for _ in 0..2 {
        engine.blocking().recall(&space, Query::new("text 7")).unwrap();
    }
    assert_eq!(inner.embedded.swap(0, Ordering::Relaxed), 50);
    assert_eq!(counts(engine.blocking().cache_stats().unwrap()), (51, 51));
    drop(engine);

    for _ in 0..2 {
        let engine = open(0, Some(&file));
        engine.blocking().put(&space, messages(&format!("c{:?}", std::time::Instant::now()))).unwrap();
        engine.blocking().flush().unwrap();
    }
    assert_eq!(inner.embedded.swap(0, Ordering::Relaxed), 50);
    assert_eq!(mnemon::cache_file_stats(&file).unwrap().entries, 50);

    let engine = open(0, None);
    engine.blocking().put(&space, messages("d")).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!((inner.embedded.load(Ordering::Relaxed), engine.blocking().cache_stats()), (50, None));
    drop(engine);
    db.assert_sound();
}
