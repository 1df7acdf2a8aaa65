//! The tier of the cache that is in memory, bounded in bytes.
//!
//! It uses `quick_cache`, whose entries have weights, which threads share, and whose eviction (Clock-PRO, similar to
//! S3-FIFO) keeps texts that are used often when a scan passes. `moka` does the same with more machinery: timers,
//! queues, an `Arc` for each entry. `lru` and `clru` need one lock around everything, and a scan empties them.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, sync::Cache};

use super::key::{Key, Origin};

type Bytes = Arc<[u8]>;

/// Bytes that an entry takes beside its value: the key, the slots in the tables, and the allocator's rounding.
const OVERHEAD: u64 = 192;
/// Bytes of a usual entry, a vector of 256 to 384 components. Only sets the initial size of the tables and the number
/// of shards.
const USUAL_BYTES: usize = 1 << 10;
/// Each shard has its own lock and an equal share of the bound. There are few, so that the entry of a long text fits
/// into one.
const SHARDS: usize = 8;

pub(super) struct MemoryTier {
    cache: Cache<Key, Bytes, Weight, DefaultHashBuilder, Evictions>,
    evictions: Arc<AtomicU64>,
}

impl MemoryTier {
    pub(super) fn new(max_bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(max_bytes / USUAL_BYTES)
            .weight_capacity(max_bytes as u64)
            .build()
            .expect("a weight capacity and an item count are set");
        let evictions = Arc::default();
        let lifecycle = Evictions(Arc::clone(&evictions));
        MemoryTier { cache: Cache::with_options(options, Weight, DefaultHashBuilder::default(), lifecycle), evictions }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Bytes> {
        self.cache.get(key)
    }

    pub(super) fn insert(&self, key: Key, bytes: Bytes) {
        self.cache.insert(key, bytes);
    }

    /// Removes the entries of these origins. Returns how many there were. Cost: a pass over all entries.
    pub(super) fn remove(&self, origins: &HashSet<Origin>) -> u64 {
        let removed = AtomicU64::new(0);
        self.cache.retain(|key, _| {
            let is_kept = !origins.contains(&key.origin);
            removed.fetch_add(u64::from(!is_kept), Relaxed);
            is_kept
        });
        removed.into_inner()
    }

    pub(super) fn entries(&self) -> u64 {
        self.cache.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    pub(super) fn evictions(&self) -> u64 {
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
