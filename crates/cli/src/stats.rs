//! `mnemon stats`

use std::path::{Path, PathBuf};

use mnemon::{
    CacheFileStats, EngineStats, GenerationState, Stats,
    admin::{LanguageOrigin, NamespaceStats},
};
use serde::Serialize;

use crate::{
    database,
    output::{self, Format, counted},
    usage::{MemoryOptions, Status},
};

/// Show the contents and sizes of a database, or of the file of an embedding cache.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE", required_unless_present = "embedding_cache")]
    db: Option<PathBuf>,
    /// Load each namespace, and show the memory that they take: how many the budget holds at a time.
    #[arg(long, requires = "db")]
    load: bool,
    #[command(flatten)]
    memory: MemoryOptions,
    /// The embedding cache file that was given to `ingest` or `reindex`.
    #[arg(long, value_name = "FILE")]
    embedding_cache: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    stats: Option<Stats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<EngineStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_cache: Option<CacheFileStats>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let stats = args.db.as_deref().map(|path| mnemon::stats(database::file(path)?)).transpose()?;
    let memory = match (&args.db, &stats) {
        (Some(path), Some(stats)) if args.load => Some(load(path, stats, &args.memory)?),
        _ => None,
    };
    let embedding_cache = args.embedding_cache.as_deref().map(mnemon::cache_file_stats).transpose()?;
    match format {
        Format::Json => output::json(&Report { stats, memory, embedding_cache })?,
        Format::Text => {
            if let (Some(path), Some(stats)) = (&args.db, &stats) {
                show(path, stats)?;
            }
            if let Some(memory) = &memory {
                show_memory(memory)?;
            }
            if let (Some(path), Some(cache)) = (&args.embedding_cache, &embedding_cache) {
                show_cache(path, cache)?;
            }
        }
    }
    Ok(Status::SUCCESS)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Loads each namespace of a database, one after the other.
fn load(path: &Path, stats: &Stats, memory: &MemoryOptions) -> anyhow::Result<EngineStats> {
    let mut config = database::config()?.drain_on_open(false);
    memory.set(&mut config);
    let engine = database::without_model(path, None)?.config(config).open_read_only()?;
    for namespace in &stats.namespaces {
        engine.blocking().index_stats(&namespace.namespace)?;
    }
    Ok(engine.blocking().stats())
}

fn show_memory(memory: &EngineStats) -> anyhow::Result<()> {
    output::line(&format!(
        "memory: {:.1} MiB of a budget of {:.1} MiB; {} loaded, after {} and {}",
        mebibytes(memory.memory_used as u64),
        mebibytes(memory.memory_budget as u64),
        counted(memory.namespaces_loaded, "namespace"),
        counted(memory.loads, "load"),
        counted(memory.unloads, "unload")
    ))
}

fn show_cache(path: &Path, cache: &CacheFileStats) -> anyhow::Result<()> {
    output::line(&format!("{}: {:.1} MiB", path.display(), mebibytes(cache.bytes)))?;
    output::line(&format!(
        "vectors of {}; over all runs {} found, {} embedded, {} evicted",
        counted(cache.entries, "text"),
        counted(cache.hits, "text"),
        cache.misses,
        cache.evictions
    ))
}

fn show(path: &Path, stats: &Stats) -> anyhow::Result<()> {
    output::line(&format!("{}: {:.1} MiB", path.display(), mebibytes(stats.file_bytes)))?;
    let sizes = stats.sizes;
    output::line(&format!(
        "messages {:.1} MiB, documents {:.1} MiB, vectors {:.1} MiB, graphs {:.1} MiB, lexical indexes {:.1} MiB",
        mebibytes(sizes.messages),
        mebibytes(sizes.documents),
        mebibytes(sizes.vectors),
        mebibytes(sizes.graphs),
        mebibytes(sizes.lexical)
    ))?;
    for generation in &stats.generations {
        let state = match generation.state {
            GenerationState::Begun | GenerationState::Building => "building",
            GenerationState::Serving => "serving",
            GenerationState::Retired => "being deleted",
            GenerationState::Previous => "kept for a rollback",
        };
        output::line(&format!(
            "{state}: {} in {}, {} pending",
            generation.model,
            generation.precision,
            counted(generation.pending, "message")
        ))?;
    }
    output::line(&format!(
        "{:>10} {:>9} {:>10} {:>10} {:>8} {:>9}  {:<19}  namespace",
        "messages", "sessions", "documents", "vectors", "pending", "buffered", "language"
    ))?;
    for namespace in &stats.namespaces {
        output::line(&format!(
            "{:>10} {:>9} {:>10} {:>10} {:>8} {:>9}  {:<19}  {}",
            namespace.messages,
            namespace.sessions,
            namespace.documents,
            namespace.vectors,
            namespace.pending,
            namespace.buffered,
            language(namespace),
            namespace.namespace
        ))?;
        if let Some(minutes) = namespace.ttl_minutes {
            output::line(&format!("{:>10} its messages expire {minutes} minutes after they are put", ""))?;
        }
    }
    Ok(())
}

fn language(namespace: &NamespaceStats) -> String {
    match namespace.language_origin {
        LanguageOrigin::Guessed => format!("{}, guessed", namespace.language),
        LanguageOrigin::Set => format!("{}, set", namespace.language),
        _ => namespace.language.to_string(),
    }
}
