//! Prints errors and notes on stderr, as text or as one JSON object per line.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::OnceLock,
};

use mnemon::Error;
use serde_json::{Value, json};

use crate::{output::Format, printable};

/// How this process prints on stderr.
#[derive(Clone, Copy)]
struct Settings {
    format: Format,
    quiet: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Sets the format of stderr, once. A quiet command prints no progress and no notes, only errors.
pub(crate) fn configure(format: Format, quiet: bool) {
    let _ = SETTINGS.set(Settings { format, quiet });
}

fn settings() -> Settings {
    SETTINGS.get().copied().unwrap_or(Settings { format: Format::Text, quiet: false })
}

pub(crate) fn is_quiet() -> bool {
    settings().quiet
}

/// Prints the error that ends the command, and how its remedy is called here.
pub(crate) fn failure(failure: &anyhow::Error, exit_status: u8) {
    match failure.chain().find_map(|error| remedy(error.downcast_ref()?)) {
        Some(remedy) => error(format!("{failure:#} ({remedy})"), exit_status),
        None => error(format!("{failure:#}"), exit_status),
    }
}

/// Returns what the command calls the remedy that an error states.
fn remedy(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::SessionNotFound { .. } => "`mnemon sessions`",
        Error::NamespaceNotEmpty { .. } => "--namespace gives another name, `mnemon delete --all` deletes",
        Error::ModelNotFound { .. } => "`mnemon models pull` or `mnemon models import`",
        Error::Download { .. } => "`mnemon models import`",
        Error::ModelMismatch { .. } => "`mnemon reindex --model`",
        Error::RuntimeNotFound { .. } => "or fetch it with `mnemon runtime pull`",
        Error::LegalHold { .. } => "`mnemon hold --release`",
        Error::KeyNeeded { .. } | Error::WrongKey { .. } => "--key-file, or MNEMON_KEY",
        Error::NotEncrypted { .. } => {
            "leave out --key-file and MNEMON_KEY; `mnemon backup --new-key-file` encrypts a copy"
        }
        Error::DatabaseNotFound { .. } => "`mnemon ingest` creates it",
        Error::Corrupted { .. } => "`mnemon salvage`",
        _ => return None,
    })
}

/// Prints the error that ends the command.
pub(crate) fn error(text: impl Display, exit_status: u8) {
    let text = text.to_string();
    print(&text, || json!({ "error": text, "exit_status": exit_status }));
}

/// Prints a fact that the reader should know although the command goes on.
pub(crate) fn note(text: impl Display) {
    let text = text.to_string();
    if !is_quiet() {
        print(&text, || json!({ "note": text }));
    }
}

/// Prints text, with control characters escaped, or the object with the same facts.
pub(crate) fn print(text: &str, object: impl FnOnce() -> Value) {
    // There is nowhere to report that stderr is closed.
    let _ = match settings().format {
        Format::Text => writeln!(io::stderr(), "mnemon: {}", printable::text(text)),
        Format::Json => writeln!(io::stderr(), "{}", object()),
    };
}
