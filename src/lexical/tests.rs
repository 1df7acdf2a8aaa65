//! Tests of the index against a model, under any sequence of operations.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;

use super::{
    Analyzer, Document, Language, LexicalIndex, OpenSegment, Scores, Segment, SpeakerAndQuestion, index::Bm25,
    merge_plan,
};

/// An operation on rows below 48.
#[derive(Clone, Debug)]
enum Step {
    /// Adds documents, of rows that are new, removed or live.
    Add(Vec<(u32, Vec<u64>)>),
    Remove(Vec<u32>),
    /// Rewrites the first sparse segment.
    Rewrite,
    /// Replays the last `changes` changes, with the rows that are live now or were live then.
    Replay {
        changes: usize,
        is_live_now: bool,
    },
}

/// A commit: removals, then segments in any order.
#[derive(Clone)]
struct Change {
    removed: Vec<u32>,
    segments: Vec<(u32, Option<Arc<Segment>>)>,
    live: Vec<u32>,
}

#[derive(Default)]
struct Model {
    live: BTreeMap<u32, Vec<u64>>,
    stored: BTreeMap<u32, Arc<Segment>>,
    changes: Vec<Change>,
    last_number: u32,
}

impl Model {
    /// Does a step like the engine. The segments of the change are rotated by `order`.
    fn step(&mut self, step: &Step, order: usize, index: &mut LexicalIndex) {
        let mut change = Change { removed: vec![], segments: vec![], live: vec![] };
        match step {
            Step::Add(documents) => {
                let new = Segment::build(
                    Language::English,
                    documents.iter().map(|(row, terms)| document(*row, terms)).collect(),
                );
                self.live.extend(documents.iter().cloned());
                let sizes: Vec<usize> = self.stored.values().map(|segment| segment.rows().len()).collect();
                let merged = self.stored.len() - merge_plan(&sizes, documents.len());
                let olds: Vec<(u32, Arc<Segment>)> = self.stored.clone().into_iter().skip(merged).collect();
                let sources: Vec<&Segment> = olds.iter().map(|(_, segment)| &**segment).chain([&new]).collect();
                self.last_number += 1;
                change.segments.push((self.last_number, Some(Arc::new(Segment::merge(&sources)))));
                change.segments.extend(olds.iter().map(|(number, _)| (*number, None)));
            }
            Step::Remove(rows) => {
                self.live.retain(|row, _| !rows.contains(row));
                change.removed.clone_from(rows);
            }
            Step::Rewrite => {
                let Some((number, segment)) = index.sparse() else { return };
                change.segments.push((number, segment.retain(|row| index.is_home(number, row)).map(Arc::new)));
            }
            Step::Replay { changes, is_live_now } => {
                for change in &self.changes[self.changes.len().saturating_sub(*changes)..] {
                    let live = if *is_live_now { self.live.keys().copied().collect() } else { change.live.clone() };
                    apply(change, &live, index);
                }
                return;
            }
        }
        for (number, segment) in &change.segments {
            match segment {
                Some(segment) => self.stored.insert(*number, Arc::clone(segment)),
                None => self.stored.remove(number),
            };
        }
        let turn = order % change.segments.len().max(1);
        change.segments.rotate_left(turn);
        change.live = self.live.keys().copied().collect();
        apply(&change, &change.live, index);
        self.changes.push(change);
    }

    /// Returns the score of each row that contains a term of the query, straight from the formula; and the upper bound.
    fn scores(&self, query: &BTreeMap<u64, u32>) -> (BTreeMap<u32, f64>, f64) {
        let Bm25 { k1, b } = Bm25::default();
        let (k1, b) = (f64::from(k1), f64::from(b));
        let (mut scores, mut ideal) = (BTreeMap::new(), 0.0);
        let all = self.live.len() as f64;
        let mean = self.live.values().map(Vec::len).sum::<usize>() as f64 / all;
        for (term, &times) in query {
            let documents = self.live.values().filter(|terms| terms.contains(term)).count() as f64;
            let idf = (1.0 + (all - documents + 0.5) / (documents + 0.5)).ln() * f64::from(times.min(3));
            ideal += idf * (k1 + 1.0);
            for (&row, terms) in self.live.iter().filter(|(_, terms)| terms.contains(term)) {
                let frequency = terms.iter().filter(|other| *other == term).count() as f64;
                let length = terms.len() as f64 / mean;
                *scores.entry(row).or_default() +=
                    idf * frequency * (k1 + 1.0) / (frequency + k1 * (1.0 - b + b * length));
            }
        }
        (scores, ideal)
    }
}

fn apply(change: &Change, live: &[u32], index: &mut LexicalIndex) {
    index.remove(&change.removed);
    for (number, segment) in &change.segments {
        index.set(*number, segment.clone(), |row| live.contains(&row));
    }
}

/// Creates a document whose passage depends on its terms, so that a mix-up of documents is noticed.
fn document(row: u32, terms: &[u64]) -> Document {
    let count = terms.len() as u32;
    Document {
        row,
        passage: (count > 3).then(|| row..row + count),
        terms: terms.to_vec(),
        speech: SpeakerAndQuestion::default(),
    }
}

/// Returns everything that an index computes for a query, with floats as bits.
fn answers(index: &LexicalIndex, query: &[u64], scores: &mut Scores) -> (Vec<(u32, u32)>, u32, usize) {
    index.score(query, scores);
    let mut rows: Vec<(u32, u32)> = scores.touched().iter().map(|&row| (row, scores.get(row).to_bits())).collect();
    rows.sort_unstable();
    (rows, scores.ideal().to_bits(), index.rows())
}

fn any_terms() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => 0..4u64, 1 => 0..40u64], 0..8)
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::btree_map(0..48u32, any_terms(), 1..10).prop_map(|rows| Step::Add(rows.into_iter().collect())),
        4 => prop::collection::vec(0..48u32, 1..12).prop_map(Step::Remove),
        3 => Just(Step::Rewrite),
        3 => (0..30usize, any::<bool>()).prop_map(|(changes, is_live_now)| Step::Replay { changes, is_live_now }),
    ]
}

proptest! {
    #[test]
    fn an_index_agrees_with_its_model(
        steps in prop::collection::vec((any_step(), any::<usize>()), 1..40),
        queries in prop::collection::vec(any_terms(), 1..4),
    ) {
        let mut model = Model::default();
        let mut index = LexicalIndex::default();
        let mut scores = Scores::default();
        for (step, order) in &steps {
            model.step(step, *order, &mut index);
            for row in 0..50 {
                let terms = model.live.get(&row);
                prop_assert_eq!(index.covers(row), terms.is_some());
                prop_assert_eq!(index.passage(row), terms.and_then(|terms| document(row, terms).passage));
            }
            // The same rows in a single segment; and the stored segments as a load would read them, newest first.
            let mut fresh = LexicalIndex::default();
            let documents = model.live.iter().map(|(row, terms)| document(*row, terms)).collect();
            fresh.set(7, Some(Arc::new(Segment::build(Language::English, documents))), |_| true);
            let mut loaded = LexicalIndex::default();
            for (number, segment) in model.stored.iter().rev() {
                loaded.set(*number, Some(Arc::clone(segment)), |row| model.live.contains_key(&row));
            }
            for query in &queries {
                let found = answers(&index, query, &mut scores);
                prop_assert_eq!(&found, &answers(&fresh, query, &mut scores));
                prop_assert_eq!(&found, &answers(&loaded, query, &mut scores));

                let mut terms = BTreeMap::new();
                query.iter().for_each(|&term| *terms.entry(term).or_default() += 1);
                let (expected, ideal) = model.scores(&terms);
                prop_assert_eq!(found.0.len(), expected.len());
                for ((row, score), (expected_row, expected)) in found.0.into_iter().zip(expected) {
                    let score = f32::from_bits(score);
                    prop_assert_eq!(row, expected_row);
                    prop_assert!((f64::from(score) - expected).abs() <= 1e-5 * expected, "{} {}", score, expected);
                    prop_assert!(score <= scores.ideal());
                }
                prop_assert!((f64::from(scores.ideal()) - ideal).abs() <= 1e-5 * ideal);
            }
        }
        while let Some((number, _)) = index.sparse() {
            model.step(&Step::Rewrite, 0, &mut index);
            prop_assert_ne!(index.sparse().map(|sparse| sparse.0), Some(number), "a rewritten segment is not sparse");
        }
    }
}

proptest! {
    /// Documents score the same to the bit as rows and in an open segment, whatever came and went there.
    #[test]
    fn documents_of_an_open_segment_are_scored_like_rows(
        rows in prop::collection::vec(any_terms(), 0..12),
        steps in prop::collection::vec((any_terms(), any::<bool>(), any::<prop::sample::Index>()), 1..40),
        query in any_terms(),
    ) {
        let first = rows.len() as u32 + 3;
        let rows: Vec<Document> = (0..).zip(&rows).map(|(row, terms)| document(row, terms)).collect();
        let (mut open, mut model): (OpenSegment, Vec<(u32, Vec<u64>)>) = Default::default();
        for (terms, removes, which) in steps {
            match removes && !model.is_empty() {
                true => open.remove(model.remove(which.index(model.len())).0),
                false => model.push((open.push(terms.clone()), terms)),
            }
            if open.is_sparse() {
                open.compact();
                model.iter_mut().zip(0..).for_each(|((number, _), compacted)| *number = compacted);
            }
            prop_assert_eq!(open.len(), model.len());
        }
        let mut index = LexicalIndex::default();
        index.set(0, Some(Arc::new(Segment::build(Language::English, rows.clone()))), |_| true);
        let mut scores = Scores::default();
        index.score_with(&query, (first, &open), None, &mut scores);
        let mut found: Vec<(u32, u32)> = scores.touched().iter().map(|&row| (row, scores.get(row).to_bits())).collect();
        found.sort_unstable();
        let ideal = scores.ideal().to_bits();
        let documents = model.iter().map(|(number, terms)| document(first + number, terms));
        let mut one = LexicalIndex::default();
        one.set(0, Some(Arc::new(Segment::build(Language::English, rows.into_iter().chain(documents).collect()))), |_| true);
        prop_assert_eq!((found, ideal, index.rows() + open.len()), answers(&one, &query, &mut scores));
        for (number, terms) in &model {
            prop_assert_eq!(usize::from(open.length(*number)), terms.len());
        }
    }
}

fn index_of(documents: &[(u32, &[u64])]) -> LexicalIndex {
    let mut index = LexicalIndex::default();
    let documents = documents.iter().map(|(row, terms)| document(*row, terms)).collect();
    index.set(0, Some(Arc::new(Segment::build(Language::English, documents))), |_| true);
    index
}

/// N = 3, mean length 2; the term is in two rows, so idf = ln(1 + 1.5 / 2.5) = 0.470004.
#[test]
fn a_score_equals_one_computed_by_hand() {
    let index = index_of(&[(0, &[1, 1, 2]), (4, &[1]), (9, &[3, 4])]);
    let mut scores = Scores::default();
    index.score(&[1, 99, 1], &mut scores);
    let weight = 2.0 * 0.470_004;
    let expected =
        |frequency: f32, length: f32| weight * frequency * 1.9 / (frequency + 0.9 * (0.6 + 0.4 * length / 2.0));
    let unknown = (1.0f32 + 3.5 / 0.5).ln();
    for (found, expected) in [
        (scores.get(0), expected(2.0, 3.0)),
        (scores.get(4), expected(1.0, 1.0)),
        (scores.get(9), 0.0),
        (scores.get(1000), 0.0),
        (scores.ideal(), 1.9 * (weight + unknown)),
    ] {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    scores.clear();
    assert_eq!((scores.touched(), scores.ideal(), scores.get(0)), (&[][..], 0.0, 0.0));
}

#[test]
fn a_long_query_is_scored_by_its_rarest_terms() {
    let frequent: Vec<u64> = (0..500).collect();
    let rare: Vec<u64> = (1000..2024).collect();
    let index = index_of(&[(0, &frequent), (1, &frequent), (2, &rare)]);
    let mut scores = Scores::default();
    index.score(&[frequent, rare.clone()].concat(), &mut scores);
    assert_eq!(scores.touched(), [2]);
    let score = scores.get(2);
    index.score(&rare, &mut scores);
    assert_eq!(scores.get(2), score);
}

#[test]
fn an_empty_index_finds_nothing() {
    let mut scores = Scores::default();
    let index = LexicalIndex::default();
    index.score(&[1, 2], &mut scores);
    assert!(scores.touched().is_empty() && scores.ideal() > 0.0);
    index_of(&[(3, &[])]).score(&[1], &mut scores);
    assert!(scores.touched().is_empty());
}

#[test]
fn a_german_word_is_found_by_its_parts_if_the_index_has_both_and_not_the_word() {
    let analyzer = Analyzer::of(Language::German);
    let texts =
        ["Die Miete steht im Vertrag.", "Der Mietvertrag liegt bei.", "Ein Schlüssel der Wohnung", "Lange Straßen"];
    let document = |(row, text): (u32, &str)| {
        let mut document = document(row, &[]);
        analyzer.terms(text, &mut document.terms);
        document
    };
    let check = |index: &LexicalIndex, query: &str, expected: &[u32]| {
        let (mut terms, mut scores) = (Vec::new(), Scores::default());
        analyzer.query_terms(query, &mut terms);
        index.score(&terms, &mut scores);
        let mut rows = scores.touched().to_vec();
        rows.sort_unstable();
        assert_eq!(rows, expected, "{query}");
    };
    let mut index = LexicalIndex::default();
    index.set(0, Some(Arc::new(Segment::build(Language::German, (0..).zip(texts).map(document).collect()))), |_| true);
    check(&index, "Mietvertrag", &[1]);
    check(&index, "Wohnungsschlüssel", &[2]);
    check(&index, "Schlüsselwohnungen", &[2]);
    check(&index, "Straßenlange Wohnungsmiete", &[0, 2, 3]);
    check(&index, "Kaufvertrag, Wohnungsbau, Eischlüssel", &[]);
    index.remove(&[1]);
    check(&index, "Mietvertrag", &[0]);
    index.remove(&[0]);
    check(&index, "Mietvertrag", &[]);
}
