//! What was embedded last, in memory, bounded in bytes.
//!
//! By `quick_cache`: its entries have weights, threads share it, and texts that come once do not push out those that come often
//! (Clock-PRO; S3-FIFO is like it). `moka` does the same with more: timers, queues, an `Arc` an entry. `lru` and `clru` need one lock
//! around all, and forget everything in a pass over many texts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter, sync::Cache};

use super::Key;

type Bytes = Arc<[u8]>;

/// What an entry takes beside its bytes: its key, its places in the tables, what the allocator rounds up.
const OVERHEAD: u64 = 192;
/// A vector of 256 to 384 components: it only says how large the tables are at first, and how many shards are worth it.
const USUAL_BYTES: usize = 1 << 10;
/// Each has its own lock, and its share of the bound: few, so that a long text fits into one.
const SHARDS: usize = 8;

pub(super) struct Memory {
    cache: Cache<Key, Bytes, Weight, DefaultHashBuilder, Evictions>,
    evictions: Arc<AtomicU64>,
}

impl Memory {
    pub(super) fn new(max_bytes: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(max_bytes / USUAL_BYTES)
            .weight_capacity(max_bytes as u64)
            .build()
            .expect("a weight and a number are given");
        let evictions = Arc::default();
        let lifecycle = Evictions(Arc::clone(&evictions));
        Memory { cache: Cache::with_options(options, Weight, DefaultHashBuilder::default(), lifecycle), evictions }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Bytes> {
        self.cache.get(key)
    }

    pub(super) fn insert(&self, key: Key, bytes: Bytes) {
        self.cache.insert(key, bytes);
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
