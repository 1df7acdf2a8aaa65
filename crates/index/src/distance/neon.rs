//! Kernels for NEON, which every 64-bit ARM processor has.
#![allow(unsafe_code)]

use std::arch::{aarch64::*, asm};

use half::f16;

use super::{
    codes::Line,
    kernels::{Kernels, widened},
    neighbor_codes::{self, BLOCK_ROWS, CodedRow, HEAD, SignTable},
    rotation::Rotation,
};

const LANES: usize = 4;

compile_portable!("neon");

pub(super) fn detect() -> Option<Kernels> {
    let has_all = std::arch::is_aarch64_feature_detected!("neon");
    has_all.then_some(Kernels {
        name: "neon",
        dot,
        dot_half,
        codes: products,
        encode,
        unpack,
        add_scaled,
        rotate,
        tabulate,
        put_neighbor,
        estimate,
    })
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
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * b[i]).sum();
    sum_of_products(blocks, load) + rest
}

fn dot_half(a: &[f32], b: &[f16]) -> f32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { dot_half_neon(a, b) }
}

#[target_feature(enable = "neon")]
fn dot_half_neon(a: &[f32], b: &[f16]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): as in `dot_neon`; an `f16` has two bytes.
    let load = |block: usize| unsafe {
        let halves = vld1_u16(b.as_ptr().add(block * LANES).cast());
        (vld1q_f32(a.as_ptr().add(block * LANES)), widened_four(halves))
    };
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * widened(b[i])).sum();
    sum_of_products(blocks, load) + rest
}

/// Converts four numbers with 16 bits. Rust has no stable function for this instruction.
#[inline]
#[target_feature(enable = "neon")]
fn widened_four(halves: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    // SAFETY: every processor with NEON has the instruction, which reads and writes registers alone.
    unsafe {
        asm!("fcvtl {wide:v}.4s, {halves:v}.4h", wide = lateout(vreg) wide, halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags));
    }
    wide
}

/// Adds up the products of pairs of registers, and their lanes.
#[inline]
#[target_feature(enable = "neon")]
fn sum_of_products(blocks: usize, load: impl Fn(usize) -> (float32x4_t, float32x4_t)) -> f32 {
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
    vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])))
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

fn estimate(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { estimate_neon(table, score, block, floor, scores) }
}

#[target_feature(enable = "neon")]
fn estimate_neon(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32 {
    let half = vdupq_n_u8(15);
    // SAFETY: a line has 64 bytes, and 16 of them are read from 0, 16, 32 or 48.
    let load = |line: &Line, part: usize| unsafe { vld1q_u8(line.0.as_ptr().add(part)) };
    let mut sums = [vdupq_n_u16(0); 4];
    for (entries, signs) in table.lines.iter().zip(&block[HEAD..]) {
        for part in [0, 16, 32, 48] {
            let (entries, signs) = (load(entries, part), load(signs, part));
            let low = vqtbl1q_u8(entries, vandq_u8(signs, half));
            let high = vqtbl1q_u8(entries, vshrq_n_u8::<4>(signs));
            sums[0] = vaddw_u8(sums[0], vget_low_u8(low));
            sums[1] = vaddw_high_u8(sums[1], low);
            sums[2] = vaddw_u8(sums[2], vget_low_u8(high));
            sums[3] = vaddw_high_u8(sums[3], high);
        }
    }
    let mut products = [0u16; BLOCK_ROWS];
    for (products, sum) in products.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        // SAFETY: 8 numbers of 16 bits take one register.
        unsafe { vst1q_u16(products.as_mut_ptr(), sum) };
    }
    neighbor_codes::finish(table, score, block, &products, floor, scores)
}
