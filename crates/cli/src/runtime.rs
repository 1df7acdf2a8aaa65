//! `mnemon runtime`

use std::path::PathBuf;

use clap::Subcommand;
use mnemon::Runtime;
use serde_json::json;

use crate::{
    output::{self, Format},
    progress::Progress,
    status::Status,
};

/// Fetch or find ONNX Runtime, the library that runs models other than the built-in one.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Pull(PullArgs),
    /// Load ONNX Runtime as a model would, and print the path of its library.
    Info,
}

/// Fetch ONNX Runtime from PyPI ($PIP_INDEX_URL, or pypi.org), verify its hash and install it for this user.
///
/// If it is installed already, nothing is fetched. An interrupted download resumes.
#[derive(clap::Args)]
struct PullArgs {
    /// The folder that gets the library. Default: runtime in the user's data folder, such as
    /// ~/.local/share/mnemon/runtime. In another folder, it is found if $ORT_DYLIB_PATH names that folder.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let library = match args.action {
        Action::Pull(args) => {
            let shown = Progress::new();
            Runtime::pull(args.to.as_deref(), |file, done, total| shown.report(file, "bytes", done, total))?
        }
        Action::Info => Runtime::load()?,
    };
    match format {
        Format::Json => output::json(&json!({"library": library}))?,
        Format::Text => output::line(&library.display().to_string())?,
    }
    Ok(Status::SUCCESS)
}
