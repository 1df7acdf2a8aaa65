//! `mnemon eval`

mod answerability;
mod answers;
mod bootstrap;
mod chart;
mod ingested;
mod namespaces;
mod replay;
mod report;
mod scores;
mod set;
mod table;
mod variant;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::Context;
use mnemon::{IndexKind, MAX_K, Precision};

use self::{
    answerability::Answerability,
    answers::Answers,
    chart::Group,
    ingested::IngestedSet,
    namespaces::ByNamespace,
    replay::Replay,
    report::{Measured, Report},
    set::{Files, Set},
    variant::Variant,
};
use crate::{
    metrics::percentile,
    output::{self, Format},
    status::Status,
    usage,
};

/// Measure recall on labelled questions, in a temporary database.
///
/// Each question is a query to its own namespace at the time of that namespace's last message. Questions without
/// relevant ids are counted but not scored. All metrics come from one recall of 50 hits, or of the largest -k; latency
/// comes from a second pass with 10 hits. Intervals are 95 % of 1,000 seeded bootstrap resamples of the questions.
/// Prints a table, or a line of JSON, for each set and model: the first variant, and the `others`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The messages, JSON Lines as for `ingest`. Repeat it with --queries for another set.
    #[arg(long, value_name = "M.jsonl", required_unless_present_any = ["sets", "draw"])]
    messages: Vec<PathBuf>,
    /// The questions, one {"id", "namespace", "query", "relevant": [message ids], "category"?} per line.
    #[arg(long, value_name = "Q.jsonl", required_unless_present_any = ["sets", "draw"])]
    queries: Vec<PathBuf>,
    /// The name and both files of a set. Can be repeated.
    #[arg(long = "set", value_name = "NAME=M.jsonl,Q.jsonl")]
    sets: Vec<Files>,
    /// A model folder or name. Can be repeated.
    #[arg(long = "model", value_name = "DIR|NAME")]
    models: Vec<String>,
    /// The vector index: exact, hnsw, hnsw_rs, or auto, which depends on the size of the namespace.
    #[arg(long, default_value = "auto")]
    index: IndexKind,
    /// Precision of the stored vectors: f32 or i8.
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Ranking variants: hybrid, dense, lexical, rrf, weighted:0.5 (the share of dense); hybrid-neighbors,
    /// hybrid-speakers, hybrid-questions, hybrid-prior and hybrid-time are hybrid without that term. The first is the baseline for the others.
    #[arg(long, value_name = "VARIANT", value_delimiter = ',', default_value = "hybrid")]
    recall: Vec<Variant>,
    /// Ranks at which recall and hit rate are reported.
    #[arg(short, value_delimiter = ',', default_value = "1,5,10,20", value_parser = usage::within(1..=MAX_K))]
    k: Vec<usize>,
    /// Print each category of questions too; always done for a single variant.
    #[arg(long)]
    categories: bool,
    /// Print R@10 and nDCG@10 of each namespace too, with their mean and standard deviation.
    #[arg(long)]
    by_namespace: bool,
    /// Measure how well answerability separates answerable questions from adversarial ones, from questions sent to
    /// another namespace, and from 300 questions of the other sets. Uses the first variant.
    #[arg(long)]
    answerability: bool,
    /// Replay the last 30 user turns of each session and measure how many of 10 hits keep their rank from turn to turn,
    /// without and with the previous hits in the query. Uses the first variant.
    #[arg(long)]
    replay: bool,
    /// Draw R@10 of all sets, models and variants as a chart.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Only draw the chart of earlier results, the output of --format json.
    #[arg(long, value_name = "FILE.json", requires = "svg", conflicts_with_all = ["messages", "queries", "sets"])]
    draw: Option<PathBuf>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    if let (Some(results), Some(svg)) = (&args.draw, &args.svg) {
        draw(svg, &std::fs::read_to_string(results).with_context(|| results.display().to_string())?)?;
        return Ok(Status::SUCCESS);
    }
    let ks: BTreeSet<usize> = args.k.iter().copied().collect();
    let (messages, queries) = (args.messages.len(), args.queries.len());
    usage::ensure(
        messages == queries,
        format!("there are {messages} --messages and {queries} --queries; give both for each set"),
    )?;
    let pairs = args.messages.iter().cloned().zip(args.queries.iter().cloned());
    let files: Vec<Files> =
        pairs.map(|(messages, queries)| Files::new(messages, queries)).chain(args.sets.clone()).collect();
    let names: BTreeSet<&str> = files.iter().map(|files| &*files.name).collect();
    usage::ensure(
        names.len() == files.len(),
        "two sets have the same name; name them with --set NAME=M.jsonl,Q.jsonl",
    )?;
    let sets = files.into_iter().map(Set::read).collect::<anyhow::Result<Vec<Set>>>()?;
    let models: Vec<Option<&str>> = match args.models.as_slice() {
        [] => vec![None],
        models => models.iter().map(|model| Some(model.as_str())).collect(),
    };

    let ks: Vec<usize> = ks.into_iter().collect();
    let mut results = String::new();
    for set in &sets {
        for &model in &models {
            let report = measure(&args, &IngestedSet::new(set, model, args.index, args.precision)?, &sets, &ks)?;
            match format {
                Format::Json => output::json(&report)?,
                Format::Text => report.print(args.categories || args.recall.len() == 1)?,
            }
            results += &serde_json::to_string(&report)?;
            results.push('\n');
        }
    }
    if let Some(path) = &args.svg {
        draw(path, &results)?;
    }
    Ok(Status::SUCCESS)
}

/// Draws the chart of results, which are one report as JSON per line.
fn draw(svg: &Path, results: &str) -> anyhow::Result<()> {
    let groups: Result<Vec<Group>, _> = results.lines().map(serde_json::from_str).collect();
    let groups = groups.context("the results are not those of `mnemon eval --format json`")?;
    std::fs::write(svg, chart::svg(&groups)).with_context(|| svg.display().to_string())
}

fn measure(args: &Args, ingested: &IngestedSet, sets: &[Set], ks: &[usize]) -> anyhow::Result<Report> {
    let set = ingested.set;
    let deepest = ks.last().copied().unwrap_or(0);
    let measured = |variant: &Variant, answers: &Answers, base: Option<&Answers>| Measured {
        recall: variant.to_string(),
        latency_p50_us: percentile(&answers.latencies, 0.5),
        latency_p99_us: percentile(&answers.latencies, 0.99),
        scores: scores::by_group(answers, ks),
        difference: base.map(|base| scores::difference(answers, base)),
        by_namespace: args.by_namespace.then(|| ByNamespace::new(answers)),
    };
    let (first, others) = args.recall.split_first().context("--recall takes at least one variant")?;
    let base = Answers::new(ingested, first, deepest)?;
    let other = |variant| Ok(measured(variant, &Answers::new(ingested, variant, deepest)?, Some(&base)));
    let answerability = args.answerability.then(|| Answerability::new(ingested, first, &base, sets));
    let replay = args.replay.then(|| Replay::new(ingested, first));
    Ok(Report {
        set: set.name.clone(),
        model: ingested.engine.model().to_string(),
        index: format!("{:?}", args.index),
        precision: args.precision,
        messages: set.messages.len(),
        ingest_messages_per_second: ingested.messages_per_second,
        questions: set.questions.len(),
        unlabelled: set.questions.iter().filter(|question| question.relevant.is_empty()).count(),
        first: measured(first, &base, None),
        others: others.iter().map(other).collect::<anyhow::Result<_>>()?,
        answerability: answerability.transpose()?,
        replay: replay.transpose()?,
    })
}
