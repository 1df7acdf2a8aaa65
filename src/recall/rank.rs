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
//! - *whole*: for a query of several pieces. The three terms above are then those of the piece that the candidate answers
//!   best, times the weight of the piece. Where several pieces say as much as the best one, as in a page of a diary, the
//!   words of the whole text say more than any of them: its z-score is added, the more the more pieces there are.
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
    pieces::{self, QueryPiece},
    relevance::{Evidence, HybridScore, Rows},
    statistics::{Bm25Statistics, ScoreStatistics},
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
    /// The evidence for each scored piece of a query of several.
    pub(super) pieces: Vec<PieceEvidence>,
}

/// The evidence for a candidate of one piece of a query, as that of the whole.
#[derive(Clone, Debug, Default)]
pub(super) struct PieceEvidence {
    pub(super) row: Option<u32>,
    pub(super) cosine: f32,
    pub(super) bm25: f32,
    pub(super) neighbor_bm25: f32,
    pub(super) boosted_by: Option<u64>,
    pub(super) passage: Option<Range<u32>>,
}

impl From<Candidate> for PieceEvidence {
    fn from(candidate: Candidate) -> Self {
        let Candidate { row, cosine, bm25, neighbor_bm25, boosted_by, passage, .. } = candidate;
        PieceEvidence { row, cosine, bm25, neighbor_bm25, boosted_by, passage }
    }
}

/// A candidate with its score.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) origin: u32,
    pub(crate) seq: u64,
    pub(crate) row: Option<u32>,
    pub(crate) score: f32,
    /// How likely it is evidence for the query, 0 to 1.
    pub(crate) relevance: f32,
    pub(crate) similarity: f32,
    pub(crate) boosted_by: Option<u64>,
    pub(crate) passage: Option<Range<u32>>,
    pub(crate) breakdown: ScoreBreakdown,
}

/// The score of a candidate, with what it is made of.
#[derive(Default)]
struct Scored {
    score: f32,
    relevance: f32,
    breakdown: ScoreBreakdown,
    /// The position of the piece of the query that it answers best among those that it has evidence for.
    piece: Option<usize>,
}

impl Scored {
    /// The hybrid score as far as it says how good the evidence is.
    fn evidence(&self) -> f32 {
        let ScoreBreakdown { whole, recency, weight, .. } = self.breakdown;
        self.score - whole - recency - weight
    }
}

/// Ranks candidates by the options of a query and by the statistics of the namespaces that it asks.
pub(super) struct Ranker<'a> {
    pub(super) options: &'a QueryOptions,
    pub(super) strategy: RankingStrategy,
    /// The share of the query's letters in words that the model knows.
    pub(super) known_words: f32,
    pub(super) pieces: &'a [QueryPiece],
    pub(super) statistics: &'a ScoreStatistics,
    /// The weight of each namespace; if there is none, they are all 1.
    pub(super) weights: &'a [f32],
    /// The times that the query names.
    pub(super) spans: &'a [TimeSpan],
    pub(super) now: Timestamp,
}

/// The weights of the pieces of a query, and of its words as a whole; none if it is ranked as one.
struct PieceWeights {
    pieces: Vec<f32>,
    whole: f32,
}

impl PieceWeights {
    fn new(ranker: &Ranker<'_>) -> Self {
        let pieces: Vec<_> = ranker.pieces.iter().map(|piece| piece.piece.clone()).collect();
        let information: Vec<f32> = ranker.statistics.pieces.iter().map(|piece| piece.bm25.information()).collect();
        let weights = pieces::weights(&pieces, &information);
        PieceWeights { whole: pieces::whole_weight(&pieces, &weights), pieces: weights }
    }
}

impl Ranker<'_> {
    /// Scores the candidates and sorts them, best first; of equal scores the nearer comes first, then the older message.
    /// Messages without any term of a lexical query come newest first.
    pub(super) fn rank(&self, mut candidates: Vec<Candidate>) -> Vec<Ranked> {
        let Ranker { strategy, statistics, weights, .. } = *self;
        let piece_weights = PieceWeights::new(self);
        candidates.sort_unstable_by_key(|candidate| (candidate.seq, candidate.origin));
        let cosine = |candidate: &Candidate| candidate.row.map(|_| candidate.cosine);
        let dense_ranks = ranks(&candidates, cosine);
        let lexical_ranks = ranks(&candidates, |candidate| Some(candidate.bm25).filter(|bm25| *bm25 > 0.0));
        let cosines = Extent::of(candidates.iter().filter_map(cosine));
        let bm25s = Extent::of(candidates.iter().map(|candidate| candidate.bm25));
        let by_chance = statistics.best_by_chance();
        let mut scored: Vec<Scored> = candidates
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
                let mut piece = None;
                let score = match strategy {
                    RankingStrategy::Hybrid => {
                        // The hybrid score is the logarithm of odds, by how its weights were fitted.
                        breakdown.weight = weight.ln();
                        piece = self.set_content(candidate, by_chance, &piece_weights, &mut breakdown);
                        self.hybrid(candidate, &mut breakdown) + breakdown.weight
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
                let score = if strategy == RankingStrategy::Hybrid { score } else { score * weight };
                Scored { score, relevance: 0.0, breakdown, piece }
            })
            .collect();
        self.set_relevances(&candidates, &mut scored);
        let is_lexical = strategy == RankingStrategy::Lexical;
        let key = |(at, candidate): (usize, &Candidate)| {
            let score = scored[at].score;
            let age = if is_lexical && score == 0.0 { !candidate.seq } else { candidate.seq };
            (u64::from(descending(score)) << 32 | u64::from(descending(candidate.cosine)), age, candidate.origin, at)
        };
        // Numbers are sorted, not the candidates, which are many times as large.
        let mut order: Vec<_> = candidates.iter().enumerate().map(key).collect();
        order.sort_unstable();
        let ranked = order.into_iter().map(|(.., at)| {
            let candidate = &mut candidates[at];
            let Scored { score, relevance, breakdown, piece } = std::mem::take(&mut scored[at]);
            let whole = PieceEvidence {
                row: candidate.row,
                cosine: candidate.cosine,
                boosted_by: candidate.boosted_by,
                passage: candidate.passage.take(),
                ..PieceEvidence::default()
            };
            let PieceEvidence { row, cosine, boosted_by, passage, .. } =
                piece.map_or(whole, |piece| candidate.pieces.swap_remove(piece));
            Ranked {
                origin: candidate.origin,
                seq: candidate.seq,
                row,
                score,
                relevance,
                similarity: cosine,
                boosted_by: boosted_by.filter(|_| breakdown.neighbor > 0.0),
                passage,
                breakdown,
            }
        });
        ranked.collect()
    }

    /// Sets how likely each candidate is evidence for the query, or for the piece of it that it answers best.
    fn set_relevances(&self, candidates: &[Candidate], scored: &mut [Scored]) {
        let statistics = self.statistics;
        let is_hybrid = self.strategy == RankingStrategy::Hybrid;
        let has_vectors = self.strategy != RankingStrategy::Lexical;
        let rows = Rows::new(statistics.rows);
        let best = scored.iter().map(Scored::evidence).fold(f32::NEG_INFINITY, f32::max);
        for (candidate, scored) in candidates.iter().zip(scored) {
            let (mean, cosine) = match scored.piece {
                None => (statistics.mean, candidate.cosine),
                Some(at) => (statistics.pieces[statistics.scored[at]].mean, candidate.pieces[at].cosine),
            };
            let score = scored.evidence();
            let evidence = Evidence {
                hybrid: is_hybrid.then_some(HybridScore { score, gap: best - score }),
                coverage: (self.strategy != RankingStrategy::Dense).then_some(scored.breakdown.coverage),
                cosine: (has_vectors && candidate.row.is_some()).then(|| cosine - (mean - UNRELATED_COSINE).max(0.0)),
                rows,
            };
            scored.relevance = evidence.relevance();
        }
    }

    /// Sets the terms of the hybrid score for the content: those of the piece that the candidate answers best, if the query
    /// has several. Returns its position among the candidate's pieces.
    fn set_content(
        &self,
        candidate: &Candidate,
        by_chance: f32,
        weights: &PieceWeights,
        breakdown: &mut ScoreBreakdown,
    ) -> Option<usize> {
        let statistics = self.statistics;
        let set = |[dense, lexical, neighbor]: [f32; 3], breakdown: &mut ScoreBreakdown| {
            (breakdown.dense, breakdown.lexical, breakdown.neighbor) = (dense, lexical, neighbor);
        };
        if candidate.pieces.is_empty() {
            let deviations =
                candidate.row.map(|_| statistics.deviations(candidate.cosine, candidate.chunks) / by_chance);
            let bm25 = (&statistics.bm25, candidate.bm25, candidate.neighbor_bm25);
            set(self.content(deviations, bm25, self.known_words), breakdown);
            return None;
        }
        let of_piece = |(at, evidence): (usize, &PieceEvidence)| {
            let position = statistics.scored[at];
            let (of_piece, weight) = (&statistics.pieces[position], weights.pieces[position]);
            let deviations = evidence.row.map(|_| of_piece.deviations(evidence.cosine, candidate.chunks) / by_chance);
            let bm25 = (&of_piece.bm25, evidence.bm25, evidence.neighbor_bm25);
            let content = self.content(deviations, bm25, self.pieces[position].known_words);
            (at, position, content.map(|term| weight * term))
        };
        let scored = candidate.pieces.iter().enumerate().filter(|(at, _)| weights.pieces[statistics.scored[*at]] > 0.0);
        let sum = |content: &[f32; 3]| content.iter().sum::<f32>();
        let best = scored.map(of_piece).max_by(|(.., a), (.., b)| sum(a).total_cmp(&sum(b)))?;
        let (at, position, content) = best;
        set(content, breakdown);
        breakdown.coverage = statistics.pieces[position].bm25.coverage(candidate.pieces[at].bm25);
        breakdown.piece = Some(self.pieces[position].piece.range.clone());
        breakdown.whole = weights.whole * statistics.bm25.deviations(candidate.bm25);
        Some(at)
    }

    /// The terms of vectors, words and neighbors. `deviations` is the z-score of the cosine over that of the best by
    /// chance; `bm25` the statistics, the message's own score and its neighbors'.
    fn content(
        &self,
        deviations: Option<f32>,
        (statistics, bm25, neighbor_bm25): (&Bm25Statistics, f32, f32),
        known_words: f32,
    ) -> [f32; 3] {
        let (dense, lexical) = self.evidence_weights(known_words);
        // A message without a vector is ranked as if its cosine were the mean.
        let dense = deviations.map_or(0.0, |deviations| dense * deviations);
        let neighbor = if self.options.neighbors { NEIGHBOR * statistics.strength(neighbor_bm25) } else { 0.0 };
        [dense, lexical * statistics.strength(bm25), neighbor]
    }

    /// Sets the other terms of the hybrid score. Returns the sum of all, without the weight of the namespace.
    fn hybrid(&self, candidate: &Candidate, breakdown: &mut ScoreBreakdown) -> f32 {
        let Ranker { options, statistics, spans, now, .. } = *self;
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
        let content = breakdown.dense + breakdown.lexical + breakdown.neighbor + breakdown.whole;
        let message = breakdown.speaker + breakdown.question + breakdown.length;
        content + message + breakdown.time + breakdown.recency
    }

    /// The probability, 0 to 1, that the namespace has something about the query, or about the most important piece of it.
    pub(super) fn answerability(&self, candidates: &[Candidate]) -> f32 {
        if candidates.is_empty() {
            return 0.0;
        }
        let statistics = self.statistics;
        let best =
            |evidence: &dyn Fn(&Candidate) -> f32| candidates.iter().map(evidence).fold(f32::NEG_INFINITY, f32::max);
        let weights = PieceWeights::new(self).pieces;
        let most_important = (0..statistics.scored.len())
            .max_by(|&a, &b| weights[statistics.scored[a]].total_cmp(&weights[statistics.scored[b]]));
        let (coverage, cosine, mean) = match most_important {
            None => (
                best(&|candidate| statistics.bm25.coverage(candidate.bm25)),
                best(&|candidate| candidate.cosine),
                statistics.mean,
            ),
            Some(at) => {
                let of_piece = &statistics.pieces[statistics.scored[at]];
                (
                    best(&|candidate| of_piece.bm25.coverage(candidate.pieces[at].bm25)),
                    best(&|candidate| candidate.pieces[at].cosine),
                    of_piece.mean,
                )
            }
        };
        let cosine = cosine - (mean - UNRELATED_COSINE).max(0.0);
        let by_chance = ANSWER_INTERCEPT + ANSWER_ROWS * (statistics.rows.clamp(1, MOST_ANSWER_ROWS) as f32).ln();
        let logit = ANSWER_COVERAGE * coverage + ANSWER_COSINE * cosine + by_chance;
        1.0 / (1.0 + (-logit).exp())
    }

    /// The weights of vectors and of words, by how far the model knows the words of the query.
    fn evidence_weights(&self, known_words: f32) -> (f32, f32) {
        let (none, all) = KNOWN_WORDS.into_inner();
        let known = match self.options.vocabulary {
            true => ((known_words - none) / (all - none)).clamp(0.0, 1.0),
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
                pieces: Vec::new(),
            };
            let options = QueryOptions { half_life: Some(half_life), ..QueryOptions::default() };
            let statistics = ScoreStatistics::default();
            let ranker = Ranker {
                options: &options,
                strategy: RankingStrategy::Hybrid,
                known_words: 1.0,
                pieces: &[],
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
