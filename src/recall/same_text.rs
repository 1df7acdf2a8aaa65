//! Recognizes texts that say nearly the same: near-duplicates, and statements that supersede earlier ones.
//!
//! Words decide, not vectors, which hardly tell "Berlin" from "Munich". A statement that is worded differently is missed;
//! two events in the same words ("I met Ann at noon", "I met Tom at noon") are marked though both are true.

use std::{borrow::Cow, cell::OnceCell, collections::HashSet};

use super::hit::Hit;
use crate::message::Message;

/// The smallest share of their distinct terms that two near-duplicates have in common.
const SAME_TERMS: f32 = 0.9;
/// The smallest share of the trigrams of the longer beginning that two near-duplicates have in common.
const SAME_TRIGRAMS: f32 = 0.75;
/// The number of characters with which a text begins, for [`Trigrams`].
const BEGINNING: usize = 1000;
/// Texts with fewer bytes are analyzed at little cost, and a few stop words change many of their trigrams.
const LONG_BYTES: usize = 200;

/// The number of best hits that are compared with one another.
const DEPTH: usize = 50;
/// The most bytes of a text that is compared: longer ones say several things.
const MOST_BYTES: usize = 400;
/// The least number of words that two texts have in common.
const LEAST_WORDS: usize = 3;
/// The least share of the words of the longer text that the other one has too.
const SAME_WORDS: f32 = 0.8;

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

/// Notes on each of the first hits which earlier ones it supersedes. Cost: up to 4 microseconds a hit of 140 characters.
pub(super) fn mark_superseded(hits: &mut [Hit]) {
    let first = &hits[..hits.len().min(DEPTH)];
    let messages: Vec<&Message> = first.iter().map(|hit| &hit.message).collect();
    let mut found: Vec<(usize, String)> = Vec::new();
    for (later, earlier) in superseding_pairs(&messages, messages.len()) {
        if first[earlier].namespace == first[later].namespace {
            found.push((later, messages[earlier].id.clone()));
        }
    }
    for (later, id) in found {
        hits[later].supersedes.push(id);
    }
}

/// Returns the positions of each message that supersedes one of the first `count`, and of that one. Messages without a
/// time, or of one time, supersede nothing.
pub(crate) fn superseding_pairs(messages: &[&Message], count: usize) -> Vec<(usize, usize)> {
    let texts: Vec<Cow<'_, str>> = messages.iter().map(|message| message.borrowed_text()).collect();
    // Read when first compared: most messages are by other speakers, or too early, to supersede any.
    let in_lower_case: Vec<OnceCell<String>> = vec![OnceCell::new(); messages.len()];
    let statements: Vec<OnceCell<Option<Statement<'_>>>> = messages.iter().map(|_| OnceCell::new()).collect();
    let statement = |at: usize| {
        let read = || {
            let text = (texts[at].len() <= MOST_BYTES).then_some(&texts[at])?;
            Statement::of(text, in_lower_case[at].get_or_init(|| text.to_lowercase()))
        };
        statements[at].get_or_init(read).as_ref()
    };
    let mut pairs = Vec::new();
    for (later, b) in messages.iter().enumerate() {
        for (earlier, a) in messages[..count].iter().enumerate() {
            let is_same_speaker = (a.role, &a.name) == (b.role, &b.name);
            if a.created_at < b.created_at
                && a.created_at.is_some()
                && is_same_speaker
                && let (Some(other), Some(statement)) = (statement(earlier), statement(later))
                && statement.updates(other)
            {
                pairs.push((later, earlier));
            }
        }
    }
    pairs
}

/// A short text, prepared to be compared with others: its words, apart from the numbers and names in it.
struct Statement<'t> {
    /// The words in lower case, sorted.
    words: Vec<&'t str>,
    /// Numbers, and names: words with a capital inside of a sentence.
    values: Vec<&'t str>,
    negations: usize,
}

impl<'t> Statement<'t> {
    /// `lower` is the text in lower case. `None`: the text asks.
    fn of(text: &str, lower: &'t str) -> Option<Self> {
        if text.trim_end().ends_with(['?', '？', '؟']) {
            return None;
        }
        let mut statement = Statement { words: Vec::with_capacity(32), values: Vec::new(), negations: 0 };
        let mut begins = true;
        for (written, lower) in text.split_whitespace().zip(lower.split_whitespace()) {
            let is_first = std::mem::replace(&mut begins, written.ends_with(['.', '!', '?', ':', ';', '"']));
            let word = lower.trim_matches(|c: char| !c.is_alphanumeric());
            let begin = written.trim_start_matches(|c: char| !c.is_alphanumeric());
            let is_name =
                !is_first && begin.starts_with(char::is_uppercase) && word.len() > 1 && !word.starts_with("i'");
            if is_name || word.contains(char::is_numeric) {
                statement.values.push(word);
            } else if !word.is_empty() {
                statement.add(word);
            }
        }
        statement.words.sort_unstable();
        Some(statement)
    }

    fn add(&mut self, mut word: &'t str) {
        if is_negation(word) {
            self.negations += 1;
            // What is negated is left of "don't" and "cannot".
            word = match word.strip_suffix("n't").or(word.strip_suffix("n’t")).or(word.strip_suffix("not")) {
                Some("wo") => "will",
                Some("ca") => "can",
                Some(verb) => verb,
                None => "",
            };
        }
        if !word.is_empty() && !is_change_word(word) {
            self.words.push(word);
        }
    }

    /// Returns true if this says the same as the other, with other values or a negation more or less.
    fn updates(&self, other: &Statement<'_>) -> bool {
        if self.values == other.values && self.negations == other.negations
            || self.values.is_empty() != other.values.is_empty()
        {
            return false;
        }
        let least = SAME_WORDS * self.words.len().max(other.words.len()) as f32;
        let most = self.words.len().min(other.words.len());
        let is_enough = |common: usize| common >= LEAST_WORDS && common as f32 >= least;
        is_enough(most) && is_enough(common(&self.words, &other.words))
    }
}

/// Returns true if a word says nothing but that something changed.
fn is_change_word(word: &str) -> bool {
    matches!(
        word,
        "actually" | "already" | "anymore" | "currently" | "instead" | "just" | "longer" | "now" | "still" | "today"
    )
}

/// The number of words that two sorted lists have in common; one that both have twice counts twice.
fn common(a: &[&str], b: &[&str]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let order = a[i].cmp(b[j]);
        count += usize::from(order.is_eq());
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    count
}

/// Returns true if a word, in lower case, is an English negation. Most of them are stop words, which are not among the
/// terms.
fn is_negation(word: &str) -> bool {
    matches!(word, "no" | "not" | "never" | "neither" | "nor" | "none" | "without" | "cannot")
        || word.ends_with("n't")
        || word.ends_with("n’t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_statement_supersedes_what_it_changes() {
        let hit = |(second, text): (usize, &str)| {
            let time = format!("2024-05-01T09:30:{second:02}Z").parse().unwrap();
            Hit::new(Message::user(text).with_id(second.to_string()).at(time), 1.0, 1)
        };
        let check = |texts: [&str; 2], wanted: bool| {
            for order in [[0, 1], [1, 0]] {
                let mut hits = order.map(|at| hit((at, texts[at])));
                mark_superseded(&mut hits);
                for hit in hits {
                    let ids = if wanted && hit.message.id == "1" { vec!["0".to_owned()] } else { Vec::new() };
                    assert_eq!(hit.supersedes, ids, "{texts:?}");
                }
            }
        };
        check(["My rent is 900 euros a month.", "My rent is 950 euros a month now."], true);
        check(["I live in Berlin with my brother", "I live in Munich with my brother"], true);
        check(["I eat meat on most days", "I don't eat meat on most days anymore"], true);
        check(["I can meet you after work", "I can't meet you after work"], true);
        check(["My rent is 900 euros a month.", "My rent is 900 euros a month."], false);
        check(["My rent is 900 euros a month.", "My flat is 90 square metres large."], false);
        check(["My brother lives in a big house", "My sister lives in a big house"], false);
        check(["I live in Berlin with my brother", "Do you live in Munich with your brother?"], false);
        check(["In Berlin", "In Munich"], false);
    }

    #[test]
    fn another_speaker_supersedes_nothing() {
        let hit = |id: &str, name: &str, second: u8| {
            let time = format!("2024-05-01T09:30:{second:02}Z").parse().unwrap();
            let text = format!("I will be there at {second} sharp");
            Hit::new(Message::user(text).by(name).with_id(id).at(time), 1.0, 1)
        };
        let mut hits = [hit("a", "Ada", 1), hit("b", "Bob", 2), hit("c", "Ada", 3)];
        mark_superseded(&mut hits);
        assert_eq!(hits.map(|hit| hit.supersedes), [vec![], vec![], vec!["a".to_owned()]]);
    }

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
