//! Selection of examples by shared words.

use std::collections::HashMap;

use super::example::{ExampleSelector, FewShotExample};
use crate::{
    error::{Error, Result},
    recall::check_query_text,
};

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

/// Counts the n-grams of `n` words.
fn ngrams<'w>(words: &'w [&'w str], n: usize) -> HashMap<&'w [&'w str], usize> {
    let mut counts = HashMap::new();
    for ngram in words.windows(n) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
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
