//! `mnemon eval`

mod answerability;
mod answers;
mod bootstrap;
mod namespaces;
mod picture;
mod random;
mod replay;
mod report;
mod scores;
mod set;
mod stored;
mod table;
mod variant;

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use anyhow::{Context, ensure};
use mnemon::{IndexKind, MAX_K, Precision};

use self::{
    answerability::Answerability,
    answers::Answers,
    namespaces::Spread,
    replay::Replay,
    report::{Measured, Report},
    set::{Files, Set},
    stored::Stored,
    variant::Variant,
};
use crate::{
    metrics::percentile,
    output::{self, Format},
};

/// Measure recall on labelled questions: ingest into a temporary database, ask, compare.
///
/// Each question is asked inside its namespace, at the time of the namespace's last message. Questions without relevant ids are
/// counted, not scored. All metrics are of one recall of 50 hits, or of the largest -k; latency is of another pass with 10 hits.
/// Intervals are 95 % of 1,000 seeded resamples of the questions. A set and model is a table, or a line of JSON: its
/// first variant, and `others`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The messages, JSON Lines as for `ingest`; again for another set, each with its --queries.
    #[arg(long, value_name = "M.jsonl", required_unless_present = "sets")]
    messages: Vec<PathBuf>,
    /// The questions: {"id", "namespace", "query", "relevant": [message ids], "category"?} a line.
    #[arg(long, value_name = "Q.jsonl", required_unless_present = "sets")]
    queries: Vec<PathBuf>,
    /// Both files of a set, and what to call it; again for another.
    #[arg(long = "set", value_name = "NAME=M.jsonl,Q.jsonl")]
    sets: Vec<Files>,
    /// A model folder or name; again for another.
    #[arg(long = "model", value_name = "DIR|NAME")]
    models: Vec<String>,
    /// exact, hnsw, hnsw_rs, or auto: by the size of a namespace.
    #[arg(long, default_value = "auto")]
    index: IndexKind,
    /// How vectors are stored: f32 or i8.
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Ways to recall: dense, lexical, rrf, weighted:0.5 (the share of dense), hybrid; hybrid-neighbors, hybrid-prior and
    /// hybrid-time are without that part. The others are compared with the first.
    #[arg(long, value_name = "VARIANT", value_delimiter = ',', default_value = "hybrid")]
    recall: Vec<Variant>,
    /// Ranks to report recall and hit rate at.
    #[arg(short, value_delimiter = ',', default_value = "1,5,10,20")]
    k: Vec<usize>,
    /// Print each category too; done anyway if there is one variant.
    #[arg(long)]
    categories: bool,
    /// Print R@10 and nDCG@10 of each namespace too, with mean and standard deviation.
    #[arg(long)]
    by_namespace: bool,
    /// Measure answerability, with the first variant: questions whose answer is there against the adversarial ones, against
    /// the same in the next namespace, and against 300 of the other sets.
    #[arg(long)]
    answerability: bool,
    /// Replay each session's last 30 turns of a user, with the first variant: what of 10 hits stays in its place from turn to turn,
    /// plainly and when each turn is told what the one before found.
    #[arg(long)]
    replay: bool,
    /// Draw R@10 of all sets, models and variants.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let ks: BTreeSet<usize> = args.k.iter().copied().collect();
    ensure!(ks.iter().all(|k| (1..=MAX_K).contains(k)), "-k takes numbers from 1 to {MAX_K}, such as 1,5,10,20");
    ensure!(
        args.messages.len() == args.queries.len(),
        "{} --messages and {} --queries; give both for each set",
        args.messages.len(),
        args.queries.len()
    );
    let pairs = args.messages.iter().cloned().zip(args.queries.iter().cloned());
    let files: Vec<Files> =
        pairs.map(|(messages, queries)| Files::new(messages, queries)).chain(args.sets.clone()).collect();
    let names: BTreeSet<&str> = files.iter().map(|files| &*files.name).collect();
    ensure!(names.len() == files.len(), "two sets have one name; name them with --set NAME=M.jsonl,Q.jsonl");
    let sets = files.into_iter().map(Set::read).collect::<anyhow::Result<Vec<Set>>>()?;
    let models: Vec<Option<&str>> = match args.models.as_slice() {
        [] => vec![None],
        models => models.iter().map(|model| Some(model.as_str())).collect(),
    };

    let ks: Vec<usize> = ks.into_iter().collect();
    let mut reports = Vec::new();
    for set in &sets {
        for &model in &models {
            let report = measure(&args, &Stored::new(set, model, args.index, args.precision)?, &sets, &ks)?;
            match format {
                Format::Json => output::json(&report)?,
                Format::Text => report.print(args.categories || args.recall.len() == 1)?,
            }
            reports.push(report);
        }
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, picture::svg(&reports)).with_context(|| path.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args, stored: &Stored, sets: &[Set], ks: &[usize]) -> anyhow::Result<Report> {
    let set = stored.set;
    let deepest = ks.last().copied().unwrap_or(0);
    let measured = |variant: &Variant, answers: &Answers, base: Option<&Answers>| Measured {
        recall: variant.to_string(),
        latency_p50_us: percentile(&answers.latencies, 0.5),
        latency_p99_us: percentile(&answers.latencies, 0.99),
        scores: scores::by_group(answers, ks),
        difference: base.map(|base| scores::difference(answers, base)),
        by_namespace: args.by_namespace.then(|| Spread::new(answers)),
    };
    let (first, others) = args.recall.split_first().context("--recall takes at least one variant")?;
    let base = Answers::new(stored, first, deepest)?;
    let other = |variant| Ok(measured(variant, &Answers::new(stored, variant, deepest)?, Some(&base)));
    let answerability = args.answerability.then(|| Answerability::new(stored, first, &base, sets));
    let replay = args.replay.then(|| Replay::new(stored, first));
    Ok(Report {
        set: set.name.clone(),
        model: stored.engine.model().to_string(),
        index: format!("{:?}", args.index),
        precision: args.precision,
        messages: set.messages.len(),
        ingest_messages_per_second: stored.messages_per_second,
        questions: set.questions.len(),
        unlabelled: set.questions.iter().filter(|question| question.relevant.is_empty()).count(),
        first: measured(first, &base, None),
        others: others.iter().map(other).collect::<anyhow::Result<_>>()?,
        answerability: answerability.transpose()?,
        replay: replay.transpose()?,
    })
}
