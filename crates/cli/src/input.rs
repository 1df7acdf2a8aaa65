//! Reads files of input: text that may be compressed, lines of JSON, messages and labelled questions.
//!
//! Files are streams: the memory that they take does not grow with them. What is read is remembered, so that no output
//! replaces it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, anyhow, bail};
use mnemon::{
    Message, MessageLine, Namespace,
    format::{FileReader, Format, ReadOptions, Source, decompressed},
};
use same_file::Handle;
use serde::Deserialize;
use serde_json::Value;

/// The most bytes of a line: more than any valid message has with all its escapes. A file without line breaks must not
/// fill the memory.
pub(crate) const MAX_LINE_BYTES: u64 = 32 << 20;

/// A line of a file, with its position.
pub(crate) struct Line {
    pub(crate) text: anyhow::Result<String>,
    /// Line number, from 1.
    pub(crate) number: u64,
}

/// The files that were read.
static READ: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// Opens a text file, or stdin for `-`, without its byte order mark. Its first bytes say whether gzip or zstd
/// compressed it.
///
/// # Errors
/// The file cannot be read, or it is a named pipe: opening one waits until somebody writes to it.
pub(crate) fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return decompressed(io::stdin()).context("-");
    }
    if !is_stream(path) {
        match irregular(path) {
            Some(kind @ ("a named pipe" | "a socket")) => bail!(
                "{}: this is {kind}, which might never be written to; read it from stdin, with - instead of its name",
                path.display()
            ),
            Some(kind) => bail!("{}: this is {kind}, not a file", path.display()),
            None => {}
        }
    }
    note_read(path);
    File::open(path).and_then(decompressed).with_context(|| path.display().to_string())
}

/// Opens the files at a path: one file, those of a folder or of a zip archive, or stdin for `-`.
///
/// # Errors
/// Those of [`open`].
pub(crate) fn source(path: &Path) -> anyhow::Result<Source<'static>> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return Ok(Source::stream(&name, io::stdin())?);
    }
    if path.is_dir() {
        return Ok(Source::open(path)?);
    }
    let text = open(path)?;
    if is_stream(path) { Ok(Source::stream(&name, text)?) } else { Ok(Source::open(path)?) }
}

/// Returns true if the name stands for what the shell opened already, such as its pipes, or for /dev/null.
pub(crate) fn is_stream(path: &Path) -> bool {
    let names = ["/dev/fd", "/proc", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/null"];
    cfg!(unix) && names.iter().any(|name| path.starts_with(name)) && !path.is_dir()
}

pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text).with_context(|| path.display().to_string())?;
    Ok(text)
}

/// Notes that a file is read, so that no output replaces it.
pub(crate) fn note_read(path: &Path) {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    read.extend(Handle::from_path(path).ok().filter(|_| path.is_file()));
}

/// Returns true if a file was read by this command, under any name.
pub(crate) fn is_read(path: &Path) -> bool {
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    Handle::from_path(path).is_ok_and(|found| read.contains(&found))
}

/// Names what a path leads to, unless that is a regular file or nothing.
pub(crate) fn irregular(path: &Path) -> Option<&'static str> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if kind.is_file() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Some("a named pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
    }
    Some(if kind.is_dir() { "a folder" } else { "no regular file" })
}

/// Iterates over the lines of a file, or of stdin for `-`, without the blank ones.
pub(crate) fn lines(path: &Path) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Line>> + use<>> {
    Ok(lines_of(open(path)?, path))
}

/// Same as [`lines`], of a reader. Errors name the path.
pub(crate) fn lines_of<R: Read>(reader: R, path: &Path) -> impl Iterator<Item = anyhow::Result<Line>> + use<R> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let path = path.to_path_buf();
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let mut bytes = Vec::new();
            let limited = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
            match limited.with_context(|| format!("{}: reading", path.display())) {
                Err(error) => return Some(Err(error)),
                Ok(0) => return None,
                Ok(_) => {}
            }
            number += 1;
            if bytes.len() as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
                return Some(
                    reader
                        .skip_until(b'\n')
                        .with_context(|| path.display().to_string())
                        .map(|_| Line { text: Err(anyhow!("a line of more than {MAX_LINE_BYTES} bytes")), number }),
                );
            }
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let text = String::from_utf8(bytes).map_err(|error| anyhow!("not UTF-8: {error}"));
            return Some(Ok(Line { text, number }));
        }
    })
}

/// Reads all messages of a file; the first bad line is an error.
pub(crate) fn messages(path: &Path) -> anyhow::Result<Vec<(Namespace, Message)>> {
    messages_of(open(path)?, path)
}

/// Same as [`messages`], of a reader. Errors name the path.
pub(crate) fn messages_of(reader: impl Read, path: &Path) -> anyhow::Result<Vec<(Namespace, Message)>> {
    let own = Format::named("mnemon").expect("it is in the table");
    let (mut source, mut messages) = (Source::stream(&path.display().to_string(), reader)?, Vec::new());
    let mut files = FileReader::new(ReadOptions::default());
    while let Some(file) = source.next_file()? {
        let name = file.name.clone();
        for found in files.read(own, file) {
            let found = found?;
            for line in found.messages {
                let MessageLine { namespace, message, .. } = line?;
                let namespace =
                    namespace.with_context(|| format!("{name}:{}: no namespace: the line names none", found.line))?;
                messages.push((namespace, message));
            }
        }
    }
    Ok(messages)
}

/// A line of a file of labelled questions.
#[derive(Deserialize)]
pub(crate) struct QueryLine {
    /// A text or a number.
    pub(crate) id: Option<Value>,
    pub(crate) namespace: Namespace,
    pub(crate) query: String,
    /// Ids of the messages that hold the answer.
    #[serde(default)]
    pub(crate) relevant: Vec<String>,
    pub(crate) category: Option<String>,
}

/// Reads all labelled questions of a file; the first bad line is an error.
pub(crate) fn queries(path: &Path) -> anyhow::Result<Vec<QueryLine>> {
    queries_of(open(path)?, path)
}

/// Same as [`queries`], of a reader. Errors name the path.
pub(crate) fn queries_of(reader: impl Read, path: &Path) -> anyhow::Result<Vec<QueryLine>> {
    parse_all(reader, path, |text| Ok(serde_json::from_str(text)?))
}

/// Parses all lines of a reader; the first bad line is an error that names the path and the line.
pub(crate) fn parse_all<T>(
    reader: impl Read,
    path: &Path,
    mut parse: impl FnMut(&str) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    lines_of(reader, path)
        .map(|line| {
            let line = line?;
            let position = || at(path, line.number);
            line.text.and_then(|text| parse(&text)).with_context(position)
        })
        .collect()
}

/// Formats a position as `FILE:LINE`, as compilers do.
pub(crate) fn at(path: &Path, line: u64) -> String {
    format!("{}:{line}", path.display())
}
