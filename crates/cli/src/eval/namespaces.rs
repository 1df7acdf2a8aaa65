//! Scores of each namespace, which show whether a better mean is better everywhere.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    answers::{Answer, Answers},
    table::{self, figure},
};
use crate::metrics::{deviation, mean};

#[derive(Serialize)]
pub(super) struct ByNamespace {
    namespaces: BTreeMap<String, Scores>,
    /// Mean over the namespaces, all weighted alike.
    mean: Scores,
    deviation: Scores,
}

#[derive(Serialize)]
struct Scores {
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
            Scores {
                questions: answers.len(),
                recall_at_10: mean(|answer| answer.messages.recall_at(10)),
                ndcg_at_10: mean(|answer| answer.messages.ndcg_at(10)),
            }
        };
        let namespaces: BTreeMap<String, Scores> =
            groups.into_iter().map(|(namespace, answers)| (namespace, scores(answers))).collect();
        let questions = namespaces.values().map(|scores| scores.questions).sum();
        let over = |statistic: fn(&[f64]) -> f64| Scores {
            questions,
            recall_at_10: statistic(&namespaces.values().map(|scores| scores.recall_at_10).collect::<Vec<_>>()),
            ndcg_at_10: statistic(&namespaces.values().map(|scores| scores.ndcg_at_10).collect::<Vec<_>>()),
        };
        ByNamespace { mean: over(mean), deviation: over(deviation), namespaces }
    }
}

/// Prints a table for each metric, with a row per namespace and a column per variant.
pub(super) fn print(scores_by_variant: &[(&str, &ByNamespace)]) -> anyhow::Result<()> {
    print_metric(scores_by_variant, "R@10", |scores| scores.recall_at_10)?;
    print_metric(scores_by_variant, "nDCG@10", |scores| scores.ndcg_at_10)
}

fn print_metric(
    scores_by_variant: &[(&str, &ByNamespace)],
    name: &str,
    metric: fn(&Scores) -> f64,
) -> anyhow::Result<()> {
    let Some((_, first)) = scores_by_variant.first() else { return Ok(()) };
    let heads = [name, "questions"].into_iter().chain(scores_by_variant.iter().map(|(variant, _)| *variant));
    let mut rows: Vec<Vec<String>> = vec![heads.map(str::to_owned).collect()];
    let mut row = |name: &str, questions: usize, of: &dyn Fn(&ByNamespace) -> Option<&Scores>| {
        let values = scores_by_variant.iter().filter_map(|(_, scores)| of(scores)).map(|scores| figure(metric(scores)));
        rows.push([name.to_owned(), questions.to_string()].into_iter().chain(values).collect());
    };
    for (namespace, scores) in &first.namespaces {
        row(namespace, scores.questions, &|scores| scores.namespaces.get(namespace));
    }
    row("mean", first.mean.questions, &|scores| Some(&scores.mean));
    row("standard deviation", first.mean.questions, &|scores| Some(&scores.deviation));
    table::print(&rows)
}
