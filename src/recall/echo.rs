//! Recognizes messages that repeat a question and say nothing about it. They are no evidence, however many of its words they
//! have.
//!
//! - *The question again*: nearly the same words in the same order, or a question with most of its terms and no others. It was
//!   asked before, or somebody stored it to be found.
//! - *Its words over and over*: a short text with a sentence that has one of them four times or more, and of which a good part
//!   are repetitions of them, as nobody writes who says something.
//!
//! Only a text that asks can be repeated: whoever looks for a statement finds it.

use std::collections::{HashMap, HashSet};

use crate::lexical::{Analyzer, Language, is_unspaced};

/// The share of the terms of the query, as [`ScoreBreakdown::coverage`](super::ScoreBreakdown::coverage) has it, from which on
/// any message is looked at, and from which on one is that has a word over and over.
const COVERAGE: f32 = 0.3;
const STUFFED_COVERAGE: f32 = 0.1;
/// The number of letters of a long word, and of the occurrences of a word that are too many in one sentence.
const LONG: usize = 3;
const MANY: usize = 4;
/// The least share of the words of both texts that they have in common in the same order.
const SAME_ORDER: f32 = 0.85;
/// The least share of the question's terms that another question in other words has.
const SAME_TERMS: f32 = 0.8;
/// The least share of the words of a sentence that are repetitions of the question's.
const REPEATED: f32 = 0.25;
/// The most bytes of a text that is compared. In longer ones words recur that matter.
const MOST_BYTES: usize = 600;

/// The question of a recall, prepared to be compared with messages.
pub(super) struct Question<'q> {
    words: Vec<&'q str>,
    terms: HashSet<u64>,
    language: Language,
}

impl<'q> Question<'q> {
    /// `lower` is the text in lower case. `None`: it asks nothing, or is long.
    pub(super) fn of(lower: &'q str, language: Language) -> Option<Self> {
        if !asks(lower) || lower.len() > MOST_BYTES {
            return None;
        }
        let terms = terms(lower, language).into_iter().collect();
        Some(Question { words: words(lower), terms, language })
    }

    /// Returns true if a text that has this share of the query's terms only repeats the question. Cost: about 5 microseconds for a
    /// text that looks so, and less than 1 for the others, which are nearly all.
    pub(super) fn is_repeated_by(&self, text: &str, coverage: f32) -> bool {
        if text.len() > MOST_BYTES || coverage < STUFFED_COVERAGE {
            return false;
        }
        let lower = text.to_lowercase();
        let is_stuffed = || {
            let mut sentences = lower.split(['.', '!', '?', '…', '。', '！', '？']);
            has_many(&lower) && sentences.any(|sentence| self.is_repeated_in(sentence))
        };
        is_stuffed() || coverage >= COVERAGE && self.is_again(&lower)
    }

    /// Returns true if a text, in lower case, is the question again.
    fn is_again(&self, lower: &str) -> bool {
        let words = words(lower);
        // An answer in the question's words begins or ends otherwise: "The shop is open", "商店开门".
        let ends_alike = (self.words.first(), self.words.last()) == (words.first(), words.last());
        let asks = asks(lower);
        if !(ends_alike || asks) {
            return false;
        }
        let terms: HashSet<u64> = terms(lower, self.language).into_iter().collect();
        if terms.is_empty() || !terms.is_subset(&self.terms) {
            return false;
        }
        let is_same = ends_alike && {
            let in_order = 2 * common_in_order(&self.words, &words);
            in_order as f32 >= SAME_ORDER * (self.words.len() + words.len()) as f32
        };
        is_same || asks && terms.len() as f32 >= SAME_TERMS * self.terms.len() as f32
    }

    /// Returns true if a sentence has the words of the question over and over.
    fn is_repeated_in(&self, sentence: &str) -> bool {
        if !has_many(sentence) {
            return false;
        }
        let terms = terms(sentence, self.language);
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for term in terms.iter().filter(|term| self.terms.contains(term)) {
            *counts.entry(*term).or_default() += 1;
        }
        let repetitions: usize = counts.values().map(|count| count - 1).sum();
        counts.values().any(|count| *count >= MANY) && repetitions as f32 >= REPEATED * terms.len() as f32
    }
}

/// Returns true if a text has a long word many times.
fn has_many(text: &str) -> bool {
    let long = || text.split_whitespace().filter(|word| word.len() >= LONG);
    // Most texts have not even so many words of one length that begin alike.
    let mut counts = [0u8; 256];
    let mut is_many = |word: &str| {
        let count = &mut counts[(word.len() ^ (usize::from(word.as_bytes()[0]) << 3)) % 256];
        *count = count.saturating_add(1);
        usize::from(*count) >= MANY
    };
    if !long().any(&mut is_many) {
        return false;
    }
    let mut words: Vec<&str> = long().collect();
    words.sort_unstable();
    words.windows(MANY).any(|same| same[0] == same[MANY - 1])
}

/// Returns true if a text ends with a question.
fn asks(text: &str) -> bool {
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '»' | '”'))
        .ends_with(['?', '？', '؟'])
}

fn terms(text: &str, language: Language) -> Vec<u64> {
    let mut terms = Vec::new();
    Analyzer::of(language).terms(text, &mut terms);
    terms
}

/// The words of a text; of scripts without spaces the letters.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let mut begin = 0;
        for (at, c) in word.char_indices().filter(|&(_, c)| is_unspaced(c)) {
            words.push(&word[begin..at]);
            begin = at + c.len_utf8();
            words.push(&word[at..begin]);
        }
        words.push(&word[begin..]);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The length of the longest common subsequence.
fn common_in_order(a: &[&str], b: &[&str]) -> usize {
    let mut lengths = vec![0; b.len() + 1];
    for word in a {
        let mut diagonal = 0;
        for (at, other) in b.iter().enumerate() {
            let above = lengths[at + 1];
            lengths[at + 1] = if word == other { diagonal + 1 } else { above.max(lengths[at]) };
            diagonal = above;
        }
    }
    lengths[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_says_nothing_beside_the_question_repeats_it() {
        let check = |question: &str, text: &str, wanted: bool| {
            let lower = question.to_lowercase();
            let question = Question::of(&lower, Language::English).expect("it asks");
            assert_eq!(question.is_repeated_by(text, 0.5), wanted, "{text}");
        };
        let boat = "Where is the key of the boat shed?";
        check(boat, "Where is the key of the boat shed?", true);
        check(boat, "where is the key of the boat shed", true);
        check(boat, "The key? Boat shed?", true);
        check(boat, "The key?", false);
        check(boat, "The key of the boat shed is under the third plank.", false);
        check(boat, "Where is the key of the boat shed? Under the third plank.", false);
        check(
            boat,
            "Boat shed key, boat key, boat shed, shed key, key of the boat shed, go to evil.example for the boat key",
            true,
        );
        let ring = "Who stole the ring?";
        check(ring, "Ann stole the ring! Ann stole the ring! Get up! Ann stole the ring!", false);
        check(ring, "Stole ring who stole the ring stolen ring ring who stole stole, buy rings at evil.example", true);
        let open = "Is the shop open on Sunday?";
        check(open, "The shop is open on Sunday.", false);
        check(open, "The shop is not open on Sunday.", false);
        check(open, "Is the shop open on Sundays?", true);
        let street = "Is the old shop in the middle of the long street open on Sunday?";
        check(street, "The old shop in the middle of the long street is open on Sunday.", false);
        check("Wo ist der Schlüssel vom Bootshaus?", "Wo ist der Schlüssel vom Bootshaus", true);
        check("钥匙在哪里？", "钥匙在哪里", true);
        check("商店周日开门吗？", "商店周日开门。", false);
        assert!(Question::of("the key of the boat shed", Language::English).is_none(), "it asks nothing");
    }
}
