//! Writes what a view shows: the lines of a file with their numbers, and the entries of a directory.

use std::{collections::BTreeMap, fmt::Write};

use crate::path::Path;

/// The most bytes of lines or entries in an answer: clients of MCP accept 25,000 tokens from a tool, or fewer.
const MAX_BYTES: usize = 60_000;
/// The most lines that are named in the error for a text that occurs several times.
const MAX_NAMED: usize = 100;
/// Lines before and after a change in a snippet.
const AROUND: usize = 2;
/// The levels of a directory that a view lists.
const LEVELS: usize = 2;

/// Returns the lines of a file within a range.
///
/// # Errors
/// The text for the model, if the range has no line of the file.
pub(crate) fn view(path: &Path, text: &str, range: Option<&[i64]>) -> Result<String, String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let number = |line: i64| usize::try_from(line).unwrap_or(0);
    let (first, last) = match range {
        None => (1, lines.len()),
        Some([first, -1]) => (number(*first).max(1), lines.len()),
        Some([first, last]) => (number(*first).max(1), number(*last).min(lines.len())),
        Some(_) => (1, 0),
    };
    if first > last {
        let range = range.unwrap_or_default();
        return Err(format!(
            "Error: Invalid `view_range` parameter: {range:?}. It should be [first, last] within the lines of the file: [1, {}]; \
             a last of -1 is the end of the file.",
            lines.len()
        ));
    }
    let (mut shown, end) = numbered(&lines, first, last);
    if end < last {
        let _ = write!(
            shown,
            "\n(Lines {} to {last} are not shown: view_range [{}, {last}] shows them.)",
            end + 1,
            end + 1
        );
    }
    Ok(format!("Here's the content of {path} with line numbers:\n{shown}"))
}

/// Returns the lines of an edited text around `new`, which is at the byte `at`.
pub(crate) fn snippet(text: &str, at: usize, new: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let line = 1 + newlines(&text[..at]);
    let last = (line + newlines(new) + AROUND).min(lines.len());
    numbered(&lines, line.saturating_sub(AROUND).max(1), last).0
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns lines with their numbers, and the last line that there was room for: at least the first one. A line that is
/// longer than an answer is cut.
fn numbered(lines: &[&str], first: usize, last: usize) -> (String, usize) {
    let mut shown = String::new();
    for (number, line) in (first..).zip(&lines[first - 1..last]) {
        if !shown.is_empty() && shown.len() + line.len() > MAX_BYTES {
            return (shown, number - 1);
        }
        let separator = if number == first { "" } else { "\n" };
        let part = &line[..line.floor_char_boundary(MAX_BYTES)];
        let _ = write!(shown, "{separator}{number:>6}\t{part}");
        if part.len() < line.len() {
            let _ = write!(
                shown,
                "\n(Line {number} has {} bytes and is cut here: str_replace can divide it by a new line.)",
                line.len()
            );
        }
    }
    (shown, last)
}

/// Returns the numbers of the lines in which a text occurs.
pub(crate) fn lines_of(text: &str, part: &str) -> String {
    let (mut lines, mut line, mut seen) = (Vec::new(), 1, 0);
    for (at, _) in text.match_indices(part) {
        line += newlines(&text[seen..at]);
        seen = at;
        if lines.last() != Some(&line) {
            lines.push(line);
        }
        if lines.len() > MAX_NAMED {
            break;
        }
    }
    let numbers: Vec<String> = lines.iter().take(MAX_NAMED).map(usize::to_string).collect();
    numbers.join(", ") + if lines.len() > MAX_NAMED { ", ..." } else { "" }
}

/// Returns the entries of a directory with their sizes, by the files below it. The size of a directory is that of all
/// files below it.
pub(crate) fn listing(directory: &Path, files: &BTreeMap<Path, usize>) -> String {
    let mut entries: BTreeMap<(Vec<&str>, bool), usize> = BTreeMap::new();
    for (file, bytes) in files {
        let names: Vec<&str> = directory.relative(file).unwrap_or_default().split('/').collect();
        let is_hidden = |name: &&str| name.starts_with('.') || *name == "node_modules";
        let shown = names.iter().take(LEVELS).take_while(|name| !is_hidden(name)).count();
        for level in 1..=shown {
            *entries.entry((names[..level].to_vec(), level < names.len())).or_default() += bytes;
        }
    }
    let mut text = format!(
        "Here're the files and directories up to 2 levels deep in {directory}, excluding hidden items and node_modules:\n{}\t{directory}",
        size(files.values().sum())
    );
    for (at, ((names, is_directory), bytes)) in entries.iter().enumerate() {
        if text.len() > MAX_BYTES {
            let _ =
                write!(text, "\n({} more are not shown: view a directory to see what is in it.)", entries.len() - at);
            break;
        }
        let end = if *is_directory { "/" } else { "" };
        let _ = write!(text, "\n{}\t{directory}/{}{end}", size(*bytes), names.join("/"));
    }
    text
}

/// Formats a number of bytes, such as `512B`, `5.5K` or `2M`.
pub(crate) fn size(bytes: usize) -> String {
    let (unit, one) = match bytes {
        0..=0x3ff => return format!("{bytes}B"),
        0x400..=0xf_ffff => ('K', 1 << 10),
        0x10_0000..=0x3fff_ffff => ('M', 1 << 20),
        _ => ('G', 1 << 30),
    };
    match bytes % one {
        0 => format!("{}{unit}", bytes / one),
        _ => format!("{:.1}{unit}", bytes as f64 / one as f64),
    }
}
