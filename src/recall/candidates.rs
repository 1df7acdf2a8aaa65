//! Gathers the candidates for a query from both indexes, and the evidence for each.
//!
//! The vectors nominate the nearest messages; the terms nominate those with the best BM25 and their neighbors. Both
//! scores are then looked up for each of them.

use std::{collections::BinaryHeap, ops::Range};

use mnemon_index::{Bitmap, Neighbor};

use super::{
    among::Among,
    namespace::{NamespaceIndex, SessionCursor},
    prepare::PreparedQuery,
    query::RankingStrategy,
    rank::Candidate,
    statistics::{Bm25Statistics, ScoreStatistics},
    unindexed::{UnindexedMessage, UnindexedMessages},
};
use crate::lexical::Scores;

/// The result of a search of the vectors.
pub(super) struct Nearest<'a> {
    /// The nearest messages, by first row.
    pub(super) messages: &'a [Neighbor],
    /// All rows found, ascending, with their scores.
    pub(super) scored_rows: &'a [Neighbor],
    /// These are all rows of the namespace.
    pub(super) is_all: bool,
}

/// The candidates of one namespace.
pub(super) struct Gathered {
    pub(super) candidates: Vec<Candidate>,
    pub(super) statistics: ScoreStatistics,
    /// No other message of the namespace is allowed.
    pub(super) is_exhaustive: bool,
}

/// Gathers the candidates: the nearest messages and as many by terms, among the allowed rows, and the unindexed
/// messages with a term of the query.
pub(super) fn gather_candidates(
    index: &NamespaceIndex,
    unindexed: &UnindexedMessages,
    query: &PreparedQuery,
    nearest: &Nearest<'_>,
    (allowed, wanted): (Option<&Bitmap>, usize),
    among: &mut Among,
    scores: &mut Scores,
) -> Gathered {
    let terms = among.terms(index.language, query).to_vec();
    let named = Names::new(&terms);
    // Unindexed messages are scored as rows behind those of the index.
    let first_unindexed = index.rows.len() as u32;
    index.lexical.score_with(&terms, (first_unindexed, unindexed.terms()), among.collection.as_ref(), scores);
    let all = scores.touched().iter().map(|&row| scores.get(row));
    let bm25 = Bm25Statistics::new(all, index.lexical.rows() + unindexed.len(), scores.ideal());
    let count = wanted.saturating_add(query.excepted(unindexed));
    let (nominated, mut is_exhaustive) =
        nominate(index, query, nearest.messages, allowed, (wanted, count), among, scores);
    let messages: Vec<Range<u32>> = nominated.into_iter().map(|first| index.message_rows(first)).collect();
    let rows: Vec<u32> = messages.iter().cloned().flatten().collect();
    let sample = index.sample();
    let mut known = lookup(if nearest.is_all { nearest.scored_rows } else { &[] });
    let sampled = index.cosines(&query.vectors, &sample.rows, &mut known);
    // The search's are exact even if the index keeps only codes.
    let cosines = index.cosines(&query.vectors, &rows, lookup(nearest.scored_rows));
    let mut rest = &cosines[..];
    let mut cursor = SessionCursor::default();
    let mut candidates: Vec<Candidate> = messages
        .into_iter()
        .map(|rows| {
            let cosines = rest.split_off(..rows.len()).expect("each row has a cosine");
            candidate(index, query, rows, cosines, &mut cursor, (among.origin, &named, scores))
        })
        .collect();
    let mut indexed: Vec<u64> = candidates.iter().map(|candidate| candidate.seq).collect();
    indexed.sort_unstable();
    // Of a lexical query with few matches, messages without a term are candidates as well.
    let is_filled = query.ranking.strategy == RankingStrategy::Lexical && is_exhaustive;
    let new = best_unindexed(unindexed, scores, first_unindexed, is_filled);
    let new = new.filter(|&(_, message)| query.allows(message) && indexed.binary_search(&message.seq).is_err());
    let mut new: Vec<(u32, &UnindexedMessage)> = new.take(wanted.saturating_add(1)).collect();
    is_exhaustive &= new.len() <= wanted;
    new.truncate(wanted);
    let score = |document: u32| scores.get(first_unindexed + document);
    is_exhaustive &= among.by_terms.retain(&mut new, |&(document, _)| score(document), |_| true);
    candidates.extend(new.into_iter().map(|(document, message)| {
        unindexed_candidate(message, unindexed.terms().length(document), score(document), (among.origin, &named))
    }));
    Gathered { candidates, statistics: statistics(index, &sampled, bm25), is_exhaustive }
}

/// Chooses the candidates: the nearest messages, as many with the best BM25 (`wanted`, or `count` with those that are
/// excepted), and the neighbors of those. Returns their first rows, ascending, and true if no other message is allowed.
fn nominate(
    index: &NamespaceIndex,
    query: &PreparedQuery,
    nearest: &[Neighbor],
    allowed: Option<&Bitmap>,
    (wanted, count): (usize, usize),
    among: &mut Among,
    scores: &Scores,
) -> (Vec<u32>, bool) {
    let is_allowed = |row: u32| allowed.is_none_or(|allowed| allowed.contains(row));
    let may_be_hit = |row: u32| is_allowed(row) && index.is_wanted(row, &query.except);
    let score = |neighbor: &Neighbor| neighbor.score;
    let mut nearest = nearest.to_vec();
    let mut is_exhaustive = nearest.len() < wanted;
    is_exhaustive &= among.nearest.retain(&mut nearest, score, |_| true);
    let mut nominated: Vec<u32> = nearest.iter().map(|neighbor| neighbor.row).collect();
    let mut by_terms = 0;
    let mut has_all_by_terms = true;
    if allowed.is_some() {
        let mut messages = index.best_by_terms(scores, count, is_allowed);
        by_terms = messages.len();
        has_all_by_terms = among.by_terms.retain(&mut messages, score, |neighbor| may_be_hit(neighbor.row));
        nominated.extend(messages.iter().map(|neighbor| neighbor.row));
    }
    // Messages that are not allowed or not wanted boost their neighbors nevertheless.
    let mut messages = index.best_by_terms(scores, count, |row| index.live(row).is_some());
    if allowed.is_none() {
        by_terms = messages.len();
        has_all_by_terms = among.by_terms.retain(&mut messages, score, |neighbor| may_be_hit(neighbor.row));
    }
    let mut cursor = SessionCursor::default();
    for Neighbor { row, .. } in messages {
        nominated.push(row);
        if query.ranking.has_neighbors {
            nominated.extend(index.neighbors(row, &mut cursor));
        }
    }
    if query.ranking.strategy == RankingStrategy::Lexical && !query.is_late {
        // No vectors are searched. If the terms find too few messages, the newest of the others follow.
        is_exhaustive = by_terms < count && has_all_by_terms && !among.by_terms.is_filled();
        if is_exhaustive {
            let newest = index.newest_messages(wanted, may_be_hit);
            is_exhaustive = newest.len() < wanted;
            nominated.extend(newest);
        }
    }
    nominated.sort_unstable();
    nominated.dedup();
    nominated.retain(|&row| may_be_hit(row));
    (nominated, is_exhaustive)
}

/// The evidence for the message with these rows and cosines.
fn candidate<'a>(
    index: &'a NamespaceIndex,
    query: &PreparedQuery,
    rows: Range<u32>,
    cosines: &[f32],
    cursor: &mut SessionCursor<'a>,
    (origin, named, scores): (u32, &Names, &Scores),
) -> Candidate {
    let meta = index.live(rows.start).expect("nominated rows are live");
    let (nearest, cosine) = best(&rows, |row| cosines[(row - rows.start) as usize]);
    let best_bm25 = |rows: &Range<u32>| best(rows, |row| scores.get(row));
    let (with_terms, bm25) = best_bm25(&rows);
    let known = index
        .neighbors(rows.start, cursor)
        .filter(|&first| index.live(first).is_some_and(|message| query.was_known(message)));
    let neighbors = known.map(|first| (first, best_bm25(&index.message_rows(first)).1));
    let boosted_by = neighbors.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, bm25)| *bm25 > 0.0);
    // The passage of the hit is the window with the best BM25, if any window has a term of the query.
    let row = if bm25 > 0.0 { with_terms } else { nearest };
    Candidate {
        origin,
        seq: meta.seq,
        row: Some(row),
        windows: rows.len() as u32,
        // A text of one window has no passages.
        passage: if rows.len() > 1 { index.lexical.passage(row) } else { None },
        cosine,
        bm25,
        neighbor_bm25: boosted_by.map_or(0.0, |(_, bm25)| bm25),
        boosted_by: boosted_by.and_then(|(first, _)| Some(index.live(first)?.seq)),
        role: meta.role,
        is_named: named.has(index.lexical.speaker(rows.start)),
        is_question: index.lexical.is_question(rows.start),
        length: index.length(rows),
        created_at: meta.created_at,
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
    message: &UnindexedMessage,
    length: u16,
    bm25: f32,
    (origin, named): (u32, &Names),
) -> Candidate {
    Candidate {
        origin,
        seq: message.seq,
        row: None,
        windows: 1,
        cosine: 0.0,
        bm25,
        neighbor_bm25: 0.0,
        boosted_by: None,
        role: message.role,
        is_named: named.has(&message.voice.speaker),
        is_question: message.voice.is_question,
        length: f32::from(length.max(1)).ln(),
        created_at: message.created_at,
        passage: None,
    }
}

/// The terms of a query, each of which may name a speaker.
struct Names(Vec<u64>);

impl Names {
    fn new(terms: &[u64]) -> Self {
        let mut terms = terms.to_vec();
        terms.sort_unstable();
        Names(terms)
    }

    /// Returns true if the query has one of the terms of a speaker's name.
    fn has(&self, speaker: &[u64]) -> bool {
        speaker.iter().any(|term| self.0.binary_search(term).is_ok())
    }
}

/// The statistics of the namespace, with the mean and the deviation of the query's cosines with the sample of it.
fn statistics(index: &NamespaceIndex, cosines: &[f32], bm25: Bm25Statistics) -> ScoreStatistics {
    let count = cosines.len().max(1) as f32;
    let mean = cosines.iter().sum::<f32>() / count;
    let variance = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>() / count;
    let (deviation, rows, lengths) = (variance.sqrt(), index.lexical.rows(), index.sample().lengths.clone());
    ScoreStatistics { mean, deviation, rows, bm25, lengths }
}

/// Returns a function that finds the scores of rows. The scored rows ascend, and so do those that are looked up.
fn lookup(mut scored: &[Neighbor]) -> impl FnMut(u32) -> Option<f32> {
    move |row| {
        while let [first, rest @ ..] = scored
            && first.row < row
        {
            scored = rest;
        }
        scored.first().filter(|first| first.row == row).map(|first| first.score)
    }
}

/// The row with the highest score; of equal scores the last.
fn best(rows: &Range<u32>, score: impl Fn(u32) -> f32) -> (u32, f32) {
    let mut best = (rows.start, score(rows.start));
    for row in rows.start + 1..rows.end {
        let score = score(row);
        if score.total_cmp(&best.1).is_ge() {
            best = (row, score);
        }
    }
    best
}
