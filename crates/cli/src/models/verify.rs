//! `mnemon models verify`

use mnemon::{CrossEncoder, Error, Model, RerankerInfo};
use serde_json::json;

use crate::{
    output::{self, Format},
    status::Status,
};

/// Verify an embedding model or a reranker. Exit status 3 if a problem is found.
///
/// Compares the files with their hashes and the tokenizer with the graph, then runs the model and compares its output
/// with the manifest.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A model folder or name.
    #[arg(value_name = "DIR|NAME")]
    model: String,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let problems = match (Model::find(&args.model), RerankerInfo::find(&args.model)) {
        (Ok(model), _) => model.verify()?,
        (Err(_), Ok(info)) => match CrossEncoder::open(&info.path) {
            Ok(_) => Vec::new(),
            Err(error @ Error::RuntimeNotFound { .. }) => return Err(error.into()),
            Err(error) => vec![format!("{:#}", anyhow::Error::from(error))],
        },
        (Err(error @ Error::InvalidModel { .. }), Err(_)) => vec![error.to_string()],
        (Err(error), Err(_)) => return Err(error.into()),
    };
    let sound = problems.is_empty();
    match format {
        Format::Json => output::json(&json!({"model": args.model, "problems": problems}))?,
        Format::Text => {
            problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(if sound { "sound" } else { "NOT SOUND: fetch, import or build the model again" })?;
        }
    }
    Ok(if sound { Status::SUCCESS } else { Status(3) })
}
