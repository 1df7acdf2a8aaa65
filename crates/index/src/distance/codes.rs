//! The format of packed codes, and the portable functions for them.
//!
//! A vector is stored as 8-bit codes in two planes of 4 bits, coarse (the upper half) and fine. A plane packs 128 codes
//! of 4 bits into each [`Line`]: byte `j` holds component `j` in its low half and component `64 + j` in its high half.
//! A query has two lines of signed bytes for each line of a plane: components 0 to 63, then 64 to 127. Products are
//! integers, so every instruction set gives the same result.

/// 64 bytes, aligned to a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line<T = u8>(pub(crate) [T; 64]);

/// The number of components in one line of a plane.
pub(crate) const PER_LINE: usize = 128;

/// Returns the scale of a vector (the difference between two neighboring codes) and its inverse; both are 0 for a
/// vector whose components are all about 0.
pub(crate) fn scale(vector: &[f32]) -> (f32, f32) {
    // The bits of non-negative floats are in the order of the floats.
    let max = f32::from_bits(vector.iter().fold(0, |max, x| max.max(x.to_bits() as i32 & i32::MAX)) as u32);
    // Smaller components cannot be divided by, and are treated as 0.
    if max > f32::MIN_POSITIVE * 128.0 { (max / 127.0, 127.0 / max) } else { (0.0, 0.0) }
}

/// Rounds a number between -127 and 127. Adding 1.5 * 2^23 rounds the number and leaves it in the low bits, which
/// every processor can do for many numbers at a time.
#[inline(always)]
pub(crate) fn rounded(x: f32) -> i8 {
    (x + 12_582_912.0).to_bits() as i8
}

/// Encodes a vector in plain Rust. Each instruction set compiles this function for itself.
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

/// Unpacks a row in plain Rust. Each instruction set compiles this function for itself.
#[inline(always)]
pub(super) fn unpack(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
    let mut sum = 0;
    for ((coarse, fine), lines) in coarse.iter().zip(fine).zip(query.as_chunks_mut::<2>().0) {
        let [low, high] = lines;
        for j in 0..64 {
            // Flipping the top bit subtracts 128.
            low.0[j] = (((coarse.0[j] << 4) | (fine.0[j] & 15)) ^ 128) as i8;
            high.0[j] = (((coarse.0[j] & 0xf0) | (fine.0[j] >> 4)) ^ 128) as i8;
        }
        for j in 0..64 {
            sum += i32::from(low.0[j]) + i32::from(high.0[j]);
        }
    }
    sum
}

/// Adds a row of codes, scaled, to a vector. Each instruction set compiles this function for itself.
#[inline(always)]
pub(super) fn add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) {
    // The product is rounded before it is added: a fused operation would give other bits.
    for (sum, &code) in sum.iter_mut().zip(codes) {
        *sum += scale * f32::from(code.cast_signed());
    }
}

pub(super) fn unpack_scalar(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
    unpack(coarse, fine, query)
}

pub(super) fn encode_scalar(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
    encode(vector, coarse, fine)
}

pub(super) fn products_scalar(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
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
