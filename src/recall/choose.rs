//! Which of the ranked messages become hits, and in which places.

use std::collections::HashSet;

use super::Hit;

/// Terms of two texts that say the same, at least, of those of either.
const SAME_TERMS: f32 = 0.9;

/// Whether two texts are near-duplicates: nearly all distinct terms in common, and the same ones with digits.
pub(crate) fn is_duplicate(a: &TermSet, b: &TermSet) -> bool {
    if a.terms.is_empty() || a.numbers != b.numbers {
        return a.terms.is_empty() && b.terms.is_empty() && a.text == b.text;
    }
    let common = a.terms.intersection(&b.terms).count() as f32;
    let all = (a.terms.len() + b.terms.len()) as f32 - common;
    common >= SAME_TERMS * all
}

/// The distinct terms of a text.
pub(crate) struct TermSet {
    pub(crate) text: String,
    pub(crate) terms: HashSet<u64>,
    /// Its words with digits, in order.
    pub(crate) numbers: Vec<String>,
}

impl TermSet {
    pub(crate) fn new(text: String, terms: &[u64]) -> Self {
        let is_number = |word: &&str| word.chars().any(|c| c.is_ascii_digit());
        let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let numbers = text.split_whitespace().filter(is_number).map(trimmed).collect();
        TermSet { terms: terms.iter().copied().collect(), numbers, text }
    }
}

/// Puts hits that were there before back in their places, the best of the others in the rest; the first `k` of them.
///
/// `ranked` is in order. An earlier hit keeps its place if it still is among the best `k` and half as many more.
pub(crate) fn keep_places(ranked: Vec<Hit>, previous: &[String], k: usize) -> Vec<Hit> {
    let pool = k + k.div_ceil(2);
    let good: HashSet<&str> = ranked.iter().take(pool).map(|hit| hit.message.id.as_str()).collect();
    let wanted: Vec<Option<&str>> =
        previous.iter().take(k).map(|id| Some(id.as_str()).filter(|id| good.contains(id))).collect();
    let kept: HashSet<&str> = wanted.iter().copied().flatten().collect();
    let places: Vec<Option<String>> = wanted.iter().map(|id| id.map(str::to_owned)).collect();
    let is_kept: Vec<bool> = ranked.iter().map(|hit| kept.contains(hit.message.id.as_str())).collect();
    let (mut old, mut new) = (Vec::new(), std::collections::VecDeque::new());
    for (hit, is_kept) in ranked.into_iter().zip(is_kept) {
        if is_kept { old.push(hit) } else { new.push_back(hit) }
    }
    let mut chosen = Vec::new();
    for place in places.into_iter().chain(std::iter::repeat(None)).take(k) {
        let at = place.and_then(|id| old.iter().position(|hit| hit.message.id == id));
        match at.map(|at| old.swap_remove(at)).or_else(|| new.pop_front()) {
            Some(hit) => chosen.push(hit),
            None => break,
        }
    }
    // None is left out for a hole that nothing was left to fill.
    chosen.extend(old);
    chosen.truncate(k);
    chosen
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
        assert_eq!(kept(&[], &["x"], 3), "");
    }

    proptest! {
        #[test]
        fn there_are_k_and_none_twice(
            count in 0usize..12,
            previous in prop::collection::vec(0usize..14, 0..12),
            k in 1usize..10,
        ) {
            let names: Vec<String> = (0..14).map(|id| format!("m{id}")).collect();
            let ranked: Vec<&str> = names[..count].iter().map(String::as_str).collect();
            let previous: Vec<String> = previous.iter().map(|&id| names[id].clone()).collect();
            let found = keep_places(hits(&ranked), &previous, k);
            prop_assert_eq!(found.len(), k.min(count));
            let distinct: HashSet<&str> = found.iter().map(|hit| hit.message.id.as_str()).collect();
            prop_assert_eq!(distinct.len(), found.len());
            prop_assert!(k > count || ranked.is_empty() || previous.contains(&found[0].message.id) || found[0].message.id == ranked[0]
                || found.iter().any(|hit| hit.message.id == ranked[0]));
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
        check("", "", true);
    }
}
