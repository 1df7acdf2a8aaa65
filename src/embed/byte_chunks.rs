//! Splitting text into chunks by bytes, for models whose tokens are unknown.

use std::ops::Range;

/// Adjacent chunks share up to one part in this many, so that a sentence at a cut is whole in one of them.
const OVERLAP: usize = 8;

/// Covers `text` with chunks of at most `max_bytes`, which is 64 or more. Each chunk begins inside the previous one.
/// Chunks begin and end at words if the shared part has any, else at characters.
pub(crate) fn split(text: &str, max_bytes: usize) -> Vec<Range<usize>> {
    let shared = |end: usize| text.floor_char_boundary(end - max_bytes / OVERLAP)..end;
    let mut chunks = Vec::new();
    let mut begin = 0;
    while text.len() - begin > max_bytes {
        let full = text.floor_char_boundary(begin + max_bytes);
        let end = words(text, shared(full)).next_back().unwrap_or(full);
        chunks.push(begin..end);
        let shared = shared(end);
        begin = words(text, shared.clone()).find(|&word| word < end).unwrap_or(shared.start);
    }
    chunks.push(begin..text.len());
    chunks
}

/// Returns the ends of white space characters in a part of a text.
fn words(text: &str, part: Range<usize>) -> impl DoubleEndedIterator<Item = usize> {
    let begin = part.start;
    text[part].char_indices().filter(|(_, c)| c.is_whitespace()).map(move |(at, c)| begin + at + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cuts_are_between_words() {
        let text =
            "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen ".repeat(5);
        let chunks = split(&text, 100);
        assert!(chunks.len() > 4);
        for chunk in chunks {
            let before = text[..chunk.start].chars().next_back();
            assert!(before.is_none_or(char::is_whitespace), "{:?}", &text[chunk]);
        }
        for whole in ["short", ""] {
            assert_eq!(split(whole, 64), vec![0..whole.len(); 1]);
        }
        // The word that begins in the shared part is in both.
        let text = format!("{} word {}", "x".repeat(55), "y".repeat(40));
        assert_eq!(split(&text, 64), [0..61, 56..101]);
    }

    proptest! {
        #[test]
        fn chunks_cover_the_text(
            text in prop_oneof!["\\PC{0,400}", "[a-z ]{0,400}", "[語 é]{0,200}", "x{0,400}", "[ \u{3000}]{0,300}"],
            max_bytes in 64usize..100,
        ) {
            let chunks = split(&text, max_bytes);
            prop_assert_eq!(chunks[0].start, 0);
            prop_assert_eq!(chunks.last().unwrap().end, text.len());
            for chunk in &chunks {
                prop_assert!(chunk.len() <= max_bytes && text.get(chunk.clone()).is_some());
            }
            for pair in chunks.windows(2) {
                prop_assert!(pair[0].start < pair[1].start && pair[1].start < pair[0].end && pair[0].end < pair[1].end);
                // At least half of each chunk is new text, which bounds the number of chunks.
                prop_assert!(pair[1].start - pair[0].start >= max_bytes / 2);
            }
        }
    }
}
