//! Estimates whether a namespace has anything about a query.

use super::{rank::Ranked, statistics::ScoreStatistics};

/// The number of best hits whose coverage is averaged.
const BEST: usize = 3;
// Logistic regression on 3,590 questions about stored messages, and 2,400 questions of other conversations, with both
// models: LoCoMo, chats with long answers, IRC and the sample, each weighted equally.
const COVERAGE: f32 = 18.5;
const CONTRAST: f32 = 12.0;
const INTERCEPT: f32 = -4.9;

/// The probability, 0 to 1, that the namespace has something about the query. `ranked` are its candidates, best first.
pub(crate) fn answerability(ranked: &[Ranked], statistics: &ScoreStatistics) -> f32 {
    if ranked.is_empty() {
        return 0.0;
    }
    let best = &ranked[..ranked.len().min(BEST)];
    let coverage = best.iter().map(|hit| hit.breakdown.coverage).sum::<f32>() / best.len() as f32;
    let nearest = ranked.iter().map(|hit| hit.similarity).fold(f32::NEG_INFINITY, f32::max);
    let logit = COVERAGE * coverage + CONTRAST * (nearest - statistics.mean) + INTERCEPT;
    1.0 / (1.0 + (-logit).exp())
}
