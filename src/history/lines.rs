//! The file of one session: JSON Lines, a header and then a message a line.
//!
//! ```text
//! {"mnemon_history":1,"session":"monday"}
//! {"id":"1","session":"monday","role":"user","name":null,"content":"hello","created_at":"2024-05-01T09:30:00Z"}
//! ```
//!
//! A line of an id that an earlier line has replaces it in its place. A line counts once it has its newline: what follows
//! the last newline is the rest of a write that was cut short, and was never acknowledged.

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

/// The format of the files.
const FORMAT: u32 = 1;

/// Read at a time, looking for the last newline.
const CHUNK_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Header {
    mnemon_history: u32,
    // A newer format may have none.
    #[serde(default)]
    session: String,
}

/// The first line of a session's file.
pub(super) fn header(session: &str) -> Result<String> {
    line(&Header { mnemon_history: FORMAT, session: session.to_owned() })
}

/// The line of a message.
pub(super) fn message_line(message: &Message) -> Result<String> {
    line(message)
}

fn line(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value).map_err(|error| Error::message(error.to_string()))?;
    Ok(json + "\n")
}

/// The lines of a file, one after the other.
pub(super) struct Lines<R> {
    path: PathBuf,
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Of the line read last, from 1.
    number: usize,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(path: &Path, file: R) -> Self {
        Lines { path: path.to_path_buf(), reader: BufReader::new(file), line: Vec::new(), number: 0 }
    }

    /// The session that the header names; none if there is no whole line.
    pub(super) fn session(&mut self) -> Result<Option<String>> {
        let Some(line) = self.next()? else { return Ok(None) };
        let header: Header = serde_json::from_str(line)
            .map_err(|error| format!("no header of a history: {error}"))
            .map_err(|reason| self.invalid(reason))?;
        match header.mnemon_history {
            FORMAT => Ok(Some(header.session)),
            found if found > FORMAT => Err(Error::NewerSchema { path: self.path.clone(), found, supported: FORMAT }),
            found => Err(self.invalid(format!("no such format: {found}"))),
        }
    }

    /// The next message, after the header.
    pub(super) fn message(&mut self) -> Result<Option<Message>> {
        let Some(line) = self.next()? else { return Ok(None) };
        match MessageLine::parse(line) {
            Ok(line) if line.has_id => Ok(Some(line.message)),
            Ok(_) => Err(self.invalid("the message has no id")),
            Err(error) => Err(self.invalid(error.to_string())),
        }
    }

    /// Whether another whole line follows.
    pub(super) fn has_next(&mut self) -> Result<bool> {
        Ok(self.next()?.is_some())
    }

    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::InvalidHistory { path: self.path.clone(), line: self.number, reason: reason.into() }
    }

    fn next(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        self.number += 1;
        self.reader.read_until(b'\n', &mut self.line).map_err(|error| failed(&self.path, error))?;
        if self.line.pop() != Some(b'\n') {
            return Ok(None);
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(self.invalid("not UTF-8")),
        }
    }
}

/// Bytes up to the end of the last whole line.
pub(super) fn whole_bytes(file: &mut File) -> io::Result<u64> {
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
        // Nearly always the last byte is one.
        size = CHUNK_BYTES;
    }
    Ok(0)
}

/// A file that the system refuses.
pub(super) fn failed(path: &Path, error: io::Error) -> Error {
    Error::Storage(format!("{}: {error}", path.display()).into())
}
