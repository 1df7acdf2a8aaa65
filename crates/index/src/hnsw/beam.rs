//! Beam search on one layer of a graph, and scans of rows outside of it.
//!
//! Rows are scored by their coarse codes, all new links of a row in one call, after their codes were prefetched.

use std::{collections::BinaryHeap, time::Instant};

use super::{
    candidates::{CandidateList, KeepBest, ScoreCounts, Visited},
    codes::{CodedQuery, Codes, ScoredRow, score_coarsely},
    links::{Links, NONE},
};
use crate::{
    distance::{SignTable, prefetch},
    is_past,
};

/// Rows expanded between two reads of the clock: about 10 us.
pub(super) const EXPANSIONS_PER_CLOCK_READ: u32 = 16;

/// The state of a search. It is reused for the next search, to save the allocations.
#[derive(Debug, Default)]
pub(super) struct BeamSearch {
    pub(super) query: CodedQuery,
    pub(super) candidates: CandidateList,
    pub(super) visited: Visited,
    pub(super) new_rows: Vec<u32>,
    /// Number of rows scored since the search began.
    scored: usize,
    /// The products of the query with signs, the rows that were expanded, and how often their scores came: for searches by
    /// the codes of neighbors.
    pub(super) table: SignTable,
    pub(super) expanded: Vec<ScoredRow>,
    pub(super) copies: ScoreCounts,
}

impl BeamSearch {
    /// Walks greedily from the entry of the graph down to `layer`, and begins a search for `self.query` there. The
    /// search keeps `ef` candidates, at most `max_copies` of them with the same code.
    pub(super) fn descend(&mut self, links: &Links, codes: &Codes, layer: u8, ef: usize, max_copies: usize) {
        self.scored = 0;
        self.candidates.reset(ef, max_copies);
        self.visited.reset(links.rows());
        let Some(entry) = links.entry() else { return };
        let mut nearest = ScoredRow { score: f32::NEG_INFINITY, row: entry };
        score_coarsely(codes, &self.query, &[entry], |candidate| nearest = candidate);
        for layer in (layer + 1..=links.level(entry).unwrap_or(0)).rev() {
            loop {
                let list = links.of(nearest.row, layer);
                list.iter().for_each(|&link| codes.prefetch_coarse(link));
                self.scored += list.len();
                let mut best = nearest;
                score_coarsely(codes, &self.query, list, |candidate| {
                    if candidate.score > best.score {
                        best = candidate;
                    }
                });
                if best.row == nearest.row {
                    break;
                }
                nearest = best;
            }
        }
        self.visited.insert(nearest.row);
        self.candidates.push(nearest);
    }

    /// Begins the search of the next lower layer, from the candidates of this one.
    pub(super) fn next_layer(&mut self, rows: usize) {
        self.visited.reset(rows);
        let visited = &mut self.visited;
        self.candidates.restart(|row| {
            visited.insert(row);
        });
    }

    /// Searches a layer from the present candidates. Only rows for which `is_counted` returns true count as copies.
    /// Returns true if the deadline ended the search.
    pub(super) fn search(
        &mut self,
        links: &Links,
        codes: &Codes,
        layer: u8,
        is_counted: impl Fn(u32) -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        let BeamSearch { query, candidates, visited, new_rows, scored, .. } = self;
        let mut expansions = 0;
        while let Some(row) = candidates.expand() {
            expansions += 1;
            if expansions % EXPANSIONS_PER_CLOCK_READ == 0 && is_past(deadline) {
                return true;
            }
            collect_new_links(links, codes, layer, row, visited, new_rows);
            if let Some(next) = candidates.peek() {
                prefetch(links.bottom(next));
            }
            *scored += new_rows.len();
            score_coarsely(codes, query, new_rows, |candidate| {
                if candidate.score > candidates.floor() {
                    candidates.offer_counted(codes, candidate, &is_counted);
                    // It is expanded next, unless a better one comes in.
                    if candidates.peek() == Some(candidate.row) {
                        prefetch(links.bottom(candidate.row));
                    }
                }
            });
        }
        false
    }

    /// Searches layer 0 for allowed rows, and passes through the others. Returns `None` once more than `max_scored`
    /// rows have been scored, else whether the deadline ended the search.
    pub(super) fn search_allowed(
        &mut self,
        links: &Links,
        codes: &Codes,
        is_allowed: impl Fn(u32) -> bool,
        max_scored: usize,
        deadline: Option<Instant>,
    ) -> Option<bool> {
        let mut queue: BinaryHeap<ScoredRow> = self.candidates.take().into();
        self.keep_best(|beam, best| {
            let BeamSearch { query, visited, new_rows, scored, .. } = beam;
            queue.iter().filter(|start| is_allowed(start.row)).for_each(|&start| best.push(start));
            let (mut expansions, mut floor) = (0, best.floor());
            while let Some(nearest) = queue.pop() {
                if nearest.score < floor {
                    break;
                }
                expansions += 1;
                if expansions % EXPANSIONS_PER_CLOCK_READ == 0 && is_past(deadline) {
                    return Some(true);
                }
                collect_new_links(links, codes, 0, nearest.row, visited, new_rows);
                *scored += new_rows.len();
                if *scored > max_scored {
                    return None;
                }
                score_coarsely(codes, query, new_rows, |candidate| {
                    if candidate.score > floor {
                        queue.push(candidate);
                        if is_allowed(candidate.row) {
                            best.offer(codes, candidate);
                            floor = best.floor();
                        }
                    }
                });
            }
            Some(false)
        })
    }

    /// Scores rows and adds those that score higher than `floor` to `found`, which is sorted afterwards.
    pub(super) fn score_into(
        &self,
        codes: &Codes,
        rows: impl Iterator<Item = u32>,
        floor: f32,
        found: &mut Vec<ScoredRow>,
    ) {
        let rows: Vec<u32> = rows.collect();
        score_coarsely(codes, &self.query, &rows, |candidate| {
            if candidate.score > floor {
                found.push(candidate);
            }
        });
        found.sort_unstable_by(ScoredRow::order);
    }

    /// Same as [`BeamSearch::scan`], for the rows that this search has not met. While a delta is applied, a row may be
    /// both in the graph and in the tail.
    pub(super) fn scan_unvisited(
        &mut self,
        codes: &Codes,
        rows: impl Iterator<Item = u32>,
        deadline: Option<Instant>,
    ) -> bool {
        let unvisited: Vec<u32> = rows.filter(|&row| self.visited.insert(row)).collect();
        self.scan(codes, unvisited.into_iter(), deadline)
    }

    /// Scores rows and keeps the best of them as candidates. Returns true if the deadline ended the scan.
    pub(super) fn scan(&mut self, codes: &Codes, rows: impl Iterator<Item = u32>, deadline: Option<Instant>) -> bool {
        /// Rows whose codes are prefetched before the first of them is scored, and rows between two reads of the clock.
        const ROWS_AHEAD: usize = 256;
        self.keep_best(|BeamSearch { query, new_rows, .. }, best| {
            let (mut rows, mut floor) = (rows.peekable(), best.floor());
            while rows.peek().is_some() {
                new_rows.clear();
                new_rows.extend(rows.by_ref().take(ROWS_AHEAD).inspect(|&row| codes.prefetch_coarse(row)));
                score_coarsely(codes, query, new_rows, |candidate| {
                    if candidate.score > floor {
                        best.push(candidate);
                        floor = best.floor();
                    }
                });
                if is_past(deadline) {
                    return rows.peek().is_some();
                }
            }
            false
        })
    }

    /// Lets `find` add rows to the candidates, which are sorted afterwards if there may be very many.
    fn keep_best<T>(&mut self, find: impl FnOnce(&mut Self, &mut dyn KeepBest) -> T) -> T {
        let mut list = std::mem::take(&mut self.candidates);
        let result = match list.take_unsorted() {
            None => find(self, &mut list),
            Some(mut best) => {
                let result = find(self, &mut best);
                list.set(best);
                result
            }
        };
        self.candidates = list;
        result
    }
}

/// Collects the links of a row that were not visited yet, and prefetches their codes.
#[inline(always)]
pub(super) fn collect_new_links(
    links: &Links,
    codes: &Codes,
    layer: u8,
    row: u32,
    visited: &mut Visited,
    new_rows: &mut Vec<u32>,
) {
    new_rows.clear();
    let list = if layer == 0 { links.bottom(row) } else { links.of(row, layer) };
    for &link in list {
        if link == NONE {
            break;
        }
        if visited.insert(link) {
            codes.prefetch_coarse(link);
            new_rows.push(link);
        }
    }
}
