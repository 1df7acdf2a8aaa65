//! The file of one session: JSON Lines, a header followed by one message per line.
//!
//! ```text
//! {"mnemon_history":2,"session":"monday","crc32":"1c8ab5b0"}
//! {"id":"1","session":"monday","role":"user","name":null,"content":"hello","created_at":null,"crc32":"4a56a1e5"}
//! ```
//!
//! The last member of a line is the CRC-32 of the bytes before that member. Files of format 1 have no checksums; the
//! next append to such a file rewrites it with checksums.
//!
//! A message with the id of an earlier line replaces that message and keeps its position. A line is complete when it ends
//! with a line feed. Bytes after the last line feed belong to an interrupted write, which was never acknowledged, unless
//! they are a whole line with its checksum and one other byte: then the line feed was damaged.

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
const FORMAT: u32 = 2;

/// The version of the format without checksums.
const WITHOUT_CHECKSUMS: u32 = 1;

/// The number of bytes at the end of a line that the checksum takes.
const CHECKSUM_BYTES: usize = r#","crc32":"00000000"}"#.len();

const WRONG_CHECKSUM: &str = "its checksum is wrong or missing";

/// The number of bytes that are read at a time while searching for the last line feed.
const READ_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Header {
    mnemon_history: u32,
    // The header of a newer format may lack the field.
    #[serde(default)]
    session: String,
    #[serde(default, skip_serializing)]
    crc32: Option<String>,
}

pub(super) fn header_line(session: &str) -> Result<String> {
    json_line(&Header { mnemon_history: FORMAT, session: session.to_owned(), crc32: None })
}

pub(super) fn message_line(message: &Message) -> Result<String> {
    json_line(message)
}

fn json_line(value: &impl Serialize) -> Result<String> {
    let mut line = serde_json::to_string(value).map_err(|error| Error::message(error.to_string()))?;
    line.pop();
    Ok(format!("{line}{}\n", checksum_member(line.as_bytes())))
}

fn checksum_member(line: &[u8]) -> String {
    format!(r#","crc32":"{:08x}"}}"#, crc32fast::hash(line))
}

/// Returns true if a line ends with its checksum. The comparison is of texts, not of numbers, so that a digit that became
/// a capital letter counts as damage too.
fn is_intact(line: &[u8]) -> bool {
    let Some(end) = line.len().checked_sub(CHECKSUM_BYTES) else { return false };
    line[end..] == *checksum_member(&line[..end]).as_bytes()
}

/// A reader of a session's file, line by line.
pub(super) struct LineReader<R> {
    path: PathBuf,
    reader: BufReader<R>,
    line: Vec<u8>,
    /// The number of the last line that was read, from 1.
    number: usize,
    has_checksums: bool,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(path: &Path, file: R) -> Self {
        LineReader {
            path: path.to_path_buf(),
            reader: BufReader::new(file),
            line: Vec::new(),
            number: 0,
            has_checksums: true,
        }
    }

    /// Returns true if the lines of the file have checksums. Valid after the header was read.
    pub(super) fn has_checksums(&self) -> bool {
        self.has_checksums
    }

    /// Reads the header and returns its session. Returns `None` if the file has no complete line.
    pub(super) fn session(&mut self) -> Result<Option<String>> {
        if !self.read_line()? {
            return Ok(None);
        }
        let header: Header = serde_json::from_str(self.text()?)
            .map_err(|error| self.invalid(format!("the line is not the header of a history: {error}")))?;
        let (found, has_checksum, is_intact) = (header.mnemon_history, header.crc32.is_some(), is_intact(&self.line));
        match found {
            FORMAT if is_intact => Ok(Some(header.session)),
            WITHOUT_CHECKSUMS if !has_checksum => {
                self.has_checksums = false;
                Ok(Some(header.session))
            }
            _ if found > FORMAT && is_intact == has_checksum => {
                Err(Error::NewerSchema { path: self.path.clone(), found, supported: FORMAT })
            }
            WITHOUT_CHECKSUMS | FORMAT.. => Err(self.invalid(WRONG_CHECKSUM)),
            _ => Err(self.invalid(format!("the file has the unknown format {found}"))),
        }
    }

    /// Reads the next message, after the header. Returns `None` at the end of the file.
    pub(super) fn message(&mut self) -> Result<Option<Message>> {
        if !self.next_line()? {
            return Ok(None);
        }
        if self.has_checksums {
            self.line.truncate(self.line.len() - CHECKSUM_BYTES);
            self.line.push(b'}');
        }
        match MessageLine::parse(self.text()?) {
            Ok(line) if line.has_id => Ok(Some(line.message)),
            Ok(_) => Err(self.invalid("the message has no id")),
            Err(error) => Err(self.invalid(error.to_string())),
        }
    }

    /// Reads the next line after the header and checks its checksum. Returns false at the end of the file.
    pub(super) fn next_line(&mut self) -> Result<bool> {
        let has_line = self.read_line()?;
        if has_line && self.has_checksums && !is_intact(&self.line) {
            return Err(self.invalid(WRONG_CHECKSUM));
        }
        Ok(has_line)
    }

    /// Creates an error for the last line that was read.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::InvalidHistory { path: self.path.clone(), line: self.number, reason: reason.into() }
    }

    /// Reads the next complete line. Returns false at the end of the file.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        self.reader.read_until(b'\n', &mut self.line).map_err(|error| file_error(&self.path, error))?;
        match self.line.pop() {
            Some(b'\n') => Ok(true),
            // A byte of 0 is not a damaged line feed: after a crash a file may end with zeros that were never written.
            Some(1..) if self.has_checksums && is_intact(&self.line) => Err(self.invalid("its line feed is damaged")),
            _ => Ok(false),
        }
    }

    fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.line).map_err(|_| self.invalid("not UTF-8"))
    }
}

/// Returns the length of the file up to the end of the last complete line.
pub(super) fn complete_bytes(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut size = 1;
    while end > 0 {
        let begin = end.saturating_sub(size);
        let mut bytes = vec![0; (end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut bytes)?;
        if let Some(newline) = bytes.iter().rposition(|&byte| byte == b'\n') {
            return Ok(begin + newline as u64 + 1);
        }
        end = begin;
        // The first read is one byte, because the last byte of the file nearly always is a line feed.
        size = READ_BYTES;
    }
    Ok(0)
}

pub(super) fn file_error(path: &Path, error: io::Error) -> Error {
    Error::Storage(format!("{}: {error}", path.display()).into())
}
