//! Printing results.

use std::io::{self, Write};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON value a line.
    Json,
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// Prints one line of text.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// Whether the error is that nobody reads stdout any more.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A progress bar on stderr, shown on terminals only.
pub(crate) fn progress(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates are constants");
    ProgressBar::new(total).with_style(style.progress_chars("=> "))
}

/// A name and a number, aligned.
pub(crate) fn count(name: &str, count: u64) -> anyhow::Result<()> {
    line(&format!("{name:<12} {count:>10}"))
}
