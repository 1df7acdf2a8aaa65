//! `mnemon reindex`

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use mnemon::{GenerationState, Model, OnnxEmbedder, Precision, ReindexProgress};

use crate::output::{self, Format};

/// Move a database to another model or precision: all messages are embedded beside the serving vectors, then one commit
/// switches.
///
/// Stopped or killed on the way, the old vectors go on serving, and the same command goes on where it was.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The new model: a folder or a name. Default: the database's own.
    #[arg(long, value_name = "DIR|NAME", required_unless_present = "precision")]
    model: Option<String>,
    /// How vectors are stored from now on: f32 or i8, a quarter of the room. Default: as they are.
    #[arg(long)]
    precision: Option<Precision>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let model = args.model.map_or_else(|| serving_model(&args.db), Ok)?;
    let embedder = OnnxEmbedder::new(Model::find(&model)?)?;
    let bar = output::progress(0, "{pos} of {len} messages [{bar:30}] {per_sec}  {elapsed} (left: {eta})");
    let report = mnemon::reindex(&args.db, &embedder, args.precision, |ReindexProgress { done, total, .. }| {
        if bar.length() != Some(total) {
            bar.set_length(total);
            // What an earlier run did says nothing of this one's rate.
            bar.set_position(done);
            bar.reset_eta();
        }
        bar.set_position(done);
        ControlFlow::Continue(())
    })?;
    bar.finish_and_clear();
    match format {
        Format::Json => output::json(&report)?,
        Format::Text if report.switched => output::line(&format!(
            "{} messages embedded in {:.1} s ({} by an earlier run); {} in {} serves",
            report.embedded, report.seconds, report.resumed, report.to, report.precision
        ))?,
        Format::Text => {
            output::line(&format!("nothing to do: {} in {} serves already", report.to, report.precision))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn serving_model(db: &Path) -> anyhow::Result<String> {
    let generations = mnemon::stats(db)?.generations;
    let serving = generations.into_iter().find(|generation| generation.state == GenerationState::Serving);
    Ok(serving.context("the database has no model yet: give one with --model")?.model.name)
}
