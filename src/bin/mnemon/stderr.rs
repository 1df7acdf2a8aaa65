//! Prints errors and notes on stderr, as text or as one JSON object per line.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::OnceLock,
};

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
