//! The codes of each row's neighbors, beside each other, so that a search reads them in one piece; and the beam search of
//! layer 0 by these codes.
//!
//! All links of a row are estimated at once, from codes that lie beside each other (SymphonyQG, Gou et al., arXiv
//! 2411.12229), and a row is scored by its own code only when it is expanded. An estimate depends on the row that it comes
//! from, so a row that was turned away, or had to leave the candidates, may come in again from another.

use std::time::Instant;

use super::{
    beam::{BeamSearch, EXPANSIONS_PER_CLOCK_READ, collect_new_links},
    candidates::{CandidateList, KeepBest, Visited},
    codes::{CodedQuery, Codes, ScoredRow, score_coarsely, score_one_coarsely},
    links::{Links, NONE},
    row_table::RowTable,
};
use crate::{
    Bitmap,
    distance::{BLOCK_ROWS, Line, block_lines, clear_block, prefetch},
    is_past,
};

/// Lines at the beginning of a row's blocks that a search asks for before it needs them. The processor goes on by itself.
const PREFETCHED: usize = 12;

/// Codes of the links of each row on layer 0, relative to the row. They follow from the links and the codes of the rows:
/// those of a row whose links change are *stale* until they are computed again.
#[derive(Debug)]
pub(super) struct NeighborCodes {
    /// For each row as many blocks as its links need.
    blocks: RowTable<Line>,
    block_lines: usize,
    stale: Bitmap,
}

impl NeighborCodes {
    /// Creates the codes for rows of which each has up to `capacity` links.
    pub(super) fn new(code_lines: usize, capacity: usize) -> Self {
        let block_lines = block_lines(code_lines);
        let blocks = RowTable::new(block_lines * capacity.div_ceil(BLOCK_ROWS));
        NeighborCodes { blocks, block_lines, stale: Bitmap::default() }
    }

    /// Makes room for rows, whose codes are stale.
    pub(super) fn grow(&mut self, rows: usize) {
        while self.blocks.rows() < rows {
            self.stale.insert(self.blocks.rows() as u32);
            self.blocks.push_filled(Line([0; 64]));
        }
    }

    pub(super) fn mark_stale(&mut self, row: u32) {
        self.stale.insert(row);
    }

    pub(super) fn has_stale(&self) -> bool {
        self.stale.count() > 0
    }

    /// Returns the first `count` rows whose codes are stale.
    pub(super) fn stale(&self, count: usize) -> Vec<u32> {
        self.stale.iter().take(count).collect()
    }

    /// Returns the blocks of a row; `None` if they are stale.
    #[inline(always)]
    pub(super) fn blocks(&self, row: u32) -> Option<impl Iterator<Item = &[Line]>> {
        (!self.stale.contains(row)).then(|| self.blocks.row(row).chunks_exact(self.block_lines))
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, row: u32) {
        let blocks = self.blocks.row(row);
        prefetch(&blocks[..PREFETCHED.min(blocks.len())]);
    }

    pub(super) fn encode(&self, codes: &Codes, links: &Links, row: u32, scratch: &mut [CodedQuery; 2]) -> Vec<Line> {
        let [coded_row, coded_link] = scratch;
        let mut blocks = vec![Line([0; 64]); self.blocks.width()];
        codes.row_query(row, coded_row);
        for (block, list) in blocks.chunks_exact_mut(self.block_lines).zip(links.bottom(row).chunks(BLOCK_ROWS)) {
            clear_block(block);
            for (slot, &link) in list.iter().take_while(|link| **link != NONE).enumerate() {
                codes.row_query(link, coded_link);
                codes.kernels().put_neighbor(coded_row.as_row(), coded_link.as_row(), slot, block);
            }
        }
        blocks
    }

    /// Writes the blocks of a row, which are not stale any more.
    pub(super) fn put(&mut self, row: u32, blocks: &[Line]) {
        self.blocks.put(row, blocks);
        self.stale.remove(row);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + self.stale.memory_bytes()
    }
}

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
