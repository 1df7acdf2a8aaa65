//! Mean scores of groups of questions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    answers::{Answer, Answers},
    bootstrap::{Interval, interval},
    set::BUT_ADVERSARIAL,
};
use crate::metrics::{RelevantRanks, mean};

/// Means over the questions of a group.
#[derive(Serialize)]
pub(super) struct Scores {
    pub(super) questions: usize,
    pub(super) recall_at: BTreeMap<usize, f64>,
    pub(super) hit_at: BTreeMap<usize, f64>,
    pub(super) mrr: f64,
    pub(super) ndcg_at_10: f64,
    pub(super) session_hit_at_1: f64,
    pub(super) session_recall_at_5: f64,
    pub(super) intervals: Intervals,
}

/// Bootstrap intervals of the metrics by which variants are compared.
#[derive(Serialize)]
pub(super) struct Intervals {
    pub(super) recall_at_5: Interval,
    pub(super) recall_at_10: Interval,
    pub(super) ndcg_at_10: Interval,
    pub(super) session_hit_at_1: Interval,
}

impl Intervals {
    pub(super) const NAMES: [&str; 4] = ["R@5", "R@10", "nDCG@10", "session hit@1"];

    fn of(values: impl Fn(fn(&Answer) -> f64) -> Vec<f64>) -> Self {
        Intervals {
            recall_at_5: interval(&values(|answer| answer.messages.recall_at(5))),
            recall_at_10: interval(&values(|answer| answer.messages.recall_at(10))),
            ndcg_at_10: interval(&values(|answer| answer.messages.ndcg_at(10))),
            session_hit_at_1: interval(&values(|answer| answer.sessions.hit_at(1))),
        }
    }

    /// Returns the intervals in the order of [`Intervals::NAMES`].
    pub(super) fn values(&self) -> [Interval; 4] {
        [self.recall_at_5, self.recall_at_10, self.ndcg_at_10, self.session_hit_at_1]
    }
}

/// Computes the scores of each group.
pub(super) fn by_group(answers: &Answers, ks: &[usize]) -> BTreeMap<String, Scores> {
    let mut groups: BTreeMap<&str, Vec<&Answer>> = BTreeMap::new();
    for answer in &answers.labelled {
        answer.question.groups().for_each(|group| groups.entry(group).or_default().push(answer));
    }
    groups.into_iter().map(|(group, answers)| (group.to_owned(), scores(&answers, ks))).collect()
}

fn scores(answers: &[&Answer], ks: &[usize]) -> Scores {
    let mean = |value: &dyn Fn(&Answer) -> f64| mean(&answers.iter().map(|answer| value(answer)).collect::<Vec<_>>());
    let at = |value: fn(&RelevantRanks, usize) -> f64| -> BTreeMap<usize, f64> {
        ks.iter().map(|&k| (k, mean(&|answer| value(&answer.messages, k)))).collect()
    };
    Scores {
        questions: answers.len(),
        recall_at: at(RelevantRanks::recall_at),
        hit_at: at(RelevantRanks::hit_at),
        mrr: mean(&|answer| answer.messages.reciprocal_rank()),
        ndcg_at_10: mean(&|answer| answer.messages.ndcg_at(10)),
        session_hit_at_1: mean(&|answer| answer.sessions.hit_at(1)),
        session_recall_at_5: mean(&|answer| answer.sessions.recall_at(5)),
        intervals: Intervals::of(|metric| answers.iter().map(|answer| metric(answer)).collect()),
    }
}

/// Computes the paired difference between two variants' answers to the same questions, without the adversarial ones.
pub(super) fn difference(answers: &Answers, base: &Answers) -> Intervals {
    let pairs = answers.labelled.iter().zip(&base.labelled);
    let pairs: Vec<_> =
        pairs.filter(|(answer, _)| answer.question.groups().any(|group| group == BUT_ADVERSARIAL)).collect();
    Intervals::of(|metric| pairs.iter().map(|(answer, base)| metric(answer) - metric(base)).collect())
}
