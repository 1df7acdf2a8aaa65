//! AVX2 with FMA.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::Kernel;

const LANES: usize = 8;

pub(super) fn detect() -> Option<Kernel> {
    (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(dot as Kernel)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: only `detect` hands this function out, after it has seen both features.
    unsafe { dot_avx2(a, b) }
}

#[target_feature(enable = "avx2,fma")]
fn dot_avx2(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): (block + 1) * LANES <= length, which both slices have; loads need no alignment.
    let load = |block: usize| unsafe {
        (_mm256_loadu_ps(a.as_ptr().add(block * LANES)), _mm256_loadu_ps(b.as_ptr().add(block * LANES)))
    };
    // Four sums: one alone would wait for itself.
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
    let rest: f32 = (blocks * LANES..length).map(|i| a[i] * b[i]).sum();
    lanes.iter().sum::<f32>() + rest
}
