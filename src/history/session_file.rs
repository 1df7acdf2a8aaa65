//! The file of one session: JSON Lines, a header followed by one message per line.
//!
//! ```text
//! {"mnemon_history":1,"session":"monday"}
//! {"id":"1","session":"monday","role":"user","name":null,"content":"hello","created_at":"2024-05-01T09:30:00Z"}
//! ```
//!
//! A message with the id of an earlier line replaces that message and keeps its position. A line is valid once it ends
//! with a line feed: bytes after the last line feed are the rest of an interrupted write, which was never acknowledged.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    message::{Message, MessageLine},
};

/// The version of the file format.
const FORMAT: u32 = 1;

/// The size of the blocks that are read while searching for the last line feed.
const CHUNK_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Header {
    mnemon_history: u32,
    // The header of a newer format may lack the field.
    #[serde(default)]
    session: String,
}

/// Formats the first line of a session's file.
pub(super) fn header_line(session: &str) -> Result<String> {
    json_line(&Header { mnemon_history: FORMAT, session: session.to_owned() })
}

/// Formats the line of a message.
pub(super) fn message_line(message: &Message) -> Result<String> {
    json_line(message)
}

fn json_line(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value).map_err(|error| Error::message(error.to_string()))?;
    Ok(json + "\n")
}

/// A reader of a session's file, line by line.
pub(super) struct LineReader<R> {
    path: PathBuf,
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The number of the line that was read last, from 1.
    number: usize,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(path: &Path, file: R) -> Self {
        LineReader { path: path.to_path_buf(), reader: BufReader::new(file), line: Vec::new(), number: 0 }
    }

    /// Reads the header and returns its session. `None` if the file has no complete line.
    pub(super) fn session(&mut self) -> Result<Option<String>> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        let header: Header = serde_json::from_str(line)
            .map_err(|error| format!("the line is not the header of a history: {error}"))
            .map_err(|reason| self.invalid(reason))?;
        match header.mnemon_history {
            FORMAT => Ok(Some(header.session)),
            found if found > FORMAT => Err(Error::NewerSchema { path: self.path.clone(), found, supported: FORMAT }),
            found => Err(self.invalid(format!("the file has the unknown format {found}"))),
        }
    }

    /// Reads the next message, after the header. `None` at the end of the file.
    pub(super) fn message(&mut self) -> Result<Option<Message>> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        match MessageLine::parse(line) {
            Ok(line) if line.has_id => Ok(Some(line.message)),
            Ok(_) => Err(self.invalid("the message has no id")),
            Err(error) => Err(self.invalid(error.to_string())),
        }
    }

    /// Skips the next line. Returns true if there was a complete one.
    pub(super) fn skip_line(&mut self) -> Result<bool> {
        Ok(self.next_line()?.is_some())
    }

    /// Makes an error for the line that was read last.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::InvalidHistory { path: self.path.clone(), line: self.number, reason: reason.into() }
    }

    /// Reads the next complete line.
    fn next_line(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        self.number += 1;
        self.reader.read_until(b'\n', &mut self.line).map_err(|error| file_error(&self.path, error))?;
        if self.line.pop() != Some(b'\n') {
            return Ok(None);
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(self.invalid("not UTF-8")),
        }
    }
}

/// Returns the length of the file up to the end of the last complete line.
pub(super) fn complete_bytes(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut size = 1;
    while end > 0 {
        let begin = end.saturating_sub(size);
        let mut chunk = vec![0; (end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut chunk)?;
        if let Some(newline) = chunk.iter().rposition(|&byte| byte == b'\n') {
            return Ok(begin + newline as u64 + 1);
        }
        end = begin;
        // The last byte nearly always is a line feed, so the first block is that byte alone.
        size = CHUNK_BYTES;
    }
    Ok(0)
}

/// Makes an error of a file operation that failed.
pub(super) fn file_error(path: &Path, error: io::Error) -> Error {
    Error::Storage(format!("{}: {error}", path.display()).into())
}
