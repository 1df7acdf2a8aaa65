//! The codes of each row's neighbors, beside each other, so that a search reads them in one piece.

use super::{
    codes::{CodedQuery, Codes},
    links::{Links, NONE},
    row_table::RowTable,
};
use crate::{
    Bitmap,
    distance::{BLOCK_ROWS, Line, block_lines, clear_block, prefetch},
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

    /// Makes the codes of a row stale.
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

    /// Asks the processor to load the blocks of a row.
    #[inline(always)]
    pub(super) fn prefetch(&self, row: u32) {
        let blocks = self.blocks.row(row);
        prefetch(&blocks[..PREFETCHED.min(blocks.len())]);
    }

    /// Computes the blocks of a row.
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
