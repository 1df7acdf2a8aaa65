//! Gathers the candidates for a query from both indexes, and the evidence for each.
//!
//! The vectors nominate the nearest messages; the terms nominate those with the best BM25 and their neighbors. Both
//! scores are then looked up for each of them.

use std::{
    collections::{BinaryHeap, HashSet},
    ops::Range,
};

use super::{
    namespace::NamespaceIndex,
    prepare::PreparedQuery,
    query::RankingStrategy,
    rank::{Candidate, Ranked, ScoreStatistics, rank, strength},
    unindexed::{UnindexedMessage, UnindexedMessages},
};
use crate::{
    index::{Bitmap, Neighbor},
    lexical::{Analyzer, Scores},
};

/// The result of a search of the vectors.
pub(super) struct Nearest<'a> {
    /// The nearest messages, by first row.
    pub(super) messages: &'a [Neighbor],
    /// All rows found, ascending, with their scores.
    pub(super) scored_rows: &'a [Neighbor],
}

/// Ranks all candidates: the nearest messages and as many by terms, among the allowed rows, and the unindexed messages
/// with a term of the query. The last value returned is true if no other message is allowed.
pub(super) fn rank_candidates(
    index: &NamespaceIndex,
    unindexed: &UnindexedMessages,
    query: &PreparedQuery,
    nearest: &Nearest<'_>,
    allowed: Option<&Bitmap>,
    wanted: usize,
    scores: &mut Scores,
) -> (Vec<Ranked>, ScoreStatistics, bool) {
    let mut terms = Vec::new();
    if query.ranking.strategy != RankingStrategy::Dense {
        Analyzer::of(index.language).terms(&query.query.text, &mut terms);
    }
    // Unindexed messages are scored as rows behind those of the index.
    let first_unindexed = index.rows.len() as u32;
    index.lexical.score_with(&terms, (first_unindexed, unindexed.terms()), scores);
    let lexical = LexicalEvidence::new(scores, index.lexical.rows() + unindexed.len());
    let count = wanted.saturating_add(query.excepted(unindexed));
    let (nominated, mut is_exhaustive) = nominate(index, query, nearest.messages, allowed, (wanted, count), scores);
    let messages: Vec<Range<u32>> = nominated.into_iter().map(|first| index.message_rows(first)).collect();
    let rows: Vec<u32> = messages.iter().cloned().flatten().collect();
    let cosines = index.cosines(&query.vectors, &rows, nearest.scored_rows);
    let statistics = statistics(index, &query.vectors);
    let mut rest = &cosines[..];
    let mut candidates: Vec<Candidate> = messages
        .into_iter()
        .map(|rows| {
            let cosines = rest.split_off(..rows.len()).expect("each row has a cosine");
            candidate(index, rows, cosines, &lexical)
        })
        .collect();
    let indexed: HashSet<u64> = candidates.iter().map(|candidate| candidate.seq).collect();
    // Of a lexical query with few matches, messages without a term are candidates as well.
    let is_filled = query.ranking.strategy == RankingStrategy::Lexical && is_exhaustive;
    let new = best_unindexed(unindexed, scores, first_unindexed, is_filled);
    let new = new.filter(|&(_, message)| query.allows(message) && !indexed.contains(&message.seq));
    let mut new: Vec<(u32, &UnindexedMessage)> = new.take(wanted.saturating_add(1)).collect();
    is_exhaustive &= new.len() <= wanted;
    new.truncate(wanted);
    candidates.extend(new.into_iter().map(|(document, message)| {
        let length = unindexed.terms().length(document);
        unindexed_candidate(index, message, length, scores.get(first_unindexed + document), &lexical)
    }));
    (rank(&candidates, &statistics, &query.ranking, &query.spans, query.now), statistics, is_exhaustive)
}

/// Chooses the candidates: the nearest messages, as many with the best BM25 (`wanted`, or `count` with those that are
/// excepted), and the neighbors of those. Returns their first rows, ascending, and true if no other message is allowed.
fn nominate(
    index: &NamespaceIndex,
    query: &PreparedQuery,
    nearest: &[Neighbor],
    allowed: Option<&Bitmap>,
    (wanted, count): (usize, usize),
    scores: &Scores,
) -> (Vec<u32>, bool) {
    let is_allowed = |row: u32| allowed.is_none_or(|allowed| allowed.contains(row));
    let mut nominated: Vec<u32> = nearest.iter().map(|neighbor| neighbor.row).collect();
    let mut by_terms = 0;
    if allowed.is_some() {
        let messages = index.best_by_terms(scores, count, is_allowed);
        by_terms = messages.len();
        nominated.extend(messages.iter().map(|neighbor| neighbor.row));
    }
    // Messages that are not allowed or not wanted boost their neighbors nevertheless.
    let messages = index.best_by_terms(scores, count, |row| index.live(row).is_some());
    if allowed.is_none() {
        by_terms = messages.len();
    }
    for Neighbor { row, .. } in messages {
        nominated.push(row);
        if query.ranking.has_neighbors {
            nominated.extend(index.neighbors(row));
        }
    }
    let mut is_exhaustive = nearest.len() < wanted;
    if query.ranking.strategy == RankingStrategy::Lexical && !query.is_late {
        // No vectors are searched. If the terms find too few messages, the newest of the others follow.
        is_exhaustive = by_terms < count;
        if is_exhaustive {
            let newest = index.newest_messages(wanted, |row| is_allowed(row) && index.is_wanted(row, &query.except));
            is_exhaustive = newest.len() < wanted;
            nominated.extend(newest);
        }
    }
    nominated.sort_unstable();
    nominated.dedup();
    nominated.retain(|&row| is_allowed(row) && index.is_wanted(row, &query.except));
    (nominated, is_exhaustive)
}

/// The evidence for the message with these rows and cosines.
fn candidate(index: &NamespaceIndex, rows: Range<u32>, cosines: &[f32], lexical: &LexicalEvidence) -> Candidate {
    let lengths = &index.sample().lengths;
    let meta = index.live(rows.start).expect("nominated rows are live");
    let (nearest, cosine) = best(rows.clone().zip(cosines.iter().copied()));
    let (with_terms, bm25) = lexical.best_row(rows.clone());
    let neighbors = index.neighbors(rows.start).map(|first| (first, lexical.best_row(index.message_rows(first)).1));
    let boosted_by = neighbors.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, bm25)| *bm25 > 0.0);
    // The passage of the hit is the window with the best BM25, if any window has a term of the query.
    let row = if bm25 > 0.0 { with_terms } else { nearest };
    Candidate {
        seq: meta.seq,
        row: Some(row),
        windows: rows.len() as u32,
        cosine,
        bm25,
        coverage: lexical.coverage(bm25),
        strength: lexical.strength(bm25),
        neighbor_strength: boosted_by.map_or(0.0, |(_, bm25)| lexical.strength(bm25)),
        boosted_by: boosted_by.and_then(|(first, _)| Some(index.live(first)?.seq)),
        length: index.length(rows) - lengths.of_role(meta.role),
        wordiness: lengths.of_role(meta.role) - lengths.tersest,
        created_at: meta.created_at,
        passage: index.lexical.passage(row),
    }
}

/// Returns the unindexed messages with a term of the query and their documents, the best BM25 first; of equal ones the
/// newest. The newest of the others follow if `is_filled`.
fn best_unindexed<'a>(
    unindexed: &'a UnindexedMessages,
    scores: &'a Scores,
    first: u32,
    is_filled: bool,
) -> impl Iterator<Item = (u32, &'a UnindexedMessage)> {
    let touched = scores.touched().iter().filter_map(move |row| row.checked_sub(first));
    // Scores are above 0, so their bits have their order.
    let mut by_score: BinaryHeap<(u32, u64, u32)> = touched
        .map(|document| (scores.get(first + document).to_bits(), unindexed.message(document).seq, document))
        .collect();
    let best = std::iter::from_fn(move || by_score.pop()).map(|(_, _, document)| document);
    let others = unindexed.newest().filter(move |document| is_filled && scores.get(first + document) == 0.0);
    best.chain(others).map(|document| (document, unindexed.message(document)))
}

/// The evidence for a message that is not embedded: its words, its length and its time.
fn unindexed_candidate(
    index: &NamespaceIndex,
    message: &UnindexedMessage,
    length: u16,
    bm25: f32,
    lexical: &LexicalEvidence,
) -> Candidate {
    let lengths = &index.sample().lengths;
    Candidate {
        seq: message.seq,
        windows: 1,
        bm25,
        coverage: lexical.coverage(bm25),
        strength: lexical.strength(bm25),
        length: f32::from(length.max(1)).ln() - lengths.of_role(message.role),
        wordiness: lengths.of_role(message.role) - lengths.tersest,
        created_at: message.created_at,
        ..Candidate::default()
    }
}

/// The mean and the deviation of the query's cosines with a sample of the namespace.
fn statistics(index: &NamespaceIndex, vectors: &[Vec<f32>]) -> ScoreStatistics {
    let cosines = index.cosines(vectors, &index.sample().rows, &[]);
    let count = cosines.len().max(1) as f32;
    let mean = cosines.iter().sum::<f32>() / count;
    let variance = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>() / count;
    ScoreStatistics { mean, deviation: variance.sqrt(), rows: index.lexical.rows() }
}

/// The row with the highest score; of equal scores the last.
fn best(rows: impl Iterator<Item = (u32, f32)>) -> (u32, f32) {
    rows.max_by(|(_, a), (_, b)| a.total_cmp(b)).expect("a message has a row")
}

/// The BM25 scores of a query, with their mean and deviation over all rows of the namespace.
struct LexicalEvidence<'a> {
    scores: &'a Scores,
    mean: f32,
    deviation: f32,
}

impl<'a> LexicalEvidence<'a> {
    fn new(scores: &'a Scores, rows: usize) -> Self {
        let (sum, squares) = scores.touched().iter().fold((0.0, 0.0), |(sum, squares), &row| {
            let score = f64::from(scores.get(row));
            (sum + score, squares + score * score)
        });
        let count = rows.max(1) as f64;
        let mean = sum / count;
        let deviation = (squares / count - mean * mean).max(0.0).sqrt();
        LexicalEvidence { scores, mean: mean as f32, deviation: deviation as f32 }
    }

    fn best_row(&self, rows: Range<u32>) -> (u32, f32) {
        best(rows.map(|row| (row, self.scores.get(row))))
    }

    /// The share of the query's terms that a row with this score has.
    fn coverage(&self, bm25: f32) -> f32 {
        let ideal = self.scores.ideal();
        if ideal > 0.0 { (bm25 / ideal).min(1.0) } else { 0.0 }
    }

    fn strength(&self, bm25: f32) -> f32 {
        match bm25 > 0.0 {
            true => strength((bm25 - self.mean) / self.deviation.max(1e-6), self.coverage(bm25)),
            false => 0.0,
        }
    }
}
