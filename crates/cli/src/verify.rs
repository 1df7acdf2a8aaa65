//! `mnemon verify`, `mnemon backup` and `mnemon salvage`: whether a file is sound, and what helps if it is not.

use std::path::{Path, PathBuf};

use mnemon::{Anchor, EncryptionKey, Error, VerifyReport};
use serde_json::json;

use crate::{
    database,
    output::{self, Format},
    usage::Status,
};

/// Check the pages of a database and the consistency of its records.
///
/// Prints each problem, and exits with status 3 if there is one.
#[derive(clap::Args)]
pub(crate) struct VerifyArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Print the number and the id of the last commit, and check nothing else. With an ANCHOR, which was printed before,
    /// exit with status 3 if the database does not have that commit: it is an older copy, or another one.
    #[arg(long, value_name = "ANCHOR", num_args = 0..=1)]
    head: Option<Option<Anchor>>,
    /// Write what this copy of a shared database had and the database lost, in a fail-over or by a restore, to this file, and
    /// what the copy had deleted and is there again: a line of JSON each. Check nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "head")]
    lost: Option<PathBuf>,
}

pub(crate) fn verify(args: &VerifyArgs, format: Format) -> anyhow::Result<Status> {
    if let Some(expected) = args.head {
        return head(&args.db, expected, format);
    }
    if let Some(to) = &args.lost {
        let lines = database::file(&args.db)?.lost()?;
        std::fs::write(to, lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        output::report(&json!({ "lost": lines.len() }), &[("lost", lines.len() as u64)], format)?;
        return Ok(Status::SUCCESS);
    }
    let report = match mnemon::verify(database::file(&args.db)?) {
        // A file that was cut, or is damaged where it begins, cannot be opened.
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
            if report.lost > 0 {
                output::count("lost", report.lost)?;
            }
            report.problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(match (report.problems.is_empty(), report.pages_checked) {
                (true, true) => "sound",
                (true, false) => {
                    "sound; the pages of the file were not checked, because a process has it open for writing"
                }
                _ => "NOT SOUND: restore a backup, or take what can be read into a new database with `mnemon salvage`",
            })?;
        }
    }
    Ok(Status::of_check(report.problems.is_empty()))
}

/// Prints the anchor of the last commit, and compares it with one that is expected.
fn head(db: &Path, expected: Option<Anchor>, format: Format) -> anyhow::Result<Status> {
    let file = database::file(db)?;
    let has_expected = expected.map_or(Ok(true), |expected| file.has_commit(expected))?;
    let last = file.anchor()?.to_string();
    match format {
        Format::Json => output::json(&json!({ "head": last, "has_anchor": has_expected }))?,
        Format::Text => output::line(&last)?,
    }
    if let Some(expected) = expected.filter(|_| !has_expected) {
        output::note(format!(
            "{expected} is not in {}: it is an older copy, also if it got other commits since, or another database",
            db.display()
        ));
    }
    Ok(Status::of_check(has_expected))
}

/// Write a consistent copy of a database to a new file, without its free space.
///
/// The copy is read back page by page before it gets its name. To restore it, open it. It has the same key as the
/// database, unless an option says otherwise: this is how a key is changed. No other process may have the database
/// open: a program that has it open calls `Engine::backup`.
#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Encrypt the new file with the key in this file, also if the database is not encrypted.
    #[arg(long, value_name = "FILE")]
    new_key_file: Option<PathBuf>,
    /// Do not encrypt the new file, although the database is encrypted.
    #[arg(long, conflicts_with = "new_key_file")]
    decrypt: bool,
    /// The new file.
    new: PathBuf,
}

pub(crate) fn backup(args: &BackupArgs, format: Format) -> anyhow::Result<Status> {
    let new_key = match &args.new_key_file {
        Some(file) => Some(EncryptionKey::from_file(file)?),
        None if args.decrypt => None,
        None => database::key()?,
    };
    mnemon::backup_with_key(database::file(&args.db)?, &args.new, new_key)?;
    let bytes = std::fs::metadata(&args.new)?.len();
    output::report(&json!({ "bytes": bytes }), &[("bytes", bytes)], format)?;
    Ok(Status::SUCCESS)
}

/// Copy what can still be read of a damaged database into a new one, and list what could not.
///
/// Messages, sessions, documents, legal holds and the audit. If a hold cannot be read, all namespaces are held in the
/// new database. Vectors and indexes are made again when the new database is opened. The damaged file does not change.
/// The new one has the same key, mode and owner.
#[derive(clap::Args)]
pub(crate) struct SalvageArgs {
    /// The damaged database.
    damaged: PathBuf,
    /// The new file.
    new: PathBuf,
}

pub(crate) fn salvage(args: &SalvageArgs, format: Format) -> anyhow::Result<Status> {
    let report = mnemon::salvage(database::file(&args.damaged)?, &args.new)?;
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            output::count("namespaces", report.namespaces)?;
            output::count("sessions", report.sessions)?;
            output::count("messages", report.messages)?;
            output::count("documents", report.documents)?;
            output::count("holds", report.holds)?;
            output::count("audit", report.audit_entries)?;
            report.lost.iter().try_for_each(|lost| output::line(&format!("lost: {lost}")))?;
        }
    }
    Ok(Status::SUCCESS)
}
