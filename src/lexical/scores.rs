//! What rows score, and by which formula.

/// Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), with the inverse document
/// frequency of Lucene, which is never negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bm25 {
    /// How soon a term's repeats cease to count: 0 at once.
    pub(crate) k1: f32,
    /// How much a document's length counts, 0 to 1.
    pub(crate) b: f32,
}

impl Default for Bm25 {
    /// Those found best over many collections of short passages (Anserini's): a window is neither long nor repetitive.
    fn default() -> Self {
        Bm25 { k1: 0.9, b: 0.4 }
    }
}

impl Bm25 {
    /// The weight of a term that `documents` of `all` have: above 0.
    pub(super) fn idf(documents: usize, all: usize) -> f32 {
        let (documents, all) = (documents as f64, all as f64);
        ((all - documents + 0.5) / (documents + 0.5)).ln_1p() as f32
    }

    /// The most that a term of weight 1 adds to a score.
    pub(super) fn most(self) -> f32 {
        self.k1 + 1.0
    }

    /// What multiplies a document's length, in [`saturation`](Self::saturation).
    pub(super) fn slope(self, mean_length: f32) -> f32 {
        self.k1 * self.b / mean_length
    }

    /// What a term of weight 1 adds to the score of a document that has it so many times: below [`most`](Self::most).
    #[inline]
    pub(super) fn saturation(self, frequency: u32, length: u16, slope: f32) -> f32 {
        let frequency = frequency as f32;
        frequency * self.most() / (frequency + self.k1 * (1.0 - self.b) + slope * f32::from(length))
    }
}

/// The scores of one query, and room to make them: kept from query to query, as large as the namespace has rows, 4 bytes
/// each.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    rows: Vec<f32>,
    touched: Vec<u32>,
    ideal: f32,
    /// The rows that have the term in hand, with its saturation in each.
    pub(super) postings: Vec<(u32, f32)>,
}

impl Scores {
    /// A row's score: 0 if it has no term of the query.
    pub(crate) fn get(&self, row: u32) -> f32 {
        self.rows.get(row as usize).copied().unwrap_or(0.0)
    }

    /// The rows that have a term of the query, in no order.
    pub(crate) fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// What no row's score exceeds: that of an empty document with each term without end. Counts also the terms that no
    /// row has. 0 if the query has none.
    pub(crate) fn ideal(&self) -> f32 {
        self.ideal
    }

    /// Back to all zeros, in time by the rows touched.
    pub(crate) fn clear(&mut self) {
        self.touched.drain(..).for_each(|row| self.rows[row as usize] = 0.0);
        self.ideal = 0.0;
    }

    pub(super) fn make_room(&mut self, rows: usize) {
        self.rows.resize(self.rows.len().max(rows), 0.0);
    }

    /// Adds the term in hand.
    pub(super) fn add(&mut self, weight: f32, most: f32) {
        self.ideal += weight * most;
        for &(row, saturation) in &self.postings {
            let score = &mut self.rows[row as usize];
            // No term adds nothing: idf and saturation are above 0.
            if *score == 0.0 {
                self.touched.push(row);
            }
            *score += weight * saturation;
        }
    }
}
