//! Kernels for NEON, which every 64-bit ARM processor has.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{
    codes::{self, Line},
    kernels::Kernels,
    scalar,
};

const LANES: usize = 4;

pub(super) fn detect() -> Option<Kernels> {
    let has_all = std::arch::is_aarch64_feature_detected!("neon");
    has_all.then_some(Kernels { name: "neon", dot, codes: products, encode, unpack, add_scaled })
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { dot_neon(a, b) }
}

#[target_feature(enable = "neon")]
fn dot_neon(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): (block + 1) * LANES <= length, so both slices have the elements; loads need no
    // alignment.
    let load =
        |block: usize| unsafe { (vld1q_f32(a.as_ptr().add(block * LANES)), vld1q_f32(b.as_ptr().add(block * LANES))) };
    // Four sums, because each addition to a single sum would wait for the one before.
    let mut sums = [vdupq_n_f32(0.0); 4];
    for first in (0..blocks / 4 * 4).step_by(4) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let (x, y) = load(first + lane);
            *sum = vfmaq_f32(*sum, x, y);
        }
    }
    for block in blocks / 4 * 4..blocks {
        let (x, y) = load(block);
        sums[0] = vfmaq_f32(sums[0], x, y);
    }
    let sum = vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])));
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * b[i]).sum();
    sum + rest
}

fn products(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { products_neon(query, rows, products) }
}

#[target_feature(enable = "neon")]
fn products_neon(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    let half = vdupq_n_u8(15);
    for (row, product) in rows.iter().zip(products) {
        let mut sum = vdupq_n_s32(0);
        for (line, [low_query, high_query]) in row.iter().zip(query.as_chunks::<2>().0) {
            for part in [0, 16, 32, 48] {
                // SAFETY (of the three): a line has 64 bytes, and 16 of them are read from 48 at most.
                let codes = unsafe { vld1q_u8(line.0.as_ptr().add(part)) };
                let low_query = unsafe { vld1q_s8(low_query.0.as_ptr().add(part)) };
                let high_query = unsafe { vld1q_s8(high_query.0.as_ptr().add(part)) };
                let low = vreinterpretq_s8_u8(vandq_u8(codes, half));
                let high = vreinterpretq_s8_u8(vshrq_n_u8::<4>(codes));
                // A sum of two products fits 16 bits: 2 * 15 * 128 is 3,840.
                let pairs = vmlal_s8(
                    vmull_s8(vget_low_s8(low), vget_low_s8(low_query)),
                    vget_low_s8(high),
                    vget_low_s8(high_query),
                );
                sum = vpadalq_s16(sum, pairs);
                let pairs = vmlal_high_s8(vmull_high_s8(low, low_query), high, high_query);
                sum = vpadalq_s16(sum, pairs);
            }
        }
        *product = vaddvq_s32(sum);
    }
}

fn encode(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { encode_neon(vector, coarse, fine) }
}

#[target_feature(enable = "neon")]
fn encode_neon(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 {
    codes::encode(vector, coarse, fine)
}

fn unpack(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { unpack_neon(coarse, fine, query) }
}

#[target_feature(enable = "neon")]
fn unpack_neon(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 {
    codes::unpack(coarse, fine, query)
}

fn add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { add_scaled_neon(sum, codes, scale) }
}

#[target_feature(enable = "neon")]
fn add_scaled_neon(sum: &mut [f32], codes: &[u8], scale: f32) {
    scalar::add_scaled(sum, codes, scale);
}
