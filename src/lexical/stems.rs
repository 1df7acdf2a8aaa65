//! Stems: folded words become stems by the rules of a language, and stems become terms, which are hashes.
//!
//! This module owns the stop words, the cache of terms, and the hash, which is stored and never changes.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    characters::{fold, fold_diacritics},
    language::{self, Language},
};

/// Number of bits of a term. Hashes of words are cut to this length, so that a term takes 6 bytes in a segment. In a
/// namespace with a million distinct terms, a term of a query collides with one of them with a probability of 10^6 /
/// 2^48, 4 in 10^9.
pub(super) const TERM_BITS: u32 = 48;

/// The cached value of a stop word. No term is 0.
pub(super) const STOP_WORD: u64 = 0;
/// Number of slots, a power of two; they take 128 KiB. A conversation of some thousand messages has fewer distinct
/// words.
const SLOTS: usize = 1 << 13;

/// Turns words of one language into terms.
#[derive(Debug)]
pub(super) struct Stems {
    language: Language,
    /// Hashes of the stop words.
    stop_words: HashSet<u64>,
    cache: TermCache,
}

impl Stems {
    pub(super) fn new(language: Language) -> Self {
        let stop_words = if language == Language::English { language::ENGLISH_STOP_WORDS } else { &[] };
        let stop_words = stop_words.iter().map(|word| hash(word)).collect();
        Stems { language, stop_words, cache: TermCache::new() }
    }

    pub(super) fn language(&self) -> Language {
        self.language
    }

    /// Returns true if the language has stop words, and "'s" belongs to the word before.
    pub(super) fn is_english(&self) -> bool {
        self.language == Language::English
    }

    /// Appends a word as [`term`](Self::term) takes it.
    pub(super) fn fold(&self, word: &str, folded: &mut String) {
        fold(word, self.folds_first(), folded);
    }

    /// Returns true if diacritics are removed before stemming: otherwise "résumés" and "resumes" would have different
    /// stems.
    fn folds_first(&self) -> bool {
        matches!(self.language, Language::English | Language::Other)
    }

    /// Returns the term of a folded word, or [`STOP_WORD`].
    pub(super) fn term(&self, word: &str) -> u64 {
        let key = hash(word);
        self.cache.get_or_make(key, || {
            if word.is_empty() || self.stop_words.contains(&key) {
                return STOP_WORD;
            }
            let stem = self.language.stem(word);
            let stem = if stem.is_empty() { word } else { &stem };
            if self.folds_first() || stem.is_ascii() {
                return term(stem);
            }
            let mut folded = String::new();
            fold_diacritics(stem, &mut folded);
            term(&folded)
        })
    }
}

/// Returns the term of a folded and stemmed word: the upper bits of its hash.
pub(super) fn term(word: &str) -> u64 {
    hash(word) >> (u64::BITS - TERM_BITS)
}

/// Hashes a word with FNV-1a and the finalizer of MurmurHash3, because the upper bits of FNV-1a vary little for short
/// texts. Hashes are stored, and those of the standard library may change. The upper [`TERM_BITS`] are never all 0.
pub(super) fn hash(text: &str) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (hash ^ (hash >> 33)).max(1 << (u64::BITS - TERM_BITS))
}

/// A map from the hash of a word to its term, where each key has one slot and the last write wins.
///
/// Threads share the cache without a lock. A slot holds the value, and the key xor the value, so that the halves of two
/// concurrent writes match no key (Hyatt and Mann, "A lock-less transposition table implementation for parallel search
/// chess engines", ICGA Journal 2002).
#[derive(Debug)]
struct TermCache {
    slots: Box<[(AtomicU64, AtomicU64)]>,
}

impl TermCache {
    fn new() -> Self {
        TermCache { slots: (0..SLOTS).map(|_| Default::default()).collect() }
    }

    /// Returns the value of a key other than 0. If the cache does not have the key, `make` computes the value, which is
    /// kept.
    fn get_or_make(&self, key: u64, make: impl FnOnce() -> u64) -> u64 {
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

    /// Stored segments contain terms.
    #[test]
    fn terms_never_change() {
        assert_eq!(
            ["", "paint", "2023", "東京"].map(term),
            [263677158668953, 108898788745964, 135146077090781, 201213939934509]
        );
    }

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
