//! Inner products of packed 4-bit codes with 8-bit queries.
//!
//! A plane packs 128 codes of 4 bits into each [`Line`]: byte `j` holds component `j` in its low half and component
//! `64 + j` in its high half. A query has two lines of signed bytes for each: components 0 to 63, and 64 to 127. The
//! result is exact, so every instruction set gives the same.

use super::Kernels;

/// A cache line, and where one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(in crate::index) struct Line<T = u8>(pub(in crate::index) [T; 64]);

/// Components that one line of a plane holds.
pub(in crate::index) const PER_LINE: usize = 128;

/// The inner products of a query with each of some rows. A row has half as many lines as the query.
pub(super) type CodeKernel = fn(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]);

impl Kernels {
    /// The inner product of `query` with each of `rows`, into `products`.
    ///
    /// # Panics
    /// If a row has not half as many lines as the query, or there are fewer products than rows.
    #[inline]
    pub(in crate::index) fn products(&self, query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
        assert!(rows.len() <= products.len(), "a product a row");
        assert!(rows.iter().all(|row| row.len() * 2 == query.len()), "codes of one index have one length");
        (self.codes)(query, rows, products);
    }
}

/// Encodes a vector: see [`Kernels::encode`].
pub(super) type Encoder = fn(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32;

impl Kernels {
    /// Encodes a vector in both planes, and returns what a code of one stands for: codes are 128 and more or less, 127 at
    /// most. What pads the last line stands for 0.
    ///
    /// # Panics
    /// If there are too few lines.
    #[inline]
    pub(in crate::index) fn encode(&self, vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
        (self.encode)(vector, coarse, fine)
    }
}

/// What a code of one stands for, and its inverse.
pub(in crate::index) fn scale(vector: &[f32]) -> (f32, f32) {
    // The bits of what is not negative are in order.
    let max = f32::from_bits(vector.iter().fold(0, |max, x| max.max(x.to_bits() as i32 & i32::MAX)) as u32);
    // Too small to divide by: as good as nothing.
    if max > f32::MIN_POSITIVE * 128.0 { (max / 127.0, 127.0 / max) } else { (0.0, 0.0) }
}

/// Rounds a number of at most 127, either way. Adding 1.5 * 2^23 rounds, and leaves the number in the low bits: many at a
/// time, on any processor.
#[inline(always)]
pub(in crate::index) fn rounded(x: f32) -> i8 {
    (x + 12_582_912.0).to_bits() as i8
}

/// In plain Rust, for each instruction set to compile for itself.
#[inline(always)]
pub(super) fn encode(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
    let (scale, inverse) = scale(vector);
    for (i, part) in vector.chunks(PER_LINE).enumerate() {
        let mut codes = [128u8; PER_LINE];
        for (code, x) in codes.iter_mut().zip(part) {
            *code = (rounded(x * inverse) as u8).wrapping_add(128);
        }
        let (low, high) = codes.split_at(64);
        for j in 0..64 {
            coarse[i].0[j] = (low[j] >> 4) | (high[j] & 0xf0);
            fine[i].0[j] = (low[j] & 15) | (high[j] << 4);
        }
    }
    scale
}

/// Makes a query of a row: see [`Kernels::unpack`].
pub(super) type Unpacker = fn(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32;

impl Kernels {
    /// Takes both planes of a row apart into lines of signed bytes, twice as many, and returns the sum of the bytes.
    ///
    /// # Panics
    /// If there are too few lines.
    #[inline]
    pub(in crate::index) fn unpack(&self, coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
        (self.unpack)(coarse, fine, query)
    }
}

/// In plain Rust, for each instruction set to compile for itself.
#[inline(always)]
pub(super) fn unpack(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
    let mut sum = 0;
    for ((coarse, fine), lines) in coarse.iter().zip(fine).zip(query.as_chunks_mut::<2>().0) {
        let [low, high] = lines;
        for j in 0..64 {
            // Flipping the top bit takes 128 off.
            low.0[j] = (((coarse.0[j] << 4) | (fine.0[j] & 15)) ^ 128) as i8;
            high.0[j] = (((coarse.0[j] & 0xf0) | (fine.0[j] >> 4)) ^ 128) as i8;
        }
        for j in 0..64 {
            sum += i32::from(low.0[j]) + i32::from(high.0[j]);
        }
    }
    sum
}

pub(super) fn unpack_scalar(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
    unpack(coarse, fine, query)
}

pub(super) fn encode_scalar(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
    encode(vector, coarse, fine)
}

pub(super) fn scalar(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    for (row, product) in rows.iter().zip(products) {
        *product = 0;
        for (line, query) in row.iter().zip(query.as_chunks::<2>().0) {
            for j in 0..64 {
                let (low, high) = (i32::from(line.0[j] & 15), i32::from(line.0[j] >> 4));
                *product += low * i32::from(query[0].0[j]) + high * i32::from(query[1].0[j]);
            }
        }
    }
}
