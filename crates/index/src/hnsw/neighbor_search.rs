//! Beam search of layer 0 by the codes of neighbors.
//!
//! All links of a row are estimated at once, from codes that lie beside each other (SymphonyQG, Gou et al., arXiv
//! 2411.12229), and a row is scored by its own code only when it is expanded. An estimate depends on the row that it comes
//! from, so a row that was turned away, or had to leave the candidates, may come in again from another.

use std::time::Instant;

use super::{
    beam::{BeamSearch, EXPANSIONS_PER_CLOCK_READ, collect_new_links},
    candidates::{CandidateList, KeepBest, ScoredRow},
    codes::Codes,
    links::{Links, NONE},
    neighbor_codes::NeighborCodes,
    scoring::{score_coarsely, score_one_coarsely},
    visited::Visited,
};
use crate::{
    distance::{BLOCK_ROWS, prefetch},
    is_past,
};

/// A search by the codes of neighbors reads these parts of a graph.
#[derive(Clone, Copy)]
pub(super) struct Neighborhoods<'a> {
    pub(super) links: &'a Links,
    pub(super) codes: &'a Codes,
    pub(super) neighbor_codes: &'a NeighborCodes,
}

impl BeamSearch {
    /// Searches layer 0 from the present candidates, and replaces them by the rows that were expanded. Only rows for which
    /// `is_counted` returns true count as copies. Returns true if the deadline ended the search.
    pub(super) fn search_neighborhoods(
        &mut self,
        graph: Neighborhoods,
        is_counted: impl Fn(u32) -> bool,
        deadline: Option<Instant>,
    ) -> bool {
        let Neighborhoods { links, codes, neighbor_codes } = graph;
        let BeamSearch { query, table, candidates, visited, new_rows, expanded, copies, .. } = self;
        codes.kernels().tabulate(query.rotated(), table);
        expanded.clear();
        copies.reset();
        let mut scores = [0.0; BLOCK_ROWS];
        let mut is_cut_short = false;
        while let Some(row) = candidates.expand() {
            if (expanded.len() + 1).is_multiple_of(EXPANSIONS_PER_CLOCK_READ as usize) && is_past(deadline) {
                is_cut_short = true;
                break;
            }
            if let Some(next) = candidates.peek() {
                graph.prefetch(next);
            }
            let score = score_one_coarsely(codes, query, row);
            if copies.add(score) > candidates.max_copies() {
                let ties = expanded.iter().filter(|other| other.score == score);
                let same = ties.filter(|other| is_counted(other.row) && codes.same(other.row, row));
                if same.take(candidates.max_copies()).count() >= candidates.max_copies() {
                    candidates.remove(row);
                    continue;
                }
            }
            expanded.push(ScoredRow { score, row });
            let Some(blocks) = neighbor_codes.blocks(row) else {
                collect_new_links(links, codes, 0, row, visited, new_rows);
                score_coarsely(codes, query, new_rows, |candidate| {
                    if candidate.score > candidates.floor() {
                        candidates.add(candidate);
                    }
                });
                continue;
            };
            for (block, list) in blocks.zip(links.bottom(row).chunks(BLOCK_ROWS)) {
                let mut above = codes.kernels().estimate(table, score, block, candidates.floor(), &mut scores);
                while above != 0 {
                    let slot = above.trailing_zeros() as usize;
                    above &= above - 1;
                    if let Some(&link) = list.get(slot)
                        && link != NONE
                    {
                        graph.meet(ScoredRow { score: scores[slot], row: link }, candidates, visited);
                    }
                }
            }
        }
        expanded.sort_unstable_by(ScoredRow::order);
        candidates.replace(expanded);
        is_cut_short
    }
}

impl Neighborhoods<'_> {
    /// Makes an estimated row a candidate, if it is good enough and not one already.
    #[inline(always)]
    fn meet(&self, estimated: ScoredRow, candidates: &mut CandidateList, visited: &mut Visited) {
        if estimated.score > candidates.floor() && visited.insert(estimated.row) {
            if let Some(gone) = candidates.add(estimated) {
                visited.remove(gone);
            }
            // It is expanded next, unless a better one comes in.
            if candidates.peek() == Some(estimated.row) {
                self.prefetch(estimated.row);
            }
        }
    }

    /// Asks the processor to load what expanding a row reads.
    #[inline(always)]
    fn prefetch(&self, row: u32) {
        self.codes.prefetch_coarse(row);
        self.codes.prefetch_scale(row);
        self.neighbor_codes.prefetch(row);
        prefetch(self.links.bottom(row));
    }
}
