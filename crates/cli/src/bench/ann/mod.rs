//! `mnemon bench ann`: recall and speed of the vector indexes, compared with exact search.

mod chart;
mod data;
mod engine;
mod index;
mod report;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use mnemon::VectorStorage;
use serde::de::DeserializeOwned;

use self::{
    data::Vectors,
    engine::{EngineReport, Plan},
    report::{Data, Machine, Measured, Report},
};
use crate::{
    database,
    output::{self, Format},
    output_file::{self, Force, OutputFile},
    usage, vectors,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A folder with base.fvecs, query.fvecs and groundtruth.ivecs (TEXMEX), as `mnemon embed` writes it. The ground
    /// truth is computed if its file is missing or if vectors had to be normalised to length 1.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Indexes to measure: exact, hnsw, hnsw_rs. hnsw+neighbors has the codes of neighbors, hnsw+f16
    /// vectors with 16 bits, hnsw+neighbors+f16 both.
    #[arg(long, value_delimiter = ',', default_value = index::DEFAULT, value_name = "NAMES")]
    index: Vec<String>,
    /// Search threads for the rate; latency is always measured with one thread.
    #[arg(long, default_value_t = 1, value_parser = usage::within(1..=1024))]
    threads: usize,
    /// Candidates that a search keeps; each value is a point of the curve.
    #[arg(long, value_delimiter = ',', default_value = "10,16,24,32,48,64,96,128,192,256", value_name = "NUMBERS", value_parser = usage::within(1..=100_000))]
    ef: Vec<usize>,
    /// Use only the first N vectors of the base.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Also measure an engine with each index: ingest, opening, commits, filters, deletions. Slower.
    #[arg(long)]
    engine: bool,
    /// Candidates that the engine's searches keep.
    #[arg(long, default_value_t = 128, value_name = "EF")]
    ef_search: usize,
    /// Where the engine keeps the vectors of a graph: memory, or store for the database file.
    #[arg(long, default_value = "store", value_name = "WHERE")]
    vectors: VectorStorage,
    /// Size of the engine's page cache.
    #[arg(long, default_value_t = 16, value_name = "MIB")]
    cache: usize,
    /// Candidates that an insert into hnsw considers; fewer build faster. Default: 200.
    #[arg(long, value_name = "EF", value_parser = clap::value_parser!(u32).range(8..=4096))]
    ef_construction: Option<u32>,
    /// Also delete a fifth of the rows, and compare with an index built from the rest.
    #[arg(long)]
    deletions: bool,
    /// Files with curves to compare with: a list of {"peer", "build_s", "index_mb", "points": [{"effort", "recall",
    /// "qps"}]}, or the output of an earlier --json.
    #[arg(long, num_args = 1.., value_name = "FILE.json")]
    peers: Vec<PathBuf>,
    /// Write the figures to this file.
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
    /// Draw the curves into this file.
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Measure one part of one index. The command starts itself with this option.
    #[arg(long, hide = true, requires = "truths")]
    part: Option<Part>,
    /// The folder with the ground truth, for --part.
    #[arg(long, hide = true)]
    truths: Option<PathBuf>,
}

/// The part that one process measures, so that memory can be attributed to it.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    Raw,
    Deletions,
    Engine,
}

/// The file of the ground truth for [`Part::Raw`].
const TRUTH: &str = "truth.ivecs";

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<()> {
    if let (Some(part), Some(truths)) = (args.part, &args.truths) {
        return run_part(args, part, truths);
    }
    for name in &args.index {
        // All names are checked first: hours may pass before the last index is measured.
        index::new(name, 1, None)?;
    }
    let folder = database::temporary_folder()?;
    let data = prepare(args, folder.path())?;
    let peers = args.peers.iter().map(|path| report::peers(path, &data)).collect::<anyhow::Result<Vec<_>>>()?.concat();
    let create =
        |path: Option<&Path>, kind| path.map(|path| OutputFile::create(path, kind, args.force, None)).transpose();
    let json = create(args.json.as_deref(), output_file::FIGURES)?;
    let svg = create(args.svg.as_deref(), output_file::SVG)?;
    let indexes = args.index.iter().map(|name| {
        let mut measured: Measured = child(args, Part::Raw, name, folder.path())?;
        if args.deletions {
            measured.deletions = Some(child(args, Part::Deletions, name, folder.path())?);
        }
        if args.engine {
            measured.engine = Some(child::<EngineReport>(args, Part::Engine, name, folder.path())?);
        }
        Ok(measured)
    });
    let report =
        Report { machine: Machine::here(args.threads), data, indexes: indexes.collect::<anyhow::Result<_>>()? };
    if let Some(file) = json {
        file.write_whole(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    if let Some(file) = svg {
        file.write_whole(&chart::svg(&report, &peers))?;
    }
    match format {
        Format::Json => output::json(&report),
        Format::Text => report::print(&report, &peers),
    }
}

/// Checks the data and writes the ground truth to files for the parts. The vectors are dropped again: each part reads
/// its own.
fn prepare(args: &Args, truths: &Path) -> anyhow::Result<Data> {
    let vectors = Vectors::read(&args.data, args.limit)?;
    let file = vectors::create(&truths.join(TRUTH), args.force)?;
    vectors::write(file, &vectors.truth(&args.data, args.limit.is_some())?)?;
    if args.engine {
        Plan::of(vectors.base.len())?.write_truths(&vectors, truths)?;
    }
    Ok(Data { n: vectors.base.len(), dim: vectors.base.width, queries: vectors.queries.len() })
}

/// Measures a part in a process of its own.
fn child<T: DeserializeOwned>(args: &Args, part: Part, name: &str, truths: &Path) -> anyhow::Result<T> {
    let efforts: Vec<String> = args.ef.iter().map(usize::to_string).collect();
    let mut command = usage::this_program()?;
    command.args(["bench", "ann", "--index", name, "--ef", &efforts.join(",")]);
    let part = part.to_possible_value().expect("no part is skipped");
    command.args(["--part", part.get_name(), "--cache", &args.cache.to_string()]);
    command.args(["--vectors", if args.vectors == VectorStorage::Store { "store" } else { "memory" }]);
    command.args(["--threads", &args.threads.to_string(), "--ef-search", &args.ef_search.to_string()]);
    if let Some(ef) = args.ef_construction {
        command.args(["--ef-construction", &ef.to_string()]);
    }
    command.arg("--data").arg(&args.data).arg("--truths").arg(truths);
    if let Some(limit) = args.limit {
        command.args(["--limit", &limit.to_string()]);
    }
    // The child's progress and errors go to this process's stderr.
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("starting to measure {name}"))?;
    ensure!(output.status.success(), "measuring {name} failed ({}); see the error above", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("reading the figures of {name}"))
}

fn run_part(args: &Args, part: Part, truths: &Path) -> anyhow::Result<()> {
    let vectors = Vectors::read(&args.data, args.limit)?;
    let ef_construction = args.ef_construction.map(|ef| ef as usize);
    for name in &args.index {
        let new = || index::new(name, vectors.base.width, ef_construction);
        match part {
            Part::Raw => {
                let path = truths.join(TRUTH);
                let truth = vectors::read(&path, usize::MAX)?;
                vectors.check(&path, &truth)?;
                output::json(&index::measure(name, &new, &vectors, &truth, &args.ef, args.threads)?)?;
            }
            Part::Deletions => output::json(&index::deletions(name, &new, &vectors, &args.ef)?)?,
            Part::Engine => {
                let mut config = index::config(name)?;
                config.ef_search = args.ef_search;
                config.ef_construction = ef_construction.unwrap_or(config.ef_construction);
                (config.vectors, config.cache_bytes) = (args.vectors, args.cache << 20);
                return output::json(&engine::measure(config, vectors, truths)?);
            }
        }
    }
    Ok(())
}
