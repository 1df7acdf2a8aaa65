//! The rows that a search has met.

/// A set of rows with a bit for each, which remembers the words that it changed, so that clearing is as cheap as the
/// search was.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    changed_words: Vec<u32>,
}

impl Visited {
    /// Empties the set and makes room for `rows` rows.
    pub(super) fn reset(&mut self, rows: usize) {
        for word in self.changed_words.drain(..) {
            self.words[word as usize] = 0;
        }
        self.words.resize(rows.div_ceil(64), 0);
    }

    /// Removes a row.
    #[inline(always)]
    pub(super) fn remove(&mut self, row: u32) {
        self.words[row as usize / 64] &= !(1 << (row % 64));
    }

    /// Adds a row. Returns true if the set did not contain it.
    #[inline(always)]
    pub(super) fn insert(&mut self, row: u32) -> bool {
        let word = &mut self.words[row as usize / 64];
        let bit = 1 << (row % 64);
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.changed_words.push(row / 64);
        }
        *word |= bit;
        true
    }
}
