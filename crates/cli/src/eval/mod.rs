//! `mnemon eval`: sets are read, ingested, asked with each variant, scored and reported.

mod answerability;
mod answers;
mod chart;
mod figures;
mod longmemeval;
mod min_score;
mod prompts;
mod published;
mod read;
mod replay;
mod report;
mod run_file;
mod scores;
mod set;
mod variant;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::Context;
use mnemon::{Config, IndexKind, MAX_K, Precision};

use self::{
    answerability::Answerability,
    answers::{Answers, IngestedSet},
    chart::Group,
    longmemeval::LongMemEval,
    min_score::MinScore,
    prompts::Prompts,
    read::SetArgs,
    replay::Replay,
    report::{EngineFacts, Latency, Measured, Report},
    scores::{ByNamespace, Graded},
    set::Set,
    variant::Variant,
};
use crate::{
    input,
    output::{self, Format},
    output_file::{self, Force, OutputFile},
    usage::{self, Status},
};

/// Measure recall on labelled questions, in a temporary database.
///
/// Each question is a query to its own namespace, at its own time or that of the namespace's last message. Questions
/// without relevant ids are counted but not scored. All metrics come from one recall of 50 hits, or of the largest -k;
/// of 1,000 for LongMemEval and BEIR. Latency comes from a second pass with 10 hits. Intervals are 95 % of 1,000 seeded
/// bootstrap resamples of the questions. Prints a table, or a line of JSON, for each set and model: the first variant,
/// and the `others`.
#[derive(clap::Args)]
#[command(after_long_help = read::LAYOUT_HELP, after_help = "Use --help to see how a layout is described.")]
pub(crate) struct Args {
    #[command(flatten)]
    sets: SetArgs,
    /// A model folder or name. Can be repeated.
    #[arg(long = "model", value_name = "DIR|NAME")]
    models: Vec<String>,
    /// The vector index: exact, hnsw, hnsw_rs, or auto, which depends on the size of the namespace.
    #[arg(long, default_value = "auto")]
    index: IndexKind,
    /// Precision of the stored vectors: f32, f16 or i8.
    #[arg(long, default_value_t)]
    precision: Precision,
    /// Ranking variants: hybrid, dense, lexical, rrf, weighted:0.5 (the share of dense); hybrid-neighbors,
    /// hybrid-speakers, hybrid-questions, hybrid-vocabulary, hybrid-prior and hybrid-time are hybrid without that term, hybrid-pieces,
    /// hybrid-updates, hybrid-changes and hybrid-echo without that part; session and turn find these units by hybrid. The first is the baseline for the others.
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
    /// Assemble a prompt for each question, alone and after 2 and 5 general sentences such as "Please keep the answer
    /// short.", and measure how much of the evidence is in the prompts and how much of what they recall is evidence.
    #[arg(long)]
    prompt: bool,
    /// Measure the precision and the recall of 10 hits by the least relevance that they must have. Uses the first variant.
    #[arg(long)]
    min_score: bool,
    /// Replay the last 30 user turns of each session and measure how many of 10 hits keep their rank from turn to turn,
    /// without and with the previous hits in the query. Uses the first variant.
    #[arg(long)]
    replay: bool,
    /// Draw R@10 of all sets, models and variants as a chart.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Only draw the chart of earlier results, the output of --format json.
    #[arg(long, value_name = "FILE.json", requires = "svg", conflicts_with = "SetArgs")]
    draw: Option<PathBuf>,
    /// Write the first variant's ranking of the set as a TREC run file, `QUERY Q0 DOCUMENT RANK SCORE mnemon`.
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// Score somebody else's TREC run file on the set with the same metrics. No recall is run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "recall", "models", "answerability", "min_score", "prompt", "replay", "svg"])]
    score_run: Option<PathBuf>,
    /// Only write the set in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/test.tsv.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["run", "score_run", "svg"])]
    beir_out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    if let (Some(results), Some(svg)) = (&args.draw, &args.svg) {
        let results = input::text(results)?;
        draw(OutputFile::create(svg, output_file::SVG, args.force, None)?, &results)?;
        return Ok(Status::SUCCESS);
    }
    let sets = args.sets.read()?;
    let models: Vec<Option<&str>> = match args.models.as_slice() {
        [] => vec![None],
        models => models.iter().map(|model| Some(model.as_str())).collect(),
    };
    // Ascending, and each once.
    let ks: Vec<usize> = args.k.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    if let Some(folder) = &args.beir_out {
        published::write_beir(folder, the_only(&sets, "--beir-out")?, args.force)?;
        return Ok(Status::SUCCESS);
    }
    if let Some(path) = &args.score_run {
        print(&score_run(&args, path, the_only(&sets, "--score-run")?, &ks)?, &args, format)?;
        return Ok(Status::SUCCESS);
    }
    if args.run.is_some() {
        the_only(&sets, "--run")?;
        usage::ensure(models.len() == 1, "--run takes one --model")?;
    }
    // Before the work that may be long.
    let create =
        |path: Option<&Path>, kind| path.map(|path| OutputFile::create(path, kind, args.force, None)).transpose();
    let mut run = create(args.run.as_deref(), output_file::TREC_RUN)?;
    let svg = create(args.svg.as_deref(), output_file::SVG)?;
    let mut results = String::new();
    for set in &sets {
        for &model in &models {
            let ingested = IngestedSet::new(set, model, Config::default().index(args.index).precision(args.precision))?;
            let report = measure(&args, &ingested, &sets, &ks, &mut run)?;
            print(&report, &args, format)?;
            results += &serde_json::to_string(&report)?;
            results.push('\n');
        }
    }
    if let Some(file) = svg {
        draw(file, &results)?;
    }
    Ok(Status::SUCCESS)
}

/// Returns the set for an option that takes only one.
fn the_only<'a>(sets: &'a [Set], option: &str) -> anyhow::Result<&'a Set> {
    match sets {
        [set] => Ok(set),
        _ => Err(usage::UsageError(format!("{option} takes one set, and there are {}", sets.len())).into()),
    }
}

fn print(report: &Report, args: &Args, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => output::json(report),
        Format::Text => report.print(args.categories || args.recall.len() == 1),
    }
}

/// Draws the chart of results, which are one report as JSON per line.
fn draw(svg: OutputFile, results: &str) -> anyhow::Result<()> {
    let groups: Result<Vec<Group>, _> = results.lines().map(serde_json::from_str).collect();
    let groups = groups.context("the results are not those of `mnemon eval --format json`")?;
    svg.write_whole(&chart::svg(&groups))
}

fn measure(
    args: &Args,
    ingested: &IngestedSet,
    sets: &[Set],
    ks: &[usize],
    run: &mut Option<OutputFile>,
) -> anyhow::Result<Report> {
    let scoring = Scoring { args, set: ingested.set, ks };
    let deepest = ks.last().copied().unwrap_or(0);
    let (first, others) = args.recall.split_first().context("--recall takes at least one variant")?;
    let base = Answers::new(ingested, first, deepest)?;
    if let Some(file) = run.take() {
        run_file::write(file, ingested.set, &base.rankings)?;
    }
    let mut report = scoring.report(scoring.measured(first.to_string(), &base, None));
    if args.answerability {
        report.answerability = Some(Answerability::new(ingested, first, &base, sets)?);
    }
    if args.min_score {
        report.min_score = Some(MinScore::new(ingested, first)?);
    }
    if args.prompt {
        report.prompts = Some(Prompts::new(ingested)?);
    }
    if args.replay {
        report.replay = Some(Replay::new(ingested, first)?);
    }
    for variant in others {
        let answers = Answers::new(ingested, variant, deepest)?;
        report.others.push(scoring.measured(variant.to_string(), &answers, Some(&base)));
    }
    report.engine = Some(EngineFacts {
        model: ingested.engine.model().to_string(),
        index: format!("{:?}", args.index),
        precision: args.precision,
        ingest_messages_per_second: ingested.messages_per_second,
    });
    Ok(report)
}

/// Scores the rankings of a run file.
fn score_run(args: &Args, path: &Path, set: &Set, ks: &[usize]) -> anyhow::Result<Report> {
    let run = run_file::read(path, set)?;
    let scoring = Scoring { args, set, ks };
    Ok(scoring.report(scoring.measured(run.name, &Answers::of(set, run.rankings), None)))
}

/// How rankings are scored.
struct Scoring<'a> {
    args: &'a Args,
    set: &'a Set,
    /// The ranks at which recall and hit rate are reported, ascending.
    ks: &'a [usize],
}

impl Scoring<'_> {
    /// Scores the rankings of a variant or a run, beside those of the baseline.
    fn measured(&self, recall: String, answers: &Answers, base: Option<&Answers>) -> Measured {
        let latencies = &answers.latencies;
        let latency =
            || Latency { latency_p50_us: latencies.percentile(0.5), latency_p99_us: latencies.percentile(0.99) };
        Measured {
            recall,
            latency: (!latencies.is_empty()).then(latency),
            scores: scores::by_group(answers, self.ks),
            difference: base.map(|base| scores::difference(answers, base)),
            by_namespace: self.args.by_namespace.then(|| ByNamespace::new(answers)),
            longmemeval: LongMemEval::new(self.set, answers),
            beir: Graded::new(self.set, answers),
        }
    }

    /// Makes a report of one variant alone.
    fn report(&self, first: Measured) -> Report {
        let Set { name, messages, questions, .. } = self.set;
        Report {
            set: name.clone(),
            engine: None,
            messages: messages.len(),
            questions: questions.len(),
            unlabelled: questions.iter().filter(|question| question.relevant.is_empty()).count(),
            first,
            others: Vec::new(),
            answerability: None,
            min_score: None,
            prompts: None,
            replay: None,
        }
    }
}
