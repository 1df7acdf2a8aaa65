//! Scores: what the evidence for each candidate comes to.
//!
//! Owns the strategies and their constants. Does not gather evidence: the engine does. The hybrid score adds up, a candidate,
//!
//! - *dense*: its cosine above the mean of the namespace's, in standard deviations, over √(2 ln n), which the best of n
//!   messages reaches by chance: so it means the same in a small namespace and a large one. Less for each window of a long
//!   message, as its best one had more tries.
//! - *lexical*: its BM25 above the mean, in standard deviations, which are large where the question's terms are common; times
//!   the root of its coverage, the share that it has of the question's terms by rarity. So a question in other words than the
//!   messages, which none covers, is left to the vectors.
//! - *neighbor*: the best lexical evidence within two turns of it. The best alone, not a sum: many weak ones lend no more than
//!   one.
//! - *length*: in a role, long messages say more than short ones, up to a point; a role that is much wordier than another, as an
//!   assistant's long answers are, says less for the same score. Both from what the namespace's lengths are.
//!
//! The weights were fitted by listwise logistic regression to LoCoMo, to chats with long answers and to IRC together, each
//! counted alike, then rounded; see `benches/results/README.md` for what leaving one out does.

use std::{cmp::Ordering, ops::Range};

use super::{
    hit::Parts,
    query::{Ranking, Strategy},
    when::TimeSpan,
};
use crate::message::Timestamp;

const DENSE: f32 = 3.5;
const LEXICAL: f32 = 0.6;
const NEIGHBOR: f32 = 0.5;
const LENGTH: f32 = 0.7;
const WORDY_ROLE: f32 = 0.5;
/// Logarithms of length count from half a tenth of the usual to about three times.
const LENGTHS: std::ops::RangeInclusive<f32> = -2.0..=1.0;
/// Standard deviations that the best window is brought back by, for each √(2 ln windows).
const WINDOWS: f32 = 0.25;
const TIME: f32 = 1.0;
const RECENCY: f32 = 2.0;
/// Of reciprocal-rank fusion.
const RANK_OFFSET: f32 = 60.0;

/// A message that may be a hit, with the evidence for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidate {
    pub(crate) seq: u64,
    /// Its best window.
    pub(crate) row: u32,
    pub(crate) windows: u32,
    /// Of its best window.
    pub(crate) cosine: f32,
    pub(crate) bm25: f32,
    pub(crate) coverage: f32,
    /// See [`strength`].
    pub(crate) strength: f32,
    /// The best strength near it, and whose that is.
    pub(crate) lent: f32,
    pub(crate) lender: Option<u64>,
    /// Logarithm of its length over the usual one of its role.
    pub(crate) length: f32,
    /// Logarithm of its role's usual length over that of the tersest role.
    pub(crate) wordiness: f32,
    pub(crate) created_at: Option<Timestamp>,
    /// The bytes of its best window, of a message that has several.
    pub(crate) passage: Option<Range<u32>>,
}

/// What cosines with the question are like over the namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Background {
    pub(crate) mean: f32,
    pub(crate) deviation: f32,
    pub(crate) rows: usize,
}

impl Background {
    /// A cosine in units of what the best of the namespace would have by chance.
    pub(crate) fn standing(&self, cosine: f32, windows: u32) -> f32 {
        let expected = |n: f32| (2.0 * n.ln()).sqrt();
        let tries = WINDOWS * expected(windows.max(1) as f32);
        let deviations = (cosine - self.mean) / self.deviation.max(1e-3);
        (deviations - tries) / expected(self.rows.max(10) as f32)
    }
}

/// Lexical evidence: `deviations` of BM25 above the mean, by the share of the question that is covered.
pub(crate) fn strength(deviations: f32, coverage: f32) -> f32 {
    deviations.max(0.0) * coverage.clamp(0.0, 1.0).sqrt()
}

/// A candidate in its place.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) seq: u64,
    pub(crate) row: u32,
    pub(crate) score: f32,
    pub(crate) similarity: f32,
    pub(crate) lender: Option<u64>,
    pub(crate) passage: Option<Range<u32>>,
    pub(crate) parts: Parts,
}

/// Scores the candidates, best first; among equals the nearer, then the older.
pub(crate) fn rank(
    candidates: &[Candidate],
    background: &Background,
    ranking: &Ranking,
    spans: &[TimeSpan],
    now: Timestamp,
) -> Vec<Ranked> {
    let dense_ranks = ranks(candidates, |candidate| candidate.cosine);
    let lexical_ranks = ranks(candidates, |candidate| candidate.bm25);
    let cosines = Extent::of(candidates.iter().map(|candidate| candidate.cosine));
    let bm25s = Extent::of(candidates.iter().map(|candidate| candidate.bm25));
    let mut ranked: Vec<Ranked> = candidates
        .iter()
        .enumerate()
        .map(|(at, candidate)| {
            let has_terms = candidate.bm25 > 0.0;
            let mut parts = Parts {
                dense_rank: dense_ranks[at],
                lexical_rank: if has_terms { lexical_ranks[at] } else { 0 },
                bm25: candidate.bm25,
                coverage: candidate.coverage,
                ..Parts::default()
            };
            let score = match ranking.strategy {
                Strategy::Hybrid => hybrid(candidate, background, ranking, spans, now, &mut parts),
                Strategy::Dense => candidate.cosine,
                Strategy::Lexical => candidate.bm25,
                Strategy::ReciprocalRank => {
                    let of = |rank: usize| 1.0 / (RANK_OFFSET + rank as f32);
                    of(parts.dense_rank) + if has_terms { of(parts.lexical_rank) } else { 0.0 }
                }
                Strategy::Weighted(share) => {
                    share * cosines.scaled(candidate.cosine) + (1.0 - share) * bm25s.scaled(candidate.bm25)
                }
            };
            let lender = candidate.lender.filter(|_| parts.neighbor > 0.0);
            let (seq, row, similarity) = (candidate.seq, candidate.row, candidate.cosine);
            Ranked { seq, row, score, similarity, lender, passage: candidate.passage.clone(), parts }
        })
        .collect();
    ranked.sort_unstable_by(|a, b| {
        b.score.total_cmp(&a.score).then(b.similarity.total_cmp(&a.similarity)).then(a.seq.cmp(&b.seq))
    });
    ranked
}

fn hybrid(
    candidate: &Candidate,
    background: &Background,
    ranking: &Ranking,
    spans: &[TimeSpan],
    now: Timestamp,
    parts: &mut Parts,
) -> f32 {
    parts.dense = DENSE * background.standing(candidate.cosine, candidate.windows);
    parts.lexical = LEXICAL * candidate.strength;
    if ranking.has_neighbors {
        parts.neighbor = NEIGHBOR * candidate.lent;
    }
    if ranking.has_prior {
        let length = candidate.length.clamp(*LENGTHS.start(), *LENGTHS.end());
        parts.length = LENGTH * length - WORDY_ROLE * candidate.wordiness;
    }
    if let Some(time) = candidate.created_at {
        if spans.iter().any(|span| time >= span.since && time < span.until) {
            parts.time = TIME;
        }
        if let Some(half_life) = ranking.half_life {
            let age_s = now.as_micros().saturating_sub(time.as_micros()).max(0) as f32 / 1e6;
            parts.recency = RECENCY * (-age_s / half_life.as_secs_f32()).exp2();
        }
    }
    parts.dense + parts.lexical + parts.neighbor + parts.length + parts.time + parts.recency
}

/// By place: the rank by a score, 1 for the highest.
fn ranks(candidates: &[Candidate], score: impl Fn(&Candidate) -> f32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let by = |a: &Candidate, b: &Candidate| -> Ordering { score(b).total_cmp(&score(a)).then(a.seq.cmp(&b.seq)) };
    order.sort_unstable_by(|&a, &b| by(&candidates[a], &candidates[b]));
    let mut ranks = vec![0; candidates.len()];
    for (rank, at) in order.into_iter().enumerate() {
        ranks[at] = rank + 1;
    }
    ranks
}

/// The least and the greatest of some numbers.
struct Extent(f32, f32);

impl Extent {
    fn of(values: impl Iterator<Item = f32>) -> Self {
        values.fold(Extent(f32::INFINITY, f32::NEG_INFINITY), |Extent(low, high), x| Extent(low.min(x), high.max(x)))
    }

    /// 0 for the least, 1 for the greatest; 0 if all are alike.
    fn scaled(&self, value: f32) -> f32 {
        let width = self.1 - self.0;
        if width > 0.0 { (value - self.0) / width } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::recall::Query;

    #[test]
    fn recency_halves_with_age() {
        let now: Timestamp = "2024-05-01T12:00:00Z".parse().unwrap();
        let check = |half_life: Duration, created_at: &str, wanted: f32| {
            let created_at = Some(created_at.parse().unwrap());
            let candidate = Candidate { windows: 1, created_at, ..Candidate::default() };
            let ranking = Query::new("q").half_life(half_life).ranking;
            let found = rank(&[candidate], &Background::default(), &ranking, &[], now)[0].clone();
            assert!((found.parts.recency - wanted).abs() < 1e-5, "{half_life:?}, {:?}", found.parts);
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
