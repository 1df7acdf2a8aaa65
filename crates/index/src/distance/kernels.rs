//! The table of functions that one instruction set provides, and the table in plain Rust, for any processor.

use half::f16;

use super::{
    codes::{self, Line},
    neighbor_codes::{self, BLOCK_ROWS, CodedRow, SignTable, block_lines},
    rotation::{self, Rotation},
};

/// Returns the inner product of two slices of the same length.
type DotKernel = fn(&[f32], &[f32]) -> f32;

/// Returns the inner product of two slices of the same length, the second of finite numbers.
type HalfDotKernel = fn(&[f32], &[f16]) -> f32;

/// Writes the inner product of a query with each row into `products`. The query has twice as many lines as a row.
type CodeKernel = fn(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]);

type Encoder = fn(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32;
type Unpacker = fn(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32;
type Adder = fn(sum: &mut [f32], codes: &[u8], scale: f32);
type Rotator = fn(rotation: &Rotation, vector: &[f32], rotated: &mut Vec<f32>);
type Tabulator = fn(query: &[f32], table: &mut SignTable);
type NeighborCoder = fn(row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]);
type Estimator = fn(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32;

/// The functions of one instruction set. The methods say what each does, and check its arguments.
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

pub(super) const SCALAR: Kernels = Kernels {
    name: "scalar",
    dot: dot_scalar,
    dot_half: dot_half_scalar,
    codes: codes::products_scalar,
    encode: codes::encode_scalar,
    unpack: codes::unpack_scalar,
    add_scaled: codes::add_scaled,
    rotate: rotation::rotate_scalar,
    tabulate: neighbor_codes::tabulate_scalar,
    put_neighbor: neighbor_codes::put_neighbor_scalar,
    estimate: neighbor_codes::estimate_scalar,
};

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

fn dot_scalar(a: &[f32], b: &[f32]) -> f32 {
    sum_of_products(a, b, |x| x)
}

fn dot_half_scalar(a: &[f32], b: &[f16]) -> f32 {
    sum_of_products(a, b, widened)
}

#[inline(always)]
fn sum_of_products<T: Copy>(a: &[f32], b: &[T], component: impl Fn(T) -> f32) -> f32 {
    // Eight sums, so that the compiler can use the vector registers of the target.
    let mut sums = [0.0f32; 8];
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * component(b[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * component(*b)).sum();
    sums.iter().sum::<f32>() + rest
}

/// Converts a finite number, subnormal ones included, in steps that a compiler can do for many numbers at once.
#[inline(always)]
pub(super) fn widened(x: f16) -> f32 {
    /// 2 to the power of the difference of the exponents' offsets, 127 - 15.
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(x.to_bits());
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * REBIAS;
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}
