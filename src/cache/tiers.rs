//! The cache itself: a tier in memory over a tier in a file. Either may be missing.

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use parking_lot::{RwLock, RwLockReadGuard};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, sync};
use serde::Serialize;

use super::{
    entry::{Key, Origin, QUERIES, origin},
    file_tier::{CacheFile, CacheFileStats},
};
use crate::{
    config::{CACHE_FILE_BYTES, Config, in_range},
    encryption::Cipher,
    error::{Error, Result},
};

/// Usage of a [`CachedEmbedder`](crate::CachedEmbedder) since it was opened, and its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Texts whose vectors were cached, in memory or in the file, or were computed for an equal text of the same call.
    pub hits: u64,
    /// Texts that were embedded.
    pub misses: u64,
    /// Texts whose vectors are in memory now.
    pub entries: u64,
    /// Bytes of memory that they take.
    pub bytes: u64,
    /// Texts whose vectors were evicted from memory to keep its bound.
    pub evictions: u64,
    /// The file's statistics, if there is a file and it is usable.
    pub file: Option<CacheFileStats>,
}

/// A cache, which embedders of several models may share.
pub(crate) struct Cache {
    memory: Option<MemoryTier>,
    file: Option<CacheFile>,
    /// The file failed, and is not used any more.
    is_broken: AtomicBool,
    /// Number of times that texts were forgotten. Vectors that were computed before that are not added, because they
    /// may be of a forgotten text. Adding holds the lock for reading.
    forgotten: RwLock<u64>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    /// Opens the tiers. With a cipher, the file is encrypted.
    pub(super) fn open(memory_bytes: usize, file: Option<(&Path, u64)>, cipher: Option<&Cipher>) -> Result<Self> {
        let file = match file {
            Some((path, max_bytes)) => {
                in_range("the maximum length of an embedding cache's file", max_bytes, CACHE_FILE_BYTES)?;
                Some(CacheFile::open(path, max_bytes, cipher)?)
            }
            None => None,
        };
        let memory = (memory_bytes > 0).then(|| MemoryTier::new(memory_bytes));
        let is_broken = AtomicBool::new(false);
        Ok(Cache { memory, file, is_broken, forgotten: RwLock::new(0), hits: 0.into(), misses: 0.into() })
    }

    /// Opens the cache of an engine's configuration. `None`: the configuration asks for none.
    pub(crate) fn configured(config: &Config) -> Result<Option<Self>> {
        let file = config.embedding_cache_file.as_deref().map(|path| (path, config.embedding_cache_file_bytes));
        let is_wanted = config.embedding_cache > 0 || file.is_some();
        let cipher = if file.is_some() { config.cipher()? } else { None };
        is_wanted.then(|| Cache::open(config.embedding_cache, file, cipher.as_ref())).transpose()
    }

    /// Returns the entry of each key that has one. Entries that only the file has are copied to memory.
    pub(super) fn find(&self, keys: &[Key], deadline: Option<Instant>) -> Vec<Option<Arc<[u8]>>> {
        let Some(_adding) = self.adding(deadline) else { return vec![None; keys.len()] };
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
        let found = (!keys.is_empty()).then(|| self.with_file(|file| file.get(keys, deadline))).flatten();
        found.unwrap_or_else(|| vec![None; keys.len()])
    }

    /// Returns the number of times that texts were forgotten. [`keep`](Self::keep) needs the number from before the
    /// embedding.
    pub(super) fn forgotten(&self) -> u64 {
        *self.forgotten.read()
    }

    /// Adds entries to both tiers, unless texts were forgotten since [`forgotten`](Self::forgotten) returned this.
    pub(super) fn keep(&self, entries: &[(Key, Arc<[u8]>)], forgotten: u64, deadline: Option<Instant>) {
        let adding = self.adding(deadline);
        if adding.as_deref() != Some(&forgotten) {
            return;
        }
        if let Some(memory) = &self.memory {
            entries.iter().for_each(|(key, bytes)| memory.insert(*key, Arc::clone(bytes)));
        }
        self.with_file(|file| file.put(entries, deadline));
    }

    /// Keeps texts from being forgotten while entries are added. `None`: the deadline passed.
    fn adding(&self, deadline: Option<Instant>) -> Option<RwLockReadGuard<'_, u64>> {
        match deadline {
            Some(deadline) => self.forgotten.try_read_until(deadline),
            None => Some(self.forgotten.read()),
        }
    }

    /// Removes the entries that these texts caused, by any model, in both tiers: the entries of the texts themselves,
    /// and of all queries. Returns the number of entries removed.
    ///
    /// # Errors
    /// [`Error::Storage`]: the file failed, now or earlier, and may still have them.
    pub(crate) fn forget(&self, texts: &[&str]) -> Result<u64> {
        let origins: HashSet<Origin> = texts.iter().map(|text| origin(text)).chain([QUERIES]).collect();
        let in_memory = self.remove_from_memory(&origins);
        let in_file = match &self.file {
            Some(_) if self.is_broken.load(Relaxed) => {
                let reason = "the file of the embedding cache failed earlier, and may still have vectors of forgotten \
                              texts; delete the file when the engine is closed";
                return Err(Error::Storage(reason.into()));
            }
            Some(file) => file.remove(&origins, true)?,
            None => 0,
        };
        Ok(in_memory + in_file)
    }

    /// Removes the entries of texts that were replaced: when the message is forgotten later, its earlier texts are not
    /// known any more. Entries of queries stay until then.
    pub(crate) fn drop_replaced(&self, texts: &[String]) {
        let origins: HashSet<Origin> = texts.iter().map(|text| origin(text)).collect();
        self.remove_from_memory(&origins);
        self.with_file(|file| file.remove(&origins, false));
    }

    fn remove_from_memory(&self, origins: &HashSet<Origin>) -> u64 {
        // Waits for threads that are adding entries.
        *self.forgotten.write() += 1;
        self.memory.as_ref().map_or(0, |memory| memory.remove(origins))
    }

    /// Calls `call` with the file. `None`: there is no file, or it failed now or earlier. A file that failed is not
    /// used again.
    fn with_file<T>(&self, call: impl FnOnce(&CacheFile) -> Result<T>) -> Option<T> {
        let file = self.file.as_ref().filter(|_| !self.is_broken.load(Relaxed))?;
        call(file)
            .inspect_err(|error| {
                self.is_broken.store(true, Relaxed);
                tracing::warn!(%error, "the file of the embedding cache failed; the cache continues without it");
            })
            .ok()
    }

    pub(super) fn count(&self, hits: usize, misses: usize) {
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
            entries: memory.map_or(0, MemoryTier::entries),
            bytes: memory.map_or(0, MemoryTier::bytes),
            evictions: memory.map_or(0, MemoryTier::evictions),
            file: self.with_file(|file| Ok(file.stats())),
        }
    }
}

type Bytes = Arc<[u8]>;

/// Bytes that an entry takes beside its value: the key, the slots in the tables, and the allocator's rounding.
const OVERHEAD: u64 = 192;
/// Bytes of a usual entry, a vector of 256 to 384 components. Only sets the initial size of the tables and the number
/// of shards.
const USUAL_BYTES: usize = 1 << 10;
/// Each shard has its own lock and an equal share of the bound. There are few, so that the entry of a long text fits
/// into one.
const SHARDS: usize = 8;

/// The tier in memory, bounded in bytes.
///
/// It uses `quick_cache`, whose entries have weights, which threads share, and whose eviction (Clock-PRO, similar to
/// S3-FIFO) keeps texts that are used often when a scan passes. `moka` does the same with more machinery: timers,
/// queues, an `Arc` for each entry. `lru` and `clru` need one lock around everything, and a scan empties them.
struct MemoryTier {
    cache: sync::Cache<Key, Bytes, Weight, DefaultHashBuilder, Evictions>,
    evictions: Arc<AtomicU64>,
}

impl MemoryTier {
    fn new(max_bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(max_bytes / USUAL_BYTES)
            .weight_capacity(max_bytes as u64)
            .build()
            .expect("a weight capacity and an item count are set");
        let evictions = Arc::default();
        let lifecycle = Evictions(Arc::clone(&evictions));
        MemoryTier {
            cache: sync::Cache::with_options(options, Weight, DefaultHashBuilder::default(), lifecycle),
            evictions,
        }
    }

    fn get(&self, key: &Key) -> Option<Bytes> {
        self.cache.get(key)
    }

    fn insert(&self, key: Key, bytes: Bytes) {
        self.cache.insert(key, bytes);
    }

    /// Removes the entries of these origins. Returns their number. Cost: a pass over all entries.
    fn remove(&self, origins: &HashSet<Origin>) -> u64 {
        let removed = AtomicU64::new(0);
        self.cache.retain(|key, _| {
            let is_kept = !origins.contains(&key.origin);
            removed.fetch_add(u64::from(!is_kept), Relaxed);
            is_kept
        });
        removed.into_inner()
    }

    fn entries(&self) -> u64 {
        self.cache.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Bytes> for Weight {
    fn weight(&self, _: &Key, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + OVERHEAD
    }
}

#[derive(Clone)]
struct Evictions(Arc<AtomicU64>);

impl Lifecycle<Key, Bytes> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: Key, _: Bytes) {
        self.0.fetch_add(1, Relaxed);
    }
}
