//! Estimates whether a namespace has anything about a query.

use super::{rank::Ranked, statistics::ScoreStatistics};

/// The number of candidates with the highest coverage, over which it is averaged. The ranking does not count: a message
/// may be ranked first because of its speaker or its time.
const BEST: usize = 3;
// Logistic regression on 3,590 questions about stored messages, and 2,400 questions of other conversations, with both
// models: LoCoMo, chats with long answers, IRC and the sample, each weighted equally.
const COVERAGE: f32 = 18.5;
const CONTRAST: f32 = 12.0;
const INTERCEPT: f32 = -4.9;

/// The probability, 0 to 1, that the namespace has something about the query. `ranked` are its candidates.
pub(crate) fn answerability(ranked: &[Ranked], statistics: &ScoreStatistics) -> f32 {
    if ranked.is_empty() {
        return 0.0;
    }
    let mut coverages: Vec<f32> = ranked.iter().map(|hit| hit.breakdown.coverage).collect();
    let best = coverages.len().min(BEST);
    coverages.select_nth_unstable_by(best - 1, |a, b| b.total_cmp(a));
    let coverage = coverages[..best].iter().sum::<f32>() / best as f32;
    let nearest = ranked.iter().map(|hit| hit.similarity).fold(f32::NEG_INFINITY, f32::max);
    let logit = COVERAGE * coverage + CONTRAST * (nearest - statistics.mean) + INTERCEPT;
    1.0 / (1.0 + (-logit).exp())
}
