//! Recognizes messages that bring earlier ones up to date, in the same words or in others, for the question that is asked.
//!
//! - *In the same words*: two statements of one form, of which the later one has other values, is a change, unless the
//!   question names what differs: "The dose for the cat is 5 mg" and "The dose for the dog is 20 mg" are two facts for
//!   somebody who asks for the cat.
//! - *In other words*: a later statement that says that something changed ("took over", "no longer", "instead") and is about
//!   what the question asks for, as the earlier one is.
//!
//! Words decide, not vectors, which hardly tell "Berlin" from "Munich". Two events in the same words ("I met Ann at noon",
//! "I met Tom at noon") are taken for a change though both are true. So nothing is dropped here: the later one comes
//! first, and says what it supersedes.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use super::{
    change_words::{Change, asks_about_past, asks_for_newest, is_change_word, is_newest_word},
    hit::Hit,
    same_text::is_negation,
};
use crate::{
    lexical::{Analyzer, Language, is_unspaced},
    message::Message,
};

/// The number of best hits that are compared with one another, and that may change places.
const DEPTH: usize = 50;
pub(super) const ORDERED_DEPTH: usize = 10;
/// The most bytes of a text that is compared: longer ones say several things.
const MOST_BYTES: usize = 400;
/// The least number of words that two texts have in common.
const LEAST_WORDS: usize = 3;
/// The least share of the words of the longer text that the other one has too.
const SAME_WORDS: f32 = 0.8;
/// How much lower the score of a hit may be that comes before what it supersedes in the same words: a message that answers
/// the question better stays first.
const MARGIN: f32 = 1.0;
/// The most bytes of a statement about a change in other words, and of what it changes. Longer ones are turns of a
/// conversation, which mention what they are not about.
const MOST_CHANGE_BYTES: usize = 160;
/// The least rarity of a word of the question that both have, as a share of that of the rarest which the earlier one has:
/// the subject, and not what is said about it.
const SUBJECT: f32 = 0.8;
/// The share of the rarity of the question's words in the earlier one, from which on what both have is the subject, if the later
/// one certainly says that something changed.
const MOST_OF_IT: f32 = 0.55;
/// The dense term of two hits that stand out by meaning: the least share of the nearer one's that the other has, and the
/// greatest share of this one's that any other hit has.
const NEAR: f32 = 0.75;
const FAR: f32 = 0.6;
/// The most of the compared messages that have a term which tells what two of them are about.
const RARE: usize = 2;
/// Hits answer a question for the newest equally well that have this share of the question's words which the best of them
/// has, by their rarity, and a score at most this much lower than the first one's.
const EQUAL_SHARE: f32 = 0.9;
const EQUAL_SCORE: f32 = 3.0;
/// The number of letters from which on a word is recognized with another ending, and the most letters of that.
const STEM: usize = 3;
const ENDING: usize = 2;
/// The most words of a question that are compared without their endings.
const MOST_INFLECTED: usize = 1000;

/// The text that messages are compared for, as its words.
#[derive(Default)]
pub(crate) struct Asked {
    words: HashSet<String>,
    is_past: bool,
    /// It asks for the newest of several.
    is_for_newest: bool,
}

impl Asked {
    pub(crate) fn new(question: &str) -> Self {
        let mut words = HashSet::new();
        let lower = question.to_lowercase();
        for word in lower.split_whitespace() {
            // "l'avion" and "Rosa's" are asked for as "avion" and "Rosa".
            for part in word.split(['\'', '’']).chain([word]) {
                for_each_token(part, |token| _ = words.insert(token.to_owned()));
            }
        }
        let is_for_newest = asks_for_newest(&lower);
        Asked { words, is_past: !is_for_newest && asks_about_past(&lower), is_for_newest }
    }

    /// Returns true if a statement is the question, or a part of it.
    fn has(&self, statement: &Statement<'_>) -> bool {
        statement.tokens.iter().all(|token| self.words.contains(*token))
    }

    /// Returns true if the question has a word, perhaps with another ending. Words that nearly every text has do not count.
    fn names(&self, word: &str) -> bool {
        let is_number = word.contains(char::is_numeric);
        let is_short = word.chars().count() < STEM && !is_number && !word.contains(is_unspaced);
        if is_short || Analyzer::of(Language::English).is_stop_word(word) {
            return false;
        }
        let is_inflected = |a: &str, b: &str| {
            a.strip_prefix(b).is_some_and(|ending| b.chars().count() >= STEM && ending.chars().count() <= ENDING)
        };
        self.words.contains(word)
            || !is_number
                && self.words.len() <= MOST_INFLECTED
                && self.words.iter().any(|asked| is_inflected(asked, word) || is_inflected(word, asked))
    }
}

/// The question of a recall, with what tells its subject.
pub(super) struct Subject<'a> {
    pub(super) question: &'a str,
    /// How rare each of its terms is.
    pub(super) rarity: &'a BTreeMap<u64, f32>,
    pub(super) language: Language,
    /// Whether a message may come before what it supersedes.
    pub(super) may_move: bool,
    /// Whether changes in other words are looked for.
    pub(super) other_words: bool,
}

/// Notes on each of the first hits which earlier ones it supersedes. A hit that says the same in other words comes before
/// what it supersedes; one in the same words only if it answers the question about as well. Nothing moves if the question
/// is about the past.
///
/// The order of the first [`ORDERED_DEPTH`] hits depends on no others. Cost: up to 4 microseconds a hit of 140 characters.
pub(super) fn bring_up_to_date(hits: &mut [Hit], subject: &Subject) {
    let asked = Asked::new(subject.question);
    let first = &hits[..hits.len().min(DEPTH)];
    let messages: Vec<&Message> = first.iter().map(|hit| &hit.message).collect();
    let ordered = messages.len().min(ORDERED_DEPTH);
    let same_words = superseding_pairs(&messages, messages.len(), &asked);
    let mut other_words = match asked.is_past || !subject.other_words {
        true => Vec::new(),
        false => changes_in_other_words(&first[..ordered], &asked, subject),
    };
    let is_last = |at: usize| first[at].is_last();
    other_words.retain(|&(later, _)| !is_last(later));
    let is_near = |&(later, earlier): &(usize, usize)| hits[later].score + MARGIN >= hits[earlier].score;
    let near = same_words.iter().copied().filter(|pair| pair.0 < ordered && is_near(pair));
    let mut moves: Vec<(usize, usize)> = near.chain(other_words.iter().copied()).collect();
    moves.retain(|&(later, earlier)| subject.may_move && earlier < later && !asked.is_past && !is_last(later));
    let mut found: Vec<(usize, String)> = Vec::new();
    for (later, earlier) in same_words.into_iter().chain(other_words) {
        let id = &messages[earlier].id;
        if first[earlier].namespace == first[later].namespace && !found.contains(&(later, id.clone())) {
            found.push((later, id.clone()));
        }
    }
    for (later, id) in found {
        hits[later].supersedes.push(id);
    }
    move_before(&mut hits[..ordered], moves);
    if asked.is_for_newest && subject.may_move {
        newest_first(&mut hits[..ordered], subject);
    }
}

/// Orders the hits that answer a question for the newest equally well: the newest first, in the places that they had.
fn newest_first(hits: &mut [Hit], subject: &Subject) {
    let analyzer = Analyzer::of(subject.language);
    let terms = |text: &str| {
        let mut terms = Vec::new();
        analyzer.terms(text, &mut terms);
        terms.into_iter().collect::<BTreeSet<u64>>()
    };
    let lower = subject.question.to_lowercase();
    let newest = terms(&lower.split_whitespace().filter(|word| is_newest_word(word)).collect::<Vec<_>>().join(" "));
    let shared = |hit: &Hit| subject.shared(terms(&hit.message.borrowed_text()).difference(&newest)).sum;
    let all: Vec<f32> = hits.iter().map(shared).collect();
    let most = all.iter().copied().fold(0.0, f32::max);
    let least_score = hits.first().map_or(0.0, |best| best.score - EQUAL_SCORE);
    let is_equal = |at: &usize| {
        let hit: &Hit = &hits[*at];
        let says = most > 0.0 && all[*at] >= EQUAL_SHARE * most && hit.score >= least_score;
        says && hit.message.created_at.is_some() && !hit.is_last() && !is_question(&hit.message.borrowed_text())
    };
    let places: Vec<usize> = (0..hits.len()).filter(is_equal).collect();
    let mut equals: Vec<Hit> = places.iter().map(|&at| hits[at].clone()).collect();
    equals.sort_by_key(|hit| std::cmp::Reverse(hit.message.created_at));
    for (at, hit) in places.into_iter().zip(equals) {
        hits[at] = hit;
    }
}

/// Moves each later message directly before the one that it supersedes.
fn move_before(hits: &mut [Hit], moves: Vec<(usize, usize)>) {
    let mut order: Vec<usize> = (0..hits.len()).collect();
    for (later, earlier) in moves {
        let position = |at: usize| order.iter().position(|&other| other == at).expect("all are there");
        let (from, to) = (position(later), position(earlier));
        if to < from {
            order[to..=from].rotate_right(1);
            hits[to..=from].rotate_right(1);
        }
    }
}

/// Returns the positions of each message that supersedes one of the first `count` in the same words, and of that one.
/// Messages without a time, or of one time, supersede nothing.
pub(crate) fn superseding_pairs(messages: &[&Message], count: usize, asked: &Asked) -> Vec<(usize, usize)> {
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
            if b.superseded_ids().contains(&a.id.as_str()) {
                pairs.push((later, earlier));
                continue;
            }
            let is_same_speaker = (a.role, &a.name) == (b.role, &b.name);
            if a.created_at < b.created_at
                && a.created_at.is_some()
                && is_same_speaker
                && let (Some(other), Some(statement)) = (statement(earlier), statement(later))
                && statement.updates(other)
                && !statement.differs_in(other, asked)
            {
                pairs.push((later, earlier));
            }
        }
    }
    pairs
}

/// Returns the positions of each message that is brought up to date in other words, preceded by that of the message which
/// does so: of several, the one that shares most with it.
fn changes_in_other_words(hits: &[Hit], asked: &Asked, subject: &Subject) -> Vec<(usize, usize)> {
    let texts: Vec<Cow<'_, str>> = hits.iter().map(|hit| hit.message.borrowed_text()).collect();
    let is_statement = |at: usize| texts[at].len() <= MOST_CHANGE_BYTES && !is_question(&texts[at]);
    let changes: Vec<Option<Change>> =
        (0..hits.len()).map(|at| if is_statement(at) { Change::of(&texts[at]) } else { None }).collect();
    if changes.iter().all(Option::is_none) {
        return Vec::new();
    }
    // Analyzed when first compared.
    let analyzed: Vec<OnceCell<BTreeSet<u64>>> = vec![OnceCell::new(); hits.len()];
    let terms = |at: usize| {
        analyzed[at].get_or_init(|| {
            let mut terms = Vec::new();
            Analyzer::of(subject.language).terms(&texts[at], &mut terms);
            terms.into_iter().collect()
        })
    };
    let all: f32 = subject.rarity.values().sum();
    let has_terms = |at: usize| hits[at].breakdown.bm25 > 0.0;
    let mut pairs = Vec::new();
    for earlier in (0..hits.len()).filter(|&at| is_statement(at)) {
        let mut best = None;
        for later in 0..hits.len() {
            let (a, b) = (&hits[earlier].message, &hits[later].message);
            let is_later = a.created_at.is_some() && a.created_at < b.created_at;
            let Some(change) = changes[later].filter(|_| is_later && (a.role, &a.name) == (b.role, &b.name)) else {
                continue;
            };
            let shared = match has_terms(earlier) && has_terms(later) {
                true => {
                    let of_earlier = subject.shared(terms(earlier).iter());
                    let both = terms(earlier).intersection(terms(later));
                    let of_both = subject.shared(both.clone());
                    // What these two have in common beside the question, such as the old value: not what most hits have.
                    let has_rare = || {
                        let is_rare = |term: &u64| {
                            let with_it = |at: &usize| has_terms(*at) && terms(*at).contains(term);
                            !subject.rarity.contains_key(term) && (0..hits.len()).filter(with_it).count() <= RARE
                        };
                        both.clone().any(is_rare)
                    };
                    let least = change.least_share() * of_earlier.sum;
                    let is_subject = of_both.greatest >= SUBJECT * of_earlier.greatest
                        || change == Change::Certain && of_both.sum >= MOST_OF_IT * of_earlier.sum;
                    let is_about_same = of_earlier.sum >= change.least_coverage() * all
                        && is_subject
                        && of_both.sum > 0.0
                        && (of_both.sum >= least || of_both.sum >= least / 2.0 && has_rare());
                    is_about_same.then_some(of_both.sum)
                }
                false => {
                    let stand_out = change == Change::Certain && stand_out_by_meaning(hits, earlier, later);
                    (stand_out && !has_terms(earlier) && !has_terms(later)).then_some(0.0)
                }
            };
            if let Some(sum) = shared
                && best.is_none_or(|(most, _)| sum > most)
                && !are_two_facts(&texts[earlier], &texts[later], asked)
            {
                best = Some((sum, later));
            }
        }
        pairs.extend(best.map(|(_, later)| (later, earlier)));
    }
    pairs
}

/// Returns true if two hits are about as near to the question, which they share no word with, and all others much less.
fn stand_out_by_meaning(hits: &[Hit], a: usize, b: usize) -> bool {
    let dense = |at: usize| hits[at].breakdown.dense;
    let (near, nearest) = (dense(a).min(dense(b)), dense(a).max(dense(b)));
    let others = (0..hits.len()).filter(|&at| at != a && at != b).map(dense).fold(0.0, f32::max);
    near >= NEAR * nearest && others <= FAR * near && near > 0.0
}

/// The rarity of some terms of a question: the sum, and that of the rarest.
struct Rarity {
    sum: f32,
    greatest: f32,
}

impl Subject<'_> {
    /// Returns the rarity of those of the terms that the question has.
    fn shared<'t>(&self, terms: impl Iterator<Item = &'t u64>) -> Rarity {
        terms.filter_map(|term| self.rarity.get(term)).fold(Rarity { sum: 0.0, greatest: 0.0 }, |all, &rarity| Rarity {
            sum: all.sum + rarity,
            greatest: all.greatest.max(rarity),
        })
    }
}

/// Returns true if two texts are of one form and the question names what differs.
fn are_two_facts(earlier: &str, later: &str, asked: &Asked) -> bool {
    let lower = [earlier, later].map(str::to_lowercase);
    match (Statement::of(earlier, &lower[0]), Statement::of(later, &lower[1])) {
        (Some(a), Some(b)) => b.is_alike(&a) && b.differs_in(&a, asked),
        _ => false,
    }
}

fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？', '؟'])
}

/// Cuts a word at the letters of scripts without spaces, each of which is a token. Others lose the signs around them.
fn for_each_token<'t>(word: &'t str, mut token: impl FnMut(&'t str)) {
    let mut push = |part: &'t str| {
        let part = part.trim_matches(|c: char| !c.is_alphanumeric());
        if !part.is_empty() {
            token(part);
        }
    };
    if word.is_ascii() {
        return push(word);
    }
    let mut begin = 0;
    for (at, c) in word.char_indices().filter(|&(_, c)| is_unspaced(c)) {
        push(&word[begin..at]);
        begin = at + c.len_utf8();
        push(&word[at..begin]);
    }
    push(&word[begin..]);
}

/// A short text, prepared to be compared with others: its words, and apart from them the numbers and names in it.
struct Statement<'t> {
    /// All tokens in lower case, in order.
    tokens: Vec<&'t str>,
    /// The words, sorted.
    words: Vec<&'t str>,
    /// Numbers, and names: words with a capital inside of a sentence.
    values: Vec<&'t str>,
    negations: usize,
    /// It has words of scripts without spaces.
    is_unspaced: bool,
}

impl<'t> Statement<'t> {
    /// `lower` is the text in lower case. `None`: the text asks.
    fn of(text: &str, lower: &'t str) -> Option<Self> {
        if is_question(text) {
            return None;
        }
        let mut statement = Statement {
            tokens: Vec::with_capacity(32),
            words: Vec::with_capacity(32),
            values: Vec::new(),
            negations: 0,
            is_unspaced: false,
        };
        let mut begins = true;
        for (written, lower) in text.split_whitespace().zip(lower.split_whitespace()) {
            let is_first = std::mem::replace(&mut begins, written.ends_with(['.', '!', '?', ':', ';', '"']));
            let begin = written.trim_start_matches(|c: char| !c.is_alphanumeric());
            for_each_token(lower, |word| {
                let is_name = !is_first
                    && begin.starts_with(char::is_uppercase)
                    && word.len() > 1
                    && !word.starts_with("i'")
                    && !word.contains(is_unspaced);
                if is_name || word.contains(char::is_numeric) {
                    statement.values.push(word);
                    statement.tokens.push(word);
                } else {
                    statement.add(word);
                }
            });
        }
        statement.words.sort_unstable();
        statement.is_unspaced = statement.words.iter().any(|word| word.contains(is_unspaced));
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
            self.tokens.push(word);
        }
    }

    /// Returns true if this says the same as the other, with other values or a negation more or less.
    fn updates(&self, other: &Statement<'_>) -> bool {
        // Names of scripts without spaces are not told from other words: any difference may be a value.
        let has_values = self.is_unspaced && other.is_unspaced && self.words != other.words;
        if self.values == other.values && self.negations == other.negations && !has_values
            || self.values.is_empty() != other.values.is_empty()
        {
            return false;
        }
        self.is_alike(other)
    }

    /// Returns true if the words of both are nearly the same.
    fn is_alike(&self, other: &Statement<'_>) -> bool {
        let least = SAME_WORDS * self.words.len().max(other.words.len()) as f32;
        let most = self.words.len().min(other.words.len());
        let is_enough = |common: usize| common >= LEAST_WORDS && common as f32 >= least;
        is_enough(most) && is_enough(common(&self.words, &other.words))
    }

    /// Returns true if the question names a word that this has in place of another, or that other one: then they are two
    /// facts. A statement that is itself the question names nothing by its own words.
    fn differs_in(&self, other: &Statement<'_>, asked: &Asked) -> bool {
        let is_asked = |tokens: &[&str]| tokens.iter().any(|token| asked.names(token));
        replaced(&other.tokens, &self.tokens)
            .iter()
            .any(|(old, new)| is_asked(old) || is_asked(new) && !asked.has(self))
    }
}

/// Returns the runs of tokens of `a` that have others in their place in `b`, with these.
fn replaced<'a, 'b>(a: &'b [&'a str], b: &'b [&'a str]) -> Vec<(&'b [&'a str], &'b [&'a str])> {
    // The lengths of the longest common subsequences of what is left of both.
    let width = b.len() + 1;
    let mut lengths = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = match a[i] == b[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut runs, mut i, mut j) = (Vec::new(), 0, 0);
    while i < a.len() || j < b.len() {
        let (from_i, from_j) = (i, j);
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && a[i] == b[j] {
                break;
            }
            let without_a = if i < a.len() { Some(lengths[(i + 1) * width + j]) } else { None };
            let without_b = if j < b.len() { Some(lengths[i * width + j + 1]) } else { None };
            if without_a >= without_b { i += 1 } else { j += 1 }
        }
        if i > from_i && j > from_j {
            runs.push((&a[from_i..i], &b[from_j..j]));
        }
        while i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        }
    }
    runs
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
                bring_up_to_date(
                    &mut hits,
                    &Subject {
                        question: "what do you know",
                        rarity: &BTreeMap::new(),
                        language: Language::English,
                        may_move: true,
                        other_words: true,
                    },
                );
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

    /// The hits of two messages a day apart, in the order of recall, whose scores differ by `gap`.
    fn asked_for(texts: [&str; 2], question: &str, language: Language, gap: f32) -> [Hit; 2] {
        let terms = |text: &str| {
            let mut terms = Vec::new();
            Analyzer::of(language).terms(text, &mut terms);
            terms
        };
        let rarity: BTreeMap<u64, f32> = terms(question).into_iter().map(|term| (term, 2.0)).collect();
        let hit = |at: usize| {
            let time = format!("2024-05-0{}T09:30:00Z", at + 1).parse().unwrap();
            let mut hit =
                Hit::new(Message::user(texts[at]).with_id(at.to_string()).at(time), 9.0 - gap * at as f32, at + 1);
            let shared = terms(texts[at]).iter().filter(|term| rarity.contains_key(term)).count();
            (hit.breakdown.bm25, hit.breakdown.dense) = (shared as f32, 3.0 - gap / 10.0 * at as f32);
            hit
        };
        let mut hits = [hit(0), hit(1)];
        bring_up_to_date(
            &mut hits,
            &Subject { question, rarity: &rarity, language, may_move: true, other_words: true },
        );
        hits
    }

    #[test]
    fn facts_that_differ_in_what_the_question_names_are_no_change() {
        let check = |texts: [&str; 2], question: &str, wanted: bool| {
            let hits = asked_for(texts, question, Language::English, 0.1);
            let marked = hits.iter().any(|hit| !hit.supersedes.is_empty());
            assert_eq!((marked, hits[0].message.id == "1"), (wanted, wanted), "{texts:?}: {question}");
        };
        let doses = ["The dose for the cat is 5 mg", "The dose for the dog is 20 mg"];
        check(doses, "What is the dose for the cat?", false);
        check(doses, "What are the doses for cats and dogs?", false);
        check(["Gate 812 opens at 9 sharp", "Gate 813 opens at 10 sharp"], "When does gate 812 open?", false);
        check(["给猫的药每次5毫克。", "给狗的药每次20毫克。"], "给猫的药每次多少毫克？", false);
        check(["The dose for the cat is 5 mg", "The dose for the cat is 8 mg"], "What is the dose for the cat?", true);
        check(["My rent is 900 euros a month", "My rent is 950 euros a month now"], "What is my rent?", true);
        check(["房间的密码是3347。", "房间的密码是6021。"], "房间的密码是什么？", true);
    }

    #[test]
    fn a_message_that_answers_better_stays_before_one_in_the_same_words() {
        let texts = ["The dose for the cat is 5 mg", "The dose for the dog is 20 mg"];
        let ids =
            |gap: f32| asked_for(texts, "How much does Minka get?", Language::English, gap).map(|hit| hit.message.id);
        assert_eq!(ids(MARGIN / 2.0), ["1", "0"]);
        assert_eq!(ids(MARGIN * 2.0), ["0", "1"]);
    }

    #[test]
    fn a_change_in_other_words_comes_first_unless_the_question_is_about_the_past() {
        let check = |language, texts: [&str; 2], question: &str, wanted: bool| {
            let hits = asked_for(texts, question, language, 4.0);
            let ids = if wanted { ["1", "0"] } else { ["0", "1"] };
            assert_eq!(hits.each_ref().map(|hit| &*hit.message.id), ids, "{texts:?}: {question}");
            assert_eq!(hits[0].supersedes, if wanted { vec!["0"] } else { vec![] });
        };
        let billing = ["Milan handles billing.", "Rosa took over billing from Milan."];
        check(Language::English, billing, "Who handles billing?", true);
        check(Language::English, billing, "Who handled billing before Rosa?", false);
        check(Language::English, ["Milan handles billing.", "Rosa likes tea now."], "Who handles billing?", false);
        check(
            Language::English,
            ["Milan handles billing.", "Has Rosa taken over billing now?"],
            "Who handles billing?",
            false,
        );
        let lager = ["Unser Lager ist in Bremen.", "Das Lager in Bremen ist aufgelöst, wir haben eines in Kassel."];
        check(Language::German, lager, "Wo ist unser Lager?", true);
        check(Language::German, lager, "Wo war unser Lager früher?", false);
        let diet = ["I'm vegetarian, no meat for me.", "Update: I started eating fish again."];
        check(Language::English, diet, "What are my dietary restrictions?", true);
        check(Language::English, diet, "Which dietary restrictions did I have before?", false);
        let report =
            ["The Q3 report is due on August 15th.", "The Q3 report deadline was pushed back to September 1st."];
        check(Language::English, report, "When is the Q3 report due?", true);
        let site = ["Notre site est hébergé à Lyon.", "On a migré le site, il n'est plus à Lyon mais à Gand."];
        check(Language::French, site, "Où est hébergé notre site ?", true);
        let server = ["我们的服务器在深圳机房。", "服务器已经从深圳迁到了成都机房。"];
        check(Language::Other, server, "我们的服务器在哪个机房？", true);
        check(Language::Other, server, "我们的服务器以前在哪个机房？", false);
    }

    #[test]
    fn of_equals_the_newest_comes_first_if_the_question_asks_for_it() {
        let check = |language, texts: [&str; 2], question: &str, wanted: bool| {
            let hits = asked_for(texts, question, language, 2.0);
            let ids = if wanted { ["1", "0"] } else { ["0", "1"] };
            assert_eq!(hits.each_ref().map(|hit| &*hit.message.id), ids, "{texts:?}: {question}");
        };
        let deployed =
            ["Deployment of the billing service went out on Tuesday.", "Olga did a deployment at noon, all green."];
        check(Language::English, deployed, "When was the last deployment?", true);
        check(Language::English, deployed, "When was the first deployment?", false);
        check(Language::English, deployed, "Which deployment was on Tuesday?", false);
        check(Language::English, deployed, "Who did the deployment last week?", false);
        check(
            Language::English,
            ["Release 1.4 is out.", "A coffee machine is out of order."],
            "What is the latest release?",
            false,
        );
        let german = ["Ein Deployment lief am Dienstag durch.", "Olga machte mittags ein Deployment."];
        check(Language::German, german, "Wann war das letzte Deployment?", true);
        check(Language::German, german, "Wann war das erste Deployment?", false);
        let french = ["La version 1.4, publiée lundi.", "Nous avons sorti une version corrigée, la 1.5."];
        check(Language::French, french, "Quelle est la dernière version ?", true);
        check(Language::French, french, "Quelle était la première version ?", false);
        let chinese = ["周二部署了计费服务。", "中午小李部署了搜索服务。"];
        check(Language::Other, chinese, "最近一次部署是什么时候？", true);
        check(Language::Other, chinese, "第一次部署之前有什么？", false);
    }

    #[test]
    fn another_speaker_supersedes_nothing() {
        let hit = |id: &str, name: &str, second: u8| {
            let time = format!("2024-05-01T09:30:{second:02}Z").parse().unwrap();
            let text = format!("I will be there at {second} sharp");
            Hit::new(Message::user(text).by(name).with_id(id).at(time), 1.0, 1)
        };
        let mut hits = [hit("a", "Ada", 1), hit("b", "Bob", 2), hit("c", "Ada", 3)];
        bring_up_to_date(
            &mut hits,
            &Subject {
                question: "what do you know",
                rarity: &BTreeMap::new(),
                language: Language::English,
                may_move: true,
                other_words: true,
            },
        );
        let superseding: Vec<_> = hits.iter().filter(|hit| !hit.supersedes.is_empty()).collect();
        assert_eq!(superseding.len(), 1);
        assert_eq!((&*superseding[0].message.id, &superseding[0].supersedes), ("c", &vec!["a".to_owned()]));
    }
}
