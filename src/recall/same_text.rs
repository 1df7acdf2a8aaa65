//! Recognizes near-duplicates: texts that say nearly the same. Words decide, not vectors, which hardly tell "Berlin" from
//! "Munich".

use std::collections::HashSet;

/// The smallest share of their distinct terms that two near-duplicates have in common.
const SAME_TERMS: f32 = 0.9;
/// The smallest share of the trigrams of the longer beginning that two near-duplicates have in common.
const SAME_TRIGRAMS: f32 = 0.75;
/// The number of characters with which a text begins, for [`Trigrams`].
const BEGINNING: usize = 1000;
/// Texts with fewer bytes are analyzed at little cost, and a few stop words change many of their trigrams.
const LONG_BYTES: usize = 200;

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

/// The trigrams of the characters with which a text begins, as bits of their hashes. They tell at a hundredth of the cost
/// that two texts are no near-duplicates: analyzing a paragraph takes up to .2 ms where letters are not ASCII.
pub(crate) struct Trigrams {
    bits: [u64; 32],
    is_long: bool,
}

impl Trigrams {
    pub(crate) fn of(text: &str) -> Self {
        let mut bits = [0; 32];
        let mut last = 0u64;
        for c in text.chars().take(BEGINNING) {
            last = last << 21 | u64::from(c);
            let hash = (last & ((1 << 63) - 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53;
            bits[hash as usize / 64] |= 1 << (hash % 64);
        }
        Trigrams { bits, is_long: text.len() >= LONG_BYTES }
    }

    /// Returns false only if the texts are no near-duplicates.
    pub(crate) fn may_be_duplicates(&self, other: &Trigrams) -> bool {
        let count = |bits: &mut dyn Iterator<Item = u64>| bits.map(u64::count_ones).sum::<u32>() as f32;
        let (a, b) = (count(&mut self.bits.iter().copied()), count(&mut other.bits.iter().copied()));
        let common = count(&mut self.bits.iter().zip(&other.bits).map(|(a, b)| a & b));
        !(self.is_long && other.is_long) || common >= SAME_TRIGRAMS * a.max(b)
    }
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

/// Returns true if a word, in lower case, is an English negation. Most of them are stop words, which are not among the
/// terms.
pub(super) fn is_negation(word: &str) -> bool {
    matches!(word, "no" | "not" | "never" | "neither" | "nor" | "none" | "without" | "cannot")
        || word.ends_with("n't")
        || word.ends_with("n’t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_with_other_trigrams_are_not_compared() {
        let check = |a: &str, b: &str, wanted| {
            assert_eq!(Trigrams::of(a).may_be_duplicates(&Trigrams::of(b)), wanted, "{a:.30} / {b:.30}");
        };
        let text = "The gate opens at nine, and whoever comes later rings the bell beside the left door and waits there until \
                    somebody has time, because on most days only two of us are in the house before the first tour begins.";
        let other = "Our boat leaked again on the way to the island, so we turned round at the second buoy and spent the rest of \
                     the afternoon with a pump, a bucket and some tar that my uncle keeps for exactly such a Sunday.";
        check(text, text, true);
        check(text, &text.replace("nine", "ten").replace("two", "three"), true);
        check(text, &format!("{text} Children are free."), true);
        check(text, other, false);
        check("I am at the old bridge", "he was near an old bridge", true);
        check("", "", true);
        let hindi = |words: [&str; 3]| words.map(|word| word.repeat(12)).concat();
        check(&hindi(["गाड़ी ", "सुबह ", "नदी "]), &hindi(["गाड़ी ", "सुबह ", "नदी "]), true);
        check(&hindi(["गाड़ी ", "सुबह ", "नदी "]), &hindi(["किताब ", "दफ़्तर ", "चाय "]), false);
    }

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
