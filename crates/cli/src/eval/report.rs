//! The report on one set with one model, as JSON and as tables.

use std::collections::BTreeMap;

use mnemon::Precision;
use serde::Serialize;

use super::{
    answerability::Answerability,
    figures::{self, difference, figure, with_interval},
    longmemeval::LongMemEval,
    min_score::MinScore,
    prompts::Prompts,
    replay::Replay,
    scores::{self, ByNamespace, Graded, Intervals, Scores},
    set::{ADVERSARIAL, ALL, BUT_ADVERSARIAL},
};
use crate::output::{self, counted};

/// The measurements of one set with one model.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) set: String,
    /// `None` if the rankings are of a run file.
    #[serde(flatten)]
    pub(super) engine: Option<EngineFacts>,
    pub(super) messages: usize,
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
    pub(super) min_score: Option<MinScore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompts: Option<Prompts>,
    /// Measured with the first variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<Replay>,
}

/// The engine that was measured.
#[derive(Serialize)]
pub(super) struct EngineFacts {
    pub(super) model: String,
    pub(super) index: String,
    pub(super) precision: Precision,
    pub(super) ingest_messages_per_second: f64,
}

/// The measurements of one variant.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) recall: String,
    #[serde(flatten)]
    pub(super) latency: Option<Latency>,
    /// Scores by group of questions.
    pub(super) scores: BTreeMap<String, Scores>,
    /// Paired difference from the first variant, over all but the adversarial questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) difference: Option<Intervals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by_namespace: Option<ByNamespace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) longmemeval: Option<LongMemEval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) beir: Option<Graded>,
}

/// Latencies of the recalls of a variant.
#[derive(Serialize)]
pub(super) struct Latency {
    pub(super) latency_p50_us: f64,
    pub(super) latency_p99_us: f64,
}

/// Names and definitions of the figures of all sets, for text.
const FIGURES: [(&str, &str); 6] = [
    ("R@k", "share of a question's relevant messages among the first k hits"),
    ("hit@k", "share of the questions with a relevant message among the first k hits"),
    ("MRR", "1 / rank of the first relevant message"),
    ("nDCG@10", "sum of grade / log2(rank + 1) over the first 10 hits, divided by that of the best ranking"),
    ("session hit@1", "share of the questions whose first hit is of a session that holds the answer"),
    ("session R@5", "share of the sessions that hold the answer among the first 5 sessions"),
];

impl Report {
    pub(super) fn variants(&self) -> impl Iterator<Item = &Measured> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn print(&self, with_categories: bool) -> anyhow::Result<()> {
        let rate = match &self.engine {
            Some(EngineFacts { model, index, precision, ingest_messages_per_second }) => {
                output::line(&format!("{}: model {model}, index {index}, vectors in {precision}", self.set))?;
                format!(", ingested at {ingest_messages_per_second:.0}/s")
            }
            None => {
                output::line(&format!("{}: the run {}", self.set, self.first.recall))?;
                String::new()
            }
        };
        output::line(&format!(
            "{}{rate}; {}, of which {} without relevant ids, not scored",
            counted(self.messages, "message"),
            counted(self.questions, "question"),
            self.unlabelled
        ))?;
        self.print_variants()?;
        if with_categories {
            self.variants().try_for_each(Measured::print_groups)?;
        }
        let by_namespace: Vec<_> =
            self.variants().filter_map(|one| Some((&*one.recall, one.by_namespace.as_ref()?))).collect();
        scores::print_by_namespace(&by_namespace)?;
        self.variants().try_for_each(|one| one.longmemeval.iter().try_for_each(|own| own.print(&one.recall)))?;
        scores::print_graded(
            &self.variants().filter_map(|one| Some((&*one.recall, one.beir.as_ref()?))).collect::<Vec<_>>(),
        )?;
        self.answerability.iter().try_for_each(|answerability| answerability.print(&self.first.recall))?;
        self.min_score.iter().try_for_each(|min_score| min_score.print(&self.first.recall))?;
        self.prompts.iter().try_for_each(Prompts::print)?;
        self.replay.iter().try_for_each(|replay| replay.print(&self.first.recall))?;
        output::line("")
    }

    /// Prints a row per variant: means, intervals and differences, over all but the adversarial questions.
    fn print_variants(&self) -> anyhow::Result<()> {
        let scored: Vec<_> = self.variants().filter_map(|one| Some((one, one.scores.get(BUT_ADVERSARIAL)?))).collect();
        let Some((_, first)) = scored.first() else { return Ok(()) };
        let mut means = vec![first.heads(BUT_ADVERSARIAL)];
        if self.first.latency.is_some() {
            means[0].extend(["p50 us", "p99 us"].map(str::to_owned));
        }
        let heads = |title: &str| std::iter::once(title).chain(Intervals::NAMES).map(str::to_owned).collect();
        let mut intervals = vec![heads("95 % of resamples")];
        let mut differences = vec![heads(&format!("difference from {}", self.first.recall))];
        for (one, scores) in &scored {
            let mut row = scores.row(&one.recall);
            if let Some(Latency { latency_p50_us, latency_p99_us }) = one.latency {
                row.extend([latency_p50_us, latency_p99_us].map(|latency| format!("{latency:.0}")));
            }
            means.push(row);
            let row = |values: [String; 4]| std::iter::once(one.recall.clone()).chain(values).collect();
            intervals.push(row(scores.intervals.values().map(with_interval)));
            differences.extend(one.difference.as_ref().map(|over| row(over.values().map(difference))));
        }
        figures::print(&means)?;
        figures::define(&FIGURES)?;
        figures::print(&intervals)?;
        if differences.len() > 1 { figures::print(&differences) } else { Ok(()) }
    }
}

impl Measured {
    fn print_groups(&self) -> anyhow::Result<()> {
        let order = |group: &str| (group == ALL, group == BUT_ADVERSARIAL, group == ADVERSARIAL);
        let mut groups: Vec<(&String, &Scores)> = self.scores.iter().collect();
        groups.sort_by_key(|(group, _)| order(group));
        let heads = groups.first().map(|(_, scores)| scores.heads(&self.recall));
        let rows: Vec<_> = heads.into_iter().chain(groups.iter().map(|(group, scores)| scores.row(group))).collect();
        figures::print(&rows)
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
