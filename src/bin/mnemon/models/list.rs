//! `mnemon models list`

use std::process::ExitCode;

use mnemon::Model;
use serde_json::json;

use crate::output::{self, Format};

/// Show the models there are: the built-in one, and those in $MNEMON_MODELS and ./models.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Show what `pull` can fetch instead.
    #[arg(long)]
    catalogue: bool,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<ExitCode> {
    if args.catalogue {
        return catalogue(format);
    }
    for (path, model) in Model::installed() {
        match (model.and_then(|model| model.info()), format) {
            (Ok(info), Format::Json) => output::json(&info)?,
            (Ok(info), Format::Text) => output::line(&format!(
                "{:<28} {:>5} {:>9}  {}",
                info.name,
                info.dimension,
                format!("{:.1} MB", info.files.iter().map(|file| file.bytes).sum::<u64>() as f64 / 1e6),
                info.path.display()
            ))?,
            (Err(error), Format::Json) => output::json(&json!({"path": path, "error": error.to_string()}))?,
            (Err(error), Format::Text) => output::line(&format!("NOT USABLE: {error}"))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "pull")]
fn catalogue(format: Format) -> anyhow::Result<ExitCode> {
    for entry in Model::catalogue() {
        match format {
            Format::Json => output::json(&entry)?,
            Format::Text => output::line(&format!("{:<42} {:>5}  {}", entry.name, entry.dimension, entry.source))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "pull"))]
fn catalogue(_: Format) -> anyhow::Result<ExitCode> {
    super::pull::left_out()
}
