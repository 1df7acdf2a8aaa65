//! Token counts by the encodings of OpenAI's models. The crate `tiktoken-rs` contains them; nothing is downloaded.

use std::{fmt, sync::LazyLock};

use tiktoken_rs::CoreBPE;

use super::{
    chunk_counts::{ChunkCounts, chunks},
    counter::TokenCounter,
};

static O200K: LazyLock<Encoding> = LazyLock::new(|| Encoding::new(tiktoken_rs::o200k_base_singleton()));
static CL100K: LazyLock<Encoding> = LazyLock::new(|| Encoding::new(tiktoken_rs::cl100k_base_singleton()));

/// Counts tokens as OpenAI's models do. Special tokens in a text count as plain text.
///
/// Cost: the first use in a process builds the encoding, which takes some tenths of a second. After that, counting
/// processes some megabytes per second, and ten times as much of words that were counted before: the process keeps
/// their counts, 128 KiB for each encoding.
#[derive(Clone, Copy)]
pub struct Tiktoken(&'static Encoding);

struct Encoding {
    bpe: &'static CoreBPE,
    counts: ChunkCounts,
}

impl Encoding {
    fn new(bpe: &'static CoreBPE) -> Self {
        Encoding { bpe, counts: ChunkCounts::new() }
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
        chunks(text).map(|chunk| counts.get_or_count(chunk, |chunk| bpe.count_ordinary(chunk))).sum()
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
            "<memory checksum='5f1d2a0c8e3b7740d1c96af2035be814'>\n<facts>\nAda rows.\n</facts>\n</memory>\n",
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
