//! The figures of BEIR: means over the judged queries, as `trec_eval` counts them.

use serde::Serialize;

use super::{
    answers::{Answer, Answers},
    bootstrap::{Interval, interval},
    set::{Benchmark, Set},
    table,
};
use crate::output::counted;

/// BEIR's figures of one ranking.
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
pub(super) fn print(graded_by_variant: &[(&str, &Graded)]) -> anyhow::Result<()> {
    let Some((_, first)) = graded_by_variant.first() else { return Ok(()) };
    let heads = [format!("BEIR, {}", counted(first.queries, "query"))].into_iter();
    let mut rows: Vec<Vec<String>> = vec![heads.chain(Graded::FIGURES.map(|(name, _)| name.to_owned())).collect()];
    for (variant, Graded { ndcg_at_10, recall_at_100, map, .. }) in graded_by_variant {
        let values = [ndcg_at_10, recall_at_100, map].map(|value| table::with_interval(*value));
        rows.push([(*variant).to_owned()].into_iter().chain(values).collect());
    }
    table::print(&rows)?;
    table::define(&Graded::FIGURES)
}
