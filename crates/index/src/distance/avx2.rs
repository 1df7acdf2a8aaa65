//! Kernels for x86 processors with AVX2, FMA and F16C.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use half::f16;

use super::{
    codes::Line,
    kernels::{Kernels, widened},
    neighbor_codes::{self, BLOCK_ROWS, CodedRow, HEAD, SignTable},
    rotation::Rotation,
};

const LANES: usize = 8;

compile_portable!("avx2");

pub(super) fn detect() -> Option<Kernels> {
    let has_all =
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    has_all.then_some(Kernels {
        name: "avx2",
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
    unsafe { dot_avx2(a, b) }
}

#[target_feature(enable = "avx2,fma")]
fn dot_avx2(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): (block + 1) * LANES <= length, so both slices have the elements; loads need no
    // alignment.
    let load = |block: usize| unsafe {
        (_mm256_loadu_ps(a.as_ptr().add(block * LANES)), _mm256_loadu_ps(b.as_ptr().add(block * LANES)))
    };
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * b[i]).sum();
    sum_of_products(blocks, load) + rest
}

fn dot_half(a: &[f32], b: &[f16]) -> f32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { dot_half_avx2(a, b) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dot_half_avx2(a: &[f32], b: &[f16]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): as in `dot_avx2`; an `f16` has two bytes.
    let load = |block: usize| unsafe {
        let halves = _mm_loadu_si128(b.as_ptr().add(block * LANES).cast());
        (_mm256_loadu_ps(a.as_ptr().add(block * LANES)), _mm256_cvtph_ps(halves))
    };
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * widened(b[i])).sum();
    sum_of_products(blocks, load) + rest
}

/// Adds up the products of pairs of registers, and their lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sum_of_products(blocks: usize, load: impl Fn(usize) -> (__m256, __m256)) -> f32 {
    // Four sums, because each addition to a single sum would wait for the one before.
    let mut sums = [_mm256_setzero_ps(); 4];
    for first in (0..blocks / 4 * 4).step_by(4) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let (x, y) = load(first + lane);
            *sum = _mm256_fmadd_ps(x, y, *sum);
        }
    }
    for block in blocks / 4 * 4..blocks {
        let (x, y) = load(block);
        sums[0] = _mm256_fmadd_ps(x, y, sums[0]);
    }
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    let mut lanes = [0.0f32; LANES];
    // SAFETY: `lanes` has room for the register; stores need no alignment.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
    lanes.iter().sum()
}

fn products(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { products_avx2(query, rows, products) }
}

#[target_feature(enable = "avx2")]
fn products_avx2(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    let half = _mm256_set1_epi8(15);
    let ones = _mm256_set1_epi16(1);
    let sums = |row: &[Line]| {
        let mut sum = _mm256_setzero_si256();
        for (line, [low_query, high_query]) in row.iter().zip(query.as_chunks::<2>().0) {
            let part = |part: usize| {
                // SAFETY (of the three): a line has 64 bytes, and 32 of them are read from 0 or 32.
                let codes: __m256i = unsafe { _mm256_loadu_si256(line.0.as_ptr().add(part).cast()) };
                let low_query = unsafe { _mm256_loadu_si256(low_query.0.as_ptr().add(part).cast()) };
                let high_query = unsafe { _mm256_loadu_si256(high_query.0.as_ptr().add(part).cast()) };
                let low = _mm256_and_si256(codes, half);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), half);
                _mm256_add_epi16(_mm256_maddubs_epi16(low, low_query), _mm256_maddubs_epi16(high, high_query))
            };
            // A sum of eight products fits 16 bits: 8 * 15 * 128 is 15,360.
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(part(0), part(32)), ones));
        }
        sum
    };
    let (fours, rest) = rows.as_chunks::<4>();
    let (four_products, rest_products) = products.split_at_mut(fours.len() * 4);
    // Four rows at a time, because the lanes of four sums are added up together.
    for (&[a, b, c, d], products) in fours.iter().zip(four_products.as_chunks_mut::<4>().0) {
        let pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(sums(a), sums(b)), _mm256_hadd_epi32(sums(c), sums(d)));
        let sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
        // SAFETY: `products` has room for the register; stores need no alignment.
        unsafe { _mm_storeu_si128(products.as_mut_ptr().cast(), sum) };
    }
    for (row, product) in rest.iter().zip(rest_products) {
        let mut lanes = [0i32; 8];
        // SAFETY: `lanes` has room for the register; stores need no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums(row)) };
        *product = lanes.iter().sum();
    }
}

fn estimate(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { estimate_avx2(table, score, block, floor, scores) }
}

#[target_feature(enable = "avx2")]
fn estimate_avx2(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32 {
    let half = _mm256_set1_epi8(15);
    // SAFETY: a line has 64 bytes, and 32 of them are read from 0 or 32.
    let load = |line: &Line, part: usize| unsafe { _mm256_loadu_si256(line.0.as_ptr().add(part).cast()) };
    // For both halves of the bytes, sums of the pairs of entries as they are, and of the upper ones.
    let mut sums = [_mm256_setzero_si256(); 4];
    let signs = block[HEAD..].as_chunks::<2>().0;
    for (entries, signs) in table.lines.as_chunks::<2>().0.iter().zip(signs) {
        for part in [0, 32] {
            let entries = entries.each_ref().map(|line| load(line, part));
            let signs = signs.each_ref().map(|line| load(line, part));
            let low = |i: usize| _mm256_shuffle_epi8(entries[i], _mm256_and_si256(signs[i], half));
            let high =
                |i: usize| _mm256_shuffle_epi8(entries[i], _mm256_and_si256(_mm256_srli_epi16::<4>(signs[i]), half));
            let (low, high) = (_mm256_add_epi8(low(0), low(1)), _mm256_add_epi8(high(0), high(1)));
            sums[0] = _mm256_add_epi16(sums[0], low);
            sums[1] = _mm256_add_epi16(sums[1], _mm256_srli_epi16::<8>(low));
            sums[2] = _mm256_add_epi16(sums[2], high);
            sums[3] = _mm256_add_epi16(sums[3], _mm256_srli_epi16::<8>(high));
        }
    }
    let fold = |sum: __m256i| _mm_add_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    let mut products = [0u16; BLOCK_ROWS];
    for (i, products) in products.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (pairs, odd) = (fold(sums[2 * i]), fold(sums[2 * i + 1]));
        let even = _mm_sub_epi16(pairs, _mm_slli_epi16::<8>(odd));
        let begin = products.as_mut_ptr().cast::<__m128i>();
        // SAFETY (of both): 16 numbers of 16 bits take two registers; stores need no alignment.
        unsafe { _mm_storeu_si128(begin, _mm_unpacklo_epi16(even, odd)) };
        unsafe { _mm_storeu_si128(begin.add(1), _mm_unpackhi_epi16(even, odd)) };
    }
    neighbor_codes::finish(table, score, block, &products, floor, scores)
}
