//! `mnemon embed`

use std::{collections::HashSet, path::PathBuf, time::Instant};

use anyhow::{Context, ensure};
use mnemon::{Embedder, Model, OnnxEmbedder};
use serde::Serialize;

use crate::{
    database, input,
    output::{self, Format, counted},
    output_file::Force,
    progress::Progress,
    usage::{self, DeviceOption, Status},
    vectors::{self, Rows},
};

/// Write the vectors of messages to files, for `mnemon bench ann` or other tools.
///
/// Writes base.fvecs (one row per message with text, in order; of a long text the first window), query.fvecs and
/// groundtruth.ivecs (the 100 rows nearest to each query, by exact search) in the TEXMEX format. Namespaces are
/// ignored.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The messages, JSON Lines as for `ingest`.
    #[arg(long, value_name = "M.jsonl")]
    messages: PathBuf,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    #[command(flatten)]
    device: DeviceOption,
    /// A file of queries, as for `eval`.
    #[arg(long, value_name = "Q.jsonl", conflicts_with = "hold_out")]
    queries: Option<PathBuf>,
    /// Without --queries, use the last N messages as queries and leave them out of the base.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    hold_out: usize,
    /// Skip messages whose text occurred before, so that no two rows of the base are equal and no held-out message is
    /// in it.
    #[arg(long)]
    unique: bool,
    /// The folder for the files; created if it is missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Number of neighbors of a query, as in the TEXMEX data sets.
const NEIGHBORS: usize = 100;
/// Number of texts in a call of the model.
const BATCH: usize = 512;

#[derive(Serialize)]
struct Report {
    model: String,
    base: usize,
    queries: usize,
    dimension: usize,
    neighbors: usize,
    seconds: f64,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let started = Instant::now();
    let mut seen = HashSet::new();
    let mut base: Vec<String> = input::messages(&args.messages)?
        .into_iter()
        .map(|(_, message)| message.searchable())
        .filter(|text| !text.trim().is_empty())
        .filter(|text| !args.unique || seen.insert(text.clone()))
        .collect();
    let queries: Vec<String> = match &args.queries {
        Some(path) => input::queries(path)?.into_iter().map(|line| line.query).collect(),
        None => {
            usage::ensure(
                (1..base.len()).contains(&args.hold_out),
                format!(
                    "--hold-out {} of {} with text leaves no base or no queries; choose another number, or give --queries",
                    args.hold_out,
                    counted(base.len(), "message")
                ),
            )?;
            base.split_off(base.len() - args.hold_out)
        }
    };
    ensure!(!base.is_empty(), "{}: no message has text", args.messages.display());
    ensure!(!queries.is_empty(), "no queries; give a file with at least one, or leave --queries out");

    // Before the work that may be long.
    std::fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let create = |name: &str| vectors::create(&args.out.join(name), args.force);
    let (base_file, query_file) = (create("base.fvecs")?, create("query.fvecs")?);
    let truth_file = create("groundtruth.ivecs")?;
    let embedder = database::embedder(args.model.as_deref().unwrap_or(Model::DEFAULT), &args.device.device, None)?;
    let documents = embed(&embedder, "messages", &base, |texts| embedder.embed_documents(texts))?;
    let one_by_one = |texts: &[&str]| texts.iter().map(|text| embedder.embed_query(text)).collect();
    let queries = embed(&embedder, "queries", &queries, one_by_one)?;
    let neighbors = NEIGHBORS.min(documents.len());
    let truth = vectors::nearest(&vectors::exact_index(&documents), &queries, neighbors, |_| None);
    vectors::write(base_file, &documents)?;
    vectors::write(query_file, &queries)?;
    vectors::write(truth_file, &truth)?;

    let report = Report {
        model: embedder.identity().to_string(),
        base: documents.len(),
        queries: queries.len(),
        dimension: documents.width,
        neighbors,
        seconds: started.elapsed().as_secs_f64(),
    };
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => output::line(&format!(
            "{} and {} of {} dimensions, with the {} nearest of each query, in {}; {:.1} s; {}",
            counted(report.base, "message"),
            counted(report.queries, "query"),
            report.dimension,
            report.neighbors,
            args.out.display(),
            report.seconds,
            report.model
        ))?,
    }
    Ok(Status::SUCCESS)
}

/// Embeds the first chunk of each text with `call`: one row per text.
fn embed(
    embedder: &OnnxEmbedder,
    what: &'static str,
    texts: &[String],
    call: impl Fn(&[&str]) -> mnemon::Result<Vec<Vec<f32>>>,
) -> anyhow::Result<Rows<f32>> {
    let progress = Progress::new();
    progress.begin("embedding", what, texts.len() as u64);
    let width = embedder.identity().dimension;
    let mut values = Vec::with_capacity(texts.len() * width);
    for batch in texts.chunks(BATCH) {
        let first_chunks: Vec<&str> =
            batch.iter().map(|text| embedder.windows(text).first().map_or("", |first| &text[first.clone()])).collect();
        values.extend(call(&first_chunks)?.into_iter().flatten());
        progress.inc(batch.len() as u64);
    }
    Ok(Rows { width, values })
}
