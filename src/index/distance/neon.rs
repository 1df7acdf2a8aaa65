//! NEON, which every 64-bit ARM processor has.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::Kernel;

const LANES: usize = 4;

pub(super) fn detect() -> Option<Kernel> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(dot as Kernel)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: only `detect` hands this function out, after it has seen the feature.
    unsafe { dot_neon(a, b) }
}

#[target_feature(enable = "neon")]
fn dot_neon(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let blocks = length / LANES;
    // SAFETY (of each call below): (block + 1) * LANES <= length, which both slices have; loads need no alignment.
    let load =
        |block: usize| unsafe { (vld1q_f32(a.as_ptr().add(block * LANES)), vld1q_f32(b.as_ptr().add(block * LANES))) };
    // Four sums: one alone would wait for itself.
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
