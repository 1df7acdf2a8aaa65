//! `mnemon bench embed`: how fast models turn text into vectors, beside other ways to run the same ones.

mod case;
mod peer;
mod table;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use mnemon::Model;
use serde::{Deserialize, Serialize};

use self::case::{Case, Measured};
use crate::{
    input,
    output::{self, Format},
};

/// Options of `mnemon bench embed`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The messages; texts are embedded as ingest does it, the speaker's name in front.
    #[arg(long, value_name = "M.jsonl", default_value = "datasets/sample/messages.jsonl")]
    messages: PathBuf,
    /// The questions that are embedded one by one.
    #[arg(long, value_name = "Q.jsonl", default_value = "datasets/sample/queries.jsonl")]
    queries: PathBuf,
    /// Only the first N messages.
    #[arg(long, value_name = "N", default_value_t = 1500)]
    limit: usize,
    /// Model folders or names.
    #[arg(long, value_name = "DIR|NAME", value_delimiter = ',', default_value = Model::DEFAULT)]
    model: Vec<String>,
    /// A folder that fastembed runs too, with its defaults: texts in the order given, 256 a run; and with 32 a run.
    #[arg(long, value_name = "DIR")]
    fastembed: Option<PathBuf>,
    /// Each is measured so often, in turns; what is shown is the median.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Threads of a model. Default: the machine's cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Figures of other programs to show beside, as `benches/embed.py` writes them.
    #[arg(long, num_args = 1.., value_name = "FILE.json")]
    peers: Vec<PathBuf>,
    /// Write the figures here.
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
    /// Measure one case once: how the command calls itself.
    #[arg(long, hide = true)]
    case: Option<Case>,
}

/// Names ONNX Runtime's library file.
const RUNTIME_ENV: &str = "ORT_DYLIB_PATH";

/// One way to run one model.
#[derive(Deserialize, Serialize)]
struct Row {
    /// What ran it.
    by: String,
    model: String,
    /// A figure each: the median of the rounds.
    texts_per_second: f64,
    /// The slowest and the fastest round.
    #[serde(default)]
    texts_per_second_range: Option<(f64, f64)>,
    #[serde(default)]
    query_p50_us: Option<f64>,
    #[serde(default)]
    query_p99_us: Option<f64>,
    /// The most memory of a process that embeds texts of all lengths, and questions meanwhile.
    #[serde(default)]
    peak_memory_mb: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    messages: String,
    texts: usize,
    threads: usize,
    rows: Vec<Row>,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<()> {
    ensure!(args.rounds > 0 && args.limit > 0, "--rounds and --limit take 1 or more");
    let texts = Texts::read(args)?;
    if let Some(case) = args.case {
        return output::json(&case.measure(&args.model[0], &texts, args.threads())?);
    }
    let mut cases: Vec<(Case, String)> = Vec::new();
    if let Some(folder) = &args.fastembed {
        let folder = folder.to_str().context("--fastembed: the path is not UTF-8")?;
        cases.extend([(Case::FastembedDefaults, folder.to_owned()), (Case::Fastembed32, folder.to_owned())]);
    }
    cases.extend(args.model.iter().map(|model| (Case::Mnemon, model.clone())));
    let mut rounds: Vec<Vec<Measured>> = cases.iter().map(|_| Vec::new()).collect();
    let bar = output::progress((cases.len() * args.rounds) as u64, "measuring [{bar:30}] {pos} of {len}");
    for _ in 0..args.rounds {
        for ((case, model), rounds) in cases.iter().zip(&mut rounds) {
            rounds.push(child(args, *case, model)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for ((case, model), rounds) in cases.iter().zip(rounds) {
        let peak = match case {
            Case::Mnemon => child(args, Case::Memory, model)?.peak_memory_mb,
            _ => None,
        };
        rows.push(row(*case, rounds, peak));
    }
    for path in &args.peers {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        rows.extend(serde_json::from_str::<Vec<Row>>(&text).with_context(|| path.display().to_string())?);
    }
    let report = Report {
        bench: "embed",
        messages: args.messages.display().to_string(),
        texts: texts.documents.len(),
        threads: args.threads(),
        rows,
    };
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    match format {
        Format::Json => output::json(&report),
        Format::Text => table::print(&report),
    }
}

impl Args {
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// What is embedded.
struct Texts {
    documents: Vec<String>,
    questions: Vec<String>,
}

impl Texts {
    fn read(args: &Args) -> anyhow::Result<Self> {
        let messages = input::messages(&args.messages)?.into_iter();
        let mut documents: Vec<String> =
            messages.map(|(_, message)| message.searchable()).filter(|text| !text.trim().is_empty()).collect();
        documents.truncate(args.limit);
        let questions: Vec<String> = input::queries(&args.queries)?.into_iter().map(|line| line.query).collect();
        ensure!(!documents.is_empty(), "{}: no message has text", args.messages.display());
        ensure!(!questions.is_empty(), "{}: no question", args.queries.display());
        Ok(Texts { documents, questions })
    }
}

/// Measures a case in a process of its own, whose memory is then its own.
fn child(args: &Args, case: Case, model: &str) -> anyhow::Result<Measured> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["bench", "embed", "--case", &case.name(), "--model", model]);
    command.args(["--limit", &args.limit.to_string(), "--threads", &args.threads().to_string()]);
    command.arg("--messages").arg(&args.messages).arg("--queries").arg(&args.queries);
    if matches!(case, Case::FastembedDefaults | Case::Fastembed32) && std::env::var_os(RUNTIME_ENV).is_none() {
        // It knows no other place.
        command.env(RUNTIME_ENV, runtime()?);
    }
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("starting to measure {model}"))?;
    ensure!(output.status.success(), "{model} was not measured ({}); what came before says why", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("what {model} measured"))
}

/// The library that `make runtime` fetched.
fn runtime() -> anyhow::Result<PathBuf> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".runtime");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let libraries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found =
        libraries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("onnxruntime.")));
    found
        .max()
        .with_context(|| format!("no ONNX Runtime in {}; set {RUNTIME_ENV}, or run `make runtime`", folder.display()))
}

fn row(case: Case, rounds: Vec<Measured>, peak_memory_mb: Option<f64>) -> Row {
    let sorted = |figure: fn(&Measured) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures
    };
    let median = |figure| crate::metrics::percentile(&sorted(figure), 0.5);
    let rates = sorted(|measured| measured.texts_per_second);
    Row {
        by: case.title().to_owned(),
        model: rounds[0].model.clone(),
        texts_per_second: median(|measured| measured.texts_per_second),
        texts_per_second_range: Some((rates[0], rates[rates.len() - 1])),
        query_p50_us: Some(median(|measured| measured.query_p50_us)),
        query_p99_us: Some(median(|measured| measured.query_p99_us)),
        peak_memory_mb,
    }
}
