//! The terms of a text that is scored without being in a segment.

/// The distinct terms of a text, ascending, each with the number of times that it occurs.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermCounts {
    counts: Vec<(u64, u32)>,
    /// The number of terms, with repetitions.
    length: u16,
}

impl TermCounts {
    /// Counts the terms of a text: as many of them as a segment stores of a row.
    pub(crate) fn new(mut terms: Vec<u64>) -> Self {
        terms.truncate(super::MAX_TERMS);
        terms.sort_unstable();
        let counts = terms.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect();
        TermCounts { counts, length: terms.len() as u16 }
    }

    pub(crate) fn length(&self) -> u16 {
        self.length
    }

    pub(super) fn counts(&self) -> &[(u64, u32)] {
        &self.counts
    }
}
