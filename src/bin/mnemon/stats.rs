//! `mnemon stats`

use std::{path::PathBuf, process::ExitCode};

use mnemon::GenerationState;

use crate::output::{self, Format};

/// Show what is in a database.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let stats = mnemon::stats(&args.db)?;
    if format == Format::Json {
        output::json(&stats)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    output::line(&format!("{}: {:.1} MiB", args.db.display(), mebibytes(stats.file_bytes)))?;
    let sizes = stats.sizes;
    output::line(&format!(
        "messages {:.1} MiB, vectors {:.1} MiB, graphs {:.1} MiB, lexical indexes {:.1} MiB",
        mebibytes(sizes.messages),
        mebibytes(sizes.vectors),
        mebibytes(sizes.graphs),
        mebibytes(sizes.lexical)
    ))?;
    for generation in &stats.generations {
        let state = match generation.state {
            GenerationState::Building => "building",
            GenerationState::Serving => "serving",
            GenerationState::Retired => "being deleted",
            GenerationState::Previous => "kept for a rollback",
        };
        output::line(&format!(
            "{state}: {} in {}, {} messages pending",
            generation.model, generation.precision, generation.pending
        ))?;
    }
    output::line(&format!(
        "{:>10} {:>9} {:>10} {:>8} {:>9}  namespace",
        "messages", "sessions", "vectors", "pending", "buffered"
    ))?;
    for space in &stats.namespaces {
        output::line(&format!(
            "{:>10} {:>9} {:>10} {:>8} {:>9}  {}",
            space.messages, space.sessions, space.vectors, space.pending, space.buffered, space.namespace
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
