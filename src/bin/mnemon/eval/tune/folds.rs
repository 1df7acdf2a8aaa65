//! Splits questions into folds for cross-validation.

use std::collections::BTreeMap;

use crate::random::Random;

/// Least number of namespaces that are folds, so that no question is ranked with factors fitted to its own namespace.
const NAMESPACES: usize = 5;
const SEED: u64 = 11;

/// The unit by which the questions are divided into folds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Namespaces,
    Questions,
}

/// Returns the fold of each question, by the name of its namespace, and what folds are made of. There are at most
/// `count` folds.
pub(super) fn split(namespaces: &[&str], count: usize) -> (Vec<usize>, Unit) {
    let mut numbers: BTreeMap<&str, usize> = namespaces.iter().map(|name| (*name, 0)).collect();
    if numbers.len() >= NAMESPACES {
        // Balanced in the number of namespaces; whichever is where is random.
        let order = Random::new(SEED).sample(numbers.keys().copied().collect(), usize::MAX);
        for (at, name) in order.into_iter().enumerate() {
            numbers.insert(name, at % count);
        }
        return (namespaces.iter().map(|name| numbers.get(name).copied().unwrap_or(0)).collect(), Unit::Namespaces);
    }
    let mut folds = vec![0; namespaces.len()];
    let order = Random::new(SEED).sample((0..namespaces.len()).collect(), usize::MAX);
    for (at, question) in order.into_iter().enumerate() {
        folds[question] = at % count;
    }
    (folds, Unit::Questions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_even_and_keep_namespaces_together() {
        let (folds, unit) = split(&["a"; 23], 10);
        let sizes: Vec<usize> = (0..10).map(|fold| folds.iter().filter(|one| **one == fold).count()).collect();
        assert_eq!((unit, sizes.iter().max(), sizes.iter().min()), (Unit::Questions, Some(&3), Some(&2)));
        let names = ["a", "b", "c", "d", "e", "f", "a", "b"];
        let (folds, unit) = split(&names, 3);
        assert_eq!((unit, folds[0], folds[1]), (Unit::Namespaces, folds[6], folds[7]));
        let sizes: Vec<usize> = (0..3).map(|fold| folds[..6].iter().filter(|one| **one == fold).count()).collect();
        assert_eq!(sizes, [2, 2, 2]);
    }
}
