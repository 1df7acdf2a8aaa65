//! Token counts by the encodings of OpenAI's models. The crate `tiktoken-rs` contains them; nothing is downloaded.
//!
//! Prompts repeat most of their words from one to the next, and counting a word takes a hundred times as long as looking
//! it up. So a text is split into words whose counts add up to that of the text, and each encoding has a cache of counts.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tiktoken_rs::CoreBPE;

use super::TokenCounter;

static O200K: LazyLock<Encoding> = LazyLock::new(|| Encoding::new(tiktoken_rs::o200k_base_singleton()));
static CL100K: LazyLock<Encoding> = LazyLock::new(|| Encoding::new(tiktoken_rs::cl100k_base_singleton()));

/// Counts tokens as OpenAI's models do. Special tokens in a text count as plain text.
///
/// Cost: the first use in a process builds the encoding, which takes some tenths of a second. After that, some megabytes
/// are counted per second, or ten times as many if their words were counted before. The process caches the counts of
/// words, in 128 KiB for each encoding.
#[derive(Clone, Copy)]
pub struct Tiktoken(&'static Encoding);

struct Encoding {
    bpe: &'static CoreBPE,
    counts: WordCounts,
}

impl Encoding {
    fn new(bpe: &'static CoreBPE) -> Self {
        Encoding { bpe, counts: WordCounts::new() }
    }
}

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiktoken").finish_non_exhaustive()
    }
}

impl Tiktoken {
    /// Uses the encoding `o200k_base` of GPT-4o and later models.
    pub fn o200k_base() -> Self {
        Tiktoken(&O200K)
    }

    /// Uses the encoding `cl100k_base` of GPT-4 and GPT-3.5.
    pub fn cl100k_base() -> Self {
        Tiktoken(&CL100K)
    }
}

impl TokenCounter for Tiktoken {
    fn count(&self, text: &str) -> usize {
        let Encoding { bpe, counts } = self.0;
        words(text).map(|word| counts.get_or_count(word, |word| bpe.count_ordinary(word))).sum()
    }
}

/// The number of slots, a power of two. They take 128 KiB.
const SLOTS: usize = 1 << 14;
/// The longest word that is cached, in bytes.
const MAX_BYTES: usize = 64;
/// The bits of a slot that hold a count. The other bits hold the hash.
const COUNT_BITS: u64 = 0xFFFF;

/// A cache of the token counts of words. Each word has one slot, and the last write to a slot wins. Threads share the
/// cache without a lock. The hash is keyed, so two words are confused with a probability of 2^-60, and nobody can
/// construct such a pair.
struct WordCounts {
    hasher: RandomState,
    slots: Box<[AtomicU64]>,
}

impl WordCounts {
    fn new() -> Self {
        WordCounts { hasher: RandomState::new(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the count of a word, which is above 0. Calls `count` if the word is not cached.
    fn get_or_count(&self, word: &str, count: impl FnOnce(&str) -> usize) -> usize {
        if word.len() > MAX_BYTES {
            return count(word);
        }
        let hash = self.hasher.hash_one(word);
        let slot = &self.slots[hash as usize % SLOTS];
        let known = slot.load(Relaxed);
        if known & !COUNT_BITS == hash & !COUNT_BITS && known & COUNT_BITS != 0 {
            return (known & COUNT_BITS) as usize;
        }
        let counted = count(word);
        slot.store(hash & !COUNT_BITS | counted as u64, Relaxed);
        counted
    }
}

/// Splits a text into words whose token counts add up to that of the text. It splits only where the regular expressions
/// of OpenAI's encodings begin a new piece whatever comes before and after. Most words include the space before them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let end = (1..bytes.len()).find(|&at| is_split(bytes, at)).unwrap_or(bytes.len());
        let word;
        (word, rest) = rest.split_at(end);
        (!word.is_empty()).then_some(word)
    })
}

/// Returns true if a piece begins at this byte, which is either a space between a visible character and a letter, or the
/// visible character after a line feed. A slash does not count, because `o200k_base` adds it to the previous line.
fn is_split(bytes: &[u8], at: usize) -> bool {
    match (bytes[at - 1], bytes[at]) {
        (before, b' ') => before.is_ascii_graphic() && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic),
        (b'\n', next) => next.is_ascii_graphic() && next != b'/',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) {
        for Tiktoken(encoding) in [Tiktoken::o200k_base(), Tiktoken::cl100k_base()] {
            for _ in 0..2 {
                assert_eq!(Tiktoken(encoding).count(text), encoding.bpe.count_ordinary(text), "{text:?}");
            }
        }
    }

    #[test]
    fn texts_with_spaces_and_lines_are_counted_exactly() {
        for text in [
            "",
            " ",
            "\n",
            "The user is called Ada, lives in Oslo and has a dog.",
            "<memory sealed='true'>\n<facts>\nAda rows.\n</facts>\n<seal checksum='5f1d2a0c8e3b7740d1c96af2035be814'/>\n</memory>\n",
            "it's  two   spaces \n  and\t tabs \r\n\r\n end  ",
            "path\n/etc\n//x >\n/ y\n \n z",
            "Ada's 12 345678 words, I'LL don't ' s",
            "日本 語\u{3000} x\u{a0} y \u{2028} z é è\n漢字 a",
        ] {
            check(text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_counted_exactly(
            pieces in prop::collection::vec(
                prop_oneof![
                    "[a-zA-Z]{0,6}",
                    "[ \n\r\t/]{0,3}",
                    "[0-9.,;'’<>/#]{0,4}",
                    "[é漢\u{a0}\u{3000}\u{301}👍ǅª]{0,2}",
                    "\\PC{0,3}",
                ],
                0..24,
            ),
        ) {
            check(&pieces.concat());
        }
    }
}
