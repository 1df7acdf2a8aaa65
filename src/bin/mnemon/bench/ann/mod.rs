//! `mnemon bench ann`: how fast indexes find how much of what exact search finds.

mod curve;
mod data;
mod engine;
mod indexes;
mod machine;
mod picture;
mod raw;
mod report;
mod table;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use mnemon::{Config, IndexKind, VectorsIn};
use serde::de::DeserializeOwned;

use self::{
    data::Vectors,
    engine::{EngineReport, Plan},
    machine::Machine,
    report::{Data, Measured, Report},
};
use crate::{
    output::{self, Format},
    texmex,
};

/// Options of `mnemon bench ann`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A folder with base.fvecs, query.fvecs and groundtruth.ivecs (TEXMEX), as `mnemon embed` writes it. Without the
    /// last, and with vectors that are not of length 1, the true neighbours are searched for.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Indexes: exact, hnsw, hnsw_rs.
    #[arg(long, value_delimiter = ',', default_value = "exact,hnsw,hnsw_rs", value_name = "NAMES")]
    index: Vec<String>,
    /// Search threads for the queries a second; latency is always one thread's.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Candidates that a search keeps: a point of the curve each.
    #[arg(long, value_delimiter = ',', default_value = "10,16,24,32,48,64,96,128,192,256", value_name = "NUMBERS")]
    ef: Vec<usize>,
    /// Only the first N vectors of the base.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Also measure the engine with each index: ingest, opening, commits, filters, deletions. Slower.
    #[arg(long)]
    engine: bool,
    /// Candidates that the engine's searches keep.
    #[arg(long, default_value_t = 128, value_name = "EF")]
    ef_search: usize,
    /// Where the engine keeps the vectors of a graph: memory or store.
    #[arg(long, default_value = "memory", value_name = "WHERE")]
    vectors: VectorsIn,
    /// The engine's page cache.
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    cache: usize,
    /// Candidates that an insert into hnsw looks at: fewer make it faster to build. Default: 200.
    #[arg(long, value_name = "EF", value_parser = clap::value_parser!(u32).range(8..=4096))]
    ef_construction: Option<u32>,
    /// Also delete a fifth of the rows, and compare with an index built of what is left.
    #[arg(long)]
    deletions: bool,
    /// Curves to compare with: a list of {"peer", "build_s", "index_mb", "points": [{"effort", "recall", "qps"}]}, or
    /// an earlier --json.
    #[arg(long, num_args = 1.., value_name = "FILE.json")]
    peers: Vec<PathBuf>,
    /// Write the figures here.
    #[arg(long, value_name = "OUT.json")]
    json: Option<PathBuf>,
    /// Draw the curves here.
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    /// Measure one index and print what was found: how the command calls itself.
    #[arg(long, hide = true, requires = "truths")]
    part: Option<Part>,
    /// The true neighbours, for a part.
    #[arg(long, hide = true)]
    truths: Option<PathBuf>,
}

/// What one process measures: its memory is then its own.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    Raw,
    Deletions,
    Engine,
}

const TRUTH: &str = "truth.ivecs";

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<()> {
    if let (Some(part), Some(truths)) = (args.part, &args.truths) {
        return run_part(args, part, truths);
    }
    ensure!((1..=1024).contains(&args.threads), "--threads takes 1 to 1024");
    ensure!(
        args.ef.iter().all(|ef| (1..=100_000).contains(ef)),
        "--ef takes numbers from 1 to 100000, such as 16,64,256"
    );
    for name in &args.index {
        // Hours may pass before the last is reached.
        indexes::new(name, 1, None)?;
        name.parse::<IndexKind>().map(drop).or_else(|error| if args.engine { Err(error) } else { Ok(()) })?;
    }
    let folder = tempfile::Builder::new().prefix("mnemon-").tempdir().context("a temporary folder")?;
    let data = prepare(args, folder.path())?;
    let peers = args.peers.iter().map(|path| report::peers(path, &data)).collect::<anyhow::Result<Vec<_>>>()?.concat();
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
    let write = |path: &Path, text: String| std::fs::write(path, text).with_context(|| path.display().to_string());
    if let Some(path) = &args.json {
        write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(path) = &args.svg {
        write(path, picture::svg(&report, &peers))?;
    }
    match format {
        Format::Json => output::json(&report),
        Format::Text => table::print(&report, &peers),
    }
}

/// Checks the data, and writes the true neighbours where the parts find them. The vectors are not kept: the parts have
/// their own.
fn prepare(args: &Args, truths: &Path) -> anyhow::Result<Data> {
    let vectors = Vectors::read(&args.data, args.limit)?;
    texmex::write(&truths.join(TRUTH), &vectors.truth(&args.data, args.limit.is_some())?)?;
    if args.engine {
        Plan::of(vectors.base.len())?.write_truths(&vectors, truths)?;
    }
    Ok(Data { n: vectors.base.len(), dim: vectors.base.width, queries: vectors.queries.len() })
}

/// Measures a part in a process of its own.
fn child<T: DeserializeOwned>(args: &Args, part: Part, name: &str, truths: &Path) -> anyhow::Result<T> {
    let efforts: Vec<String> = args.ef.iter().map(usize::to_string).collect();
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["bench", "ann", "--index", name, "--ef", &efforts.join(",")]);
    let part = part.to_possible_value().expect("no part is skipped");
    command.args(["--part", part.get_name(), "--cache", &args.cache.to_string()]);
    command.args(["--vectors", if args.vectors == VectorsIn::Store { "store" } else { "memory" }]);
    command.args(["--threads", &args.threads.to_string(), "--ef-search", &args.ef_search.to_string()]);
    if let Some(ef) = args.ef_construction {
        command.args(["--ef-construction", &ef.to_string()]);
    }
    command.arg("--data").arg(&args.data).arg("--truths").arg(truths);
    if let Some(limit) = args.limit {
        command.args(["--limit", &limit.to_string()]);
    }
    // Its progress and errors are for whoever reads ours.
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("starting to measure {name}"))?;
    ensure!(output.status.success(), "{name} was not measured ({}); what came before says why", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("what {name} measured"))
}

fn run_part(args: &Args, part: Part, truths: &Path) -> anyhow::Result<()> {
    let vectors = Vectors::read(&args.data, args.limit)?;
    let ef_construction = args.ef_construction.map(|ef| ef as usize);
    for name in &args.index {
        let new = || indexes::new(name, vectors.base.width, ef_construction);
        match part {
            Part::Raw => {
                let path = truths.join(TRUTH);
                let truth = texmex::read(&path, usize::MAX)?;
                vectors.check(&path, &truth)?;
                output::json(&raw::measure(name, &new, &vectors, &truth, &args.ef, args.threads)?)?;
            }
            Part::Deletions => output::json(&raw::deletions(name, &new, &vectors, &args.ef)?)?,
            Part::Engine => {
                let mut config = Config::default();
                (config.index, config.ef_search) = (name.parse()?, args.ef_search);
                config.ef_construction = ef_construction.unwrap_or(config.ef_construction);
                (config.vectors, config.cache_bytes) = (args.vectors, args.cache << 20);
                return output::json(&engine::measure(config, vectors, truths)?);
            }
        }
    }
    Ok(())
}
