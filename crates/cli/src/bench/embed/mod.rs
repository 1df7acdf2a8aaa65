//! `mnemon bench embed`: embedding rates and query latencies of models, beside other programs that run the same models.

mod case;

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, ensure};
use mnemon::{Device, Model, Runtime};
use serde::{Deserialize, Serialize};

use self::case::{Case, Measured, Texts};
use super::setup::SAMPLE;
use crate::{
    input,
    metrics::percentile_of,
    output::{self, Format},
    output_file::{self, Force, OutputFile},
    progress::Progress,
    usage,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The messages. Texts are embedded as `ingest` does, with the speaker's name in front. Default: the built-in
    /// sample.
    #[arg(long, value_name = "M.jsonl")]
    messages: Option<PathBuf>,
    /// The queries, which are embedded one by one. Default: those of the sample.
    #[arg(long, value_name = "Q.jsonl")]
    queries: Option<PathBuf>,
    /// Use only the first N messages.
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = usage::within(1..=1_000_000_000))]
    limit: usize,
    /// Model folders or names.
    #[arg(long, value_name = "DIR|NAME", value_delimiter = ',', default_value = Model::DEFAULT)]
    model: Vec<String>,
    /// A model folder to measure with fastembed too: with its defaults (texts in the given order, 256 per run), and
    /// with 32 per run.
    #[arg(long, value_name = "DIR")]
    fastembed: Option<PathBuf>,
    /// Number of alternating measurements of each model; the median is shown.
    #[arg(long, default_value_t = 3, value_parser = usage::within(1..=1_000_000))]
    rounds: usize,
    /// The device that runs the models: cpu, cuda, or cuda:1 for the second GPU. A GPU needs a build with the feature
    /// `cuda`. fastembed runs on the processor.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Threads of a model. Default: the machine's cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Figures of other programs to include, as `benches/embed.py` writes them.
    #[arg(long, num_args = 1.., value_name = "FILE.json")]
    peers: Vec<PathBuf>,
    /// Write the figures to this file.
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Measure one case once. The command starts itself with this option.
    #[arg(long, hide = true)]
    case: Option<Case>,
}

/// Figures of one program with one model; medians of the rounds.
#[derive(Deserialize, Serialize)]
struct Row {
    /// The program that ran the model.
    by: String,
    model: String,
    texts_per_second: f64,
    /// The rates of the slowest and the fastest round.
    #[serde(default)]
    texts_per_second_range: Option<(f64, f64)>,
    #[serde(default)]
    query_p50_us: Option<f64>,
    #[serde(default)]
    query_p99_us: Option<f64>,
    /// Peak memory of a process that embeds texts of all lengths and queries at the same time.
    #[serde(default)]
    peak_memory_mb: Option<f64>,
}

/// The figures that the bench prints.
#[derive(Serialize)]
struct Report {
    bench: &'static str,
    messages: String,
    texts: usize,
    device: String,
    threads: usize,
    rows: Vec<Row>,
}

/// The environment variable with the path of ONNX Runtime's library.
const RUNTIME_ENV: &str = "ORT_DYLIB_PATH";

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<()> {
    let texts = Texts::read(args.messages.as_deref(), args.queries.as_deref(), args.limit)?;
    if let Some(case) = args.case {
        return output::json(&case.measure(&args.model[0], &texts, &args.device, args.threads())?);
    }
    let mut cases: Vec<(Case, String)> = Vec::new();
    if let Some(folder) = &args.fastembed {
        let folder = folder.to_str().context("--fastembed: the path is not UTF-8")?;
        cases.extend([(Case::FastembedDefaults, folder.to_owned()), (Case::Fastembed32, folder.to_owned())]);
    }
    cases.extend(args.model.iter().map(|model| (Case::Mnemon, model.clone())));
    let mut rounds: Vec<Vec<Measured>> = cases.iter().map(|_| Vec::new()).collect();
    let progress = Progress::new();
    args.peers.iter().for_each(|path| input::note_read(path));
    let create = |path: &PathBuf| OutputFile::create(path, output_file::FIGURES, args.force, None);
    let json = args.json.as_ref().map(create).transpose()?;
    progress.begin("measuring", "cases", (cases.len() * args.rounds) as u64);
    for _ in 0..args.rounds {
        for ((case, model), rounds) in cases.iter().zip(&mut rounds) {
            rounds.push(child(args, *case, model)?);
            progress.inc(1);
        }
    }
    drop(progress);
    let mut rows = Vec::new();
    for ((case, model), rounds) in cases.iter().zip(rounds) {
        let peak = match case {
            Case::Mnemon => child(args, Case::Memory, model)?.peak_memory_mb,
            _ => None,
        };
        rows.push(row(*case, rounds, peak));
    }
    for path in &args.peers {
        let text = input::text(path)?;
        rows.extend(serde_json::from_str::<Vec<Row>>(&text).with_context(|| path.display().to_string())?);
    }
    let report = Report {
        bench: "embed",
        messages: args.messages.as_deref().map_or_else(|| SAMPLE.into(), |file| file.display().to_string()),
        texts: texts.documents.len(),
        device: args.device.to_string(),
        threads: args.threads(),
        rows,
    };
    if let Some(file) = json {
        file.write_whole(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    match format {
        Format::Json => output::json(&report),
        Format::Text => print(&report),
    }
}

impl Args {
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// Measures a case in a process of its own, so that memory can be attributed to it.
fn child(args: &Args, case: Case, model: &str) -> anyhow::Result<Measured> {
    let mut command = usage::this_program()?;
    command.args(["bench", "embed", "--case", &case.name(), "--model", model]);
    command.args(["--limit", &args.limit.to_string(), "--threads", &args.threads().to_string()]);
    command.args(["--device", &args.device.to_string()]);
    for (option, file) in [("--messages", &args.messages), ("--queries", &args.queries)] {
        command.args(file.iter().flat_map(|file| [option.as_ref(), file.as_os_str()]));
    }
    if matches!(case, Case::FastembedDefaults | Case::Fastembed32) {
        // fastembed looks nowhere else.
        command.env(RUNTIME_ENV, Runtime::load()?);
    }
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("starting to measure {model}"))?;
    ensure!(output.status.success(), "measuring {model} failed ({}); see the error above", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("reading the figures of {model}"))
}

fn row(case: Case, rounds: Vec<Measured>, peak_memory_mb: Option<f64>) -> Row {
    let at = |p: f64, figure: fn(&Measured) -> f64| percentile_of(rounds.iter().map(figure).collect(), p);
    let median = |figure| at(0.5, figure);
    let rate = |measured: &Measured| measured.texts_per_second;
    Row {
        by: case.title().to_owned(),
        model: rounds[0].model.clone(),
        texts_per_second: median(rate),
        texts_per_second_range: Some((at(0.0, rate), at(1.0, rate))),
        query_p50_us: Some(median(|measured| measured.query_p50_us)),
        query_p99_us: Some(median(|measured| measured.query_p99_us)),
        peak_memory_mb,
    }
}

fn print(report: &Report) -> anyhow::Result<()> {
    let Report { messages, texts, device, threads, rows, .. } = report;
    output::line(&format!("{texts} texts of {messages}, {device}, {threads} threads; ratios are to the first row"))?;
    output::line(&format!(
        "{:<34} {:<26} {:>10} {:>6} {:>17} {:>12} {:>12} {:>9}",
        "by", "model", "texts/s", "ratio", "slowest-fastest", "one p50 us", "one p99 us", "peak MiB"
    ))?;
    let number = |figure: Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.0}"));
    for row in rows {
        let range = row.texts_per_second_range.map_or(String::new(), |(low, high)| format!("{low:.0}-{high:.0}"));
        output::line(&format!(
            "{:<34} {:<26} {:>10.0} {:>6.2} {:>17} {:>12} {:>12} {:>9}",
            row.by,
            row.model,
            row.texts_per_second,
            row.texts_per_second / rows[0].texts_per_second,
            range,
            number(row.query_p50_us),
            number(row.query_p99_us),
            number(row.peak_memory_mb)
        ))?;
    }
    Ok(())
}
