//! Searching a loaded namespace: candidates out of both indexes, and the evidence for each.
//!
//! The vectors nominate the nearest messages, the terms those with the most of the question, and these their neighbours. Of
//! all of them both scores are then looked up. The sample that says what cosines and lengths are like in the namespace is the
//! same rows for every question.

use std::{collections::HashSet, ops::Range, time::Instant};

use parking_lot::RwLockReadGuard;

use super::spaces::{Loaded, Searched, Space, Spaces};
use crate::{
    embed,
    error::Result,
    ids::NamespaceId,
    index::{Bitmap, Found, Neighbor, Search, dot},
    lexical::{Analyzer, Language, Scores},
    message::{Role, Timestamp},
    recall::{self, Background, Candidate, Filter, Ranked, Ranking, Strategy, TimeSpan},
    store::RowMeta,
};

/// Searches that a row given meanwhile may spoil, before one that writers wait for.
pub(super) const TRIES: u32 = 3;
/// Rows that say what a namespace is like.
const SAMPLE: usize = 512;
/// A role has a usual length if it has one in so many messages, at least.
const ROLE_SHARE: usize = 20;
/// Turns on each side that lend.
const REACH: usize = 2;

/// A question as indexes take it.
pub(super) struct Asked<'a> {
    pub(super) text: &'a str,
    /// One a window.
    pub(super) vectors: &'a [Vec<f32>],
    pub(super) filter: &'a Filter,
    /// The number of the filter's session.
    pub(super) session: Option<u32>,
    /// Messages that are not wanted: few, so they are left out of what is found, and no row is asked whether it is of one.
    pub(super) except: &'a HashSet<u64>,
    pub(super) ranking: &'a Ranking,
    pub(super) spans: &'a [TimeSpan],
    pub(super) now: Timestamp,
    pub(super) deadline: Option<Instant>,
    /// By scoring every row.
    pub(super) exactly: bool,
}

/// What a search found.
pub(super) struct Outcome {
    /// Best first: as many messages as were wanted, and more.
    pub(super) ranked: Vec<Ranked>,
    /// The vectors of the first of them.
    pub(super) vectors: Vec<Vec<f32>>,
    pub(super) answerability: f32,
    pub(super) language: Language,
    pub(super) cut_short: bool,
    /// Whether no other message is allowed.
    pub(super) is_all: bool,
}

impl Spaces {
    /// A question's vectors, one a window.
    pub(super) fn query(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<Vec<f32>>> {
        let windows = embed::windows(&*self.embedder, text)?;
        windows.into_iter().map(|window| embed::query_before(&*self.embedder, window, deadline)).collect()
    }

    /// At least `want` messages that are allowed, if there are so many, ranked; with the vectors of the first `vectors`.
    pub(super) fn search(&self, namespace: NamespaceId, asked: &Asked, want: usize, vectors: usize) -> Result<Outcome> {
        let mut scores = self.scratch.lock().pop().unwrap_or_default();
        let found =
            self.loaded(namespace, |space| self.search_loaded(namespace, space, asked, want, vectors, &mut scores));
        scores.clear();
        self.scratch.lock().push(scores);
        found
    }

    fn search_loaded(
        &self,
        namespace: NamespaceId,
        space: &Space,
        asked: &Asked,
        want: usize,
        vectors: usize,
        scores: &mut Scores,
    ) -> Outcome {
        let mut state = space.state.read();
        let mut tries = 0;
        'again: loop {
            let loaded = state.loaded().expect("just loaded");
            let allowed = loaded.allowed(asked.filter, asked.session);
            let (index, given_again) = (loaded.index.clone(), loaded.given_again);
            let ef = match &index {
                Searched::Graph(graph) => graph.sampling.ef(),
                Searched::Plain(_) => self.config.ef_search,
            };
            // Long messages have several rows: ask for more until there are enough messages.
            let mut rows = want.saturating_add(asked.except.len());
            loop {
                let search = || -> Vec<Found> {
                    let search = Search::new(rows).ef(ef).allowed(allowed.as_ref()).deadline(asked.deadline);
                    let exactly =
                        |vector: &[f32]| Found { neighbors: index.search_exactly(vector, rows), cut_short: false };
                    let one = |vector: &Vec<f32>| match asked.exactly {
                        true => exactly(vector),
                        false => index.index().search(vector, &search),
                    };
                    asked.vectors.iter().map(one).collect()
                };
                let found = match tries < TRIES {
                    true => RwLockReadGuard::unlocked(&mut state, search),
                    false => search(),
                };
                let loaded = state.loaded().expect("loaded once, loaded for ever");
                if loaded.given_again != given_again {
                    tries += 1;
                    continue 'again;
                }
                // What a search missed because its time was up says nothing of the graph.
                if let (Searched::Graph(graph), [vector], None) = (&index, asked.vectors, &allowed)
                    && !(found[0].cut_short || asked.exactly)
                    && graph.sampling.offer(vector, &found[0].neighbors)
                {
                    self.improve_later(namespace);
                }
                let cut_short = found.iter().any(|found| found.cut_short);
                let found: Vec<Vec<Neighbor>> = found.into_iter().map(|found| found.neighbors).collect();
                let known = best_scores(found.iter().flatten().copied().collect());
                let wanted = known.iter().copied().filter(|found| loaded.is_wanted(found.row, asked.except));
                let nearest = loaded.messages(wanted, want);
                // A list that was cut must not hide anything better than the last message, under any of the query's
                // windows.
                let worst = nearest.get(want - 1).map_or(f32::NEG_INFINITY, |neighbor| neighbor.score);
                let is_whole = |list: &Vec<Neighbor>| list.len() < rows;
                let complete = |list: &Vec<Neighbor>| is_whole(list) || list[rows - 1].score <= worst;
                if rows >= loaded.metas.len() || cut_short || found.iter().all(complete) {
                    let (ranked, background) = loaded.rank(asked, &nearest, &known, allowed.as_ref(), want, scores);
                    return Outcome {
                        vectors: loaded.vectors(&ranked[..ranked.len().min(vectors)]),
                        answerability: recall::answerability(&ranked, &background),
                        language: loaded.language,
                        cut_short,
                        is_all: nearest.len() < want,
                        ranked,
                    };
                }
                rows = rows.saturating_mul(2);
            }
        }
    }
}

impl Loaded {
    fn alive(&self, row: u32) -> Option<&RowMeta> {
        self.metas.get(row as usize)?.as_ref()
    }

    /// Whether a row is alive, and of no message that is not wanted.
    fn is_wanted(&self, row: u32, except: &HashSet<u64>) -> bool {
        self.alive(row).is_some_and(|meta| !except.contains(&meta.seq))
    }

    /// The first row of the message that a row is of.
    fn first(&self, row: u32) -> u32 {
        row - self.alive(row).map_or(0, |meta| u32::from(meta.window))
    }

    /// The first rows of the `count` best messages among these living rows, each with its best window's score; best first.
    fn messages(&self, rows: impl Iterator<Item = Neighbor>, count: usize) -> Vec<Neighbor> {
        let of_message = |neighbor: Neighbor| Neighbor { row: self.first(neighbor.row), ..neighbor };
        let mut messages = best_scores(rows.map(of_message).collect());
        messages.sort_unstable_by(Neighbor::order);
        messages.truncate(count);
        messages
    }

    /// Those with the best BM25.
    fn messages_by_terms(&self, scores: &Scores, count: usize, is_allowed: impl Fn(u32) -> bool) -> Vec<Neighbor> {
        let rows = scores.touched().iter().copied().filter(|&row| is_allowed(row));
        let mut rows: Vec<Neighbor> = rows.map(|row| Neighbor { row, score: scores.get(row) }).collect();
        // Long messages have several rows: look at more until there are enough messages.
        let mut cut = count;
        loop {
            if cut < rows.len() {
                rows.select_nth_unstable_by(cut, Neighbor::order);
            }
            let messages = self.messages(rows.iter().take(cut).copied(), count);
            if messages.len() == count || cut >= rows.len() {
                return messages;
            }
            cut = cut.saturating_mul(2);
        }
    }

    /// All candidates in order.
    fn rank(
        &self,
        asked: &Asked,
        nearest: &[Neighbor],
        known: &[Neighbor],
        allowed: Option<&Bitmap>,
        want: usize,
        scores: &mut Scores,
    ) -> (Vec<Ranked>, Background) {
        let mut terms = Vec::new();
        if asked.ranking.strategy != Strategy::Dense {
            Analyzer::of(self.language).terms(asked.text, &mut terms);
        }
        self.lexical.score(&terms, scores);
        let lexical = Evidence::new(scores, self.lexical.rows());
        let nominated = self.nominate(asked, nearest, allowed, want, scores);
        let windows: Vec<Range<u32>> = nominated.into_iter().map(|first| self.windows(first)).collect();
        let rows: Vec<u32> = windows.iter().cloned().flatten().collect();
        let cosines = self.cosines(asked.vectors, &rows, known);
        let background = self.background(asked.vectors);
        let mut rest = &cosines[..];
        let candidates: Vec<Candidate> = windows
            .into_iter()
            .map(|windows| {
                let own = rest.split_off(..windows.len()).expect("a cosine a row");
                self.candidate(windows, own, &lexical)
            })
            .collect();
        (recall::rank(&candidates, &background, asked.ranking, asked.spans, asked.now), background)
    }

    /// The first rows of the candidates, ascending: the nearest, as many by terms, and the neighbours of these.
    fn nominate(
        &self,
        asked: &Asked,
        nearest: &[Neighbor],
        allowed: Option<&Bitmap>,
        want: usize,
        scores: &Scores,
    ) -> Vec<u32> {
        let is_allowed = |row: u32| allowed.is_none_or(|allowed| allowed.contains(row));
        let want = want.saturating_add(asked.except.len());
        let mut nominated: Vec<u32> = nearest.iter().map(|neighbor| neighbor.row).collect();
        if allowed.is_some() {
            let said = self.messages_by_terms(scores, want, is_allowed);
            nominated.extend(said.iter().map(|neighbor| neighbor.row));
        }
        // What is not allowed, or not wanted, lends all the same.
        for Neighbor { row, .. } in self.messages_by_terms(scores, want, |_| true) {
            nominated.push(row);
            if asked.ranking.has_neighbors {
                nominated.extend(self.around(row));
            }
        }
        nominated.sort_unstable();
        nominated.dedup();
        nominated.retain(|&row| is_allowed(row) && self.is_wanted(row, asked.except));
        nominated
    }

    /// The evidence for the message with these rows, whose cosines are known.
    fn candidate(&self, windows: Range<u32>, cosines: &[f32], lexical: &Evidence) -> Candidate {
        let lengths = &self.sample().lengths;
        let meta = self.alive(windows.start).expect("what is found is alive");
        let (nearest, cosine) = best(windows.clone().zip(cosines.iter().copied()));
        let (said, bm25) = lexical.best_window(windows.clone());
        let around = self.around(windows.start).map(|near| (near, lexical.best_window(self.windows(near)).1));
        let lender = around.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, bm25)| *bm25 > 0.0);
        // The passage is where the terms are, if any are.
        let row = if bm25 > 0.0 { said } else { nearest };
        Candidate {
            seq: meta.seq,
            row,
            windows: windows.len() as u32,
            cosine,
            bm25,
            coverage: lexical.coverage(bm25),
            strength: lexical.strength(bm25),
            lent: lender.map_or(0.0, |(_, bm25)| lexical.strength(bm25)),
            lender: lender.and_then(|(near, _)| Some(self.alive(near)?.seq)),
            length: self.length(windows) - lengths.usual(meta.role),
            wordiness: lengths.usual(meta.role) - lengths.tersest,
            created_at: meta.created_at,
            passage: self.lexical.passage(row),
        }
    }

    /// The rows of the message that begins at this one.
    fn windows(&self, first: u32) -> Range<u32> {
        let Some(message) = self.alive(first).map(|meta| meta.seq) else { return first..first + 1 };
        let is_next = |row: &u32| self.alive(*row).is_some_and(|meta| meta.seq == message && meta.window > 0);
        let more = (first + 1..).take_while(is_next).count();
        first..first + 1 + more as u32
    }

    /// The first rows of up to two messages before and after one in its session.
    fn around(&self, first: u32) -> impl Iterator<Item = u32> {
        let mut near = [None; 2 * REACH];
        if let Some(meta) = self.alive(first) {
            let rows = self.sessions.get(&meta.session).map_or(&[][..], Vec::as_slice);
            let at = rows.partition_point(|&row| self.order(row) < (meta.seq, 0));
            let is_first = |row: &&u32| self.alive(**row).is_some_and(|meta| meta.window == 0);
            let before = rows[..at].iter().rev().filter(is_first).take(REACH);
            let after = rows[(at + 1).min(rows.len())..].iter().filter(is_first).take(REACH);
            for (slot, &row) in near.iter_mut().zip(before.chain(after)) {
                *slot = Some(row);
            }
        }
        near.into_iter().flatten()
    }

    /// The logarithm of a message's number of terms.
    fn length(&self, windows: Range<u32>) -> f32 {
        (windows.map(|row| self.lexical.length(row)).sum::<u32>().max(1) as f32).ln()
    }

    /// Of each row the cosine with the nearest of the question's windows.
    ///
    /// What the search has found is known, and exact where an index has nothing but codes to give.
    fn cosines(&self, vectors: &[Vec<f32>], rows: &[u32], known: &[Neighbor]) -> Vec<f32> {
        let mut cosines = vec![0.0; rows.len()];
        let (mut places, mut unknown) = (Vec::new(), Vec::new());
        for (at, &row) in rows.iter().enumerate() {
            match known.binary_search_by_key(&row, |neighbor| neighbor.row) {
                Ok(found) => cosines[at] = known[found].score,
                Err(_) => {
                    places.push(at);
                    unknown.push(row);
                }
            }
        }
        self.index.index().vectors(&unknown, &mut |at, row| {
            cosines[places[at]] = vectors.iter().map(|vector| dot(vector, row)).fold(-1.0, f32::max);
        });
        cosines
    }

    fn vectors(&self, ranked: &[Ranked]) -> Vec<Vec<f32>> {
        let rows: Vec<u32> = ranked.iter().map(|ranked| ranked.row).collect();
        let mut vectors = vec![Vec::new(); rows.len()];
        self.index.index().vectors(&rows, &mut |at, row| vectors[at] = row.to_vec());
        vectors
    }

    fn sample(&self) -> &Sample {
        self.sample.get_or_init(|| {
            let rows = spread(self.metas.len(), |row| self.alive(row).is_some());
            let firsts = rows.iter().filter_map(|&row| {
                let meta = self.alive(row).filter(|meta| meta.window == 0)?;
                Some((meta.role, self.length(self.windows(row))))
            });
            Sample { lengths: Lengths::new(firsts), rows }
        })
    }

    /// What cosines with the question are like, by the sample.
    fn background(&self, vectors: &[Vec<f32>]) -> Background {
        let cosines = self.cosines(vectors, &self.sample().rows, &[]);
        let count = cosines.len().max(1) as f32;
        let mean = cosines.iter().sum::<f32>() / count;
        let variance = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>() / count;
        Background { mean, deviation: variance.sqrt(), rows: self.lexical.rows() }
    }

    /// What a session's rows are ordered by.
    pub(super) fn order(&self, row: u32) -> (u64, u16) {
        order(&self.metas, row)
    }
}

pub(super) fn order(metas: &[Option<RowMeta>], row: u32) -> (u64, u16) {
    metas[row as usize].as_ref().map_or((0, 0), |meta| (meta.seq, meta.window))
}

/// Of each row its best score, ascending by row.
fn best_scores(mut found: Vec<Neighbor>) -> Vec<Neighbor> {
    found.sort_unstable_by(|a, b| a.row.cmp(&b.row).then(b.score.total_cmp(&a.score)));
    found.dedup_by_key(|neighbor| neighbor.row);
    found
}

/// The window with the highest score; of several the last.
fn best(windows: impl Iterator<Item = (u32, f32)>) -> (u32, f32) {
    windows.max_by(|(_, a), (_, b)| a.total_cmp(b)).expect("a message has a window")
}

/// BM25, and what it is like over the namespace.
struct Evidence<'a> {
    scores: &'a Scores,
    mean: f32,
    deviation: f32,
}

impl<'a> Evidence<'a> {
    fn new(scores: &'a Scores, rows: usize) -> Self {
        let (sum, squares) = scores.touched().iter().fold((0.0, 0.0), |(sum, squares), &row| {
            let score = f64::from(scores.get(row));
            (sum + score, squares + score * score)
        });
        let count = rows.max(1) as f64;
        let mean = sum / count;
        let deviation = (squares / count - mean * mean).max(0.0).sqrt();
        Evidence { scores, mean: mean as f32, deviation: deviation as f32 }
    }

    fn best_window(&self, windows: Range<u32>) -> (u32, f32) {
        best(windows.map(|row| (row, self.scores.get(row))))
    }

    fn coverage(&self, bm25: f32) -> f32 {
        let ideal = self.scores.ideal();
        if ideal > 0.0 { (bm25 / ideal).min(1.0) } else { 0.0 }
    }

    fn strength(&self, bm25: f32) -> f32 {
        match bm25 > 0.0 {
            true => recall::strength((bm25 - self.mean) / self.deviation.max(1e-6), self.coverage(bm25)),
            false => 0.0,
        }
    }
}

/// About as many living rows as make a sample, of so many.
fn spread(rows: usize, is_alive: impl Fn(u32) -> bool) -> Vec<u32> {
    // Not always the same of so many: speakers take turns, and one's may all be deleted.
    let strewn = |count: usize| {
        let step = count.div_ceil(SAMPLE).max(1);
        let shift = move |begin: usize| ((begin as u32).wrapping_mul(0x9E37_79B9) >> 16) as usize % step;
        (0..count).step_by(step).map(move |begin| (begin + shift(begin)).min(count - 1))
    };
    let is_alive = |row: &u32| is_alive(*row);
    let spread: Vec<u32> = strewn(rows).map(|row| row as u32).filter(is_alive).collect();
    if spread.len() >= SAMPLE / 4 {
        return spread;
    }
    // A namespace that most was deleted of: the living have to be looked for.
    let all: Vec<u32> = (0..rows as u32).filter(is_alive).collect();
    strewn(all.len()).map(|at| all[at]).collect()
}

/// Rows evenly spread over a namespace, and what its lengths are like by them.
pub(super) struct Sample {
    rows: Vec<u32>,
    lengths: Lengths,
}

/// Usual lengths, as logarithms of numbers of terms.
struct Lengths {
    by_role: Vec<(Role, f32)>,
    all: f32,
    tersest: f32,
}

impl Lengths {
    fn new(messages: impl Iterator<Item = (Role, f32)>) -> Self {
        let mut sums: Vec<(Role, f32, usize)> = Vec::new();
        for (role, length) in messages {
            match sums.iter_mut().find(|(other, ..)| *other == role) {
                Some((_, sum, count)) => (*sum, *count) = (*sum + length, *count + 1),
                None => sums.push((role, length, 1)),
            }
        }
        let count: usize = sums.iter().map(|(.., count)| count).sum();
        let all = sums.iter().map(|(_, sum, _)| sum).sum::<f32>() / count.max(1) as f32;
        let by_role: Vec<(Role, f32)> = sums
            .into_iter()
            .filter(|(.., of_role)| of_role * ROLE_SHARE >= count)
            .map(|(role, sum, of_role)| (role, sum / of_role as f32))
            .collect();
        let tersest = by_role.iter().map(|(_, usual)| *usual).fold(f32::INFINITY, f32::min);
        Lengths { by_role, all, tersest: tersest.min(all) }
    }

    /// Of a role; of all, if it is rare.
    fn usual(&self, role: Role) -> f32 {
        self.by_role.iter().find(|(other, _)| *other == role).map_or(self.all, |(_, usual)| *usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_the_living() {
        let check = |rows: u32, is_alive: fn(u32) -> bool, wanted: Range<usize>| {
            let living: Vec<u32> = (0..rows).filter(|&row| is_alive(row)).collect();
            let spread = spread(rows as usize, is_alive);
            assert!(wanted.contains(&spread.len()), "{} of {} of {rows}", spread.len(), living.len());
            assert!(spread.iter().all(|&row| is_alive(row)) && spread.is_sorted_by(|a, b| a < b));
        };
        check(0, |_| true, 0..1);
        check(500, |_| true, 500..501);
        check(100_000, |_| true, SAMPLE - 4..SAMPLE + 1);
        check(100_000, |row| row % 2 == 0, SAMPLE * 2 / 5..SAMPLE + 1);
        // Few of these are where a sample of all rows would come.
        check(100_000, |row| row % 1000 == 7, 100..101);
        check(100_000, |row| row > 90_000 && row % 2 == 1, SAMPLE / 2..SAMPLE + 1);
        check(100_000, |_| false, 0..1);
    }
}
