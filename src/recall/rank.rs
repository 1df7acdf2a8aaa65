//! Combines the evidence for each candidate into one score and sorts the candidates by it; estimates whether any of
//! them answers the query.
//!
//! This module owns the ranking strategies and their constants. It reads no index: `candidates` gathers the evidence.
//! The hybrid score is a sum of these terms:
//!
//! - *dense*: the candidate's cosine similarity as a z-score over a sample of the namespaces that are asked, divided by
//!   √(2 ln n). That is the z-score which the best of n unrelated messages reaches by chance, so the term is comparable
//!   between small and large namespaces. For a message with several chunks the z-score is lowered, because the maximum
//!   of several draws is higher by chance.
//! - *lexical*: the z-score of the candidate's BM25, times the square root of its coverage, the share of the query's
//!   terms that it has, weighted by rarity. The z-score is large where the query's terms are common in the namespace;
//!   the coverage is small where the query is worded differently from all messages, so that such a query is left to the
//!   vectors.
//!   Where the model does not know the words of the query, as in another language, vectors count less and words more.
//! - *neighbor*: a boost by the strongest lexical match within two turns. The maximum, not the sum: many weak matches
//!   nearby count no more than one.
//! - *speaker*: a constant for messages by a speaker whom the query names.
//! - *question*: a deduction for messages that ask, because a question rarely answers one.
//! - *length*: a deduction for a message of fewer words than it takes to say something, the more the fewer it has. Longer
//!   ones are all alike: in dialogues the evidence is longer than the rest, but stated preferences and facts are shorter
//!   than what surrounds them. A role that is much wordier than another, such as an assistant with long answers, has
//!   less content for the same score: its typical length is measured against that of the tersest role.
//! - *time* and *recency*: a constant for messages of a time that the query names, and a boost that decays with age if
//!   the query asks for it.
//! - *weight*: the logarithm of the weight of the candidate's namespace, if several are asked.
//!
//! The weights were chosen on eight sets and two models together, each weighted equally: dialogues, scenes of several
//! people, dated events, preferences among long chats, short facts in Chinese, eight languages. Weights that depend on
//! the query, by the spread of its scores and by how far vectors and words agree, found no more on sets that they were not
//! fitted to. `benches/results/README.md` has the figures and an ablation of each term.

use std::ops::{Range, RangeInclusive};

use super::{
    hit::ScoreBreakdown,
    options::{QueryOptions, RankingStrategy},
    statistics::ScoreStatistics,
    when::TimeSpan,
};
use crate::message::{Role, Timestamp};

const DENSE: f32 = 3.5;
const LEXICAL: f32 = 0.7;
const NEIGHBOR: f32 = 0.6;
const SPEAKER: f32 = 1.5;
const QUESTION: f32 = -0.5;
const LENGTH: f32 = 0.9;
const WORDY_ROLE: f32 = 1.0;
/// The number of terms from which on a message is long enough, and the fewest by which lengths are told apart.
const ENOUGH_TERMS: f32 = 12.0;
const FEWEST_TERMS: f32 = 1.6;
const TIME: f32 = 2.5;
const RECENCY: f32 = 2.0;
/// The shares of a query's letters in words that the model knows, from which on the vectors have any of their weight, and
/// all of it.
const KNOWN_WORDS: RangeInclusive<f32> = 0.5..=0.7;
/// The factors of [`DENSE`] and [`LEXICAL`] where the model knows none of the query's words.
const UNKNOWN_DENSE: f32 = 0.1;
const UNKNOWN_LEXICAL: f32 = 4.0;
/// The constant k of reciprocal-rank fusion.
const RANK_OFFSET: f32 = 60.0;

/// The mean cosine of unrelated texts, above which cosines are measured from it: some models have no lower ones.
const UNRELATED_COSINE: f32 = 0.35;
// Logistic regression on 5,000 questions about stored messages and 13,000 asked of other namespaces, in namespaces of 1, 5,
// 20, 100 and 500 messages out of eight sets, each weighted equally. The more messages, the higher are the best cosine and
// coverage by chance, up to some hundreds. 0.5 keeps 95 % of the answerable questions of each size.
const ANSWER_COVERAGE: f32 = 15.5;
const ANSWER_COSINE: f32 = 10.0;
const ANSWER_INTERCEPT: f32 = -1.6;
const ANSWER_ROWS: f32 = -0.6;
const MOST_ANSWER_ROWS: usize = 500;

/// A message that may become a hit, with the evidence for it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The position of its namespace among those that are asked.
    pub(crate) origin: u32,
    pub(crate) seq: u64,
    /// The row of its best chunk; `None` if the message is not indexed yet, and so has no cosine.
    pub(crate) row: Option<u32>,
    pub(crate) chunks: u32,
    /// The cosine of its best chunk; 0 if it has none.
    pub(crate) cosine: f32,
    pub(crate) bm25: f32,
    /// The greatest BM25 among its neighbors, and the sequence number of that neighbor.
    pub(crate) neighbor_bm25: f32,
    pub(crate) boosted_by: Option<u64>,
    pub(crate) role: Role,
    /// Whether the query names its speaker.
    pub(crate) is_named: bool,
    /// Whether it ends with a question mark.
    pub(crate) is_question: bool,
    /// The logarithm of its number of terms.
    pub(crate) length: f32,
    pub(crate) created_at: Option<Timestamp>,
    /// The bytes of its best chunk, if it has several.
    pub(crate) passage: Option<Range<u32>>,
}

/// A candidate with its score.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) origin: u32,
    pub(crate) seq: u64,
    pub(crate) row: Option<u32>,
    pub(crate) score: f32,
    pub(crate) similarity: f32,
    pub(crate) boosted_by: Option<u64>,
    pub(crate) passage: Option<Range<u32>>,
    pub(crate) breakdown: ScoreBreakdown,
}

/// Ranks candidates by the options of a query and by the statistics of the namespaces that it asks.
pub(super) struct Ranker<'a> {
    pub(super) options: &'a QueryOptions,
    pub(super) strategy: RankingStrategy,
    /// The share of the query's letters in words that the model knows.
    pub(super) known_words: f32,
    pub(super) statistics: &'a ScoreStatistics,
    /// The weight of each namespace; if there is none, they are all 1.
    pub(super) weights: &'a [f32],
    /// The times that the query names.
    pub(super) spans: &'a [TimeSpan],
    pub(super) now: Timestamp,
}

impl Ranker<'_> {
    /// Scores the candidates and sorts them, best first; of equal scores the nearer comes first, then the older message.
    /// Messages without any term of a lexical query come newest first.
    pub(super) fn rank(&self, mut candidates: Vec<Candidate>) -> Vec<Ranked> {
        let Ranker { strategy, statistics, weights, .. } = *self;
        candidates.sort_unstable_by_key(|candidate| (candidate.seq, candidate.origin));
        let cosine = |candidate: &Candidate| candidate.row.map(|_| candidate.cosine);
        let dense_ranks = ranks(&candidates, cosine);
        let lexical_ranks = ranks(&candidates, |candidate| Some(candidate.bm25).filter(|bm25| *bm25 > 0.0));
        let cosines = Extent::of(candidates.iter().filter_map(cosine));
        let bm25s = Extent::of(candidates.iter().map(|candidate| candidate.bm25));
        let by_chance = statistics.best_by_chance();
        let mut scored: Vec<(f32, ScoreBreakdown)> = candidates
            .iter()
            .enumerate()
            .map(|(at, candidate)| {
                let (has_vector, has_terms) = (candidate.row.is_some(), candidate.bm25 > 0.0);
                let mut breakdown = ScoreBreakdown {
                    dense_rank: dense_ranks[at],
                    lexical_rank: lexical_ranks[at],
                    bm25: candidate.bm25,
                    coverage: statistics.bm25.coverage(candidate.bm25),
                    ..ScoreBreakdown::default()
                };
                let weight = weights.get(candidate.origin as usize).copied().unwrap_or(1.0);
                let score = match strategy {
                    RankingStrategy::Hybrid => {
                        // The hybrid score is the logarithm of odds, by how its weights were fitted.
                        breakdown.weight = weight.ln();
                        self.hybrid(candidate, by_chance, &mut breakdown) + breakdown.weight
                    }
                    RankingStrategy::Dense => candidate.cosine,
                    RankingStrategy::Lexical => candidate.bm25,
                    RankingStrategy::ReciprocalRank => {
                        let share = |rank: usize| 1.0 / (RANK_OFFSET + rank as f32);
                        let by_vectors = if has_vector { share(breakdown.dense_rank) } else { 0.0 };
                        by_vectors + if has_terms { share(breakdown.lexical_rank) } else { 0.0 }
                    }
                    RankingStrategy::Weighted(share) => {
                        let by_vectors = if has_vector { share * cosines.scaled(candidate.cosine) } else { 0.0 };
                        by_vectors + (1.0 - share) * bm25s.scaled(candidate.bm25)
                    }
                };
                (if strategy == RankingStrategy::Hybrid { score } else { score * weight }, breakdown)
            })
            .collect();
        let is_lexical = strategy == RankingStrategy::Lexical;
        let key = |(at, candidate): (usize, &Candidate)| {
            let score = scored[at].0;
            let age = if is_lexical && score == 0.0 { !candidate.seq } else { candidate.seq };
            (u64::from(descending(score)) << 32 | u64::from(descending(candidate.cosine)), age, candidate.origin, at)
        };
        // Numbers are sorted, not the candidates, which are many times as large.
        let mut order: Vec<_> = candidates.iter().enumerate().map(key).collect();
        order.sort_unstable();
        let ranked = order.into_iter().map(|(.., at)| {
            let (candidate, (score, breakdown)) = (&candidates[at], std::mem::take(&mut scored[at]));
            Ranked {
                origin: candidate.origin,
                seq: candidate.seq,
                row: candidate.row,
                score,
                similarity: candidate.cosine,
                boosted_by: candidate.boosted_by.filter(|_| breakdown.neighbor > 0.0),
                passage: candidate.passage.clone(),
                breakdown,
            }
        });
        ranked.collect()
    }

    /// Sets the terms of the hybrid score. Returns their sum, without the weight of the namespace.
    fn hybrid(&self, candidate: &Candidate, by_chance: f32, breakdown: &mut ScoreBreakdown) -> f32 {
        let Ranker { options, statistics, spans, now, .. } = *self;
        let (dense, lexical) = self.evidence_weights();
        // A message without a vector is ranked as if its cosine were the mean.
        if candidate.row.is_some() {
            breakdown.dense = dense * (statistics.deviations(candidate.cosine, candidate.chunks) / by_chance);
        }
        breakdown.lexical = lexical * statistics.bm25.strength(candidate.bm25);
        if options.neighbors {
            breakdown.neighbor = NEIGHBOR * statistics.bm25.strength(candidate.neighbor_bm25);
        }
        if options.speakers && candidate.is_named {
            breakdown.speaker = SPEAKER;
        }
        if options.questions && candidate.is_question {
            breakdown.question = QUESTION;
        }
        if options.length_prior {
            let missing = ENOUGH_TERMS.ln() - candidate.length.clamp(FEWEST_TERMS.ln(), ENOUGH_TERMS.ln());
            let wordy = statistics.lengths.of_role(candidate.role) - statistics.lengths.tersest;
            breakdown.length = -LENGTH * missing - WORDY_ROLE * wordy;
        }
        if let Some(time) = candidate.created_at {
            if spans.iter().any(|span| span.contains(time)) {
                breakdown.time = TIME;
            }
            if let Some(half_life) = options.half_life {
                let age_s = now.as_micros().saturating_sub(time.as_micros()).max(0) as f32 / 1e6;
                breakdown.recency = RECENCY * (-age_s / half_life.as_secs_f32()).exp2();
            }
        }
        let content = breakdown.dense + breakdown.lexical + breakdown.neighbor;
        let message = breakdown.speaker + breakdown.question + breakdown.length;
        content + message + breakdown.time + breakdown.recency
    }

    /// The weights of vectors and of words, by how far the model knows the words of the query.
    fn evidence_weights(&self) -> (f32, f32) {
        let (none, all) = KNOWN_WORDS.into_inner();
        let known = match self.options.vocabulary {
            true => ((self.known_words - none) / (all - none)).clamp(0.0, 1.0),
            false => 1.0,
        };
        let between = |unknown: f32| unknown + (1.0 - unknown) * known;
        (DENSE * between(UNKNOWN_DENSE), LEXICAL * between(UNKNOWN_LEXICAL))
    }
}

/// The rank of each candidate that has a score, 1 for the highest; of equal scores the earlier candidate comes first. 0
/// for the others.
fn ranks(candidates: &[Candidate], score: impl Fn(&Candidate) -> Option<f32>) -> Vec<usize> {
    let mut order: Vec<u64> = Vec::with_capacity(candidates.len());
    let key = |(at, candidate)| Some(u64::from(descending(score(candidate)?)) << 32 | at);
    order.extend((0..).zip(candidates).filter_map(key));
    order.sort_unstable();
    let mut ranks = vec![0; candidates.len()];
    for (rank, key) in (1..).zip(order) {
        ranks[key as u32 as usize] = rank;
    }
    ranks
}

/// A number that is the lower the higher the score is, in the order of [`f32::total_cmp`].
fn descending(score: f32) -> u32 {
    let bits = score.to_bits();
    if score.is_sign_negative() { bits } else { !bits & (u32::MAX >> 1) }
}

/// The least and the greatest of several values.
struct Extent(f32, f32);

impl Extent {
    fn of(values: impl Iterator<Item = f32>) -> Self {
        values.fold(Extent(f32::INFINITY, f32::NEG_INFINITY), |Extent(low, high), x| Extent(low.min(x), high.max(x)))
    }

    /// Scales a value to 0 for the least and 1 for the greatest; to 0 if all are equal.
    fn scaled(&self, value: f32) -> f32 {
        let width = self.1 - self.0;
        if width > 0.0 { (value - self.0) / width } else { 0.0 }
    }
}

/// The probability, 0 to 1, that the namespace has something about the query. `ranked` are its candidates.
pub(super) fn answerability(ranked: &[Ranked], statistics: &ScoreStatistics) -> f32 {
    if ranked.is_empty() {
        return 0.0;
    }
    let best = |evidence: fn(&Ranked) -> f32| ranked.iter().map(evidence).fold(f32::NEG_INFINITY, f32::max);
    let coverage = best(|hit| hit.breakdown.coverage);
    let cosine = best(|hit| hit.similarity) - (statistics.mean - UNRELATED_COSINE).max(0.0);
    let by_chance = ANSWER_INTERCEPT + ANSWER_ROWS * (statistics.rows.clamp(1, MOST_ANSWER_ROWS) as f32).ln();
    let logit = ANSWER_COVERAGE * coverage + ANSWER_COSINE * cosine + by_chance;
    1.0 / (1.0 + (-logit).exp())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn descending_numbers_have_the_order_of_scores() {
        let scores = [f32::NEG_INFINITY, -1.5, -1e-9, -0.0, 0.0, 1e-9, 0.5, 1.0, f32::INFINITY, f32::NAN];
        assert!(scores.is_sorted_by(|a, b| a.total_cmp(b).is_lt() && descending(*a) > descending(*b)));
    }

    #[test]
    fn recency_halves_with_age() {
        let now: Timestamp = "2024-05-01T12:00:00Z".parse().unwrap();
        let check = |half_life: Duration, created_at: &str, wanted: f32| {
            let created_at = Some(created_at.parse().unwrap());
            let candidate = Candidate {
                origin: 0,
                seq: 0,
                row: None,
                chunks: 1,
                cosine: 0.0,
                bm25: 0.0,
                neighbor_bm25: 0.0,
                boosted_by: None,
                role: Role::User,
                is_named: false,
                is_question: false,
                length: 0.0,
                created_at,
                passage: None,
            };
            let options = QueryOptions { half_life: Some(half_life), ..QueryOptions::default() };
            let statistics = ScoreStatistics::default();
            let ranker = Ranker {
                options: &options,
                strategy: RankingStrategy::Hybrid,
                known_words: 1.0,
                statistics: &statistics,
                weights: &[],
                spans: &[],
                now,
            };
            let found = ranker.rank(vec![candidate])[0].clone();
            assert!((found.breakdown.recency - wanted).abs() < 1e-5, "{half_life:?}, {:?}", found.breakdown);
            assert!(found.score.is_finite());
        };
        let day = Duration::from_secs(24 * 3600);
        check(day, "2024-05-01T12:00:00Z", RECENCY);
        check(day, "2024-04-30T12:00:00Z", RECENCY / 2.0);
        check(day, "2024-04-28T12:00:00Z", RECENCY / 8.0);
        check(day, "2030-01-01T00:00:00Z", RECENCY);
        check(Duration::from_nanos(1), "2024-05-01T12:00:00Z", RECENCY);
        check(Duration::from_nanos(1), "2024-05-01T11:59:59Z", 0.0);
        check(Duration::MAX, "1970-01-01T00:00:00Z", RECENCY);
    }
}
