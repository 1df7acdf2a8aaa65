//! Unchanged text is not embedded twice: an embedder before another, with a memory and, by choice, a file.
//!
//! Content-addressed: a key is the SHA-256 of the model's identity, of what the text is embedded as, and of the text. No two
//! texts are known that share one, and the odds that two of a billion do are 1 to 10^59. Invariant: what is found has the bits of
//! what was embedded.
//!
//! [`Embedder::windows`] is passed on: it runs no model.

mod entry;
mod file;
mod memory;

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use serde::Serialize;
use sha2::{Digest, Sha256};

pub use self::file::CacheFileStats;
use self::{file::CacheFile, memory::Memory};
use crate::{
    config::{CACHE_FILE_BYTES, Config, in_range},
    embed::{self, Embedder, Passage},
    error::{Result, impl_debug},
    ids::ModelIdentity,
};

/// An [`Embedder`] that remembers: a text whose vectors it has is not embedded again.
///
/// Vectors are found by the model's [`ModelIdentity::hash`] and dimension, by whether the text is a question, a document or
/// passages, and by the text. So one cache serves several models ([`CachedEmbedder::with_embedder`]), and an embedder whose
/// vectors change must change its hash. What is found has the bits of what was embedded: on that machine, by that ONNX Runtime;
/// another may round otherwise. Errors are not kept, nor what is no vector ([`Error::InvalidVector`](crate::Error::InvalidVector)).
///
/// [`Engine`](crate::Engine) puts one before its embedder by itself: [`Config::embedding_cache`]. Cost of a text that is found
/// in memory: half a microsecond; in the file, two. Of one that is not, a microsecond more than without; with a file, two.
///
/// ```
/// # fn main() -> mnemon::Result<()> {
/// use std::sync::Arc;
/// use mnemon::{CachedEmbedder, Embedder, Model, OnnxEmbedder};
/// let model = Arc::new(OnnxEmbedder::new(Model::find(Model::DEFAULT)?)?);
/// let embedder = CachedEmbedder::builder(model).memory_bytes(64 << 20).open()?;
/// let first = embedder.embed_documents(&["my bike is in the cellar"])?;
/// assert_eq!(embedder.embed_documents(&["my bike is in the cellar"])?, first);
/// assert_eq!((embedder.stats().hits, embedder.stats().misses), (1, 1));
/// # Ok(())
/// # }
/// ```
pub struct CachedEmbedder {
    inner: Arc<dyn Embedder>,
    cache: Arc<Cache>,
    /// SHA-256 of the identity, which all of its keys begin with.
    identity: [u8; 32],
}

impl_debug!(CachedEmbedder, self { model: self.inner.identity().name, stats: self.stats() });

/// How a [`CachedEmbedder`] was used since it was opened, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Texts whose vectors were there, in memory or in the file, or came in the same call.
    pub hits: u64,
    /// Texts that were embedded.
    pub misses: u64,
    /// Texts whose vectors are in memory.
    pub entries: u64,
    /// Memory they take.
    pub bytes: u64,
    /// Texts whose vectors were dropped from memory, to keep the bound.
    pub evictions: u64,
    /// The file, if there is one that can be used.
    pub file: Option<CacheFileStats>,
}

/// How to open a [`CachedEmbedder`].
pub struct CachedEmbedderBuilder {
    inner: Arc<dyn Embedder>,
    memory_bytes: usize,
    file: Option<(PathBuf, u64)>,
}

impl_debug!(CachedEmbedderBuilder { memory_bytes, file });

impl CachedEmbedderBuilder {
    /// Memory that vectors may take, in bytes; 0 for none. Default: that of [`Config::embedding_cache`].
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Keeps vectors in this file too, of this length at most, in bytes: 1 MiB or more. It is made if it is missing, serves any
    /// number of models, and may be deleted when nobody has it open. Default: none.
    ///
    /// When it is full, the older half of it goes: what is left is copied, so that for that moment there is half as much again on
    /// the disk, and who looks for a text waits. Takes 30 to 60 bytes of memory a text.
    pub fn file(mut self, path: impl AsRef<Path>, max_bytes: u64) -> Self {
        self.file = Some((path.as_ref().to_path_buf(), max_bytes));
        self
    }

    /// Opens the file, if there is to be one. One that is damaged ends before the damage, one of another version is begun anew,
    /// with a warning. If it fails later, the cache goes on without it. Cost: a pass over the file.
    ///
    /// # Errors
    /// [`Error::DatabaseLocked`](crate::Error::DatabaseLocked): another has the file open;
    /// [`Error::InvalidConfig`](crate::Error::InvalidConfig): it is no embedding cache, or its bound too low;
    /// [`Error::Storage`](crate::Error::Storage).
    pub fn open(self) -> Result<CachedEmbedder> {
        let cache = Cache::open(self.memory_bytes, self.file.as_ref().map(|(path, bytes)| (path.as_path(), *bytes)))?;
        Ok(CachedEmbedder::new(self.inner, Arc::new(cache)))
    }
}

impl CachedEmbedder {
    /// A cache before this embedder.
    pub fn builder(inner: Arc<dyn Embedder>) -> CachedEmbedderBuilder {
        CachedEmbedderBuilder { inner, memory_bytes: Config::default().embedding_cache, file: None }
    }

    /// The same cache, memory, file and counts, before another embedder too: of the model that a database is moved to, say.
    pub fn with_embedder(&self, inner: Arc<dyn Embedder>) -> CachedEmbedder {
        CachedEmbedder::new(inner, Arc::clone(&self.cache))
    }

    pub(crate) fn new(inner: Arc<dyn Embedder>, cache: Arc<Cache>) -> Self {
        let ModelIdentity { dimension, hash, .. } = inner.identity();
        let identity = Sha256::digest(format!("{dimension} {hash}")).into();
        CachedEmbedder { inner, cache, identity }
    }

    /// How it was used, and what is in it.
    pub fn stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Those that are found, and the others from `embed`, each once.
    fn look_up(
        &self,
        kind: Kind,
        texts: &[&str],
        deadline: Option<Instant>,
        embed: impl FnOnce(&[&str]) -> Result<Vec<Vec<Passage>>>,
    ) -> Result<Vec<Vec<Passage>>> {
        let mut head = [0; 64];
        head[..32].copy_from_slice(&self.identity);
        head[32] = kind as u8;
        // A whole block of the hash, which is the same for all texts.
        let head = Sha256::new_with_prefix(head);
        let keys: Vec<Key> = texts.iter().map(|text| head.clone().chain_update(text).finalize().into()).collect();
        let dimension = self.inner.identity().dimension;
        let mut rows: Vec<Option<Vec<Passage>>> = self
            .cache
            .find(&keys, deadline)
            .into_iter()
            .zip(texts)
            .map(|(bytes, text)| entry::decode(&bytes?, dimension, text.len()))
            .collect();

        // Where each text that is missing is first, and its key's place among these.
        let mut missing: Vec<usize> = Vec::new();
        let mut places: HashMap<&Key, usize> = HashMap::new();
        for (i, _) in rows.iter().enumerate().filter(|(_, row)| row.is_none()) {
            places.entry(&keys[i]).or_insert_with(|| {
                missing.push(i);
                missing.len() - 1
            });
        }
        let mut embedded = match missing.is_empty() {
            true => Vec::new(),
            false => embed(&missing.iter().map(|&i| texts[i]).collect::<Vec<_>>())?,
        };
        self.cache.count(texts.len() - missing.len(), missing.len());
        if !missing.is_empty() {
            let keep = |(&i, passages): (&usize, &Vec<Passage>)| (keys[i], entry::encode(passages));
            self.cache.keep(&missing.iter().zip(&embedded).map(keep).collect::<Vec<_>>(), deadline);
            // From the end: the first of those that are alike takes what the others have copied.
            for (i, row) in rows.iter_mut().enumerate().rev().filter(|(_, row)| row.is_none()) {
                let place = places[&keys[i]];
                let passages = &mut embedded[place];
                *row = Some(if missing[place] == i { std::mem::take(passages) } else { passages.clone() });
            }
        }
        Ok(rows.into_iter().map(|row| row.expect("what was not found was embedded")).collect())
    }
}

/// SHA-256 of model, [`Kind`] and text.
type Key = [u8; 32];

/// What a text is embedded as.
#[derive(Clone, Copy)]
enum Kind {
    Query = 1,
    Document = 2,
    Passages = 3,
}

impl Embedder for CachedEmbedder {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.inner.windows(text)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let embed = |texts: &[&str]| {
            let rows = embed::documents(&*self.inner, texts)?;
            Ok(texts.iter().zip(rows).map(|(text, row)| whole(text, row)).collect())
        };
        Ok(self.look_up(Kind::Document, texts, None, embed)?.into_iter().map(vector).collect())
    }

    fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
        self.look_up(Kind::Passages, texts, None, |texts| embed::passages(&*self.inner, texts))
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.embed_query_before(text, None)
    }

    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        let embed = |_: &[&str]| Ok(vec![whole(text, embed::query_before(&*self.inner, text, deadline)?)]);
        let rows = self.look_up(Kind::Query, &[text], deadline, embed)?;
        Ok(vector(rows.into_iter().next().expect("a text has a row")))
    }
}

/// A vector of a whole text as an entry has it.
fn whole(text: &str, vector: Vec<f32>) -> Vec<Passage> {
    vec![Passage { range: 0..text.len(), vector }]
}

fn vector(passages: Vec<Passage>) -> Vec<f32> {
    passages.into_iter().next().expect("an entry has a passage").vector
}

/// What embedders of several models may share.
pub(crate) struct Cache {
    memory: Option<Memory>,
    file: Option<CacheFile>,
    /// The file failed, and is not asked again.
    is_broken: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    fn open(memory_bytes: usize, file: Option<(&Path, u64)>) -> Result<Self> {
        let file = match file {
            Some((path, max_bytes)) => {
                in_range("the bound of an embedding cache's file", max_bytes, CACHE_FILE_BYTES)?;
                Some(CacheFile::open(path, max_bytes)?)
            }
            None => None,
        };
        let memory = (memory_bytes > 0).then(|| Memory::new(memory_bytes));
        Ok(Cache { memory, file, is_broken: AtomicBool::new(false), hits: 0.into(), misses: 0.into() })
    }

    /// What a configuration says, if it says any.
    pub(crate) fn configured(config: &Config) -> Result<Option<Self>> {
        let file = config.embedding_cache_file.as_deref().map(|path| (path, config.embedding_cache_file_bytes));
        let is_wanted = config.embedding_cache > 0 || file.is_some();
        is_wanted.then(|| Cache::open(config.embedding_cache, file)).transpose()
    }

    /// The bytes of each key that has some. What only the file has is in memory then.
    fn find(&self, keys: &[Key], deadline: Option<Instant>) -> Vec<Option<Arc<[u8]>>> {
        let Some(memory) = &self.memory else {
            return self.find_in_file(keys, deadline);
        };
        let mut found: Vec<_> = keys.iter().map(|key| memory.get(key)).collect();
        let wanted: Vec<Key> =
            keys.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(key, _)| *key).collect();
        let mut read = self.find_in_file(&wanted, deadline).into_iter();
        for (key, found) in keys.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            *found = read.next().flatten();
            if let Some(bytes) = found {
                memory.insert(*key, Arc::clone(bytes));
            }
        }
        found
    }

    fn find_in_file(&self, keys: &[Key], deadline: Option<Instant>) -> Vec<Option<Arc<[u8]>>> {
        let found = (!keys.is_empty()).then(|| self.on_file(|file| file.get(keys, deadline))).flatten();
        found.unwrap_or_else(|| vec![None; keys.len()])
    }

    fn keep(&self, entries: &[(Key, Arc<[u8]>)], deadline: Option<Instant>) {
        if let Some(memory) = &self.memory {
            entries.iter().for_each(|(key, bytes)| memory.insert(*key, Arc::clone(bytes)));
        }
        self.on_file(|file| file.put(entries, deadline));
    }

    /// `None` if there is no file, or it fails: then it was the last time.
    fn on_file<T>(&self, call: impl FnOnce(&CacheFile) -> Result<T>) -> Option<T> {
        let file = self.file.as_ref().filter(|_| !self.is_broken.load(Relaxed))?;
        call(file)
            .inspect_err(|error| {
                self.is_broken.store(true, Relaxed);
                tracing::warn!(%error, "the file of the embedding cache failed; it goes on without");
            })
            .ok()
    }

    fn count(&self, hits: usize, misses: usize) {
        self.hits.fetch_add(hits as u64, Relaxed);
        self.misses.fetch_add(misses as u64, Relaxed);
        if let Some(file) = &self.file {
            file.count(hits as u64, misses as u64);
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let memory = self.memory.as_ref();
        CacheStats {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            entries: memory.map_or(0, Memory::entries),
            bytes: memory.map_or(0, Memory::bytes),
            evictions: memory.map_or(0, Memory::evictions),
            file: self.on_file(|file| Ok(file.stats())),
        }
    }
}

/// What is in the file of an embedding cache that nobody has open. Cost: a pass over it.
///
/// # Errors
/// [`Error::DatabaseLocked`](crate::Error::DatabaseLocked); [`Error::InvalidConfig`](crate::Error::InvalidConfig): it is missing, or
/// no embedding cache; [`Error::Storage`](crate::Error::Storage).
pub fn cache_file_stats(path: impl AsRef<Path>) -> Result<CacheFileStats> {
    CacheFile::inspect(path.as_ref())
}
