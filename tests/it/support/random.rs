//! Seeded numbers and vectors.

use std::time::Duration;

/// Returns the next number of a seeded sequence, from -1 to 1 (SplitMix64, Steele et al. 2014).
pub(crate) fn random(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// Returns the next number below `count`, or 0 if `count` is 0.
pub(crate) fn below(state: &mut u64, count: usize) -> usize {
    ((random(state) + 1.0) / 2.0 * count as f32) as usize % count.max(1)
}

/// Returns the next duration of at most `longest`.
pub(crate) fn delay(state: &mut u64, longest: Duration) -> Duration {
    longest.mul_f64((f64::from(random(state)) + 1.0) / 2.0)
}

/// Returns the vector divided by its length; a vector of zeros stays as it is.
pub(crate) fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    vector
}

/// Returns `count` seeded unit vectors in 20 clusters, concatenated.
pub(crate) fn vectors(count: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let centres: Vec<Vec<f32>> = (0..20).map(|_| (0..dimension).map(|_| random(&mut state)).collect()).collect();
    (0..count)
        .flat_map(|i| {
            let noisy = centres[i % centres.len()].iter().map(|x| x + 0.7 * random(&mut state)).collect();
            normalized(noisy)
        })
        .collect()
}
