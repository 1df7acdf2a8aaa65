//! `mnemon reindex`

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

use mnemon::{Model, OnnxEmbedder, ReindexProgress};

use crate::output::{self, Format};

/// Move a database to another model: all messages are embedded beside the serving vectors, then one commit switches.
///
/// Stopped or killed on the way, the old model goes on serving, and the same command goes on where it was.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The new model: a folder or a name.
    #[arg(long, value_name = "DIR|NAME")]
    model: String,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let embedder = OnnxEmbedder::new(Model::find(&args.model)?)?;
    let bar = output::progress(0, "{pos} of {len} messages [{bar:30}] {per_sec}  {elapsed} (left: {eta})");
    let report = mnemon::reindex(&args.db, &embedder, |ReindexProgress { done, total, .. }| {
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
            "{} messages embedded in {:.1} s ({} by an earlier run); {} serves",
            report.embedded, report.seconds, report.resumed, report.to
        ))?,
        Format::Text => output::line(&format!("nothing to do: {} serves already", report.to))?,
    }
    Ok(ExitCode::SUCCESS)
}
