//! Which of the ranked messages become hits, and in which places.

use std::collections::{HashMap, HashSet};

use super::Hit;

/// Terms of two texts that say the same, at least, of those of either.
const SAME_TERMS: f32 = 0.9;

/// English words that deny what the others say. Terms lack most of them.
const NEGATIONS: &[&str] = &["no", "not", "never", "neither", "nor", "none", "without", "cannot"];

/// Whether two texts are near-duplicates: nearly all distinct terms in common, the same numbers, and as many negations.
pub(crate) fn is_duplicate(a: &TermSet, b: &TermSet) -> bool {
    if a.terms.is_empty() && b.terms.is_empty() {
        return a.text == b.text;
    }
    let common = a.terms.intersection(&b.terms).count() as f32;
    let all = (a.terms.len() + b.terms.len()) as f32 - common;
    (&a.numbers, a.negations) == (&b.numbers, b.negations) && common >= SAME_TERMS * all
}

/// The distinct terms of a text.
pub(crate) struct TermSet {
    pub(crate) text: String,
    pub(crate) terms: HashSet<u64>,
    /// Its words with digits, in order.
    pub(crate) numbers: Vec<String>,
    pub(crate) negations: usize,
}

impl TermSet {
    pub(crate) fn new(text: String, terms: &[u64]) -> Self {
        let words = || text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_number = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
        let numbers = words().filter(is_number).map(str::to_owned).collect();
        let is_negation = |word: &&str| {
            let word = word.to_lowercase();
            NEGATIONS.contains(&word.as_str()) || word.ends_with("n't") || word.ends_with("n’t")
        };
        let negations = words().filter(is_negation).count();
        TermSet { terms: terms.iter().copied().collect(), numbers, negations, text }
    }
}

/// Puts hits that were there before back in their places, the best of the others in the rest; the first `k` of them.
///
/// `ranked` is in order. An earlier hit keeps its place if it still is among the best `k` and half as many more.
pub(crate) fn keep_places(ranked: Vec<Hit>, previous: &[String], k: usize) -> Vec<Hit> {
    let good_enough = k + k.div_ceil(2);
    // In reverse: of an id that is there twice the first place counts.
    let places: HashMap<&str, usize> =
        previous.iter().take(k).enumerate().rev().map(|(place, id)| (id.as_str(), place)).collect();
    let mut kept: Vec<Option<Hit>> = vec![None; k];
    let mut others = Vec::new();
    for (at, hit) in ranked.into_iter().enumerate() {
        match places.get(hit.message.id.as_str()).filter(|_| at < good_enough) {
            Some(&place) => kept[place] = Some(hit),
            None => others.push(hit),
        }
    }
    let mut others = others.into_iter();
    // When no other is left, what was kept moves up.
    kept.into_iter().filter_map(|kept| kept.or_else(|| others.next())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Message, Role};

    fn hits(ids: &[&str]) -> Vec<Hit> {
        let hit = |(at, id): (usize, &&str)| Hit::new(Message::new(Role::User, *id).with_id(*id), -(at as f32), at + 1);
        ids.iter().enumerate().map(hit).collect()
    }

    fn kept(ranked: &[&str], previous: &[&str], k: usize) -> String {
        let previous: Vec<String> = previous.iter().map(|&id| id.to_owned()).collect();
        keep_places(hits(ranked), &previous, k).into_iter().map(|hit| hit.message.id).collect()
    }

    #[test]
    fn what_is_still_good_keeps_its_place() {
        let ranked = ["d", "a", "e", "b", "f", "c", "g"];
        assert_eq!(kept(&ranked, &[], 4), "daeb");
        // c is the sixth of six that are good enough, g the seventh.
        assert_eq!(kept(&ranked, &["a", "b", "c", "x"], 4), "abcd");
        assert_eq!(kept(&ranked, &["g", "b", "x", "a"], 4), "dbea");
        assert_eq!(kept(&["a"], &["x", "y", "a"], 3), "a");
        assert_eq!(kept(&["a", "b", "c"], &["x", "c", "c", "a"], 5), "bca");
        assert_eq!(kept(&[], &["x"], 3), "");
    }

    proptest! {
        #[test]
        fn what_is_kept_is_in_place_and_the_others_in_order(
            count in 0usize..12,
            previous in prop::collection::vec(0usize..14, 0..12),
            k in 1usize..10,
        ) {
            let names: Vec<String> = (0..14).map(|id| format!("m{id:02}")).collect();
            let ranked: Vec<&str> = names[..count].iter().map(String::as_str).collect();
            let previous: Vec<String> = previous.iter().map(|&id| names[id].clone()).collect();
            let found: Vec<String> =
                keep_places(hits(&ranked), &previous, k).into_iter().map(|hit| hit.message.id).collect();
            prop_assert_eq!(found.len(), k.min(count));
            let is_kept = |id: &String| {
                previous.iter().take(k).any(|other| other == id) && names[..count.min(k + k.div_ceil(2))].contains(id)
            };
            let others: Vec<&String> = found.iter().filter(|id| !is_kept(id)).collect();
            let best: Vec<&String> = names[..count].iter().filter(|id| !is_kept(id)).take(others.len()).collect();
            prop_assert_eq!(others, best);
            for id in names.iter().filter(|id| is_kept(id)) {
                let place = |ids: &[String]| ids.iter().position(|other| other == id);
                let (was, is) = (place(&previous), place(&found));
                prop_assert!(is.is_some() && (is == was || count < k), "{} was {:?}, is {:?}", id, was, is);
            }
        }
    }

    #[test]
    fn duplicates() {
        let set = |text: &str| {
            let terms: Vec<u64> = text.split_whitespace().map(|word| word.bytes().map(u64::from).sum()).collect();
            TermSet::new(text.to_owned(), &terms)
        };
        let check = |a, b, wanted| assert_eq!(is_duplicate(&set(a), &set(b)), wanted, "{a} / {b}");
        check("the rent is 900 euros", "the rent is 900 euros", true);
        check("the rent is 900 euros", "the rent is 950 euros", false);
        check("we met at the old bridge", "we met at the new harbour", false);
        check("he said he would do it for her and them all", "he said he would not do it for her and them all", false);
        check("", "", true);
    }
}
