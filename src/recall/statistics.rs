//! Statistics of the messages that a query is compared with, by which the evidence for its candidates is standardized.
//!
//! If several namespaces are asked, their statistics are pooled, so that a candidate is judged as if the messages of
//! all of them were in one namespace.

use super::sample::TypicalLengths;

/// Standard deviations by which the z-score of a message's best window is lowered, for each √(2 ln windows).
const WINDOWS: f32 = 0.25;

/// Statistics of the evidence for all messages of a namespace, or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScoreStatistics {
    /// The mean and the standard deviation of a query's cosines over a sample of the rows.
    pub(crate) mean: f32,
    pub(crate) deviation: f32,
    /// The number of rows.
    pub(crate) rows: usize,
    pub(crate) bm25: Bm25Statistics,
    pub(crate) lengths: TypicalLengths,
}

impl ScoreStatistics {
    /// The statistics of several namespaces together.
    pub(super) fn pooled(parts: &[ScoreStatistics]) -> Self {
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let over_rows = |value: &dyn Fn(&ScoreStatistics) -> f64| {
            parts.iter().map(|part| part.rows as f64 * value(part)).sum::<f64>() / rows.max(1) as f64
        };
        let mean = over_rows(&|part| f64::from(part.mean));
        let variance = over_rows(&|part| f64::from(part.deviation).powi(2) + (f64::from(part.mean) - mean).powi(2));
        ScoreStatistics {
            mean: mean as f32,
            deviation: variance.sqrt() as f32,
            rows,
            bm25: Bm25Statistics::pooled(parts.iter().map(|part| &part.bm25)),
            lengths: TypicalLengths::pooled(parts.iter().map(|part| (&part.lengths, part.rows))),
        }
    }

    /// The z-score of a cosine, lowered for several windows.
    pub(crate) fn deviations(&self, cosine: f32, windows: u32) -> f32 {
        let tries = if windows > 1 { WINDOWS * best_of(windows as f32) } else { 0.0 };
        (cosine - self.mean) / self.deviation.max(1e-3) - tries
    }

    /// The z-score that the best row reaches by chance.
    pub(crate) fn best_by_chance(&self) -> f32 {
        best_of(self.rows.max(10) as f32)
    }
}

/// The expected z-score of the best of `n` rows.
fn best_of(n: f32) -> f32 {
    (2.0 * n.ln()).sqrt()
}

/// Statistics of the BM25 scores of all rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bm25Statistics {
    sum: f64,
    squares: f64,
    rows: usize,
    /// An upper bound of any row's score.
    ideal: f32,
    mean: f32,
    deviation: f32,
}

impl Bm25Statistics {
    /// The statistics of these scores, and of as many more scores of 0 as there are more rows.
    pub(super) fn new(scores: impl Iterator<Item = f32>, rows: usize, ideal: f32) -> Self {
        let (sum, squares) =
            scores.map(f64::from).fold((0.0, 0.0), |(sum, squares), score| (sum + score, squares + score * score));
        Self::from_sums(sum, squares, rows, ideal)
    }

    fn pooled<'a>(parts: impl Iterator<Item = &'a Bm25Statistics>) -> Self {
        let (sum, squares, rows, ideal) = parts.fold((0.0, 0.0, 0, 0.0f32), |(sum, squares, rows, ideal), part| {
            (sum + part.sum, squares + part.squares, rows + part.rows, ideal.max(part.ideal))
        });
        Self::from_sums(sum, squares, rows, ideal)
    }

    fn from_sums(sum: f64, squares: f64, rows: usize, ideal: f32) -> Self {
        let count = rows.max(1) as f64;
        let mean = sum / count;
        let deviation = (squares / count - mean * mean).max(0.0).sqrt();
        Bm25Statistics { sum, squares, rows, ideal, mean: mean as f32, deviation: deviation as f32 }
    }

    /// The share of the query's terms that a row with this score has.
    pub(super) fn coverage(&self, bm25: f32) -> f32 {
        if self.ideal > 0.0 { (bm25 / self.ideal).min(1.0) } else { 0.0 }
    }

    /// The lexical strength of a match: the z-score of its BM25, times the square root of its coverage.
    pub(super) fn strength(&self, bm25: f32) -> f32 {
        if bm25 <= 0.0 {
            return 0.0;
        }
        let deviations = (bm25 - self.mean) / self.deviation.max(1e-6);
        deviations.max(0.0) * self.coverage(bm25).clamp(0.0, 1.0).sqrt()
    }
}
