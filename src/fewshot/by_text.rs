//! Selectors without a model: by the words that an example shares with the input, by their n-grams, and by length.

use std::{collections::HashMap, sync::Arc};

use super::{ExampleSelector, FewShotExample};
use crate::{
    error::{Error, Result, impl_debug},
    lexical::{Analyzer, Document, Language, LexicalIndex, MAX_ROWS, Scores, Segment, SpeakerAndQuestion},
    recall::check_query_text,
    tokens::TokenCounter,
};

/// Selects the examples whose inputs share words with the input, the highest BM25 first; of equal ones the first. Needs
/// no model.
///
/// Words are compared by their stems and without stop words, as in a recall with
/// [`RankingStrategy::Lexical`](crate::RankingStrategy::Lexical). Words that few examples have count more. Examples
/// that share no word are not selected. Outputs are not compared.
///
/// ```
/// use mnemon::{Bm25ExampleSelector, ExampleSelector, FewShotExample};
/// let mut selector = Bm25ExampleSelector::new(vec![
///     FewShotExample::new("Book a table for two.", "reserve(2)"),
///     FewShotExample::new("What is the weather in Lyon?", "weather(Lyon)"),
/// ]);
/// assert_eq!(selector.select("Please book us two tables.")?[0].output, "reserve(2)");
/// selector.add(vec![FewShotExample::new("Cancel my booking.", "cancel()")]);
/// assert_eq!(selector.select("Can I cancel this?")?[0].output, "cancel()");
/// # Ok::<(), mnemon::Error>(())
/// ```
#[non_exhaustive]
pub struct Bm25ExampleSelector {
    examples: Vec<FewShotExample>,
    language: Language,
    index: LexicalIndex,
    /// The number of segments of the index.
    segments: u32,
    /// The maximum number of examples to select. Default: 4.
    pub k: usize,
}

impl_debug!(Bm25ExampleSelector { examples, language, k });

impl Bm25ExampleSelector {
    /// Creates a selector of English examples.
    pub fn new(examples: Vec<FewShotExample>) -> Self {
        Bm25ExampleSelector::with_language(examples, Language::English)
    }

    /// Creates a selector of examples in this language, which decides how words are stemmed.
    pub fn with_language(examples: Vec<FewShotExample>, language: Language) -> Self {
        let index = LexicalIndex::default();
        let mut selector = Bm25ExampleSelector { examples: Vec::new(), language, index, segments: 0, k: 4 };
        selector.add(examples);
        selector
    }

    /// Adds further examples after the others.
    pub fn add(&mut self, examples: Vec<FewShotExample>) {
        let first = self.examples.len() as u32;
        let document = |(row, example): (u32, &FewShotExample)| {
            let terms = terms(self.language, &example.input);
            Document { row, passage: None, terms, speech: SpeakerAndQuestion::default() }
        };
        let documents: Vec<Document> = (first..).zip(&examples).map(document).collect();
        for documents in documents.chunks(MAX_ROWS) {
            let segment = Segment::build(self.language, documents.to_vec());
            self.index.set(self.segments, Some(Arc::new(segment)), |_| true);
            self.segments += 1;
        }
        self.examples.extend(examples);
    }
}

impl ExampleSelector for Bm25ExampleSelector {
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        check_query_text(input)?;
        let mut scores = Scores::default();
        let mut query = Vec::new();
        Analyzer::of(self.language).query_terms(input, &mut query);
        self.index.score(&query, &mut scores);
        let mut rows = scores.touched().to_vec();
        rows.sort_by(|&a, &b| scores.get(b).total_cmp(&scores.get(a)).then(a.cmp(&b)));
        Ok(rows.into_iter().take(self.k).map(|row| self.examples[row as usize].clone()).collect())
    }
}

fn terms(language: Language, text: &str) -> Vec<u64> {
    let mut terms = Vec::new();
    Analyzer::of(language).terms(text, &mut terms);
    terms
}

/// The length of the longest n-grams, in words.
const MAX_N: usize = 4;

/// The number of matches that replaces 0 matches of an n-gram length (NLTK's smoothing `method1`; Chen and Cherry, WMT
/// 2014).
const SMOOTHED_ZERO: f64 = 0.1;

/// Scores that differ from the threshold by less count as equal to it.
const THRESHOLD_MARGIN: f64 = 1e-9;

/// Selects the examples whose n-gram overlap with the input exceeds a threshold, the highest overlap first. Needs no
/// model.
///
/// Corresponds to LangChain's `NGramOverlapExampleSelector`. The score is the sentence BLEU-4 of the input against the
/// example's input (Papineni et al., ACL 2002), smoothed and weighted as in NLTK: 1 for the same text, 0 if no words
/// are shared. Words are separated by white space.
///
/// ```
/// use mnemon::{ExampleSelector, FewShotExample, NgramOverlapExampleSelector};
/// let examples = vec![
///     FewShotExample::new("See Spot run.", "Ver correr a Spot."),
///     FewShotExample::new("My dog barks.", "Mi perro ladra."),
/// ];
/// let mut selector = NgramOverlapExampleSelector::new(examples);
/// assert_eq!(selector.select("My cat barks.")?[0].output, "Mi perro ladra.");
/// selector.threshold = 0.0;
/// assert_eq!(selector.select("My cat barks.")?.len(), 1);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NgramOverlapExampleSelector {
    /// The examples to select from.
    pub examples: Vec<FewShotExample>,
    /// The score that an example must exceed. A threshold below 0 leaves out no example, 0 leaves out those that share
    /// no words, 1 leaves out all. Default: -1.
    pub threshold: f64,
}

impl NgramOverlapExampleSelector {
    /// Creates a selector that selects all examples.
    pub fn new(examples: Vec<FewShotExample>) -> Self {
        NgramOverlapExampleSelector { examples, threshold: -1.0 }
    }
}

impl ExampleSelector for NgramOverlapExampleSelector {
    /// # Errors
    /// [`Error::InvalidConfig`] if the threshold is NaN.
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        if self.threshold.is_nan() {
            return Err(Error::InvalidConfig { reason: "threshold is NaN; give a number".into() });
        }
        check_query_text(input)?;
        let input: Vec<&str> = input.split_whitespace().collect();
        let mut scored: Vec<(f64, &FewShotExample)> =
            self.examples.iter().map(|example| (bleu(&input, &example.input), example)).collect();
        scored.retain(|(score, _)| *score > self.threshold && score - self.threshold >= THRESHOLD_MARGIN);
        scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Ok(scored.into_iter().map(|(_, example)| example.clone()).collect())
    }
}

/// Computes the sentence BLEU of `hypothesis` against one reference, 0 to 1. All n-gram lengths have the same weight,
/// up to 4 or to the length of a shorter hypothesis.
fn bleu(hypothesis: &[&str], reference: &str) -> f64 {
    let reference: Vec<&str> = reference.split_whitespace().collect();
    let longest = hypothesis.len().min(MAX_N);
    let weight = 1.0 / longest as f64;
    let mut log_precision = 0.0;
    for n in 1..=longest {
        let in_reference = ngrams(&reference, n);
        // An n-gram counts at most as often as it occurs in the reference.
        let matches = ngrams(hypothesis, n)
            .into_iter()
            .map(|(ngram, count)| in_reference.get(ngram).map_or(0, |&most| count.min(most)))
            .sum::<usize>();
        if matches == 0 && n == 1 {
            return 0.0;
        }
        let matches = if matches == 0 { SMOOTHED_ZERO } else { matches as f64 };
        log_precision += weight * (matches / (hypothesis.len() + 1 - n) as f64).ln();
    }
    if longest == 0 { 0.0 } else { brevity_penalty(hypothesis.len(), reference.len()) * log_precision.exp() }
}

/// Returns the factor that penalises a hypothesis which is shorter than the reference, below 1 for such a hypothesis.
fn brevity_penalty(hypothesis: usize, reference: usize) -> f64 {
    if hypothesis > reference { 1.0 } else { (1.0 - reference as f64 / hypothesis as f64).exp() }
}

fn ngrams<'w>(words: &'w [&'w str], n: usize) -> HashMap<&'w [&'w str], usize> {
    let mut counts = HashMap::new();
    for ngram in words.windows(n) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// A function that formats an example as it appears in the prompt.
pub type ExampleFormatter = Arc<dyn Fn(&FewShotExample) -> String + Send + Sync>;

/// Selects the first examples that fit into a length, in their order. A long input leaves room for fewer examples.
/// Selection stops at the first example that does not fit.
///
/// Corresponds to LangChain's `LengthBasedExampleSelector`.
///
/// ```
/// use mnemon::{ExampleSelector, FewShotExample, LengthBasedExampleSelector};
/// let examples = vec![
///     FewShotExample::new("happy", "sad"),
///     FewShotExample::new("tall", "short"),
///     FewShotExample::new("fast", "slow"),
/// ];
/// let selector = LengthBasedExampleSelector::new(examples, 10);
/// assert_eq!(selector.select("big")?.len(), 2);
/// assert_eq!(selector.select("a big thing, and then another one")?.len(), 0);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct LengthBasedExampleSelector {
    /// The examples to select from.
    pub examples: Vec<FewShotExample>,
    /// The maximum length of the input and the examples together.
    pub max_length: usize,
    /// Measures the length of a text. Default: the number of spaces and newlines plus one, which is the number of words
    /// if none are doubled.
    pub length: Arc<dyn TokenCounter>,
    /// Formats an example to measure its length. Default: the [`Display`](std::fmt::Display) form, `Input: ...` and
    /// `Output: ...`.
    pub format: ExampleFormatter,
}

impl_debug!(LengthBasedExampleSelector { examples, max_length });

impl LengthBasedExampleSelector {
    /// Creates a selector with a maximum length in words.
    pub fn new(examples: Vec<FewShotExample>, max_length: usize) -> Self {
        let words = |text: &str| text.split([' ', '\n']).count();
        let format = Arc::new(FewShotExample::to_string);
        LengthBasedExampleSelector { examples, max_length, length: Arc::new(words), format }
    }
}

impl ExampleSelector for LengthBasedExampleSelector {
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        let mut left = self.max_length.saturating_sub(self.length.count(input));
        let mut selected = Vec::new();
        for example in &self.examples {
            let length = self.length.count(&(self.format)(example));
            // Without any room left, even an example of length 0 does not fit.
            if left == 0 || length > left {
                break;
            }
            left -= length;
            selected.push(example.clone());
        }
        Ok(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bleu_equals_the_score_of_nltk() {
        // Computed by `ngram_overlap_score` of langchain-community 0.4.2 with nltk 3.10.4.
        let rows = [
            ("", "", 0.0),
            ("", "a", 0.0),
            ("a", "", 0.0),
            ("a", "a", 1.0),
            ("a", "b", 0.0),
            ("a", "A", 0.0),
            ("a a", "a", 0.223606797749979),
            ("a", "a a", 0.36787944117144233),
            ("a a a a", "a", 0.08034284189446518),
            ("a b", "a b", 1.0),
            ("a b", "b a", 0.316227766016838),
            ("a b c", "a b c", 1.0),
            ("a b c", "c b a", 0.17099759466766973),
            ("a b c", "a b", 0.32182979486854335),
            ("a b c d", "a b c d", 1.0),
            ("a b c d", "d c b a", 0.11362193664674995),
            ("a b c d", "a b c e", 0.3976353643835253),
            ("a b c d", "a c b d", 0.11362193664674995),
            ("a b c d e", "a b c d", 0.668740304976422),
            ("a b c d", "a b c d e", 0.7788007830714049),
            ("a b c d e f", "f e d c b a", 0.06389431042462725),
            ("a", "a b c d e f g h", 0.0009118819655545162),
            ("the the the the the the the", "the cat is on the mat", 0.039281465090051315),
            ("  a \t b\n", "a b", 1.0),
            ("See Spot run.", "See Spot run fast.", 0.23060112469885113),
            ("My cat barks.", "My dog barks.", 0.14938015821857217),
            ("My cat barks.", "Spot can run.", 0.0),
            ("Spot can run fast.", "Spot can run.", 0.16990442448471224),
            ("Spot plays fetch.", "Spot can play fetch with Ada", 0.043616930705408306),
            (
                "it is a guide to action which ensures that it obeys",
                "it is a guide to action that ensures that it will",
                0.587728372510532,
            ),
            (
                "it is to insure the troops forever",
                "it is a guide to action that ensures that it will",
                0.04365582670262632,
            ),
            ("東京 は 今日 雨", "東京 は 明日 雨", 0.1880301546543197),
            ("to be or not to be", "to be or not to be that is the question", 0.513417119032592),
            ("or not", "to be or not to be", 0.1353352832366127),
        ];
        for (hypothesis, reference, expected) in rows {
            let words: Vec<&str> = hypothesis.split_whitespace().collect();
            let score: f64 = bleu(&words, reference);
            assert!((score - expected).abs() < 1e-14, "{hypothesis:?}, {reference:?}: {score}, expected {expected}");
        }
    }
}
