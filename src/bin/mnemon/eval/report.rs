//! The report on one set with one model, as JSON and as tables.

use std::collections::BTreeMap;

use mnemon::Precision;
use serde::Serialize;

use super::{
    answerability::Answerability,
    namespaces::{self, ByNamespace},
    replay::Replay,
    scores::{Intervals, Scores},
    set::{ADVERSARIAL, ALL, BUT_ADVERSARIAL},
    table::{self, difference, figure, with_interval},
};
use crate::output;

/// The measurements of one set with one model.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) set: String,
    pub(super) model: String,
    pub(super) index: String,
    pub(super) precision: Precision,
    pub(super) messages: usize,
    pub(super) ingest_messages_per_second: f64,
    pub(super) questions: usize,
    pub(super) unlabelled: usize,
    /// The first variant: the baseline.
    #[serde(flatten)]
    pub(super) first: Measured,
    pub(super) others: Vec<Measured>,
    /// Measured with the first variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answerability: Option<Answerability>,
    /// Measured with the first variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<Replay>,
}

/// The measurements of one variant.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) recall: String,
    pub(super) latency_p50_us: f64,
    pub(super) latency_p99_us: f64,
    /// Scores by group of questions.
    pub(super) scores: BTreeMap<String, Scores>,
    /// Paired difference from the first variant, over all but the adversarial questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<Intervals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by_namespace: Option<ByNamespace>,
}

impl Report {
    pub(super) fn variants(&self) -> impl Iterator<Item = &Measured> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn print(&self, with_categories: bool) -> anyhow::Result<()> {
        output::line(&format!(
            "{}: model {}, index {}, vectors in {}",
            self.set, self.model, self.index, self.precision
        ))?;
        output::line(&format!(
            "{} messages, ingested at {:.0}/s; {} questions, of which {} have no relevant ids and are not scored",
            self.messages, self.ingest_messages_per_second, self.questions, self.unlabelled
        ))?;
        self.print_variants()?;
        if with_categories {
            self.variants().try_for_each(Measured::print_groups)?;
        }
        let by_namespace: Vec<_> =
            self.variants().filter_map(|one| Some((&*one.recall, one.by_namespace.as_ref()?))).collect();
        namespaces::print(&by_namespace)?;
        self.answerability.iter().try_for_each(|answerability| answerability.print(&self.first.recall))?;
        self.replay.iter().try_for_each(|replay| replay.print(&self.first.recall))?;
        output::line("")
    }

    /// Prints a row per variant: means, intervals and differences, over all but the adversarial questions.
    fn print_variants(&self) -> anyhow::Result<()> {
        let scored: Vec<_> = self.variants().filter_map(|one| Some((one, one.scores.get(BUT_ADVERSARIAL)?))).collect();
        let Some((_, first)) = scored.first() else { return Ok(()) };
        let mut means = vec![first.heads(BUT_ADVERSARIAL)];
        means[0].extend(["p50 us", "p99 us"].map(str::to_owned));
        let heads = |title: &str| std::iter::once(title).chain(Intervals::NAMES).map(str::to_owned).collect();
        let mut intervals = vec![heads("95 % of resamples")];
        let mut differences = vec![heads(&format!("difference from {}", self.first.recall))];
        for (one, scores) in &scored {
            let mut row = scores.row(&one.recall);
            row.extend([one.latency_p50_us, one.latency_p99_us].map(|latency| format!("{latency:.0}")));
            means.push(row);
            let row = |values: [String; 4]| std::iter::once(one.recall.clone()).chain(values).collect();
            intervals.push(row(scores.intervals.values().map(with_interval)));
            differences.extend(one.difference.as_ref().map(|over| row(over.values().map(difference))));
        }
        table::print(&means)?;
        table::print(&intervals)?;
        if differences.len() > 1 { table::print(&differences) } else { Ok(()) }
    }
}

impl Measured {
    fn print_groups(&self) -> anyhow::Result<()> {
        let order = |group: &str| (group == ALL, group == BUT_ADVERSARIAL, group == ADVERSARIAL);
        let mut groups: Vec<(&String, &Scores)> = self.scores.iter().collect();
        groups.sort_by_key(|(group, _)| order(group));
        let heads = groups.first().map(|(_, scores)| scores.heads(&self.recall));
        let rows: Vec<_> = heads.into_iter().chain(groups.iter().map(|(group, scores)| scores.row(group))).collect();
        table::print(&rows)
    }
}

impl Scores {
    fn heads(&self, title: &str) -> Vec<String> {
        let at = |name: &'static str| self.recall_at.keys().map(move |k| format!("{name}@{k}"));
        let rest = ["MRR", "nDCG@10", "session hit@1", "session R@5"].map(str::to_owned);
        let heads = [title, "questions"].map(str::to_owned);
        heads.into_iter().chain(at("R")).chain(at("hit")).chain(rest).collect()
    }

    fn row(&self, name: &str) -> Vec<String> {
        let rest = [self.mrr, self.ndcg_at_10, self.session_hit_at_1, self.session_recall_at_5];
        let values = self.recall_at.values().chain(self.hit_at.values()).copied().chain(rest);
        [name.to_owned(), self.questions.to_string()].into_iter().chain(values.map(figure)).collect()
    }
}
