//! Prints results on stdout, and errors, notes and progress on stderr.
//!
//! Both are text or JSON, one value per line. Stored and foreign text is made safe first: no message, name or error may
//! drive the reader's terminal.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, Write},
    sync::OnceLock,
};

use clap::ValueEnum;
use mnemon::Error;
use serde::Serialize;
use serde_json::{Value, json};

/// The format of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// One JSON value per line.
    Json,
}

/// How this process prints on stderr.
#[derive(Clone, Copy)]
struct Stderr {
    format: Format,
    quiet: bool,
}

static STDERR: OnceLock<Stderr> = OnceLock::new();

/// Sets the format of stderr, once. A quiet command prints no progress and no notes, only errors.
pub(crate) fn set_stderr(format: Format, quiet: bool) {
    let _ = STDERR.set(Stderr { format, quiet });
}

fn stderr() -> Stderr {
    STDERR.get().copied().unwrap_or(Stderr { format: Format::Text, quiet: false })
}

pub(crate) fn is_quiet() -> bool {
    stderr().quiet
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string(value)?)
}

/// Prints one line of text. Line feeds and other control characters are escaped.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&escaped_line(text))
}

/// Prints text that may have several lines. Other control characters are escaped.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    print(&escaped(text))
}

/// Prints a value as JSON, or in text these numbers of it, a line each.
pub(crate) fn report(value: &impl Serialize, counts: &[(&str, u64)], format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => json(value),
        Format::Text => counts.iter().try_for_each(|(name, number)| count(name, *number)),
    }
}

/// Prints a name and a number, aligned with other such lines.
pub(crate) fn count(name: &str, count: u64) -> anyhow::Result<()> {
    line(&format!("{name:<12} {count:>10}"))
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
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

/// Returns true if the error is a closed stdout: the reader of a pipe has ended.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|error| error.downcast_ref().is_some_and(is_broken))
}

/// Prints the error that ends the command, and its remedy in the command's own words.
pub(crate) fn failure(failure: &anyhow::Error, exit_status: u8) {
    match failure.chain().find_map(|error| remedy(error.downcast_ref()?)) {
        Some(remedy) => error(format!("{} ({remedy})", chain(failure)), exit_status),
        None => error(chain(failure), exit_status),
    }
}

/// Returns the text of an error and of its sources, without those that the text has already.
pub(crate) fn chain(failure: &anyhow::Error) -> String {
    failure.chain().map(ToString::to_string).fold(String::new(), |text, next| match () {
        () if text.is_empty() => next,
        () if text.contains(&next) => text,
        () => format!("{text}: {next}"),
    })
}

/// Returns the remedy of an error of the library, as an option or a subcommand.
fn remedy(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::SessionNotFound { .. } => "`mnemon sessions`",
        Error::NamespaceNotEmpty { .. } => "--namespace gives another name, `mnemon delete --all` deletes",
        Error::ModelNotFound { .. } => "`mnemon models pull` or `mnemon models import`",
        Error::Download { .. } => "`mnemon models import`",
        Error::ModelMismatch { .. } => "`mnemon reindex --model`",
        Error::RuntimeNotFound { looked } if !looked.is_empty() => "or fetch it with `mnemon runtime pull`",
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

/// Prints the text of the error that ends the command.
pub(crate) fn error(text: impl Display, exit_status: u8) {
    let text = text.to_string();
    on_stderr(&text, || json!({ "error": text, "exit_status": exit_status }));
}

/// Prints a fact that the reader should know although the command goes on.
pub(crate) fn note(text: impl Display) {
    let text = text.to_string();
    if !is_quiet() {
        on_stderr(&text, || json!({ "note": text }));
    }
}

/// Prints a text on stderr, or in JSON the object with the same facts.
pub(crate) fn on_stderr(text: &str, object: impl FnOnce() -> Value) {
    // There is nowhere to report that stderr is closed.
    let _ = match stderr().format {
        Format::Text => writeln!(io::stderr(), "mnemon: {}", escaped(text)),
        Format::Json => writeln!(io::stderr(), "{}", object()),
    };
}

/// Escapes control characters, except tabs and line feeds, and characters that override the direction of text.
fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_harmful(c))
}

/// Escapes line feeds too, so that a name cannot look like a line of the command's own.
pub(crate) fn escaped_line(text: &str) -> Cow<'_, str> {
    escape(text, is_harmful)
}

fn is_harmful(c: char) -> bool {
    c != '\t' && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return text.into();
    }
    let mut safe = String::new();
    for c in text.chars() {
        if is_escaped(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_drives_a_terminal_is_escaped() {
        let check = |given, wanted: &str, wanted_line: &str| {
            assert_eq!((&*super::escaped(given), &*super::escaped_line(given)), (wanted, wanted_line));
        };
        check("naïve 🙂\t東京 שלום", "naïve 🙂\t東京 שלום", "naïve 🙂\t東京 שלום");
        check("a\nb", "a\nb", "a\\nb");
        check("\u{1b}[2J\r\0\u{7f}", "\\u{1b}[2J\\r\\u{0}\\u{7f}", "\\u{1b}[2J\\r\\u{0}\\u{7f}");
        check("\u{9b}2J\u{202e}x\u{2069}", "\\u{9b}2J\\u{202e}x\\u{2069}", "\\u{9b}2J\\u{202e}x\\u{2069}");
    }
}
