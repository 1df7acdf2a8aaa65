//! `mnemon eval`

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use anyhow::ensure;
use mnemon::{IndexKind, MAX_K, Namespace, Query};
use serde::Serialize;

use crate::{
    input::{self, QueryLine},
    metrics::{Found, percentile},
    output::{self, Format},
};

/// Measure recall on labelled questions: ingest into a temporary database, ask, compare.
///
/// Each question is asked inside its namespace. Questions without relevant ids are counted, not scored.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The messages, JSON Lines as for `ingest`.
    #[arg(long, value_name = "M.jsonl")]
    messages: PathBuf,
    /// The questions: {"id", "namespace", "query", "relevant": [message ids], "category"?} a line.
    #[arg(long, value_name = "Q.jsonl")]
    queries: PathBuf,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// exact, hnsw_rs, or auto: by the size of a namespace.
    #[arg(long, default_value = "auto")]
    index: IndexKind,
    /// Ranks to report recall and hit rate at.
    #[arg(short, value_delimiter = ',', default_value = "1,5,10,20")]
    k: Vec<usize>,
}

const NDCG_AT: usize = 10;
/// Questions whose answer is not there, or not what it seems: reported apart by custom.
const ADVERSARIAL: &str = "adversarial";
const BUT_ADVERSARIAL: &str = "all but adversarial";
const ALL: &str = "all";

#[derive(Serialize)]
struct Report {
    model: String,
    index: String,
    messages: usize,
    ingest_messages_per_second: f64,
    questions: usize,
    unlabelled: usize,
    latency_p50_us: f64,
    latency_p99_us: f64,
    scores: BTreeMap<String, Scores>,
}

/// Means over the questions of a group.
#[derive(Default, Serialize)]
struct Scores {
    questions: usize,
    recall_at: BTreeMap<usize, f64>,
    hit_at: BTreeMap<usize, f64>,
    mrr: f64,
    #[serde(rename = "ndcg_at_10")]
    ndcg: f64,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let ks: BTreeSet<usize> = args.k.iter().copied().collect();
    ensure!(ks.iter().all(|k| (1..=MAX_K).contains(k)), "-k takes numbers from 1 to {MAX_K}, such as 1,5,10,20");
    let ks: Vec<usize> = ks.into_iter().collect();
    let messages = input::messages(&args.messages)?;
    let queries = input::queries(&args.queries)?;
    let (engine, _path, _folder) = input::temporary(args.model.as_deref(), args.index)?;
    let engine_model = engine.model().to_string();
    let engine = engine.blocking();

    let count = messages.len();
    let started = Instant::now();
    let bar = output::progress(count as u64, "ingest [{bar:30}] {pos} of {len}, {per_sec}");
    let mut messages = messages.into_iter().peekable();
    while messages.peek().is_some() {
        engine.put_all(messages.by_ref().take(512).collect())?;
        bar.inc(512);
    }
    engine.flush()?;
    bar.finish_and_clear();
    let ingest_messages_per_second = count as f64 / started.elapsed().as_secs_f64();

    let namespaces: BTreeSet<&Namespace> = queries.iter().map(|query| &query.namespace).collect();
    namespaces.into_iter().try_for_each(|namespace| engine.optimize(namespace))?;

    let deepest = ks.last().copied().unwrap_or(0).max(NDCG_AT);
    let bar = output::progress(queries.len() as u64, "questions [{bar:30}] {pos} of {len}, {per_sec}");
    let mut latencies = Vec::new();
    let mut groups: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    let mut unlabelled = 0;
    for QueryLine { namespace, query, relevant, category, .. } in &queries {
        let started = Instant::now();
        let hits = engine.recall(namespace, Query::new(query).k(deepest))?;
        latencies.push(started.elapsed().as_secs_f64() * 1e6);
        bar.inc(1);
        if relevant.is_empty() {
            unlabelled += 1;
            continue;
        }
        let category = category.as_deref().unwrap_or("no category");
        let but_adversarial = (category != ADVERSARIAL).then_some(BUT_ADVERSARIAL);
        for group in [Some(category), but_adversarial, Some(ALL)].into_iter().flatten() {
            let found = Found::new(hits.iter().map(|hit| hit.message.id.as_str()), relevant);
            groups.entry(group.to_owned()).or_default().push(found);
        }
    }
    bar.finish_and_clear();
    latencies.sort_by(f64::total_cmp);

    let report = Report {
        model: engine_model,
        index: format!("{:?}", args.index),
        messages: count,
        ingest_messages_per_second,
        questions: queries.len(),
        unlabelled,
        latency_p50_us: percentile(&latencies, 0.5),
        latency_p99_us: percentile(&latencies, 0.99),
        scores: groups.into_iter().map(|(group, found)| (group, scores(&found, &ks))).collect(),
    };
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => print(&report, &ks)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn scores(found: &[Found], ks: &[usize]) -> Scores {
    let mean = |value: &dyn Fn(&Found) -> f64| found.iter().map(value).sum::<f64>() / found.len() as f64;
    Scores {
        questions: found.len(),
        recall_at: ks.iter().map(|&k| (k, mean(&|found| found.recall_at(k)))).collect(),
        hit_at: ks.iter().map(|&k| (k, mean(&|found| found.hit_at(k)))).collect(),
        mrr: mean(&Found::reciprocal_rank),
        ndcg: mean(&|found| found.ndcg_at(NDCG_AT)),
    }
}

fn print(report: &Report, ks: &[usize]) -> anyhow::Result<()> {
    output::line(&format!("model {}, index {}", report.model, report.index))?;
    let heads: String =
        ["R", "hit"].iter().flat_map(|head| ks.iter().map(move |k| format!(" {:>6}", format!("{head}@{k}")))).collect();
    output::line(&format!("{:<20} {:>9}{heads} {:>6} {:>7}", "", "questions", "MRR", "nDCG@10"))?;
    let order = |group: &str| (group == ALL, group == BUT_ADVERSARIAL, group == ADVERSARIAL);
    let mut groups: Vec<_> = report.scores.iter().collect();
    groups.sort_by_key(|(group, _)| order(group));
    for (group, scores) in groups {
        let values: String =
            scores.recall_at.values().chain(scores.hit_at.values()).map(|value| format!(" {value:>6.3}")).collect();
        output::line(&format!("{group:<20} {:>9}{values} {:>6.3} {:>7.3}", scores.questions, scores.mrr, scores.ndcg))?;
    }
    output::line(&format!("{} questions without relevant ids, not scored", report.unlabelled))?;
    output::line(&format!(
        "{} messages ingested at {:.0} a second; recall p50 {:.0} us, p99 {:.0} us",
        report.messages, report.ingest_messages_per_second, report.latency_p50_us, report.latency_p99_us
    ))
}
