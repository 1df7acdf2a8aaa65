//! Statistics of the messages that a query is compared with, by which the evidence for its candidates is standardized.
//!
//! The cosines and the lengths of all messages are estimated from a sample of a namespace's rows. If several namespaces
//! are asked, their statistics are pooled, so that a candidate is judged as if the messages of all of them were in one
//! namespace.

use crate::message::Role;

/// Standard deviations by which the z-score of a message's best chunk is lowered, for each √(2 ln chunks).
const CHUNK_PENALTY: f32 = 0.25;
/// Number of rows sampled to estimate a namespace's score and length statistics.
const SAMPLE_ROWS: usize = 512;
/// A role has a typical length of its own if it wrote at least one in this many of the sampled messages.
const MIN_ROLE_SHARE: usize = 20;

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
    /// Those of each piece of the query.
    pub(super) pieces: Vec<PieceStatistics>,
    /// The pieces that candidates have evidence for, by their positions.
    pub(super) scored: Vec<usize>,
}

/// Statistics of the evidence for one piece of a query, as those for the whole.
#[derive(Clone, Debug, Default)]
pub(super) struct PieceStatistics {
    pub(super) mean: f32,
    pub(super) deviation: f32,
    pub(super) bm25: Bm25Statistics,
}

impl ScoreStatistics {
    /// The statistics of several namespaces together.
    pub(super) fn pooled(parts: &[ScoreStatistics]) -> Self {
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        let moments = |of: &dyn Fn(&ScoreStatistics) -> (f32, f32)| {
            let over_rows = |value: &dyn Fn((f32, f32)) -> f64| {
                parts.iter().map(|part| part.rows as f64 * value(of(part))).sum::<f64>() / rows.max(1) as f64
            };
            let mean = over_rows(&|(mean, _)| f64::from(mean));
            let variance =
                over_rows(&|(other, deviation)| f64::from(deviation).powi(2) + (f64::from(other) - mean).powi(2));
            (mean as f32, variance.sqrt() as f32)
        };
        let (mean, deviation) = moments(&|part| (part.mean, part.deviation));
        let first = parts.first().map_or(&[][..], |part| &part.pieces[..]);
        let piece = |at: usize| {
            let (mean, deviation) = moments(&|part| (part.pieces[at].mean, part.pieces[at].deviation));
            let bm25 = Bm25Statistics::pooled(parts.iter().map(|part| &part.pieces[at].bm25));
            PieceStatistics { mean, deviation, bm25 }
        };
        ScoreStatistics {
            mean,
            deviation,
            rows,
            bm25: Bm25Statistics::pooled(parts.iter().map(|part| &part.bm25)),
            lengths: TypicalLengths::pooled(parts.iter().map(|part| (&part.lengths, part.rows))),
            pieces: (0..first.len()).map(piece).collect(),
            scored: (0..first.len()).collect(),
        }
    }

    /// The z-score of a cosine, lowered for several chunks.
    pub(crate) fn deviations(&self, cosine: f32, chunks: u32) -> f32 {
        deviations(cosine, self.mean, self.deviation, chunks)
    }

    /// The z-score that the best row reaches by chance.
    pub(crate) fn best_by_chance(&self) -> f32 {
        best_of(self.rows.max(10) as f32)
    }
}

impl PieceStatistics {
    /// The z-score of a cosine, lowered for several chunks.
    pub(super) fn deviations(&self, cosine: f32, chunks: u32) -> f32 {
        deviations(cosine, self.mean, self.deviation, chunks)
    }
}

fn deviations(cosine: f32, mean: f32, deviation: f32, chunks: u32) -> f32 {
    let tries = if chunks > 1 { CHUNK_PENALTY * best_of(chunks as f32) } else { 0.0 };
    (cosine - mean) / deviation.max(1e-3) - tries
}

/// The mean and the standard deviation of a query's cosines with the sampled rows.
pub(super) fn mean_and_deviation(cosines: &[f32]) -> (f32, f32) {
    let count = cosines.len().max(1) as f32;
    let mean = cosines.iter().sum::<f32>() / count;
    let variance = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>() / count;
    (mean, variance.sqrt())
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
    /// The greatest score.
    best: f32,
    mean: f32,
    deviation: f32,
}

impl Bm25Statistics {
    /// The statistics of these scores, and of as many more scores of 0 as there are more rows.
    pub(super) fn new(scores: impl Iterator<Item = f32>, rows: usize, ideal: f32) -> Self {
        let (sum, squares, best) = scores.fold((0.0, 0.0, 0.0f32), |(sum, squares, best), score| {
            let wide = f64::from(score);
            (sum + wide, squares + wide * wide, best.max(score))
        });
        Self::from_sums(sum, squares, rows, ideal, best)
    }

    /// How much the query says that a row has something about: by the rarity of its terms, and of those that the best row
    /// has.
    pub(super) fn information(&self) -> f32 {
        (self.ideal * self.best).sqrt()
    }

    fn pooled<'a>(parts: impl Iterator<Item = &'a Bm25Statistics>) -> Self {
        let (mut sum, mut squares, mut rows, mut ideal, mut best) = (0.0, 0.0, 0, 0.0f32, 0.0f32);
        for part in parts {
            (sum, squares, rows) = (sum + part.sum, squares + part.squares, rows + part.rows);
            (ideal, best) = (ideal.max(part.ideal), best.max(part.best));
        }
        Self::from_sums(sum, squares, rows, ideal, best)
    }

    fn from_sums(sum: f64, squares: f64, rows: usize, ideal: f32, best: f32) -> Self {
        let count = rows.max(1) as f64;
        let mean = sum / count;
        let deviation = (squares / count - mean * mean).max(0.0).sqrt();
        Bm25Statistics { sum, squares, rows, ideal, best, mean: mean as f32, deviation: deviation as f32 }
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
        self.deviations(bm25) * self.coverage(bm25).clamp(0.0, 1.0).sqrt()
    }

    /// The z-score of a row with this score; 0 below the mean.
    pub(super) fn deviations(&self, bm25: f32) -> f32 {
        ((bm25 - self.mean) / self.deviation.max(1e-6)).max(0.0)
    }
}

/// Rows spread evenly over a namespace, and its typical lengths estimated from them. The same for every query until
/// rows change.
pub(super) struct Sample {
    pub(super) rows: Vec<u32>,
    pub(super) lengths: TypicalLengths,
}

/// Chooses about [`SAMPLE_ROWS`] live rows, spread evenly over rows 0 to `count`.
pub(super) fn spread(count: usize, is_live: impl Fn(u32) -> bool) -> Vec<u32> {
    // The offset within a step varies: speakers take turns, so with a fixed offset the sample could consist of one
    // speaker's messages, which may all be deleted.
    let sampled = |count: usize| {
        let step = count.div_ceil(SAMPLE_ROWS).max(1);
        let offset = move |begin: usize| ((begin as u32).wrapping_mul(0x9E37_79B9) >> 16) as usize % step;
        (0..count).step_by(step).map(move |begin| (begin + offset(begin)).min(count - 1))
    };
    let is_live = |row: &u32| is_live(*row);
    let rows: Vec<u32> = sampled(count).map(|row| row as u32).filter(is_live).collect();
    if rows.len() >= SAMPLE_ROWS / 4 {
        return rows;
    }
    // Most rows of the namespace were deleted: sample the list of live ones.
    let live: Vec<u32> = (0..count as u32).filter(is_live).collect();
    sampled(live.len()).map(|at| live[at]).collect()
}

/// Typical message lengths, as means of logarithms of term counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypicalLengths {
    sums: Vec<RoleLengths>,
    by_role: Vec<(Role, f32)>,
    all: f32,
    /// The least of them.
    pub(super) tersest: f32,
}

/// The lengths of a role's messages.
#[derive(Clone, Copy, Debug)]
struct RoleLengths {
    role: Role,
    sum: f32,
    messages: usize,
}

impl TypicalLengths {
    pub(super) fn new(messages: impl Iterator<Item = (Role, f32)>) -> Self {
        Self::from_sums(messages.map(|(role, length)| RoleLengths { role, sum: length, messages: 1 }))
    }

    /// The typical lengths of several namespaces together, each given with the number of its rows.
    pub(super) fn pooled<'a>(parts: impl Iterator<Item = (&'a TypicalLengths, usize)>) -> Self {
        Self::from_sums(parts.flat_map(|(part, rows)| {
            // A sample stands for all rows of its namespace.
            let scale = rows as f32 / part.sums.iter().map(|of_role| of_role.messages).sum::<usize>().max(1) as f32;
            part.sums.iter().map(move |&RoleLengths { role, sum, messages }| {
                let scaled = (messages as f32 * scale).round().max(1.0);
                RoleLengths { role, sum: sum / messages as f32 * scaled, messages: scaled as usize }
            })
        }))
    }

    fn from_sums(parts: impl Iterator<Item = RoleLengths>) -> Self {
        let mut sums: Vec<RoleLengths> = Vec::new();
        for part in parts {
            match sums.iter_mut().find(|known| known.role == part.role) {
                Some(known) => {
                    known.sum += part.sum;
                    known.messages += part.messages;
                }
                None => sums.push(part),
            }
        }
        let count: usize = sums.iter().map(|of_role| of_role.messages).sum();
        let all = sums.iter().map(|of_role| of_role.sum).sum::<f32>() / count.max(1) as f32;
        let by_role: Vec<(Role, f32)> = sums
            .iter()
            .filter(|of_role| of_role.messages * MIN_ROLE_SHARE >= count)
            .map(|of_role| (of_role.role, of_role.sum / of_role.messages as f32))
            .collect();
        let tersest = by_role.iter().map(|(_, typical)| *typical).fold(f32::INFINITY, f32::min);
        TypicalLengths { sums, by_role, all, tersest: tersest.min(all) }
    }

    /// The typical length of a role's messages; of all messages, if the role is rare.
    pub(super) fn of_role(&self, role: Role) -> f32 {
        self.by_role.iter().find(|(other, _)| *other == role).map_or(self.all, |(_, typical)| *typical)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn a_sample_has_live_rows_alone() {
        let check = |rows: u32, is_live: fn(u32) -> bool, wanted: Range<usize>| {
            let live: Vec<u32> = (0..rows).filter(|&row| is_live(row)).collect();
            let spread = spread(rows as usize, is_live);
            assert!(wanted.contains(&spread.len()), "{} of {} of {rows}", spread.len(), live.len());
            assert!(spread.iter().all(|&row| is_live(row)) && spread.is_sorted_by(|a, b| a < b));
        };
        check(0, |_| true, 0..1);
        check(500, |_| true, 500..501);
        check(100_000, |_| true, SAMPLE_ROWS - 4..SAMPLE_ROWS + 1);
        check(100_000, |row| row % 2 == 0, SAMPLE_ROWS * 2 / 5..SAMPLE_ROWS + 1);
        // Few of these rows are where a sample of all rows looks.
        check(100_000, |row| row % 1000 == 7, 100..101);
        check(100_000, |row| row > 90_000 && row % 2 == 1, SAMPLE_ROWS / 2..SAMPLE_ROWS + 1);
        check(100_000, |_| false, 0..1);
    }
}
