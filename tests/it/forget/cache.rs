//! Embedding caches forget the texts, in memory and in the file, also of other models that the database knows.

use std::{fs, path::Path, sync::Arc};

use mnemon::{CachedEmbedder, Config, Embedder, Engine, Forget};

use super::*;
use crate::support::{Db, Hashing, go_on, message};

fn open(db: &Db, cache: &Path, dimension: usize) -> Engine {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush) = (100_000, None);
    config.embedding_cache_file = Some(cache.to_path_buf());
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(dimension))).open().unwrap()
}

/// Returns whether the file has the vector of a text.
fn has(cache: &Path, dimension: usize, text: &str) -> bool {
    let vector = Hashing::new(dimension).embed_query(text).unwrap();
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::read(cache).unwrap().windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn cached_vectors_of_all_known_models_are_forgotten() {
    let db = Db::new();
    let cache = db.folder.path().join("cache");
    let engine = open(&db, &cache, 16);
    engine.blocking().put(&space(), vec![message("a", "red bike"), message("b", "green boat")]).unwrap();
    engine.blocking().flush().unwrap();
    engine.blocking().recall(&space(), mnemon::Query::new("red bike")).unwrap();
    engine.blocking().reindex(Arc::new(Hashing::new(24)), Default::default(), go_on).unwrap();
    for dimension in [16, 24] {
        assert!(has(&cache, dimension, "red bike") && has(&cache, dimension, "green boat"));
    }
    let before = engine.blocking().cache_stats().unwrap();
    let cached = forget(&engine, Forget::messages(&space(), ["a"])).cached;
    // As a passage by two models and as a query, in memory and in the file; the reindex may have tried queries.
    assert!(cached >= 6, "{cached}");
    let after = engine.blocking().cache_stats().unwrap();
    assert_eq!(before.entries + before.file.unwrap().entries - after.entries - after.file.unwrap().entries, cached);
    for dimension in [16, 24] {
        assert!(!has(&cache, dimension, "red bike") && has(&cache, dimension, "green boat"));
    }
    drop(engine);
    // The file is read as before, and embeds nothing twice.
    let hashing = Arc::new(Hashing::new(24));
    let embedder = CachedEmbedder::builder(hashing.clone()).memory_bytes(0).file(&cache, 1 << 20).open().unwrap();
    let passages = embedder.embed_passages(&["green boat", "red bike"]).unwrap();
    assert_eq!(passages[0][0].vector, hashing.embed_query("green boat").unwrap());
    assert_eq!((embedder.stats().hits, embedder.stats().misses), (1, 1));
}

#[test]
fn a_cache_of_the_program_forgets_too_with_windows_and_repeated_records() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let mut hashing = Hashing::new(16);
    hashing.window_bytes = 16;
    let hashing = Arc::new(hashing);
    let open = || CachedEmbedder::builder(hashing.clone()).memory_bytes(0).file(&cache, 1 << 20).open().unwrap();
    let embedder = open();
    let long = "a long text of several windows, each embedded by itself";
    let windows: Vec<&str> = hashing.windows(long).into_iter().map(|window| &long[window]).collect();
    embedder.embed_passages(&[long]).unwrap();
    embedder.embed_documents(&windows).unwrap();
    // A file that has a record twice, as two threads may write one at the same time.
    drop(embedder);
    let bytes = fs::read(&cache).unwrap();
    let header = 48;
    fs::write(&cache, [&bytes[..], &bytes[header..]].concat()).unwrap();
    let embedder = open();
    assert_eq!(embedder.forget(&[long]).unwrap(), 1 + windows.len() as u64);
    for window in &windows {
        assert!(!has_window(&cache, &hashing, window), "{window:?}");
    }
    assert_eq!(embedder.forget(&[long]).unwrap(), 0);
    let found = embedder.embed_passages(&[long]).unwrap();
    assert_eq!(found[0].len(), windows.len(), "it is embedded again where it is asked for");
}

fn has_window(cache: &Path, hashing: &Hashing, text: &str) -> bool {
    let bytes: Vec<u8> = hashing.embed_query(text).unwrap().iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::read(cache).unwrap().windows(bytes.len()).any(|window| window == bytes)
}
