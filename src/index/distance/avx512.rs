//! AVX-512 F.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Kernel;

const LANES: usize = 16;

pub(super) fn detect() -> Option<Kernel> {
    is_x86_feature_detected!("avx512f").then_some(dot as Kernel)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: only `detect` hands this function out, after it has seen the feature.
    unsafe { dot_avx512(a, b) }
}

#[target_feature(enable = "avx512f")]
fn dot_avx512(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): (block + 1) * LANES <= length, which both slices have; loads need no alignment.
    let load = |block: usize| unsafe {
        (_mm512_loadu_ps(a.as_ptr().add(block * LANES)), _mm512_loadu_ps(b.as_ptr().add(block * LANES)))
    };
    // Four sums: one alone would wait for itself.
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
    let rest = length - blocks * LANES;
    let mask: __mmask16 = (1u16 << rest) - 1;
    let at = blocks * LANES;
    // SAFETY: masked lanes are not read, and the others, `rest` of them, are within both slices.
    let (x, y) =
        unsafe { (_mm512_maskz_loadu_ps(mask, a.as_ptr().add(at)), _mm512_maskz_loadu_ps(mask, b.as_ptr().add(at))) };
    sums[0] = _mm512_fmadd_ps(x, y, sums[0]);
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])))
}
