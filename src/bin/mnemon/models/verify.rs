//! `mnemon models verify`

use std::process::ExitCode;

use mnemon::{Error, Model};
use serde_json::json;

use crate::output::{self, Format};

/// Check a model: its files against their hashes, its tokenizer against its graph, and that it runs and gives what its
/// manifest says.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A model folder or name.
    #[arg(value_name = "DIR|NAME")]
    model: String,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<ExitCode> {
    let problems = match Model::find(&args.model) {
        Ok(model) => model.verify()?,
        Err(error @ Error::InvalidModel { .. }) => vec![error.to_string()],
        Err(error) => return Err(error.into()),
    };
    let sound = problems.is_empty();
    match format {
        Format::Json => output::json(&json!({"model": args.model, "problems": problems}))?,
        Format::Text => {
            problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(if sound { "sound" } else { "NOT SOUND: fetch, import or make it again" })?;
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
