//! The format of the codes of a row's neighbors, and the portable functions for them.
//!
//! A code has one bit for each component: the sign of the difference between the neighbor and the row. It gives an
//! unbiased estimate of the neighbor's score (RaBitQ, Gao and Long, arXiv 2405.12497), and codes relative to the row they
//! are stored with err less than codes of the vectors themselves (SymphonyQG, Gou et al., arXiv 2411.12229).
//!
//! With the row `r`, the difference `u = n - r` to the neighbor `n`, and its signs `s`, the score of a query `q` is
//! `q.r + q.u`, and `q.u` is about `r.u + slope * s.(q - r)`, where `slope` is `u.u / s.u`. Of this, `q.r` is known when the
//! row's neighbors are scored, `s.q` comes from the codes, and the rest is the neighbor's `offset`.
//!
//! A block has the codes of [`BLOCK_ROWS`] neighbors: a line with their slopes, a line with their offsets, both as
//! [bfloat16](https://en.wikipedia.org/wiki/Bfloat16_floating-point_format), and a line for every [`TABLE_COMPONENTS`]
//! components. Such a line has 16 bytes for each four components: byte `j` has the four signs of neighbor `j` in its low
//! half, and those of neighbor `16 + j` in its high half. So a register of table entries, 16 for each four components,
//! adds up the products of many neighbors at a time (André, Kermarrec and Le Scouarnec, "Cache locality is not enough",
//! VLDB 2015).

use super::codes::{Line, PER_LINE, rounded};

/// Neighbors whose codes are in one block.
pub(crate) const BLOCK_ROWS: usize = 32;

/// Components in one line of a block, and in one line of a query's table.
pub(super) const TABLE_COMPONENTS: usize = 16;

/// The largest absolute value of a query's component in the table. The sum of two entries, of four components each, fits a
/// byte; with more digits the estimates are hardly better.
const LARGEST: u8 = 15;

/// An entry of the table is a sum of four components with signs, plus this number, so that none is negative.
const LIFT: u8 = 4 * LARGEST;

/// The largest absolute value of a product of a query and signs, so that it fits 16 bits.
const LARGEST_PRODUCT: f32 = 32_000.0;

/// Lines of a block before the signs.
pub(super) const HEAD: usize = 2;

/// The offset of a slot without a neighbor: its score is below every floor.
const NOWHERE: f32 = -1e30;

/// The products of a query with each combination of four signs, for all components.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignTable {
    pub(super) lines: Vec<Line>,
    /// The difference between two neighboring values of a component.
    pub(super) step: f32,
    /// The sum of all that was added to the entries of a product, without what does not fit.
    pub(super) lift: u16,
}

/// Returns the lines of a block for vectors whose codes have as many lines.
pub(crate) fn block_lines(code_lines: usize) -> usize {
    HEAD + code_lines * (PER_LINE / TABLE_COMPONENTS)
}

/// Computes the table of a query in plain Rust. Each instruction set compiles this function for itself.
#[inline(always)]
pub(super) fn tabulate(query: &[f32], table: &mut SignTable) {
    let largest = query.as_chunks::<16>().0.iter().fold([0.0f32; 16], |mut largest, part| {
        for lane in 0..16 {
            let x = part[lane].abs();
            largest[lane] = if x > largest[lane] { x } else { largest[lane] };
        }
        largest
    });
    let largest = largest.into_iter().fold(0.0, f32::max);
    let largest_code = f32::from(LARGEST).min(LARGEST_PRODUCT / query.len() as f32);
    let inverse = if largest > f32::MIN_POSITIVE * 128.0 { largest_code / largest } else { 0.0 };
    table.step = largest / largest_code;
    table.lift = u16::from(LIFT).wrapping_mul((query.len() / 4) as u16);
    table.lines.resize(query.len() / TABLE_COMPONENTS, Line([0; 64]));
    for (line, part) in table.lines.iter_mut().zip(query.as_chunks::<TABLE_COMPONENTS>().0) {
        let codes = part.map(|x| rounded(x * inverse).cast_unsigned());
        for (entries, four) in line.0.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<4>().0) {
            let lowest = four.iter().fold(LIFT, |entry, code| entry.wrapping_sub(*code));
            for (signs, entry) in entries.iter_mut().enumerate() {
                *entry = lowest;
                for (i, code) in four.iter().enumerate() {
                    let is_positive = (signs >> i & 1) as u8;
                    *entry = entry.wrapping_add(code.wrapping_mul(2) & is_positive.wrapping_neg());
                }
            }
        }
    }
}

/// The slopes and offsets of a block.
#[inline(always)]
pub(super) fn factors(block: &[Line]) -> [[f32; BLOCK_ROWS]; 2] {
    [0, 1].map(|line: usize| {
        let parts = block[line].0.as_chunks::<2>().0;
        std::array::from_fn(|i| f32::from_bits(u32::from(u16::from_le_bytes(parts[i])) << 16))
    })
}

/// Writes a number as bfloat16, rounded.
fn put_half(line: &mut Line, slot: usize, x: f32) {
    let rounded = x.to_bits().wrapping_add(0x7fff + ((x.to_bits() >> 16) & 1));
    line.0.as_chunks_mut::<2>().0[slot] = ((rounded >> 16) as u16).to_le_bytes();
}

pub(crate) fn clear_block(block: &mut [Line]) {
    block.fill(Line([0; 64]));
    (0..BLOCK_ROWS).for_each(|slot| put_half(&mut block[1], slot, NOWHERE));
}

/// Writes the code of a neighbor into an empty slot of a block. Each instruction set compiles this function for itself.
#[inline(always)]
pub(super) fn put_neighbor(row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]) {
    /// Sums of as many components each, in an order that is the same on every processor.
    type Sums = [f32; 16];
    let [mut square, mut absolute, mut signed, mut product]: [Sums; 4] = [[0.0; 16]; 4];
    let shift = 4 * (slot / 16);
    for (at, (row_part, neighbor_part)) in row.lines.iter().zip(neighbor.lines).enumerate() {
        let mut signs = [0u8; 64];
        for (signs, (a, b)) in signs
            .as_chunks_mut::<16>()
            .0
            .iter_mut()
            .zip(row_part.0.as_chunks::<16>().0.iter().zip(neighbor_part.0.as_chunks::<16>().0))
        {
            for lane in 0..16 {
                let x = f32::from(a[lane]) * row.scale;
                let u = f32::from(b[lane]) * neighbor.scale - x;
                square[lane] += u * u;
                absolute[lane] += u.abs();
                signed[lane] += if u > 0.0 { x } else { -x };
                product[lane] += x * u;
                signs[lane] = u8::from(u > 0.0);
            }
        }
        for (group, four) in signs.as_chunks::<4>().0.iter().enumerate() {
            // The product moves the four lowest bits next to each other.
            let nibble = (u32::from_le_bytes(*four).wrapping_mul(0x0102_0408) >> 24) as u8;
            let line = HEAD + at * 4 + group / 4;
            block[line].0[group % 4 * 16 + slot % 16] |= nibble << shift;
        }
    }
    let sum = |sums: Sums| sums.iter().sum::<f32>();
    let slope = if sum(absolute) > 0.0 { sum(square) / sum(absolute) } else { 0.0 };
    put_half(&mut block[0], slot, slope);
    put_half(&mut block[1], slot, sum(product) - slope * sum(signed));
}

/// A row as signed bytes, with its scale.
#[derive(Clone, Copy)]
pub(crate) struct CodedRow<'a> {
    pub(crate) lines: &'a [Line<i8>],
    pub(crate) scale: f32,
}

pub(super) fn tabulate_scalar(query: &[f32], table: &mut SignTable) {
    tabulate(query, table);
}

pub(super) fn put_neighbor_scalar(row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]) {
    put_neighbor(row, neighbor, slot, block);
}

pub(super) fn estimate_scalar(
    table: &SignTable,
    score: f32,
    block: &[Line],
    floor: f32,
    scores: &mut [f32; BLOCK_ROWS],
) -> u32 {
    let mut sums = [0u16; BLOCK_ROWS];
    for (entries, signs) in table.lines.iter().zip(&block[HEAD..]) {
        for (entries, signs) in entries.0.as_chunks::<16>().0.iter().zip(signs.0.as_chunks::<16>().0) {
            for (j, signs) in signs.iter().enumerate() {
                sums[j] = sums[j].wrapping_add(u16::from(entries[usize::from(signs & 15)]));
                sums[16 + j] = sums[16 + j].wrapping_add(u16::from(entries[usize::from(signs >> 4)]));
            }
        }
    }
    finish(table, score, block, &sums, floor, scores)
}

/// Turns sums of table entries into scores. Returns a bit for each score above the floor. Each instruction set compiles
/// this function for itself.
#[inline(always)]
pub(super) fn finish(
    table: &SignTable,
    score: f32,
    block: &[Line],
    sums: &[u16; BLOCK_ROWS],
    floor: f32,
    scores: &mut [f32; BLOCK_ROWS],
) -> u32 {
    let [slopes, offsets] = factors(block);
    let mut above = 0;
    for j in 0..BLOCK_ROWS {
        let product = f32::from(sums[j].wrapping_sub(table.lift).cast_signed()) * table.step;
        scores[j] = score + (slopes[j] * product + offsets[j]);
        above |= u32::from(scores[j] > floor) << j;
    }
    above
}
