//! `mnemon verify`

use std::path::PathBuf;

use mnemon::{Error, VerifyReport};

use crate::{
    key,
    output::{self, Format},
    status::Status,
};

/// Check the pages of a database and the consistency of its records.
///
/// Prints each problem, and exits with status 3 if there is one.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let report = match mnemon::verify(key::database(&args.db)?) {
        // Damage where the file begins, or a file that was cut, keeps it from being opened.
        Err(error @ (Error::NotADatabase { .. } | Error::Corrupted { .. })) => {
            let mut report = VerifyReport::default();
            report.problems.push(error.to_string());
            report
        }
        report => report?,
    };
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            output::count("namespaces", report.namespaces)?;
            output::count("messages", report.messages)?;
            output::count("vectors", report.vectors)?;
            output::count("pending", report.pending)?;
            report.problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(if report.problems.is_empty() {
                match report.pages_checked {
                    true => "sound",
                    false => "sound; the pages of the file were not checked, because a process has it open for writing",
                }
            } else {
                "NOT SOUND: restore a backup, or take what can be read into a new database with `mnemon salvage`"
            })?;
        }
    }
    Ok(if report.problems.is_empty() { Status::SUCCESS } else { Status(3) })
}
