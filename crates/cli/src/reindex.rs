//! `mnemon reindex`

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use anyhow::Context;
use mnemon::{
    CachedEmbedder, Config, DatabaseFile, Embedder, GateReport, GenerationState, Precision, ReindexOptions,
    ReindexPhase, ReindexProgress, ReindexReport,
};
use serde_json::json;

use crate::{
    database,
    output::{self, Format, counted},
    progress::Progress,
    usage::{self, DeviceOption, Status},
};

/// The exit status if the quality gate rejected the new vectors.
const REJECTED: Status = Status(4);

/// Convert a database to another model or precision.
///
/// All messages are embedded again, or their vectors are converted if only the precision changes to fewer bits, while
/// the old vectors keep serving. Sample queries then compare the new vectors with the old ones and with an exact scan,
/// and one commit switches. If the command is stopped or killed, the old vectors keep serving and the same command
/// resumes. After the switch the old vectors are kept, and --rollback switches back. Without --model and --precision,
/// the database is converted to the current state of its own model's folder. Exit status 4: the new vectors were
/// rejected and do not serve.
///
/// With --shared, all machines are moved. The same command on several machines, each with a file of its own, shares the
/// work out: each embeds namespaces that no other does. The first that has compared the models decides for all, and
/// running engines follow by themselves. --rollback and --drop-previous are for all machines too.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Folder or name of the new model, or of the previous one for --rollback. Default: the model that the database
    /// records.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    #[command(flatten)]
    device: DeviceOption,
    /// The new precision of the vectors: f16, f32 for twice the size, or i8 for a half. Default: unchanged.
    #[arg(long)]
    precision: Option<Precision>,
    /// Lowest accepted recall@10 of the new index against an exact scan, 0 to 1; 0 accepts any.
    #[arg(long, value_name = "SHARE", default_value_t = ReindexOptions::default().min_recall, value_parser = usage::share::<f64>)]
    min_recall: f64,
    /// Lowest accepted share of the first 10 hits that both models find, 0 to 1. Default: not checked.
    #[arg(long, value_name = "SHARE", value_parser = usage::share::<f64>)]
    min_overlap: Option<f64>,
    /// Messages whose texts are used as sample queries; 0 for none.
    #[arg(long, value_name = "N", default_value_t = ReindexOptions::default().samples, value_parser = usage::within(0..=10_000))]
    samples: usize,
    /// Do not keep the old vectors for a rollback. Without --model and --precision, only deletes the vectors kept
    /// earlier.
    #[arg(long, conflicts_with = "rollback")]
    drop_previous: bool,
    /// Switch back to the previous vectors; messages that were stored since the switch are embedded for them first.
    #[arg(long, conflicts_with_all = ["precision", "min_recall", "min_overlap", "samples"])]
    rollback: bool,
    /// A file that caches vectors by text and model, as in `ingest`.
    #[arg(long, value_name = "FILE")]
    embedding_cache: Option<PathBuf>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let database = database::file(&args.db)?;
    if args.drop_previous && args.model.is_none() && args.precision.is_none() {
        let dropped = match database::open_replica(&args.db)? {
            Some(engine) => engine.blocking().drop_previous()?,
            None => mnemon::drop_previous(database)?,
        };
        match format {
            Format::Json => output::json(&json!({ "dropped": dropped }))?,
            Format::Text if dropped => output::line("the previous vectors are deleted")?,
            Format::Text => output::line("nothing to do: no previous vectors are kept")?,
        }
        return Ok(Status::SUCCESS);
    }
    let state = if args.rollback { GenerationState::Previous } else { GenerationState::Serving };
    let model = args.model.map_or_else(|| model(&database, state), Ok)?;
    let mut embedder: Arc<dyn Embedder> = database::vectors_of(&model, &args.device.device, None)?;
    let mut cache = None;
    if let Some(file) = &args.embedding_cache {
        // A wrong key is an error here. The cache would take it for a new key, and be emptied.
        mnemon::serving_model(&database)?;
        let bytes = Config::default().embedding_cache_file_bytes;
        let mut builder = CachedEmbedder::builder(embedder).memory_bytes(0).file(file, bytes);
        if let Some(key) = database::key()? {
            builder = builder.encryption_key(key);
        }
        embedder = cache.insert(Arc::new(builder.open()?)).clone();
    }
    let shown = Progress::new();
    let progress = |progress: ReindexProgress| {
        let (name, unit) = match progress.phase {
            ReindexPhase::Loading => ("linking", "vectors"),
            ReindexPhase::Trying => ("comparing", "sample queries"),
            _ => ("embedding", "messages"),
        };
        shown.report(name, unit, progress.done, progress.total);
        ControlFlow::Continue(())
    };
    let mut options = ReindexOptions::default();
    (options.precision, options.samples) = (args.precision, args.samples);
    (options.min_recall, options.min_overlap) = (args.min_recall, args.min_overlap);
    options.keep_previous = !args.drop_previous;
    let report = match (database::open_replica(&args.db)?, args.rollback) {
        (Some(engine), true) => engine.blocking().rollback(embedder, progress)?,
        (Some(engine), false) => engine.blocking().reindex(embedder, options, progress)?,
        (None, true) => mnemon::rollback(database, embedder, progress)?,
        (None, false) => mnemon::reindex(database, embedder, options, progress)?,
    };
    drop(shown);
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            print(&report)?;
            if let Some(stats) = cache.map(|cache| cache.stats()) {
                output::line(&format!("texts: {} embedded, {} found in the cache", stats.misses, stats.hits))?;
            }
        }
    }
    let failed = report.gate.is_some_and(|gate| gate.failed.is_some());
    Ok(if failed { REJECTED } else { Status::SUCCESS })
}

fn print(report: &ReindexReport) -> anyhow::Result<()> {
    if let Some(gate) = &report.gate {
        print_gate(gate)?;
    }
    if report.switched {
        let ReindexReport { embedded, copied, resumed, seconds, to, precision, .. } = report;
        return output::line(&format!(
            "{} embedded in {seconds:.1} s ({copied} copied, {resumed} done by an earlier run); {to} in {precision} serves",
            counted(*embedded, "message")
        ));
    }
    match report.gate.as_ref().and_then(|gate| gate.failed.as_ref()) {
        Some(failed) => output::line(&format!("not switched: {failed}")),
        None => output::line(&format!("nothing to do: {} in {} serves already", report.to, report.precision)),
    }
}

fn print_gate(gate: &GateReport) -> anyhow::Result<()> {
    let share = |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{share:.3}"));
    let time = |us: Option<f64>| us.map_or("unknown".to_owned(), |us| format!("{us:.0} us"));
    output::line(&format!(
        "{}, {} of them recent real ones: recall@10 against a scan {}, overlap@10 with the old vectors {}; p50 old {}, \
         new {}, scan {}",
        counted(gate.sampled, "sample query"),
        gate.live,
        share(gate.recall),
        share(gate.overlap),
        time(gate.serving_p50_us),
        time(gate.new_p50_us),
        time(gate.exact_p50_us)
    ))
}

/// Returns the name of the model of the generation in this state.
fn model(database: &DatabaseFile, state: GenerationState) -> anyhow::Result<String> {
    let generations = mnemon::stats(database)?.generations;
    let found = generations.into_iter().find(|generation| generation.state == state);
    let missing = match state {
        GenerationState::Previous => "no previous vectors are kept, so there is nothing to roll back to",
        _ => "the database has no model yet; name one with --model",
    };
    Ok(database::model_name(&found.context(missing)?.model))
}
