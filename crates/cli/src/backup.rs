//! `mnemon backup`

use std::path::PathBuf;

use mnemon::EncryptionKey;
use serde_json::json;

use crate::{
    key,
    output::{self, Format},
    status::Status,
};

/// Write a consistent copy of a database to a new file, without its free space.
///
/// The copy is read back page by page before it gets its name. To restore it, open it. It has the same key as the
/// database, unless an option says otherwise: this is how a key is changed. No other process may have the database
/// open: a program that has it open calls `Engine::backup`.
#[derive(clap::Args)]
pub(crate) struct Args {
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

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let new_key = match &args.new_key_file {
        Some(file) => Some(EncryptionKey::from_file(file)?),
        None if args.decrypt => None,
        None => key::given()?,
    };
    mnemon::backup_with_key(key::database(&args.db)?, &args.new, new_key)?;
    let bytes = std::fs::metadata(&args.new)?.len();
    match format {
        Format::Json => output::json(&json!({ "bytes": bytes }))?,
        Format::Text => output::count("bytes", bytes)?,
    }
    Ok(Status::SUCCESS)
}
