//! A cache of the terms of recent words.
//!
//! Few distinct words make up most of a text, and stemming takes most of the time of the analysis. With the cache,
//! analysis is three times as fast.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of slots, a power of two; they take 128 KiB. A conversation of some thousand messages has fewer distinct
/// words.
const SLOTS: usize = 1 << 13;

/// A map from the hash of a word to its term, where each key has one slot and the last write wins.
///
/// Threads share the cache without a lock. A slot holds the value, and the key xor the value, so that the halves of two
/// concurrent writes match no key (Hyatt and Mann, "A lock-less transposition table implementation for parallel search
/// chess engines", ICGA Journal 2002).
#[derive(Debug)]
pub(super) struct TermCache {
    slots: Box<[(AtomicU64, AtomicU64)]>,
}

impl TermCache {
    pub(super) fn new() -> Self {
        TermCache { slots: (0..SLOTS).map(|_| Default::default()).collect() }
    }

    /// Returns the value of a key other than 0. If the cache does not have the key, `make` computes the value, which is
    /// kept.
    pub(super) fn get_or_make(&self, key: u64, make: impl FnOnce() -> u64) -> u64 {
        let (check, value) = &self.slots[key as usize % SLOTS];
        let found = value.load(Relaxed);
        if check.load(Relaxed) ^ found == key {
            return found;
        }
        let made = make();
        value.store(made, Relaxed);
        check.store(key ^ made, Relaxed);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_value() {
        let cache = TermCache::new();
        let keys = [1, 1 + SLOTS as u64, 1 << 40, u64::MAX];
        for key in keys.into_iter().chain(keys) {
            assert_eq!(cache.get_or_make(key, || key ^ 3), key ^ 3);
            assert_eq!(cache.get_or_make(key, || unreachable!()), key ^ 3);
        }
    }

    #[test]
    fn concurrent_writes_to_a_slot_do_not_mix_values() {
        let cache = TermCache::new();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for i in 0..100_000 {
                        // All keys share one slot.
                        let key = ((i * 7 + thread) % 5 + 1) * SLOTS as u64;
                        assert_eq!(cache.get_or_make(key, || key.wrapping_mul(key) << 7), key.wrapping_mul(key) << 7);
                    }
                });
            }
        });
    }
}
