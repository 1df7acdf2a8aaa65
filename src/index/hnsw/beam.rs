//! Searching a layer: the best candidates so far, in order, and what has been visited.
//!
//! One sorted list is both the queue and the result. Rows are scored by their coarse codes, all new links of a row in one
//! call, after their memory has been asked for.

use std::time::Instant;

use super::{
    codes::{Codes, Query},
    links::{Links, NONE},
};
use crate::index::distance::{Line, prefetch};

/// Rows scored in one call.
const GROUP: usize = 32;

/// Marks a candidate whose links have been followed. Row numbers stay below it.
const EXPANDED: u32 = 1 << 31;

/// Rows expanded between two looks at the clock: about 10 us.
const EXPANSIONS_A_LOOK: u32 = 16;

/// A row that was scored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) score: f32,
    row: u32,
}

impl Candidate {
    pub(super) fn new(score: f32, row: u32) -> Self {
        Candidate { score, row }
    }

    #[inline(always)]
    pub(super) fn row(self) -> u32 {
        self.row & !EXPANDED
    }
}

/// What a search needs, kept for the next one.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) query: Query,
    pub(super) pool: Pool,
    visited: Visited,
    fresh: Vec<u32>,
    /// Rows scored since the search began.
    pub(super) scored: usize,
}

/// The best candidates, nearest first, `capacity` at most.
#[derive(Debug, Default)]
pub(super) struct Pool {
    candidates: Vec<Candidate>,
    capacity: usize,
    /// Of rows with one code, as many: copies must not fill it, for they lead to each other.
    copies: usize,
    /// No candidate before this one waits to be expanded.
    next: usize,
}

impl Pool {
    pub(super) fn reset(&mut self, capacity: usize) {
        self.reset_with(capacity, usize::MAX);
    }

    fn reset_with(&mut self, capacity: usize, copies: usize) {
        self.candidates.clear();
        self.capacity = capacity;
        self.copies = copies;
        self.next = 0;
    }

    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        self.candidates.retain(|candidate| is_kept(candidate.row()));
    }

    /// What a candidate must be above to come in.
    #[inline(always)]
    pub(super) fn floor(&self) -> f32 {
        if self.candidates.len() < self.capacity { f32::NEG_INFINITY } else { self.candidates[self.capacity - 1].score }
    }

    #[inline]
    pub(super) fn push(&mut self, candidate: Candidate) {
        self.insert(self.place(candidate), candidate);
    }

    /// Behind those that are as near.
    #[inline]
    fn place(&self, candidate: Candidate) -> usize {
        self.candidates.partition_point(|other| other.score >= candidate.score)
    }

    #[inline]
    fn insert(&mut self, at: usize, candidate: Candidate) {
        if self.candidates.len() == self.capacity {
            self.candidates.pop();
        }
        self.candidates.insert(at, candidate);
        self.next = self.next.min(at);
    }

    /// Takes a candidate in, unless there are enough with its code that count.
    #[inline]
    fn offer(&mut self, codes: &Codes, candidate: Candidate, counts: impl Fn(u32) -> bool) {
        let at = self.place(candidate);
        // Nearly always none has the same score.
        if at > 0 && self.candidates[at - 1].score == candidate.score {
            let same = self.candidates[..at].iter().rev().take_while(|other| other.score == candidate.score);
            let copies = same.filter(|other| counts(other.row()) && codes.same(other.row(), candidate.row()));
            if copies.take(self.copies).count() >= self.copies {
                return;
            }
        }
        self.insert(at, candidate);
    }

    /// The best candidate that was not expanded, which then is.
    #[inline]
    fn expand(&mut self) -> Option<u32> {
        let candidate = self.candidates.get_mut(self.next)?;
        let row = candidate.row;
        candidate.row |= EXPANDED;
        while self.peek().is_some_and(|row| row & EXPANDED != 0) {
            self.next += 1;
        }
        Some(row)
    }

    #[inline]
    fn peek(&self) -> Option<u32> {
        self.candidates.get(self.next).map(|candidate| candidate.row)
    }
}

/// Rows seen by this search: a bit each, and which words to clear after.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    touched: Vec<u32>,
}

impl Visited {
    pub(super) fn reset(&mut self, rows: usize) {
        for word in self.touched.drain(..) {
            self.words[word as usize] = 0;
        }
        self.words.resize(rows.div_ceil(64), 0);
    }

    /// Whether it is new.
    #[inline(always)]
    pub(super) fn insert(&mut self, row: u32) -> bool {
        let word = &mut self.words[row as usize / 64];
        let bit = 1 << (row % 64);
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.touched.push(row / 64);
        }
        *word |= bit;
        true
    }
}

impl Scratch {
    /// Goes from the graph's entry down to `layer`, always to the nearest, and begins a search there that keeps `ef`
    /// candidates, `copies` of one code. `self.query` is what is searched for.
    pub(super) fn descend(&mut self, links: &Links, codes: &Codes, layer: u8, (ef, copies): (usize, usize)) {
        self.scored = 0;
        self.pool.reset_with(ef, copies);
        self.visited.reset(links.rows());
        let Some(entry) = links.entry() else { return };
        let mut near = Candidate::new(f32::NEG_INFINITY, entry);
        coarse(codes, &self.query, &[entry], |candidate| near = candidate);
        for layer in (layer + 1..=links.level(entry).unwrap_or(0)).rev() {
            loop {
                let list = links.of(near.row, layer);
                list.iter().for_each(|&link| prefetch(codes.coarse(link)));
                self.scored += list.len();
                let mut best = near;
                coarse(codes, &self.query, list, |candidate| {
                    if candidate.score > best.score {
                        best = candidate;
                    }
                });
                if best.row == near.row {
                    break;
                }
                near = best;
            }
        }
        self.visited.insert(near.row);
        self.pool.push(near);
    }

    /// Goes on a layer lower, from what was found.
    pub(super) fn next_layer(&mut self, rows: usize) {
        self.visited.reset(rows);
        for candidate in &mut self.pool.candidates {
            candidate.row &= !EXPANDED;
            self.visited.insert(candidate.row);
        }
        self.pool.next = 0;
    }

    /// Searches a layer from what is in the pool. Returns whether the deadline ended it.
    pub(super) fn search(
        &mut self,
        links: &Links,
        codes: &Codes,
        layer: u8,
        counts: impl Fn(u32) -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        let Scratch { query, pool, visited, fresh, scored } = self;
        let mut expansions = 0;
        while let Some(row) = pool.expand() {
            expansions += 1;
            if expansions % EXPANSIONS_A_LOOK == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return true;
            }
            follow(links, codes, layer, row, visited, fresh);
            if let Some(next) = pool.peek() {
                prefetch(links.bottom(next));
            }
            *scored += fresh.len();
            coarse(codes, query, fresh, |candidate| {
                if candidate.score > pool.floor() {
                    pool.offer(codes, candidate, &counts);
                }
            });
        }
        false
    }

    /// Searches layer 0 for rows that are allowed, going through the others. Returns `None` when it has scored more than
    /// `budget` rows, else whether the deadline ended it.
    pub(super) fn search_allowed(
        &mut self,
        links: &Links,
        codes: &Codes,
        allowed: impl Fn(u32) -> bool,
        budget: usize,
        deadline: Option<Instant>,
    ) -> Option<bool> {
        let Scratch { query, pool, visited, fresh, scored } = self;
        let start: Vec<Candidate> = pool.candidates.drain(..).collect();
        pool.reset_with(pool.capacity, pool.copies);
        start.iter().filter(|start| allowed(start.row)).for_each(|start| pool.push(*start));
        let mut queue: std::collections::BinaryHeap<Nearest> = start.into_iter().map(Nearest).collect();
        let mut expansions = 0;
        while let Some(Nearest(candidate)) = queue.pop() {
            if candidate.score < pool.floor() {
                break;
            }
            expansions += 1;
            if expansions % EXPANSIONS_A_LOOK == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Some(true);
            }
            follow(links, codes, 0, candidate.row, visited, fresh);
            *scored += fresh.len();
            if *scored > budget {
                return None;
            }
            coarse(codes, query, fresh, |candidate| {
                if candidate.score > pool.floor() {
                    queue.push(Nearest(candidate));
                    if allowed(candidate.row) {
                        pool.offer(codes, candidate, |_| true);
                    }
                }
            });
        }
        Some(false)
    }

    /// Scores rows with their coarse codes, adds them to `found`, and sorts it.
    pub(super) fn add(&self, codes: &Codes, rows: impl Iterator<Item = u32>, found: &mut Vec<Candidate>) {
        let rows: Vec<u32> = rows.collect();
        coarse(codes, &self.query, &rows, |candidate| found.push(candidate));
        found.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.row().cmp(&b.row())));
    }

    /// [`Scratch::scan`] of those that this search has not met: while a change is made, a row may be in the graph and in the
    /// tail.
    pub(super) fn scan_rest(
        &mut self,
        codes: &Codes,
        rows: impl Iterator<Item = u32>,
        deadline: Option<Instant>,
    ) -> bool {
        let rest: Vec<u32> = rows.filter(|&row| self.visited.insert(row)).collect();
        self.scan(codes, rest.into_iter(), deadline)
    }

    /// Scores rows with their coarse codes, and keeps the best in the pool. Returns whether the deadline ended it.
    pub(super) fn scan(&mut self, codes: &Codes, rows: impl Iterator<Item = u32>, deadline: Option<Instant>) -> bool {
        /// Rows between asking for memory and reading it, and between two looks at the clock.
        const AHEAD: usize = 256;
        let Scratch { query, pool, fresh, .. } = self;
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            fresh.clear();
            fresh.extend(rows.by_ref().take(AHEAD).inspect(|&row| prefetch(codes.coarse(row))));
            coarse(codes, query, fresh, |candidate| {
                if candidate.score > pool.floor() {
                    pool.push(candidate);
                }
            });
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return rows.peek().is_some();
            }
        }
        false
    }
}

/// The links of a row that were not visited yet, whose codes are on their way to the cache.
#[inline(always)]
fn follow(links: &Links, codes: &Codes, layer: u8, row: u32, visited: &mut Visited, fresh: &mut Vec<u32>) {
    fresh.clear();
    let list = if layer == 0 { links.bottom(row) } else { links.of(row, layer) };
    for &link in list {
        if link == NONE {
            break;
        }
        if visited.insert(link) {
            prefetch(codes.coarse(link));
            fresh.push(link);
        }
    }
}

/// Scores rows with their coarse codes.
#[inline(always)]
fn coarse(codes: &Codes, query: &Query, rows: &[u32], mut visit: impl FnMut(Candidate)) {
    let mut products = [0; GROUP];
    for group in rows.chunks(GROUP) {
        let mut lines: [&[Line]; GROUP] = [&[]; GROUP];
        for (slot, &row) in lines.iter_mut().zip(group) {
            *slot = codes.coarse(row);
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut products);
        for (&row, &product) in group.iter().zip(&products) {
            visit(Candidate::new(query.coarse_score(product, codes.scale(row)), row));
        }
    }
}

/// Scores candidates with both planes, and sorts them.
pub(super) fn refine(codes: &Codes, query: &Query, candidates: &mut [Candidate]) {
    for candidate in &*candidates {
        prefetch(codes.fine(candidate.row()));
    }
    let (mut coarse, mut fine) = ([0; GROUP], [0; GROUP]);
    for group in candidates.chunks_mut(GROUP) {
        let mut lines: [&[Line]; GROUP] = [&[]; GROUP];
        for (slot, candidate) in lines.iter_mut().zip(&*group) {
            *slot = codes.coarse(candidate.row());
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut coarse);
        for (slot, candidate) in lines.iter_mut().zip(&*group) {
            *slot = codes.fine(candidate.row());
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut fine);
        for (i, candidate) in group.iter_mut().enumerate() {
            candidate.score = query.score(coarse[i], fine[i], codes.scale(candidate.row()));
        }
    }
    candidates.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.row().cmp(&b.row())));
}

/// A candidate, ordered by its score.
struct Nearest(Candidate);

impl Ord for Nearest {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.score.total_cmp(&other.0.score).then(other.0.row.cmp(&self.0.row))
    }
}

impl PartialOrd for Nearest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Nearest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Nearest {}
