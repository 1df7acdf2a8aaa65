//! The table of functions that one instruction set provides.

use half::f16;

use super::{
    codes::Line,
    neighbor_codes::{BLOCK_ROWS, CodedRow, SignTable, block_lines},
    rotation::Rotation,
};

/// Returns the inner product of two slices of the same length.
type DotKernel = fn(&[f32], &[f32]) -> f32;

/// Returns the inner product of two slices of the same length, the second of finite numbers.
type HalfDotKernel = fn(&[f32], &[f16]) -> f32;

/// Writes the inner product of a query with each row into `products`. The query has twice as many lines as a row.
type CodeKernel = fn(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]);

/// Encodes a vector: see [`Kernels::encode`].
type Encoder = fn(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32;

/// Turns a row into a query: see [`Kernels::unpack`].
type Unpacker = fn(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32;

/// Adds a row of codes, scaled, to a vector of the same length.
type Adder = fn(sum: &mut [f32], codes: &[u8], scale: f32);

/// Rotates a vector: see [`Kernels::rotate`].
type Rotator = fn(rotation: &Rotation, vector: &[f32], rotated: &mut Vec<f32>);

/// Computes the table of a query: see [`Kernels::tabulate`].
type Tabulator = fn(query: &[f32], table: &mut SignTable);

/// Writes the code of a neighbor: see [`Kernels::put_neighbor`].
type NeighborCoder = fn(row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]);

/// Estimates the scores of neighbors: see [`Kernels::estimate`].
type Estimator = fn(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32;

/// The functions of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    #[cfg_attr(not(test), allow(dead_code, reason = "tests name the instruction set that fails"))]
    pub(super) name: &'static str,
    pub(super) dot: DotKernel,
    pub(super) dot_half: HalfDotKernel,
    pub(super) codes: CodeKernel,
    pub(super) encode: Encoder,
    pub(super) unpack: Unpacker,
    pub(super) add_scaled: Adder,
    pub(super) rotate: Rotator,
    pub(super) tabulate: Tabulator,
    pub(super) put_neighbor: NeighborCoder,
    pub(super) estimate: Estimator,
}

impl Kernels {
    /// Returns the inner product of two vectors.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub(crate) fn dot(&self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one index have one dimension");
        (self.dot)(a, b)
    }

    /// Returns the inner product of a vector and one of finite numbers with 16 bits.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub(crate) fn dot_half(&self, a: &[f32], b: &[f16]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one index have one dimension");
        (self.dot_half)(a, b)
    }

    /// Writes the inner product of `query` with each of `rows` into `products`.
    ///
    /// # Panics
    /// If the query has not twice as many lines as each row, or there are fewer products than rows.
    #[inline]
    pub(crate) fn products(&self, query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
        assert!(rows.len() <= products.len(), "each row has a product");
        assert!(rows.iter().all(|row| row.len() * 2 == query.len()), "codes of one index have one length");
        (self.codes)(query, rows, products);
    }

    /// Encodes a vector into both planes. Returns its scale: a component is about `(code - 128) * scale`, with codes
    /// from 1 to 255. The padding of the last line decodes to 0.
    ///
    /// # Panics
    /// If a plane has too few lines.
    #[inline]
    pub(crate) fn encode(&self, vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
        (self.encode)(vector, coarse, fine)
    }

    /// Unpacks both planes of a row into lines of signed bytes, two for each line of a plane. Returns the sum of the
    /// bytes.
    ///
    /// # Panics
    /// If `query` has too few lines.
    #[inline]
    pub(crate) fn unpack(&self, coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
        (self.unpack)(coarse, fine, query)
    }

    /// Adds `scale` times each of the signed bytes `codes` to its component of `sum`, with the same bits on every
    /// processor. Components without a code stay as they are.
    #[inline]
    pub(crate) fn add_scaled(&self, sum: &mut [f32], codes: &[u8], scale: f32) {
        (self.add_scaled)(sum, codes, scale);
    }

    /// Rotates a vector into `rotated`, with the same bits on every processor.
    ///
    /// # Panics
    /// If the vector is longer than those of the rotation.
    #[inline]
    pub(crate) fn rotate(&self, rotation: &Rotation, vector: &[f32], rotated: &mut Vec<f32>) {
        (self.rotate)(rotation, vector, rotated);
    }

    /// Computes the table of a rotated query.
    #[inline]
    pub(crate) fn tabulate(&self, query: &[f32], table: &mut SignTable) {
        (self.tabulate)(query, table);
    }

    /// Writes the code of a neighbor of `row` into an empty slot of the row's block.
    ///
    /// # Panics
    /// If the block is too short, or the slot is [`BLOCK_ROWS`] or more.
    #[inline]
    pub(crate) fn put_neighbor(&self, row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]) {
        assert!(slot < BLOCK_ROWS, "a block has {BLOCK_ROWS} slots");
        (self.put_neighbor)(row, neighbor, slot, block);
    }

    /// Estimates the score of each neighbor in a block, from the `score` of the row that it belongs to. Returns a bit for
    /// each score above `floor`.
    ///
    /// # Panics
    /// If block and table are not of one dimension.
    #[inline]
    pub(crate) fn estimate(
        &self,
        table: &SignTable,
        score: f32,
        block: &[Line],
        floor: f32,
        scores: &mut [f32; BLOCK_ROWS],
    ) -> u32 {
        assert_eq!(block.len(), table.lines.len() + block_lines(0), "block and table are of one dimension");
        (self.estimate)(table, score, block, floor, scores)
    }
}
