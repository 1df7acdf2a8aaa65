//! `mnemon bench embed`: embedding rates and query latencies of models, beside other programs that run the same models.

mod case;
mod peer;
mod report;
mod table;
mod texts;

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, ensure};
use mnemon::{Device, Model, Runtime};

use self::{
    case::{Case, Measured},
    report::{Report, Row},
    texts::Texts,
};
use super::sample;
use crate::{
    input,
    output::{self, Format},
    output_file::{self, Force, OutputFile},
    program,
    progress::Progress,
    usage,
};

/// Options of `mnemon bench embed`.
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
        messages: args.messages.as_deref().map_or_else(|| sample::NAME.into(), |file| file.display().to_string()),
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
        Format::Text => table::print(&report),
    }
}

impl Args {
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// Measures a case in a process of its own, so that memory can be attributed to it.
fn child(args: &Args, case: Case, model: &str) -> anyhow::Result<Measured> {
    let mut command = program::again()?;
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
