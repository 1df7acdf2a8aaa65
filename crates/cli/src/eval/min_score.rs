//! Measures what [`Query::min_score`](mnemon::Query::min_score) keeps of the evidence and leaves out of the rest.

use std::collections::HashSet;

use serde::Serialize;

use super::{
    answers::{IngestedSet, USUAL_K},
    figures::{self, figure},
    variant::Variant,
};
use crate::output::{self, counted};

/// The least relevances that are compared.
const LEAST: [f32; 6] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5];

/// The first hits of all questions, by the least relevance that they must have.
#[derive(Serialize)]
pub(super) struct MinScore {
    /// Number of questions with relevant messages.
    answerable: usize,
    /// Number of questions without any.
    unanswerable: usize,
    thresholds: Vec<Threshold>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Threshold {
    least: f32,
    /// Share of the hits of all questions that are relevant.
    precision: f64,
    /// Share of the relevant messages that are hits.
    recall: f64,
    /// Hits of an answerable question.
    hits: f64,
    /// Share of the unanswerable questions without a hit.
    empty: f64,
}

/// The hits of a question: their relevance, and whether they are relevant.
struct Found {
    relevant: usize,
    hits: Vec<(f32, bool)>,
}

impl MinScore {
    /// Asks all questions that have relevant messages, and those that have none, with a variant.
    pub(super) fn new(ingested: &IngestedSet, variant: &Variant) -> anyhow::Result<Self> {
        let set = ingested.set;
        let mut found = Vec::new();
        for question in set.questions.iter().filter(|question| question.is_answerable() || question.relevant.is_empty())
        {
            let relevant: HashSet<&String> = question.relevant.iter().collect();
            let hits = ingested.recall(&question.namespace, variant.apply(set.ask(question).k(USUAL_K)))?;
            let hits = hits.iter().map(|hit| (hit.relevance, relevant.contains(&hit.message.id))).collect();
            found.push(Found { relevant: relevant.len(), hits });
        }
        Ok(Self::of(&found))
    }

    fn of(found: &[Found]) -> Self {
        let is_answerable = |one: &&Found| one.relevant > 0;
        let answerable = found.iter().filter(is_answerable).count();
        let unanswerable = found.len() - answerable;
        let relevant: usize = found.iter().map(|one| one.relevant).sum();
        let threshold = |&least: &f32| {
            let kept = |one: &Found| one.hits.iter().filter(|(relevance, _)| *relevance >= least).count();
            let all: usize = found.iter().map(kept).sum();
            let hits =
                found.iter().flat_map(|one| &one.hits).filter(|(relevance, is)| *relevance >= least && *is).count();
            let empty = found.iter().filter(|one| one.relevant == 0 && kept(one) == 0).count();
            Threshold {
                least,
                precision: hits as f64 / all.max(1) as f64,
                recall: hits as f64 / relevant.max(1) as f64,
                hits: found.iter().filter(is_answerable).map(kept).sum::<usize>() as f64 / answerable.max(1) as f64,
                empty: empty as f64 / unanswerable.max(1) as f64,
            }
        };
        MinScore { answerable, unanswerable, thresholds: LEAST.iter().map(threshold).collect() }
    }

    pub(super) fn print(&self, variant: &str) -> anyhow::Result<()> {
        let (answerable, unanswerable) = (counted(self.answerable, "answerable question"), self.unanswerable);
        output::text(&format!(
            "\nmin_score ({variant}, {USUAL_K} hits): {answerable}, {unanswerable} without an answer"
        ))?;
        let mut rows = vec![["at least", "precision", "recall", "hits", "empty"].map(str::to_owned).to_vec()];
        for Threshold { least, precision, recall, hits, empty } in &self.thresholds {
            let empty = if unanswerable > 0 { figure(*empty) } else { "-".to_owned() };
            rows.push(vec![format!("{least:.2}"), figure(*precision), figure(*recall), format!("{hits:.1}"), empty]);
        }
        figures::print(&rows)?;
        figures::define(&[
            ("precision", "share of relevant messages among the hits of all questions"),
            ("recall", "share of the relevant messages among the hits"),
            ("hits", "hits of a question that has an answer"),
            ("empty", "share of the questions without an answer that find nothing"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_match_hand_computed_values() {
        let found = |relevant, hits: &[(f32, bool)]| Found { relevant, hits: hits.to_vec() };
        let measured = MinScore::of(&[
            found(2, &[(0.9, true), (0.15, true), (0.04, false)]),
            found(0, &[(0.15, false), (0.0, false)]),
        ]);
        assert_eq!((measured.answerable, measured.unanswerable), (1, 1));
        let at = |least: f32| measured.thresholds.iter().find(|threshold| threshold.least == least).unwrap();
        assert_eq!(*at(0.0), Threshold { least: 0.0, precision: 0.4, recall: 1.0, hits: 3.0, empty: 0.0 });
        assert_eq!(*at(0.2), Threshold { least: 0.2, precision: 1.0, recall: 0.5, hits: 1.0, empty: 1.0 });
    }
}
