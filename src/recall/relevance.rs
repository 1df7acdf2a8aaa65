//! Estimates how likely a message is evidence for a query: the scale of [`Hit::relevance`](super::Hit::relevance).
//!
//! The hybrid score orders the candidates of one recall. It does not tell whether the best of them is good: its terms are
//! z-scores, which grow with the namespace, so 3 in one is not 3 in another. The relevance is a logistic function of the
//! score, of how far it is below the best one, and of what compares: the share of the query's terms, the cosine above that of
//! unrelated texts, and the number of messages, as more of them come nearer by chance. Where the strategy has no hybrid score,
//! the others decide.
//!
//! The z-scores of a few messages say little: the fewer than [`ENOUGH`] there are, the less the hybrid score counts.
//!
//! Logistic regressions on the first ten hits of 8,500 questions about stored messages and 3,500 about others, of ten sets with
//! the default model and five with MiniLM, each weighted equally. `docs/recall.md` has what they keep.

/// The evidence for a message of the whole query, or of the piece of it that the message answers best.
pub(super) struct Evidence {
    /// `None` for other strategies.
    pub(super) hybrid: Option<HybridScore>,
    /// The share of the query's terms, weighted by rarity, 0 to 1; `None` if terms are not searched.
    pub(super) coverage: Option<f32>,
    /// The cosine, above the mean of unrelated texts; `None` without a vector.
    pub(super) cosine: Option<f32>,
    pub(super) rows: Rows,
}

/// The number of messages that are searched.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    logarithm: f32,
    /// How much the hybrid score counts.
    share: f32,
}

impl Rows {
    pub(super) fn new(count: usize) -> Self {
        Rows { logarithm: (count.max(1) as f32).ln(), share: (count as f32 / ENOUGH).min(1.0) }
    }
}

/// The hybrid score without the terms that say nothing about evidence: the weight of the namespace and the message's age.
#[derive(Clone, Copy)]
pub(super) struct HybridScore {
    pub(super) score: f32,
    /// How much lower it is than the best one.
    pub(super) gap: f32,
}

/// The number of messages from which on the hybrid score counts in full.
const ENOUGH: f32 = 100.0;

impl Evidence {
    pub(super) fn relevance(&self) -> f32 {
        let Rows { logarithm: rows, share } = self.rows;
        let coverage = self.coverage.unwrap_or(0.0);
        let alone = match self.cosine {
            Some(cosine) if self.coverage.is_some() => 7.0 * coverage + 4.1 * cosine + 0.13 * rows - 5.8,
            Some(cosine) => 7.5 * cosine + 0.06 * rows - 5.9,
            None => 9.2 * coverage - 3.8,
        };
        let logit = self.hybrid.map_or(alone, |HybridScore { score, gap }| {
            let cosine = self.cosine.unwrap_or(0.0);
            let hybrid = 0.42 * score - 0.2 * gap + 0.8 * coverage + 3.6 * cosine - 0.28 * rows - 4.0;
            share * hybrid + (1.0 - share) * alone
        });
        1.0 / (1.0 + (-logit).exp())
    }
}
