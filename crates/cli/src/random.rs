//! Seeded random choices, the same in every run.

/// A SplitMix64 generator (Steele et al. 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns a number from 0 to `count` - 1; `count` must be at least 1. The bias is below `count` / 2^64.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * count as u128) >> 64) as usize
    }

    /// Draws up to `count` items without replacement, in random order.
    pub(crate) fn sample<T>(&mut self, mut from: Vec<T>, count: usize) -> Vec<T> {
        for at in 0..count.min(from.len()) {
            let other = at + self.below(from.len() - at);
            from.swap(at, other);
        }
        from.truncate(count);
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_even_and_repeat() {
        let mut counts = [0; 10];
        for seed in 0..2_000 {
            let mut sample = Random::new(seed).sample((0..10).collect(), 3);
            assert_eq!(sample, Random::new(seed).sample((0..10).collect(), 3));
            sample.iter().for_each(|&one: &usize| counts[one] += 1);
            sample.sort_unstable();
            sample.dedup();
            assert_eq!(sample.len(), 3);
        }
        // Each is expected 600 times in 2,000 draws, with a standard deviation of 20.
        assert!(counts.iter().all(|count| (500..700).contains(count)), "{counts:?}");
        assert_eq!(Random::new(1).sample(vec![7], 3), [7]);
    }
}
