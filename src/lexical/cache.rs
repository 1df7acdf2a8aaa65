//! The terms of the words met last: few words make up most of a text, and stemming takes longer than all else. With it
//! a core makes terms three times as fast.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A power of two; 128 KiB. More than the distinct words of a conversation of some thousand messages.
const SLOTS: usize = 1 << 13;

/// Key to value, with one place a key, where the last one put wins. Shared without a lock: a place holds the value, and
/// the key xor the value, so that halves of two writes that met there fit no key (Hyatt and Mann, "A lock-less
/// transposition table implementation for parallel search chess engines", ICGA Journal 2002).
#[derive(Debug)]
pub(super) struct Cache {
    slots: Box<[(AtomicU64, AtomicU64)]>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Cache { slots: (0..SLOTS).map(|_| Default::default()).collect() }
    }

    /// The value of a key other than 0.
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
    fn a_key_has_its_own_value() {
        let cache = Cache::new();
        let keys = [1, 1 + SLOTS as u64, 1 << 40, u64::MAX];
        for key in keys.into_iter().chain(keys) {
            assert_eq!(cache.get_or_make(key, || key ^ 3), key ^ 3);
            assert_eq!(cache.get_or_make(key, || unreachable!()), key ^ 3);
        }
    }

    #[test]
    fn writes_that_meet_mix_no_values() {
        let cache = Cache::new();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for i in 0..100_000 {
                        // All keys have one place.
                        let key = ((i * 7 + thread) % 5 + 1) * SLOTS as u64;
                        assert_eq!(cache.get_or_make(key, || key.wrapping_mul(key) << 7), key.wrapping_mul(key) << 7);
                    }
                });
            }
        });
    }
}
