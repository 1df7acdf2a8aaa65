//! Mean scores: of groups of questions, of each namespace, and of the judged queries of BEIR.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    answers::{Answer, Answers},
    figures::{self, Interval, figure, interval},
    set::{BUT_ADVERSARIAL, Benchmark, Set},
};
use crate::{
    metrics::{RelevantRanks, deviation, mean},
    output::counted,
};

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

/// Scores of each namespace, which show whether a better mean is better everywhere.
#[derive(Serialize)]
pub(super) struct ByNamespace {
    namespaces: BTreeMap<String, NamespaceScores>,
    /// The mean over the namespaces, which all have the same weight.
    mean: NamespaceScores,
    deviation: NamespaceScores,
}

#[derive(Serialize)]
struct NamespaceScores {
    /// Number of answerable questions.
    questions: usize,
    recall_at_10: f64,
    ndcg_at_10: f64,
}

impl ByNamespace {
    pub(super) fn new(answers: &Answers) -> Self {
        let mut groups: BTreeMap<String, Vec<&Answer>> = BTreeMap::new();
        for answer in answers.labelled.iter().filter(|answer| answer.question.is_answerable()) {
            groups.entry(answer.question.namespace.to_string()).or_default().push(answer);
        }
        let scores = |answers: Vec<&Answer>| {
            let mean =
                |metric: fn(&Answer) -> f64| mean(&answers.iter().map(|answer| metric(answer)).collect::<Vec<_>>());
            NamespaceScores {
                questions: answers.len(),
                recall_at_10: mean(|answer| answer.messages.recall_at(10)),
                ndcg_at_10: mean(|answer| answer.messages.ndcg_at(10)),
            }
        };
        let namespaces: BTreeMap<String, NamespaceScores> =
            groups.into_iter().map(|(namespace, answers)| (namespace, scores(answers))).collect();
        let questions = namespaces.values().map(|scores| scores.questions).sum();
        let over = |statistic: fn(&[f64]) -> f64| NamespaceScores {
            questions,
            recall_at_10: statistic(&namespaces.values().map(|scores| scores.recall_at_10).collect::<Vec<_>>()),
            ndcg_at_10: statistic(&namespaces.values().map(|scores| scores.ndcg_at_10).collect::<Vec<_>>()),
        };
        ByNamespace { mean: over(mean), deviation: over(deviation), namespaces }
    }
}

/// Prints a table for each metric, with a row per namespace and a column per variant.
pub(super) fn print_by_namespace(scores_by_variant: &[(&str, &ByNamespace)]) -> anyhow::Result<()> {
    print_namespaces(scores_by_variant, "R@10", |scores| scores.recall_at_10)?;
    print_namespaces(scores_by_variant, "nDCG@10", |scores| scores.ndcg_at_10)
}

fn print_namespaces(
    scores_by_variant: &[(&str, &ByNamespace)],
    name: &str,
    metric: fn(&NamespaceScores) -> f64,
) -> anyhow::Result<()> {
    let Some((_, first)) = scores_by_variant.first() else { return Ok(()) };
    let heads = [name, "questions"].into_iter().chain(scores_by_variant.iter().map(|(variant, _)| *variant));
    let mut rows: Vec<Vec<String>> = vec![heads.map(str::to_owned).collect()];
    let mut row = |name: &str, questions: usize, of: &dyn Fn(&ByNamespace) -> Option<&NamespaceScores>| {
        let values = scores_by_variant.iter().filter_map(|(_, scores)| of(scores)).map(|scores| figure(metric(scores)));
        rows.push([name.to_owned(), questions.to_string()].into_iter().chain(values).collect());
    };
    for (namespace, scores) in &first.namespaces {
        row(namespace, scores.questions, &|scores| scores.namespaces.get(namespace));
    }
    row("mean", first.mean.questions, &|scores| Some(&scores.mean));
    row("standard deviation", first.mean.questions, &|scores| Some(&scores.deviation));
    figures::print(&rows)
}

/// BEIR's figures of one ranking: means over the judged queries, as `trec_eval` counts them.
#[derive(Serialize)]
pub(super) struct Graded {
    queries: usize,
    ndcg_at_10: Interval,
    recall_at_100: Interval,
    map: Interval,
}

impl Graded {
    /// Names and definitions of the figures, for text.
    const FIGURES: [(&str, &str); 3] = [
        ("nDCG@10", "sum of grade / log2(rank + 1) over the first 10, divided by that of the best ranking"),
        ("R@100", "share of the documents with grade 1 or higher among the first 100"),
        ("MAP", "mean over the relevant documents of the precision at each one's rank, within 1,000"),
    ];

    /// Computes the figures if the set is one of BEIR's.
    pub(super) fn new(set: &Set, answers: &Answers) -> Option<Self> {
        let of = |metric: fn(&Answer) -> f64| interval(&answers.labelled.iter().map(metric).collect::<Vec<_>>());
        (set.benchmark == Benchmark::Beir).then(|| Graded {
            queries: answers.labelled.len(),
            ndcg_at_10: of(|answer| answer.messages.ndcg_at(10)),
            recall_at_100: of(|answer| answer.messages.recall_at(100)),
            map: of(|answer| answer.messages.average_precision()),
        })
    }
}

/// Prints a row per variant.
pub(super) fn print_graded(graded_by_variant: &[(&str, &Graded)]) -> anyhow::Result<()> {
    let Some((_, first)) = graded_by_variant.first() else { return Ok(()) };
    let heads = [format!("BEIR, {}", counted(first.queries, "query"))].into_iter();
    let mut rows: Vec<Vec<String>> = vec![heads.chain(Graded::FIGURES.map(|(name, _)| name.to_owned())).collect()];
    for (variant, Graded { ndcg_at_10, recall_at_100, map, .. }) in graded_by_variant {
        let values = [ndcg_at_10, recall_at_100, map].map(|value| figures::with_interval(*value));
        rows.push([(*variant).to_owned()].into_iter().chain(values).collect());
    }
    figures::print(&rows)?;
    figures::define(&Graded::FIGURES)
}
