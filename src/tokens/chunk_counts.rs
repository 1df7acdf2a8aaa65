//! A cache of the token counts of words.
//!
//! Prompts repeat most of their words from one to the next, and a count takes a hundred times as long as a look-up.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Number of slots, a power of two; they take 128 KiB.
const SLOTS: usize = 1 << 14;
/// Longer chunks are counted each time.
const MAX_BYTES: usize = 64;
/// The bits of a slot that hold a count. The other bits are those of the hash.
const COUNT: u64 = 0xFFFF;

/// The token counts of chunks, where each chunk has one slot and the last write wins. Threads share it without a lock.
/// The hash is keyed, so two chunks are confused with a probability of 2^-60, and nobody can make such a pair.
pub(super) struct ChunkCounts {
    hasher: RandomState,
    slots: Box<[AtomicU64]>,
}

impl ChunkCounts {
    pub(super) fn new() -> Self {
        ChunkCounts { hasher: RandomState::new(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the count of a chunk, which is above 0. Calls `count` if it is not known.
    pub(super) fn get_or_count(&self, chunk: &str, count: impl FnOnce(&str) -> usize) -> usize {
        if chunk.len() > MAX_BYTES {
            return count(chunk);
        }
        let hash = self.hasher.hash_one(chunk);
        let slot = &self.slots[hash as usize % SLOTS];
        let known = slot.load(Relaxed);
        if known & !COUNT == hash & !COUNT && known & COUNT != 0 {
            return (known & COUNT) as usize;
        }
        let counted = count(chunk);
        slot.store(hash & !COUNT | counted as u64, Relaxed);
        counted
    }
}

/// Splits a text into chunks that have as many tokens together as the text has: where the regular expressions of
/// OpenAI's encodings begin a new piece whatever comes before and after. Most chunks are a word with the space before
/// it.
pub(super) fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let end = (1..bytes.len()).find(|&at| is_split(bytes, at)).unwrap_or(bytes.len());
        let chunk;
        (chunk, rest) = rest.split_at(end);
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Returns true if a piece begins at this byte: a space after a visible character and before a letter, which is the
/// beginning of a word, or what follows the end of a line. `o200k_base` puts slashes to the line before.
fn is_split(bytes: &[u8], at: usize) -> bool {
    match (bytes[at - 1], bytes[at]) {
        (before, b' ') => before.is_ascii_graphic() && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic),
        (b'\n', next) => next.is_ascii_graphic() && next != b'/',
        _ => false,
    }
}
