//! The BM25 formula.

/// Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), with the inverse document
/// frequency of Lucene, which is never negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bm25 {
    /// The weight of repetitions of a term in a document; with 0 they do not count.
    pub(super) k1: f32,
    /// The weight of the length of a document, from 0 to 1.
    pub(super) b: f32,
}

impl Default for Bm25 {
    /// The parameters that Anserini found best over many collections of short passages. A window is neither long nor
    /// repetitive.
    fn default() -> Self {
        Bm25 { k1: 0.9, b: 0.4 }
    }
}

impl Bm25 {
    /// Returns the weight of a term that `documents` of `all` documents contain. Above 0.
    pub(super) fn idf(documents: usize, all: usize) -> f32 {
        let (documents, all) = (documents as f64, all as f64);
        ((all - documents + 0.5) / (documents + 0.5)).ln_1p() as f32
    }

    /// Returns the limit of [`saturation`](Self::saturation): the most that a term of weight 1 adds to a score.
    pub(super) fn max_saturation(self) -> f32 {
        self.k1 + 1.0
    }

    /// Returns the factor of the document length in [`saturation`](Self::saturation).
    pub(super) fn length_factor(self, mean_length: f32) -> f32 {
        self.k1 * self.b / mean_length
    }

    /// Returns the score of a document of `length` terms for a term of weight 1 that it contains `frequency` times.
    /// Below [`max_saturation`](Self::max_saturation).
    #[inline]
    pub(super) fn saturation(self, frequency: u32, length: u16, length_factor: f32) -> f32 {
        let frequency = frequency as f32;
        frequency * self.max_saturation() / (frequency + self.k1 * (1.0 - self.b) + length_factor * f32::from(length))
    }
}
