//! Selection of examples by the words that they share with the input.

use std::sync::Arc;

use super::example::{ExampleSelector, FewShotExample};
use crate::{
    error::{Result, impl_debug},
    lexical::{Analyzer, Document, Language, LexicalIndex, MAX_ROWS, Scores, Segment, Voice},
    recall::check_query_text,
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
            Document { row, passage: None, terms, voice: Voice::default() }
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
        self.index.score(&terms(self.language, input), &mut scores);
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
