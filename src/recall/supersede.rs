//! Finds out which hits are out of date: the same speaker said the same later, with other numbers or names, or negated.
//!
//! Words decide, not vectors, which hardly tell "Berlin" from "Munich". A statement that is worded differently is missed; two
//! events in the same words ("I met Ann at noon", "I met Tom at noon") are marked though both are true.

use std::collections::HashMap;

use super::{duplicates::is_negation, hit::Hit};

/// The number of best hits that are compared with one another.
const DEPTH: usize = 50;
/// The most bytes of a text that is compared: longer ones say several things.
const MOST_BYTES: usize = 400;
/// The least number of words that two texts have in common.
const LEAST_WORDS: usize = 3;
/// The least share of the words of the longer text that the other one has too.
const SAME_WORDS: f32 = 0.8;
/// Words that say nothing but that something changed.
const CHANGE_WORDS: &[&str] =
    &["actually", "already", "anymore", "currently", "instead", "just", "longer", "now", "still", "today"];

/// Notes on each of the first hits which earlier ones it supersedes. Messages without a time, or of one time, supersede
/// nothing.
pub(super) fn mark_superseded(hits: &mut [Hit]) {
    let first = &hits[..hits.len().min(DEPTH)];
    let statements: Vec<Option<Statement>> = first.iter().map(Statement::of).collect();
    let mut found: Vec<(usize, String)> = Vec::new();
    for (later, statement) in statements.iter().enumerate() {
        for (earlier, other) in statements.iter().enumerate() {
            let (Some(statement), Some(other)) = (statement, other) else { continue };
            let (a, b) = (&first[earlier].message, &first[later].message);
            let is_same_speaker =
                (a.role, &a.name) == (b.role, &b.name) && first[earlier].namespace == first[later].namespace;
            if a.created_at < b.created_at && a.created_at.is_some() && is_same_speaker && statement.updates(other) {
                found.push((later, a.id.clone()));
            }
        }
    }
    for (later, id) in found {
        hits[later].supersedes.push(id);
    }
}

/// A short text, prepared to be compared with others: its words, apart from the numbers and names in it.
struct Statement {
    /// Its words in lower case, with the number of times that it has each.
    words: HashMap<String, usize>,
    count: usize,
    /// Numbers, and names: words with a capital inside of a sentence.
    values: Vec<String>,
    negations: usize,
}

impl Statement {
    /// `None`: the text is long, or asks.
    fn of(hit: &Hit) -> Option<Self> {
        let text = hit.message.borrowed_text();
        let text = text.trim();
        if text.len() > MOST_BYTES || text.ends_with(['?', '？', '؟']) {
            return None;
        }
        let mut statement = Statement { words: HashMap::new(), count: 0, values: Vec::new(), negations: 0 };
        let mut begins = true;
        for written in text.split_whitespace() {
            let word = written.trim_matches(|c: char| !c.is_alphanumeric());
            let is_first = std::mem::replace(&mut begins, written.ends_with(['.', '!', '?', ':', ';', '"']));
            if !word.is_empty() {
                statement.add(word, is_first);
            }
        }
        Some(statement)
    }

    fn add(&mut self, word: &str, is_first: bool) {
        let lower = word.to_lowercase();
        let is_name = !is_first && word.len() > 1 && word.starts_with(char::is_uppercase) && !lower.starts_with("i'");
        if word.contains(char::is_numeric) || is_name {
            self.values.push(lower);
            return;
        }
        let mut word = lower.as_str();
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
        if !word.is_empty() && !CHANGE_WORDS.contains(&word) {
            *self.words.entry(word.to_owned()).or_default() += 1;
            self.count += 1;
        }
    }

    /// Returns true if this says the same as the other, with other values or a negation more or less.
    fn updates(&self, other: &Statement) -> bool {
        if self.values == other.values && self.negations == other.negations
            || self.values.is_empty() != other.values.is_empty()
        {
            return false;
        }
        let shared = |(word, count): (&String, &usize)| other.words.get(word).map_or(0, |others| *count.min(others));
        let common: usize = self.words.iter().map(shared).sum();
        common >= LEAST_WORDS && common as f32 >= SAME_WORDS * self.count.max(other.count) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

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
}
