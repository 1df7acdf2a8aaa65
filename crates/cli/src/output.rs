//! Prints results on stdout.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::printable;

/// The format of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON value per line.
    Json,
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string(value)?)
}

/// Prints one line of text. Line feeds and other control characters are escaped.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&printable::line(text))
}

/// Prints text that may have several lines. Other control characters are escaped.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    print(&printable::text(text))
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// Returns true if the error is a closed stdout: the reader of a pipe has ended.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|error| error.downcast_ref().is_some_and(is_broken))
}

/// Returns a number with a noun: `1 message`, `2 messages`.
pub(crate) fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match noun.strip_suffix('y') {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}

/// Prints a name and a number, aligned with other such lines.
pub(crate) fn count(name: &str, count: u64) -> anyhow::Result<()> {
    line(&format!("{name:<12} {count:>10}"))
}
