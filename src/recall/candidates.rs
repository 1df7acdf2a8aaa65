//! Gathers the candidates for a query from both indexes of a namespace, and the evidence for each.
//!
//! The vectors nominate the nearest messages; the terms nominate those with the best BM25 and their neighbors. Both
//! scores are then looked up for each of them. Where several namespaces are searched, a [`SearchContext`] goes from one
//! to the next: what is worse than the best so far is not gathered.

use std::{collections::BinaryHeap, ops::Range};

use mnemon_index::{Bitmap, Neighbor};

use super::{
    namespace::{NamespaceIndex, SessionCursor},
    options::RankingStrategy,
    pieces::{self, Piece, PieceKind},
    prepare::PreparedQuery,
    rank::{Candidate, PieceEvidence},
    score_buffers::ScoreBuffers,
    statistics::{Bm25Statistics, PieceStatistics, ScoreStatistics, mean_and_deviation},
    unindexed::{UnindexedMessage, UnindexedMessages},
};
use crate::lexical::{Analyzer, Collection, Language, Scores};

/// The most pieces of a query that are scored in one namespace.
const MAX_SCORED: usize = 3;
/// How many times fewer messages than the most important piece of a query each other piece nominates.
const OTHER_PIECES: usize = 10;

/// The number of messages that a piece of a query nominates; the most important one is the first.
pub(super) fn share_of_piece(at: usize, count: usize) -> usize {
    if at == 0 { count } else { count.div_ceil(OTHER_PIECES) }
}

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
    /// How rare each term of the query is.
    pub(super) word_rarity: Vec<(u64, f32)>,
    /// No other message of the namespace is allowed.
    pub(super) is_exhaustive: bool,
}

/// The state that the searches for one query share over all its namespaces. The default is for one namespace alone.
#[derive(Default)]
pub(super) struct SearchContext {
    /// The position of the namespace that is searched.
    pub(super) origin: u32,
    /// The documents of all namespaces; `None` for one alone.
    collection: Option<Collection>,
    /// The thresholds of the nearest messages, and of those with the best BM25.
    nearest: Threshold,
    by_terms: Threshold,
    /// The terms of the query and of each of its pieces, in each language.
    terms: Vec<(Language, QueryTerms)>,
}

/// The terms of a query.
#[derive(Clone, Default)]
pub(super) struct QueryTerms {
    pub(super) whole: Vec<u64>,
    pieces: Vec<Vec<u64>>,
}

/// The least score that a message must have to be one of the `count` best of the namespaces that were searched so far.
#[derive(Default)]
struct Threshold {
    /// `None`: any score will do.
    count: Option<usize>,
    /// The best scores, in no order.
    best: Vec<f32>,
    least: Option<f32>,
}

impl SearchContext {
    /// The context of several namespaces, with the documents of all.
    pub(super) fn of(collection: Collection) -> Self {
        SearchContext { collection: Some(collection), ..SearchContext::default() }
    }

    /// Begins to search several namespaces, for the `count` nearest messages and as many by terms.
    pub(super) fn begin(&mut self, count: usize) {
        let threshold = || Threshold { count: Some(count), ..Threshold::default() };
        (self.nearest, self.by_terms) = (threshold(), threshold());
    }

    /// The terms of a query in a language; none if it is ranked by vectors alone.
    pub(super) fn terms(&mut self, language: Language, query: &PreparedQuery) -> &QueryTerms {
        let known = self.terms.iter().position(|(other, _)| *other == language);
        let at = known.unwrap_or_else(|| {
            let mut found = QueryTerms::default();
            if query.strategy != RankingStrategy::Dense {
                let terms = |text: &str| {
                    let mut terms = Vec::new();
                    Analyzer::of(language).query_terms(text, &mut terms);
                    terms
                };
                let text = &query.query.text;
                found.whole = terms(text);
                found.pieces = query.pieces.iter().map(|piece| terms(&text[piece.piece.range.clone()])).collect();
            }
            self.terms.push((language, found));
            self.terms.len() - 1
        });
        &self.terms[at].1
    }
}

impl Threshold {
    /// Drops what is below the threshold, which rises by the scores of the others that may be hits. Returns true if
    /// nothing was dropped.
    fn retain<T>(&mut self, found: &mut Vec<T>, score: impl Fn(&T) -> f32, may_be_hit: impl Fn(&T) -> bool) -> bool {
        let Some(count) = self.count else { return true };
        let before = found.len();
        if let Some(least) = self.least {
            found.retain(|found| score(found) >= least);
        }
        self.best.extend(found.iter().filter(|found| may_be_hit(found)).map(score));
        if self.best.len() >= count {
            self.best.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
            self.best.truncate(count);
            self.least = self.best.last().copied();
        }
        found.len() == before
    }

    /// Returns true if there are as many messages as are searched for.
    fn is_filled(&self) -> bool {
        self.least.is_some()
    }
}

/// The pieces of a query that are scored in a namespace.
#[derive(Default)]
pub(super) struct ScoredPieces {
    /// Their positions, the most important first.
    pub(super) scored: Vec<usize>,
    /// The statistics of each piece by which these were chosen.
    bm25: Vec<Bm25Statistics>,
}

impl ScoredPieces {
    /// Chooses the pieces by their words. Among several namespaces they are all, as weights depend on all of these.
    pub(super) fn new(
        index: &NamespaceIndex,
        unindexed: &UnindexedMessages,
        query: &PreparedQuery,
        context: &mut SearchContext,
        scores: &mut Scores,
    ) -> Self {
        let of_pieces = context.terms(index.language, query).pieces.clone();
        if context.collection.is_some() {
            let bm25 = vec![Bm25Statistics::default(); of_pieces.len()];
            return ScoredPieces { scored: (0..bm25.len()).collect(), bm25 };
        }
        let pieces: Vec<_> = query.pieces.iter().map(|piece| piece.piece.clone()).collect();
        // What joined pieces say is not read.
        let of_piece = |(piece, terms): (&Piece, &Vec<u64>)| match piece.kind {
            PieceKind::Joined { .. } => Bm25Statistics::default(),
            _ => self::bm25(index, unindexed, terms, context, scores),
        };
        let bm25: Vec<Bm25Statistics> = pieces.iter().zip(&of_pieces).map(of_piece).collect();
        let information: Vec<f32> = bm25.iter().map(Bm25Statistics::information).collect();
        let weights = pieces::weights(&pieces, &information);
        let mut scored: Vec<usize> = (0..bm25.len()).filter(|&at| weights[at] > 0.0).collect();
        scored.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
        scored.truncate(MAX_SCORED);
        ScoredPieces { scored, bm25 }
    }
}

/// Scores the messages of a namespace by terms, the unindexed ones as rows behind those of the index.
fn bm25(
    index: &NamespaceIndex,
    unindexed: &UnindexedMessages,
    terms: &[u64],
    context: &SearchContext,
    scores: &mut Scores,
) -> Bm25Statistics {
    let more = (index.rows.len() as u32, unindexed.terms());
    index.lexical.score_with(terms, more, context.collection.as_ref(), scores);
    let all = scores.touched().iter().map(|&row| scores.get(row));
    Bm25Statistics::new(all, index.lexical.rows() + unindexed.len(), scores.ideal())
}

/// One pass over a namespace for the candidates of a query.
pub(super) struct Gathering<'a> {
    pub(super) index: &'a NamespaceIndex,
    pub(super) unindexed: &'a UnindexedMessages<'a>,
    pub(super) query: &'a PreparedQuery<'a>,
    pub(super) pieces: ScoredPieces,
    /// The rows that the query's filter allows; `None` for all.
    pub(super) allowed: Option<&'a Bitmap>,
    /// The number of messages to find by vectors, by terms, and among the unindexed ones.
    pub(super) wanted: usize,
    /// Those of the pieces of the query.
    pub(super) buffers: &'a ScoreBuffers,
}

impl Gathering<'_> {
    /// Gathers the candidates: the nearest messages and as many by terms, among the allowed rows, and the unindexed
    /// messages with a term of the query.
    pub(super) fn candidates(&self, nearest: &Nearest, context: &mut SearchContext, scores: &mut Scores) -> Gathered {
        let Gathering { index, unindexed, query, wanted, .. } = *self;
        let QueryTerms { whole: terms, pieces: of_pieces } = context.terms(index.language, query).clone();
        // Unindexed messages are scored as rows behind those of the index.
        let first_unindexed = index.rows.len() as u32;
        let score_terms = |terms: &[u64], context: &SearchContext, scores: &mut Scores| {
            bm25(index, unindexed, terms, context, scores)
        };
        let ScoredPieces { scored, bm25: pieces_bm25 } = &self.pieces;
        let mut pieces = vec![PieceStatistics::default(); query.pieces.len()];
        for (piece, bm25) in pieces.iter_mut().zip(pieces_bm25) {
            piece.bm25 = bm25.clone();
        }
        let mut pieces_scores: Vec<Scores> = Vec::new();
        for &at in scored {
            let mut of_piece = self.buffers.take();
            pieces[at].bm25 = score_terms(&of_pieces[at], &*context, &mut of_piece);
            pieces_scores.push(of_piece);
        }
        let of_whole = score_terms(&terms, &*context, &mut *scores);
        let word_rarity = scores.weights().to_vec();
        let (nominated, mut is_exhaustive) = self.nominate(nearest.messages, context, scores, &pieces_scores);
        let messages: Vec<Range<u32>> = nominated.into_iter().map(|first| index.message_rows(first)).collect();
        let rows: Vec<u32> = messages.iter().cloned().flatten().collect();
        let sample = index.sample();
        // Of a query of several pieces, the cosines are those of the pieces.
        let (sampled, cosines) = match query.pieces.is_empty() {
            true => {
                let mut known = lookup(if nearest.is_all { nearest.scored_rows } else { &[] });
                let sampled = index.cosines(&query.vectors, &sample.rows, &mut known);
                (sampled, index.cosines(&query.vectors, &rows, lookup(nearest.scored_rows)))
            }
            false => (Vec::new(), vec![0.0; rows.len()]),
        };
        let evidence = Evidence { index, query, scores, names: Names::new(&terms), origin: context.origin };
        let score = |document: u32| scores.get(first_unindexed + document);
        let of_unindexed = |document: u32| {
            let (message, length) = (unindexed.message(document), unindexed.terms().length(document));
            let found = evidence.of_unindexed(message, length, score(document));
            let in_piece = |scores: &Scores| PieceEvidence {
                bm25: scores.get(first_unindexed + document),
                ..PieceEvidence::default()
            };
            Candidate { pieces: pieces_scores.iter().map(in_piece).collect(), ..found }
        };
        let mut pieces_cosines: Vec<Vec<f32>> = Vec::new();
        for &at in scored {
            let vectors = &query.pieces[at].vectors;
            let of_sample = index.cosines(vectors, &sample.rows, |_| None);
            (pieces[at].mean, pieces[at].deviation) = mean_and_deviation(&of_sample);
            pieces_cosines.push(index.cosines(vectors, &rows, |_| None));
        }
        let mut candidates: Vec<Candidate> = Vec::with_capacity(messages.len());
        let (mut end, mut cursor, mut neighbors) = (0, SessionCursor::default(), Vec::new());
        for rows in &messages {
            let at = end..end + rows.len();
            end = at.end;
            neighbors.clear();
            neighbors.extend(evidence.neighbors(rows.start, &mut cursor));
            let found = Found { rows, neighbors: &neighbors };
            let mut candidate = evidence.of_rows(&found, &cosines[at.clone()]);
            for (scores, cosines) in pieces_scores.iter().zip(&pieces_cosines) {
                let in_piece = evidence.in_rows(&found, scores, &cosines[at.clone()]);
                let is_first = candidate.pieces.is_empty();
                candidate.cosine = if is_first { in_piece.cosine } else { candidate.cosine.max(in_piece.cosine) };
                candidate.pieces.push(in_piece);
            }
            candidates.push(candidate);
        }
        // As of a time at which a message was another one, its words are those of then.
        for found in &mut candidates {
            if let Some(document) = unindexed.document(found.seq) {
                let then = of_unindexed(document);
                let with_words_of = |now: &PieceEvidence, then: PieceEvidence| PieceEvidence {
                    bm25: then.bm25,
                    passage: None,
                    ..now.clone()
                };
                let pieces = found.pieces.iter().zip(then.pieces).map(|(now, then)| with_words_of(now, then)).collect();
                let Candidate { row, chunks, cosine, neighbor_bm25, boosted_by, .. } = *found;
                *found = Candidate { row, chunks, cosine, neighbor_bm25, boosted_by, pieces, ..then };
            }
        }
        let mut indexed: Vec<u64> = candidates.iter().map(|candidate| candidate.seq).collect();
        indexed.sort_unstable();
        // Of a lexical query with few matches, messages without a term are candidates as well.
        let is_filled = query.strategy == RankingStrategy::Lexical && is_exhaustive;
        let new = best_unindexed(unindexed, scores, first_unindexed, is_filled);
        let new = new.filter(|&(_, message)| query.allows(message) && indexed.binary_search(&message.seq).is_err());
        let mut new: Vec<(u32, &UnindexedMessage)> = new.take(wanted.saturating_add(1)).collect();
        is_exhaustive &= new.len() <= wanted;
        new.truncate(wanted);
        is_exhaustive &= context.by_terms.retain(&mut new, |&(document, _)| score(document), |_| true);
        candidates.extend(new.into_iter().map(|(document, _)| of_unindexed(document)));
        let (mean, deviation) = mean_and_deviation(&sampled);
        let (rows, lengths) = (index.lexical.rows(), sample.lengths.clone());
        let statistics =
            ScoreStatistics { mean, deviation, rows, bm25: of_whole, lengths, pieces, scored: scored.clone() };
        self.buffers.put_back(pieces_scores);
        Gathered { candidates, statistics, word_rarity, is_exhaustive }
    }

    /// Chooses the candidates: the nearest messages, as many with the best BM25, and the neighbors of those. Returns
    /// their first rows, ascending, and true if no other message is allowed.
    fn nominate(
        &self,
        nearest: &[Neighbor],
        context: &mut SearchContext,
        scores: &Scores,
        pieces: &[Scores],
    ) -> (Vec<u32>, bool) {
        let Gathering { index, query, allowed, wanted, .. } = *self;
        // The terms may find messages that are excepted.
        let count = wanted.saturating_add(query.excepted(self.unindexed));
        let is_allowed = |row: u32| allowed.is_none_or(|allowed| allowed.contains(row));
        let may_be_hit = |row: u32| is_allowed(row) && index.is_wanted(row, &query.except);
        let score = |neighbor: &Neighbor| neighbor.score;
        let mut nearest = nearest.to_vec();
        let mut is_exhaustive = nearest.len() < wanted;
        is_exhaustive &= context.nearest.retain(&mut nearest, score, |_| true);
        let mut nominated: Vec<u32> = nearest.iter().map(|neighbor| neighbor.row).collect();
        let mut by_terms = 0;
        let mut has_all_by_terms = true;
        if allowed.is_some() {
            for (at, scores) in pieces.iter().enumerate() {
                let messages = index.best_by_terms(scores, share_of_piece(at, count), is_allowed);
                nominated.extend(messages.iter().map(|neighbor| neighbor.row));
            }
            let mut messages = index.best_by_terms(scores, count, is_allowed);
            by_terms = messages.len();
            has_all_by_terms = context.by_terms.retain(&mut messages, score, |neighbor| may_be_hit(neighbor.row));
            nominated.extend(messages.iter().map(|neighbor| neighbor.row));
        }
        // Messages that are not allowed or not wanted boost their neighbors nevertheless.
        let mut messages = index.best_by_terms(scores, count, |row| index.live(row).is_some());
        if allowed.is_none() {
            by_terms = messages.len();
            has_all_by_terms = context.by_terms.retain(&mut messages, score, |neighbor| may_be_hit(neighbor.row));
        }
        for (at, scores) in pieces.iter().enumerate() {
            messages.extend(index.best_by_terms(scores, share_of_piece(at, count), |row| index.live(row).is_some()));
        }
        messages.sort_unstable_by_key(|neighbor| neighbor.row);
        messages.dedup_by_key(|neighbor| neighbor.row);
        let mut cursor = SessionCursor::default();
        for Neighbor { row, .. } in messages {
            nominated.push(row);
            if query.query.options.neighbors {
                nominated.extend(index.neighbors(row, &mut cursor));
            }
        }
        if query.strategy == RankingStrategy::Lexical {
            // No vectors are searched. If the terms find too few messages, the newest of the others follow, unless vectors were
            // wanted: those are no evidence.
            is_exhaustive = by_terms < count && has_all_by_terms && !context.by_terms.is_filled();
            if is_exhaustive && query.not_embedded.is_none() {
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
}

/// The rows of a message that is a candidate, and those of each of its neighbors.
struct Found<'a> {
    rows: &'a Range<u32>,
    neighbors: &'a [Range<u32>],
}

/// The sources of the evidence for the candidates of one namespace.
struct Evidence<'a> {
    index: &'a NamespaceIndex,
    query: &'a PreparedQuery<'a>,
    scores: &'a Scores,
    names: Names,
    origin: u32,
}

impl<'a> Evidence<'a> {
    /// The rows of each neighbor of a message.
    fn neighbors(&self, first: u32, cursor: &mut SessionCursor<'a>) -> impl Iterator<Item = Range<u32>> {
        let Evidence { index, query, .. } = *self;
        let known = move |first: &u32| index.live(*first).is_some_and(|message| query.was_known(message));
        index.neighbors(first, cursor).filter(known).map(move |first| index.message_rows(first))
    }

    /// The evidence for a message of what has these scores and cosines.
    fn in_rows(&self, found: &Found, scores: &Scores, cosines: &[f32]) -> PieceEvidence {
        let (index, Found { rows, neighbors }) = (self.index, found);
        let (nearest, cosine) = best(rows, |row| cosines[(row - rows.start) as usize]);
        let best_bm25 = |rows: &Range<u32>| best(rows, |row| scores.get(row));
        let (with_terms, bm25) = best_bm25(rows);
        let neighbors = neighbors.iter().map(|rows| (rows.start, best_bm25(rows).1));
        let boosted_by = neighbors.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, bm25)| *bm25 > 0.0);
        // The passage of the hit is the chunk with the best BM25, if any chunk has a term of the query.
        let row = if bm25 > 0.0 { with_terms } else { nearest };
        PieceEvidence {
            row: Some(row),
            // A text of one chunk has no passages.
            passage: if rows.len() > 1 { index.lexical.passage(row) } else { None },
            cosine,
            bm25,
            neighbor_bm25: boosted_by.map_or(0.0, |(_, bm25)| bm25),
            boosted_by: boosted_by.and_then(|(first, _)| Some(index.live(first)?.seq)),
        }
    }

    fn of_rows(&self, found: &Found, cosines: &[f32]) -> Candidate {
        let Evidence { index, ref names, origin, .. } = *self;
        let rows = found.rows;
        let meta = index.live(rows.start).expect("nominated rows are live");
        let PieceEvidence { row, cosine, bm25, neighbor_bm25, boosted_by, passage } =
            self.in_rows(found, self.scores, cosines);
        Candidate {
            origin,
            seq: meta.seq,
            row,
            chunks: rows.len() as u32,
            passage,
            cosine,
            bm25,
            neighbor_bm25,
            boosted_by,
            role: meta.role,
            is_named: names.has(index.lexical.speaker(rows.start)),
            is_question: index.lexical.is_question(rows.start),
            length: index.length(rows.clone()),
            created_at: meta.created_at,
            pieces: Vec::new(),
        }
    }

    /// The evidence for a message that is not embedded: its words, its length and its time.
    fn of_unindexed(&self, message: &UnindexedMessage, length: u16, bm25: f32) -> Candidate {
        Candidate {
            origin: self.origin,
            seq: message.seq,
            row: None,
            chunks: 1,
            cosine: 0.0,
            bm25,
            neighbor_bm25: 0.0,
            boosted_by: None,
            role: message.role,
            is_named: self.names.has(&message.speech.speaker),
            is_question: message.speech.is_question,
            length: f32::from(length.max(1)).ln(),
            created_at: message.created_at,
            passage: None,
            pieces: Vec::new(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_best_so_far_is_dropped() {
        let mut threshold = Threshold { count: Some(3), ..Threshold::default() };
        let mut retain = |scores: &[f32]| {
            let mut found = scores.to_vec();
            (threshold.retain(&mut found, |score| *score, |score| *score != 9.0), found)
        };
        assert_eq!(retain(&[1.0, 9.0, -2.0]), (true, vec![1.0, 9.0, -2.0]));
        assert_eq!(retain(&[0.5]), (true, vec![0.5]), "9 is no hit, so -2 is the third");
        assert_eq!(retain(&[-2.0, -3.0, 0.7]), (false, vec![-2.0, 0.7]), "as good as the third");
        assert_eq!(retain(&[0.4, 0.5]), (false, vec![0.5]));
        assert!(Threshold::default().retain(&mut vec![1.0], |score| *score, |_| true));
    }
}
