//! `mnemon models list`

use std::collections::BTreeSet;

use mnemon::{Model, ModelFile, RerankerInfo};
use serde_json::{Value, json};

use crate::{
    output::{self, Format},
    status::Status,
};

/// List the installed embedding models and rerankers: the built-in model, and the folders in $MNEMON_MODELS, in models
/// beside the executable, in models in the user's data folder, and in ./models.
#[derive(clap::Args)]
pub(super) struct Args {
    /// List the models that `pull` can fetch instead; needs no network.
    #[arg(long)]
    catalogue: bool,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    if args.catalogue {
        return catalogue(format);
    }
    // Models are found by the names of their folders, in this order: another of the same name is never found.
    let mut names = BTreeSet::new();
    for (path, model) in Model::installed() {
        if !names.insert(path.file_name().map(ToOwned::to_owned)) {
            continue;
        }
        let shown = match (model.and_then(|model| model.info()), RerankerInfo::read(&path)) {
            (Ok(info), _) => {
                let line = line(&info.name, &info.dimension.to_string(), &info.files, &info.path.display());
                (serde_json::to_value(info)?, line)
            }
            (Err(_), Ok(info)) => {
                let line = line(&info.name, "-", &info.files, &format!("{} (reranker)", info.path.display()));
                (reranker(&info)?, line)
            }
            (Err(error), Err(_)) => (json!({"path": path, "error": error.to_string()}), format!("NOT USABLE: {error}")),
        };
        match format {
            Format::Json => output::json(&shown.0)?,
            Format::Text => output::line(&shown.1)?,
        }
    }
    Ok(Status::SUCCESS)
}

fn line(name: &str, dimension: &str, files: &[ModelFile], path: &dyn std::fmt::Display) -> String {
    let megabytes = format!("{:.1} MB", files.iter().map(|file| file.bytes).sum::<u64>() as f64 / 1e6);
    format!("{name:<28} {dimension:>5} {megabytes:>9}  {path}")
}

/// Returns a reranker's information as JSON with a `kind`, which embedding models do not have.
pub(super) fn reranker(info: &RerankerInfo) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(info)?;
    value["kind"] = "reranker".into();
    Ok(value)
}

fn catalogue(format: Format) -> anyhow::Result<Status> {
    for entry in Model::catalogue() {
        match format {
            Format::Json => output::json(&entry)?,
            Format::Text => output::line(&format!("{:<42} {:>5}  {}", entry.name, entry.dimension, entry.source))?,
        }
    }
    Ok(Status::SUCCESS)
}
