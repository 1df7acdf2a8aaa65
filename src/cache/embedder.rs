//! An embedder that looks texts up in a cache before it embeds them.

use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use super::{
    entry::{self, Key, KeyMaker, TextKind},
    file_tier::{CacheFile, CacheFileStats},
    tiers::{Cache, CacheStats},
};
#[cfg(feature = "encryption")]
use crate::encryption::{Cipher, EncryptionKey};
use crate::{
    config::Config,
    embed::{self, Embedder, Passage},
    error::{Result, impl_debug},
    ids::ModelIdentity,
};

/// An [`Embedder`] that caches vectors: a text whose vectors are cached is not embedded again.
///
/// Vectors are found by the model's [`ModelIdentity::hash`] and dimension, by the kind of text (query, document or
/// passages), and by the text. So one cache serves several models ([`CachedEmbedder::with_embedder`]), and an embedder
/// whose vectors change must change its hash. [`forget`](Embedder::forget) removes the vectors of a text by all models,
/// and the vectors of all queries, because a query may repeat the text. A cached vector has the bits that were computed
/// on that machine by that ONNX Runtime; another one may round differently. Neither errors nor invalid vectors
/// ([`Error::InvalidVector`](crate::Error::InvalidVector)) are cached.
///
/// [`Engine`](crate::Engine) wraps its embedder in one by itself: see [`Config::embedding_cache`]. Cost of a text that
/// is cached: half a microsecond in memory, two in the file. A text that is not cached costs a microsecond more than
/// without a cache; with a file, two.
///
#[cfg_attr(feature = "bundled-model", doc = "```")]
#[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
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
    keys: KeyMaker,
}

impl_debug!(CachedEmbedder, self { model: self.inner.identity().name, stats: self.stats() });

/// Opens a [`CachedEmbedder`] with settings.
pub struct CachedEmbedderBuilder {
    inner: Arc<dyn Embedder>,
    memory_bytes: usize,
    file: Option<(PathBuf, u64)>,
    #[cfg(feature = "encryption")]
    encryption_key: Option<EncryptionKey>,
}

impl_debug!(CachedEmbedderBuilder { memory_bytes, file });

impl CachedEmbedderBuilder {
    /// Sets the memory that cached vectors may take, in bytes; 0 for none. Default: that of
    /// [`Config::embedding_cache`].
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Caches vectors in this file too, of at most `max_bytes` (1 MiB or more). The file is created if it is missing,
    /// serves any number of models, and may be deleted when no process has it open. Default: no file.
    ///
    /// When the file is full, its older half is dropped: the newer half is copied, so that the cache takes half as much
    /// again on the disk for that moment, and lookups wait. Each text in the file takes 30 to 60 bytes of memory.
    pub fn file(mut self, path: impl AsRef<Path>, max_bytes: u64) -> Self {
        self.file = Some((path.as_ref().to_path_buf(), max_bytes));
        self
    }

    /// Encrypts the file with this key. Feature `encryption`. Default: none.
    #[cfg(feature = "encryption")]
    pub fn encryption_key(mut self, key: EncryptionKey) -> Self {
        self.encryption_key = Some(key);
        self
    }

    /// Opens the cache, with its file if one is set. A damaged file is cut off before the damage, and a file of another
    /// version, or one that is not encrypted with the key that was given, is emptied, with a warning in the log. If the
    /// file fails later, the cache continues without it. Cost: a pass over the file.
    ///
    /// # Errors
    /// [`Error::DatabaseLocked`](crate::Error::DatabaseLocked): the file is open already.
    /// [`Error::InvalidConfig`](crate::Error::InvalidConfig): the file is not an embedding cache, or `max_bytes` is out
    /// of range. [`Error::Storage`](crate::Error::Storage).
    pub fn open(self) -> Result<CachedEmbedder> {
        #[cfg(feature = "encryption")]
        let cipher = self.encryption_key.as_ref().map(Cipher::new).transpose()?;
        #[cfg(not(feature = "encryption"))]
        let cipher = None;
        let file = self.file.as_ref().map(|(path, bytes)| (path.as_path(), *bytes));
        let cache = Cache::open(self.memory_bytes, file, cipher.as_ref())?;
        Ok(CachedEmbedder::new(self.inner, Arc::new(cache)))
    }
}

impl CachedEmbedder {
    /// Returns a builder for a cache in front of this embedder.
    pub fn builder(inner: Arc<dyn Embedder>) -> CachedEmbedderBuilder {
        CachedEmbedderBuilder {
            inner,
            memory_bytes: Config::default().embedding_cache,
            file: None,
            #[cfg(feature = "encryption")]
            encryption_key: None,
        }
    }

    /// Puts the same cache (memory, file and statistics) in front of another embedder, such as the one that a database
    /// is reindexed to.
    pub fn with_embedder(&self, inner: Arc<dyn Embedder>) -> CachedEmbedder {
        CachedEmbedder::new(inner, Arc::clone(&self.cache))
    }

    pub(crate) fn new(inner: Arc<dyn Embedder>, cache: Arc<Cache>) -> Self {
        let keys = KeyMaker::new(inner.identity());
        CachedEmbedder { inner, cache, keys }
    }

    /// Returns usage statistics, and the size of the cache.
    pub fn stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Returns the passages of each text: from the cache, or computed by `embed`, which is called once with each
    /// missing text once.
    fn look_up(
        &self,
        kind: TextKind,
        texts: &[&str],
        deadline: Option<Instant>,
        embed: impl FnOnce(&[&str]) -> Result<Vec<Vec<Passage>>>,
    ) -> Result<Vec<Vec<Passage>>> {
        let keys = self.keys.keys(kind, texts);
        let dimension = self.inner.identity().dimension;
        let mut rows: Vec<Option<Vec<Passage>>> = self
            .cache
            .find(&keys, deadline)
            .into_iter()
            .zip(texts)
            .map(|(bytes, text)| entry::decode(&bytes?, dimension, text.len()))
            .collect();

        // `missing` has the index of the first text of each missing key; `positions` has the key's index in `missing`.
        let mut missing: Vec<usize> = Vec::new();
        let mut positions: HashMap<&Key, usize> = HashMap::new();
        for (i, _) in rows.iter().enumerate().filter(|(_, row)| row.is_none()) {
            positions.entry(&keys[i]).or_insert_with(|| {
                missing.push(i);
                missing.len() - 1
            });
        }
        let forgotten = self.cache.forgotten();
        let mut embedded = match missing.is_empty() {
            true => Vec::new(),
            false => embed(&missing.iter().map(|&i| texts[i]).collect::<Vec<_>>())?,
        };
        self.cache.count(texts.len() - missing.len(), missing.len());
        if !missing.is_empty() {
            let entry = |(&i, passages): (&usize, &Vec<Passage>)| (keys[i], entry::encode(passages));
            self.cache.keep(&missing.iter().zip(&embedded).map(entry).collect::<Vec<_>>(), forgotten, deadline);
            // Backwards: the first of several equal texts takes the passages, after the others have cloned them.
            for (i, row) in rows.iter_mut().enumerate().rev().filter(|(_, row)| row.is_none()) {
                let position = positions[&keys[i]];
                let passages = &mut embedded[position];
                *row = Some(if missing[position] == i { std::mem::take(passages) } else { passages.clone() });
            }
        }
        Ok(rows.into_iter().map(|row| row.expect("every text is cached or was embedded")).collect())
    }
}

impl Embedder for CachedEmbedder {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }

    fn is_same_model(&self, stored: &ModelIdentity) -> bool {
        self.inner.is_same_model(stored)
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.inner.windows(text)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let embed = |texts: &[&str]| {
            let rows = embed::documents(&*self.inner, texts)?;
            Ok(texts.iter().zip(rows).map(|(text, row)| whole(text, row)).collect())
        };
        Ok(self.look_up(TextKind::Document, texts, None, embed)?.into_iter().map(vector).collect())
    }

    fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
        self.look_up(TextKind::Passages, texts, None, |texts| embed::passages(&*self.inner, texts))
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.embed_query_before(text, None)
    }

    fn known_words(&self, text: &str) -> f32 {
        self.inner.known_words(text)
    }

    fn forget(&self, texts: &[&str]) -> Result<u64> {
        let mut all = texts.to_vec();
        for text in texts {
            // An embedder around this one may have embedded the chunks of a long text by themselves.
            let chunks = embed::window_ranges(&*self.inner, text)?;
            all.extend(chunks.into_iter().map(|chunk| &text[chunk]).filter(|chunk| chunk != text));
        }
        Ok(self.cache.forget(&all)? + self.inner.forget(texts)?)
    }

    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        let embed = |_: &[&str]| Ok(vec![whole(text, embed::query_before(&*self.inner, text, deadline)?)]);
        let rows = self.look_up(TextKind::Query, &[text], deadline, embed)?;
        Ok(vector(rows.into_iter().next().expect("one text has one row")))
    }
}

/// Returns the passages of a text that is embedded as a whole.
fn whole(text: &str, vector: Vec<f32>) -> Vec<Passage> {
    vec![Passage { range: 0..text.len(), vector }]
}

fn vector(passages: Vec<Passage>) -> Vec<f32> {
    passages.into_iter().next().expect("an entry has at least one passage").vector
}

/// Reads the statistics of an embedding cache's file that no process has open. Cost: a pass over the file.
///
/// # Errors
/// [`Error::DatabaseLocked`](crate::Error::DatabaseLocked): the file is open.
/// [`Error::InvalidConfig`](crate::Error::InvalidConfig): the file is missing, or is not an embedding cache.
/// [`Error::Storage`](crate::Error::Storage).
pub fn cache_file_stats(path: impl AsRef<Path>) -> Result<CacheFileStats> {
    CacheFile::inspect(path.as_ref())
}
