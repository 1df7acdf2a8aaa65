//! Kernels for x86 processors with AVX-512 F, BW and VNNI.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use half::f16;

use super::{
    codes::Line,
    kernels::{Kernels, widened},
    neighbor_codes::{self, BLOCK_ROWS, CodedRow, HEAD, SignTable},
    rotation::Rotation,
};

const LANES: usize = 16;

compile_portable!("avx512f,avx512bw,avx512vnni");

pub(super) fn detect() -> Option<Kernels> {
    let has_all = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni");
    has_all.then_some(Kernels {
        name: "avx512",
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
    unsafe { dot_avx512(a, b) }
}

#[target_feature(enable = "avx512f")]
fn dot_avx512(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): (block + 1) * LANES <= length, so both slices have the elements; loads need no
    // alignment.
    let load = |block: usize| unsafe {
        (_mm512_loadu_ps(a.as_ptr().add(block * LANES)), _mm512_loadu_ps(b.as_ptr().add(block * LANES)))
    };
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * b[i]).sum();
    sum_of_products(blocks, load) + rest
}

fn dot_half(a: &[f32], b: &[f16]) -> f32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { dot_half_avx512(a, b) }
}

#[target_feature(enable = "avx512f")]
fn dot_half_avx512(a: &[f32], b: &[f16]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): as in `dot_avx512`; an `f16` has two bytes.
    let load = |block: usize| unsafe {
        let halves = _mm256_loadu_si256(b.as_ptr().add(block * LANES).cast());
        (_mm512_loadu_ps(a.as_ptr().add(block * LANES)), _mm512_cvtph_ps(halves))
    };
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * widened(b[i])).sum();
    sum_of_products(blocks, load) + rest
}

/// Adds up the products of pairs of registers, and their lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_of_products(blocks: usize, load: impl Fn(usize) -> (__m512, __m512)) -> f32 {
    // Four sums, because each addition to a single sum would wait for the one before.
    let mut sums = [_mm512_setzero_ps(); 4];
    for first in (0..blocks / 4 * 4).step_by(4) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let (x, y) = load(first + lane);
            *sum = _mm512_fmadd_ps(x, y, *sum);
        }
    }
    for block in blocks / 4 * 4..blocks {
        let (x, y) = load(block);
        sums[0] = _mm512_fmadd_ps(x, y, sums[0]);
    }
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])))
}

fn products(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { products_vnni(query, rows, products) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn products_vnni(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    let half = _mm512_set1_epi8(15);
    // SAFETY (of both): a line has 64 bytes.
    let load = |line: &Line| unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
    let load_query = |line: &Line<i8>| unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
    let add = |sum: __m512i, line: &Line, low_query: __m512i, high_query: __m512i| {
        let codes = load(line);
        let low = _mm512_and_si512(codes, half);
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), half);
        _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, low, low_query), high, high_query)
    };
    let queries = query.as_chunks::<2>().0;
    let (fours, rest) = rows.as_chunks::<4>();
    let (four_products, rest_products) = products.split_at_mut(fours.len() * 4);
    // Four rows at a time: the query is loaded once for them, and their additions do not wait for each other.
    for (rows, products) in fours.iter().zip(four_products.as_chunks_mut::<4>().0) {
        let mut sums = [_mm512_setzero_si512(); 4];
        for (i, [low_query, high_query]) in queries.iter().enumerate() {
            let (low_query, high_query) = (load_query(low_query), load_query(high_query));
            for lane in 0..4 {
                sums[lane] = add(sums[lane], &rows[lane][i], low_query, high_query);
            }
        }
        *products = sums_of_lanes(sums);
    }
    for (row, product) in rest.iter().zip(rest_products) {
        // Two sums, because each addition to a single sum would wait for the one before.
        let mut sums = [_mm512_setzero_si512(); 2];
        for (i, (line, [low_query, high_query])) in row.iter().zip(queries).enumerate() {
            sums[i % 2] = add(sums[i % 2], line, load_query(low_query), load_query(high_query));
        }
        *product = _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]));
    }
}

/// Adds up the lanes of each of four registers, all at once.
#[target_feature(enable = "avx512f")]
fn sums_of_lanes([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
    // Each 128 bits have two sums of two lanes of each of two registers, then one sum of four lanes of each register.
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    let abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let half = _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64::<1>(abcd));
    let sums = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let mut products = [0; 4];
    // SAFETY: the array has 128 bits; the store needs no alignment.
    unsafe { _mm_storeu_si128(products.as_mut_ptr().cast(), sums) };
    products
}

fn estimate(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32 {
    // SAFETY: only `detect` returns this function, after it has found the features.
    unsafe { estimate_avx512(table, score, block, floor, scores) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn estimate_avx512(table: &SignTable, score: f32, block: &[Line], floor: f32, scores: &mut [f32; BLOCK_ROWS]) -> u32 {
    let half = _mm512_set1_epi8(15);
    // SAFETY: a line has 64 bytes.
    let load = |line: &Line| unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) };
    // For both halves of the bytes, sums of the pairs of entries as they are, and of the upper ones.
    let mut sums = [_mm512_setzero_si512(); 4];
    let signs = block[HEAD..].as_chunks::<2>().0;
    for (entries, signs) in table.lines.as_chunks::<2>().0.iter().zip(signs) {
        let (entries, signs) = (entries.each_ref().map(load), signs.each_ref().map(load));
        let low = |i: usize| _mm512_shuffle_epi8(entries[i], _mm512_and_si512(signs[i], half));
        let high = |i: usize| _mm512_shuffle_epi8(entries[i], _mm512_and_si512(_mm512_srli_epi16::<4>(signs[i]), half));
        let (low, high) = (_mm512_add_epi8(low(0), low(1)), _mm512_add_epi8(high(0), high(1)));
        sums[0] = _mm512_add_epi16(sums[0], low);
        sums[1] = _mm512_add_epi16(sums[1], _mm512_srli_epi16::<8>(low));
        sums[2] = _mm512_add_epi16(sums[2], high);
        sums[3] = _mm512_add_epi16(sums[3], _mm512_srli_epi16::<8>(high));
    }
    let fold = |sum: __m512i| {
        let half = _mm256_add_epi16(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
        _mm_add_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
    };
    // The rest is `neighbor_codes::finish`, which compilers would take through memory.
    let lift = _mm256_set1_epi16(table.lift.cast_signed());
    let mut above = 0;
    for part in 0..2 {
        let (pairs, odd) = (fold(sums[2 * part]), fold(sums[2 * part + 1]));
        let even = _mm_sub_epi16(pairs, _mm_slli_epi16::<8>(odd));
        let products = _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd));
        let products = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_sub_epi16(products, lift)));
        let factors = |line: &Line| {
            // SAFETY: a line has 64 bytes, and 32 of them are read from 0 or 32.
            let halves = unsafe { _mm256_loadu_si256(line.0.as_ptr().add(32 * part).cast()) };
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
        };
        let [slopes, offsets] = [factors(&block[0]), factors(&block[1])];
        let products = _mm512_mul_ps(products, _mm512_set1_ps(table.step));
        let differences = _mm512_add_ps(_mm512_mul_ps(slopes, products), offsets);
        let estimates = _mm512_add_ps(_mm512_set1_ps(score), differences);
        // SAFETY: 16 of 32 numbers are written from 0 or 16; stores need no alignment.
        unsafe { _mm512_storeu_ps(scores.as_mut_ptr().add(16 * part), estimates) };
        let is_above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(estimates, _mm512_set1_ps(floor));
        above |= u32::from(is_above) << (16 * part);
    }
    above
}
