//! Estimates whether a namespace has anything about a query.

use super::{rank::Ranked, statistics::ScoreStatistics};

/// The number of candidates with the highest coverage, over which it is averaged. The ranking does not count: a message
/// may be ranked first because of its speaker or its time.
const BEST: usize = 3;
/// The mean cosine of unrelated texts, above which cosines are measured from it: some models have no lower ones.
const UNRELATED: f32 = 0.35;
// Logistic regression on 2,031 questions about stored messages, and the same questions asked of other namespaces, with
// both models: LoCoMo, chats with long answers, the sample and eight languages, each weighted equally. The intercept is
// higher by 2, as for users seven of whose eight questions have an answer: so 0.5 keeps 90 % of the answerable questions
// of each set.
const COVERAGE: f32 = 12.7;
const COSINE: f32 = 17.7;
const INTERCEPT: f32 = -6.65;

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
    let cosine = nearest - (statistics.mean - UNRELATED).max(0.0);
    let logit = COVERAGE * coverage + COSINE * cosine + INTERCEPT;
    1.0 / (1.0 + (-logit).exp())
}
