//! Retrieval metrics of one query, as TREC defines them, statistics over many values, and seeded random choices.

use std::time::Instant;

/// The ranks of the relevant items in one query's results.
pub(crate) struct RelevantRanks {
    /// Ranks from 1, ascending.
    pub(crate) ranks: Vec<usize>,
    /// Number of relevant items, found or not.
    pub(crate) relevant: usize,
    /// The grade of the item at each of the ranks.
    grades: Vec<u32>,
    /// The grades of all relevant items, highest first.
    ideal: Vec<u32>,
}

impl RelevantRanks {
    /// Compares the ids of the results, best first and without repetitions, with the relevant ids.
    pub(crate) fn new<'a>(retrieved: impl IntoIterator<Item = &'a str>, relevant: &[String]) -> Self {
        RelevantRanks::graded(retrieved, relevant, &[])
    }

    /// Compares the ids of the results with the relevant ids, which have these grades. An id without a grade has grade
    /// 1.
    pub(crate) fn graded<'a>(
        retrieved: impl IntoIterator<Item = &'a str>,
        relevant: &[String],
        grades: &[u32],
    ) -> Self {
        let grade = |at: usize| grades.get(at).copied().unwrap_or(1);
        let found = |id: &str| relevant.iter().position(|relevant| relevant == id);
        let found = retrieved.into_iter().enumerate().filter_map(|(i, id)| Some((i + 1, grade(found(id)?))));
        let (ranks, found) = found.unzip();
        let mut ideal: Vec<u32> = (0..relevant.len()).map(grade).collect();
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        RelevantRanks { ranks, relevant: relevant.len(), grades: found, ideal }
    }

    fn within(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        self.ranks.iter().copied().take_while(move |&rank| rank <= k)
    }

    /// Returns the share of the relevant items that is among the first `k` results.
    pub(crate) fn recall_at(&self, k: usize) -> f64 {
        self.within(k).count() as f64 / self.relevant as f64
    }

    /// Returns 1 if a relevant item is among the first `k` results, else 0.
    pub(crate) fn hit_at(&self, k: usize) -> f64 {
        f64::from(u8::from(self.within(k).next().is_some()))
    }

    /// Returns the reciprocal of the first relevant item's rank, 0 if none was found.
    pub(crate) fn reciprocal_rank(&self) -> f64 {
        self.ranks.first().map_or(0.0, |&rank| 1.0 / rank as f64)
    }

    /// Returns 1 if all relevant items are among the first `k` results, else 0.
    pub(crate) fn all_at(&self, k: usize) -> f64 {
        f64::from(u8::from(self.within(k).count() == self.relevant))
    }

    /// Returns the normalised discounted cumulative gain (Järvelin and Kekäläinen 2002) as `trec_eval` counts it: the
    /// grade is the gain, and the discount is log2(rank + 1).
    pub(crate) fn ndcg_at(&self, k: usize) -> f64 {
        self.normalised_gain(k, |rank| (rank as f64 + 1.0).log2())
    }

    /// Returns LongMemEval's `ndcg_any@k`. Its discount is 1 at rank 1 and log2(rank) from rank 2, so that the first
    /// two ranks count alike.
    pub(crate) fn ndcg_any_at(&self, k: usize) -> f64 {
        self.normalised_gain(k, |rank| if rank == 1 { 1.0 } else { (rank as f64).log2() })
    }

    fn normalised_gain(&self, k: usize, discount: impl Fn(usize) -> f64) -> f64 {
        let gain = |(rank, &grade): (usize, &u32)| f64::from(grade) / discount(rank);
        let ideal: f64 = (1..=k).zip(&self.ideal).map(gain).sum();
        // A sum of nothing is -0.
        (0.0 + self.within(k).zip(&self.grades).map(gain).sum::<f64>()) / ideal
    }

    /// Returns the average precision over all results: the sum of the precision at each relevant result's rank, divided
    /// by the number of relevant items.
    pub(crate) fn average_precision(&self) -> f64 {
        let precisions = self.ranks.iter().enumerate().map(|(before, &rank)| (before + 1) as f64 / rank as f64);
        (0.0 + precisions.sum::<f64>()) / self.relevant as f64
    }
}

/// Returns the area under the ROC curve: the share of pairs of a positive and a negative in which the positive has the
/// higher value, ties counting half (Mann and Whitney's U, scaled). `None` if either list is empty. Sorts `negatives`.
pub(crate) fn auc(positives: &[f64], negatives: &mut [f64]) -> Option<f64> {
    negatives.sort_by(f64::total_cmp);
    let below = |value: f64| {
        let lower = negatives.partition_point(|&negative| negative < value);
        (lower + negatives.partition_point(|&negative| negative <= value)) as f64 / 2.0
    };
    let pairs = positives.len() * negatives.len();
    (pairs > 0).then(|| positives.iter().map(|&value| below(value)).sum::<f64>() / pairs as f64)
}

/// Returns the mean; 0 for no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the standard deviation of the population that the values are a sample of; 0 for fewer than two.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()
}

/// Returns the `p` quantile of sorted values by the nearest-rank method; 0 for no values.
pub(crate) fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

/// The durations of calls, in microseconds.
#[derive(Default)]
pub(crate) struct Times(pub(crate) Vec<f64>);

impl Times {
    /// Runs a call and adds its duration, unless it fails.
    pub(crate) fn time<T, E>(&mut self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = Instant::now();
        let result = call()?;
        self.add(started);
        Ok(result)
    }

    /// Adds the time since a call began.
    pub(crate) fn add(&mut self, started: Instant) {
        self.0.push(started.elapsed().as_secs_f64() * 1e6);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the `p` quantile, as [`percentile`] does. Sorts a copy.
    pub(crate) fn percentile(&self, p: f64) -> f64 {
        percentile_of(self.0.clone(), p)
    }
}

/// Returns the `p` quantile of values in any order, as [`percentile`] does.
pub(crate) fn percentile_of(mut values: Vec<f64>, p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(&values, p)
}

/// A SplitMix64 generator of random numbers (Steele et al. 2014), the same in every run.
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
    fn metrics_match_hand_computed_values() {
        let relevant = ["b".to_owned(), "d".to_owned(), "x".to_owned()];
        let found = RelevantRanks::new(["a", "b", "c", "d"], &relevant);
        assert_eq!(found.ranks, [2, 4]);
        assert_eq!(found.recall_at(1), 0.0);
        assert!((found.recall_at(4) - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((found.hit_at(1), found.hit_at(2)), (0.0, 1.0));
        assert_eq!(found.reciprocal_rank(), 0.5);
        // (1/log2(3) + 1/log2(5)) / (1 + 1/log2(3) + 1/2)
        assert!((found.ndcg_at(10) - 0.4982).abs() < 1e-4, "{}", found.ndcg_at(10));
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.0);
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0], 0.99), 4.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn graded_metrics_match_hand_computed_values() {
        let relevant = ["a", "b", "c"].map(str::to_owned);
        let found = RelevantRanks::graded(["x", "b", "a", "y"], &relevant, &[3, 1, 2]);
        // (1/log2(3) + 3/log2(4)) / (3 + 2/log2(3) + 1/log2(4))
        assert!((found.ndcg_at(10) - 2.130_93 / 4.761_86).abs() < 1e-5, "{}", found.ndcg_at(10));
        // (1/log2(2) + 3/log2(3)) / (3 + 2/log2(2) + 1/log2(3))
        assert!((found.ndcg_any_at(10) - 2.892_79 / 5.630_93).abs() < 1e-5, "{}", found.ndcg_any_at(10));
        // (1/2 + 2/3) / 3
        assert!((found.average_precision() - 7.0 / 18.0).abs() < 1e-12);
        assert_eq!((found.all_at(4), RelevantRanks::new(["b", "a"], &relevant[..2]).all_at(2)), (0.0, 1.0));
        // Binary: ranks 1 and 2 have the same discount.
        let second = RelevantRanks::new(["x", "a"], &relevant[..1]);
        assert_eq!((second.ndcg_any_at(5), second.ndcg_any_at(1), second.all_at(1)), (1.0, 0.0, 0.0));
        let third = RelevantRanks::new(["x", "y", "a"], &relevant[..1]);
        assert!((third.ndcg_any_at(5) - 1.0 / 3f64.log2()).abs() < 1e-12);
        let nothing = RelevantRanks::new(["x"], &relevant[..1]);
        assert!([nothing.ndcg_at(5), nothing.average_precision()].iter().all(|zero| zero.is_sign_positive()));
    }

    #[test]
    fn auc_and_deviation_match_hand_computed_values() {
        let check = |positives: &[f64], negatives: &[f64], wanted| {
            assert_eq!(auc(positives, &mut negatives.to_vec()), wanted, "{positives:?} {negatives:?}");
        };
        check(&[0.9, 0.8], &[0.1, 0.2, 0.3], Some(1.0));
        check(&[0.1], &[0.9], Some(0.0));
        // Six pairs: 0.8 is above both negatives, 0.4 above one and equal to the other, 0.1 below both.
        check(&[0.8, 0.4, 0.1], &[0.4, 0.2], Some(3.5 / 6.0));
        check(&[0.5], &[], None);
        check(&[], &[0.5], None);
        // Deviations of 3, 1, 1, 1, 0, 0, 2 and 4, squared, over 7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), 5.0);
        assert!((deviation(&values) - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((mean(&[]), deviation(&[]), deviation(&[3.0])), (0.0, 0.0, 0.0));
    }

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
