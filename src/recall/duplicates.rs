//! Recognizes near-duplicate texts.

use std::collections::HashSet;

/// The smallest share of their distinct terms that two near-duplicates have in common.
const SAME_TERMS: f32 = 0.9;

/// Returns true if a word, in lower case, is an English negation. Most of them are stop words, which are not among the
/// terms.
pub(super) fn is_negation(word: &str) -> bool {
    matches!(word, "no" | "not" | "never" | "neither" | "nor" | "none" | "without" | "cannot")
        || word.ends_with("n't")
        || word.ends_with("n’t")
}

/// Returns true if two texts are near-duplicates: they have nearly all distinct terms in common, the same numbers, and
/// as many negations.
pub(crate) fn is_duplicate(a: &TermSet, b: &TermSet) -> bool {
    if a.terms.is_empty() && b.terms.is_empty() {
        return a.text == b.text;
    }
    let common = a.terms.intersection(&b.terms).count() as f32;
    let all = (a.terms.len() + b.terms.len()) as f32 - common;
    (&a.numbers, a.negations) == (&b.numbers, b.negations) && common >= SAME_TERMS * all
}

/// A text, prepared to be compared with others.
pub(crate) struct TermSet {
    text: String,
    terms: HashSet<u64>,
    /// The words with digits, in order.
    numbers: Vec<String>,
    negations: usize,
}

impl TermSet {
    pub(crate) fn new(text: String, terms: &[u64]) -> Self {
        let words = || text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_number = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
        let numbers = words().filter(is_number).map(str::to_owned).collect();
        let negations = words().filter(|word| is_negation(&word.to_lowercase())).count();
        TermSet { terms: terms.iter().copied().collect(), numbers, negations, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_negations_tell_texts_apart() {
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
