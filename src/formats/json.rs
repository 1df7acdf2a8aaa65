//! The JSON values of a file: one in each line, or one after the other, or as elements of lists.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    counted::{Counted, ValueMemory},
    message_lists::MessageLists,
    reader::{EarlierFiles, Found, ReadOptions, Reader, ValueReader},
    source::SourceFile,
};
use crate::error::{Error, Result};

/// The most bytes of a line: more than any valid message has with all its escapes. A file without line breaks must not
/// fill the memory.
const MAX_LINE_BYTES: u64 = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonShape {
    /// Each element of a list is a value.
    Elements,
    /// A list is one value.
    Lists,
    /// Each message of a chat is a value, with the fields of the chat: these must come before the messages.
    Messages(&'static [&'static str]),
    /// Lines that a program writes while it works. Nobody can mend one that was torn, so it is left out with a note.
    Log,
}

/// Reads files in one JSON format.
pub(super) struct JsonReader {
    /// The name of the format.
    pub(super) format: &'static str,
    /// Whether a value is of the format.
    pub(super) is: fn(&Value) -> bool,
    pub(super) shape: JsonShape,
    pub(super) values: fn(&ReadOptions) -> Box<dyn ValueReader>,
    pub(super) options: ReadOptions,
    pub(super) earlier: EarlierFiles,
}

impl Reader for JsonReader {
    fn read<'f>(&'f mut self, mut file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let name = file.name.clone();
        let JsonReader { format, is, shape, .. } = *self;
        let max_memory = self.options.max_memory;
        let is_log = shape == JsonShape::Log;
        let pieces: Box<dyn Iterator<Item = Result<Piece>> + 'f> = match file.head() {
            Err(error) => Box::new(std::iter::once(Err(error))),
            Ok(head) if is_log || has_lines(head) => {
                Box::new(Lines::new(file).map(move |line| Ok(line?.into_piece(max_memory))))
            }
            Ok(_) => Box::new(Values::new(file, shape, max_memory)),
        };
        let values = (self.values)(&self.options);
        let earlier = &mut self.earlier;
        Box::new(Reading {
            name,
            format,
            is,
            is_log,
            pieces,
            values,
            earlier,
            ended: None,
            line: 0,
            is_of_format: false,
        })
    }
}

/// Whether the first line that is not blank is an object, or is torn and followed by one.
fn has_lines(head: &[u8]) -> bool {
    let lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    for line in lines.filter(|line| line.ends_with(b"\n")).take(8) {
        match serde_json::from_slice::<Map<String, Value>>(line) {
            Ok(_) => return true,
            // The beginning of a list, or of a value of several lines.
            Err(error) if error.is_data() || error.is_eof() => return false,
            Err(_) => {}
        }
    }
    false
}

/// A file that is being read.
struct Reading<'f> {
    name: String,
    format: &'static str,
    is: fn(&Value) -> bool,
    is_log: bool,
    pieces: Box<dyn Iterator<Item = Result<Piece>> + 'f>,
    values: Box<dyn ValueReader>,
    earlier: &'f mut EarlierFiles,
    /// What the end of the file decided.
    ended: Option<VecDeque<Found>>,
    /// The last line that was read.
    line: u64,
    /// Whether a value was of the format.
    is_of_format: bool,
}

impl Iterator for Reading<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(ended) = &mut self.ended {
            return ended.pop_front().map(Ok);
        }
        let Some(piece) = self.pieces.next() else {
            let ended = self.ended.insert(self.values.end(self.earlier));
            return match self.line > 0 && !self.is_of_format {
                true => Some(Err(Error::OtherFormat { file: self.name.clone(), given: self.format, fitting: None })),
                false => ended.pop_front().map(Ok),
            };
        };
        Some(piece.map(|piece| self.found(piece)))
    }
}

impl Reading<'_> {
    fn found(&mut self, piece: Piece) -> Found {
        let Piece { value, line, bytes_read, number } = piece;
        let mut found = Found { line, bytes_read, value: number, ..Found::default() };
        self.line = line;
        match value {
            Ok(value) => {
                self.is_of_format |= match &value {
                    Value::Array(values) => values.is_empty() || values.iter().any(self.is),
                    value => (self.is)(value),
                };
                self.values.read(value, &mut found);
                self.is_of_format |= found.messages.iter().any(Result::is_ok);
            }
            Err(reason) if self.is_log => found.notes.push(format!("line {line} is torn and was left out: {reason}")),
            Err(reason) => {
                // Nothing is known of it.
                self.is_of_format = true;
                found.messages.push(Err(Error::file(&self.name, line, reason)));
            }
        }
        found
    }
}

/// A value of a file, and its place.
struct Piece {
    /// The value, or why it cannot be read.
    value: std::result::Result<Value, String>,
    line: u64,
    bytes_read: u64,
    /// The number of the value, if it is not that of a line.
    number: Option<u64>,
}

/// A line that is not blank.
pub(super) struct Line {
    pub(super) text: std::result::Result<String, String>,
    pub(super) number: u64,
    pub(super) bytes_read: u64,
}

impl Line {
    /// Returns the text, unless its value would take more memory than it may.
    pub(super) fn within(self, max_memory: Option<usize>) -> std::result::Result<String, String> {
        let text = self.text?;
        ValueMemory::new(max_memory).take(text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(text)
    }

    fn into_piece(self, max_memory: Option<usize>) -> Piece {
        let (number, bytes_read) = (self.number, self.bytes_read);
        let value =
            self.within(max_memory).and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        Piece { value, line: number, bytes_read, number: None }
    }
}

/// The lines of a file that are not blank, or all.
pub(super) struct Lines<'f> {
    name: String,
    has_blank_ones: bool,
    bytes: Box<dyn BufRead + 'f>,
    number: u64,
    bytes_read: u64,
}

impl<'f> Lines<'f> {
    pub(super) fn new(file: SourceFile<'f>) -> Self {
        let name = file.name.clone();
        Lines { name, has_blank_ones: false, bytes: file.into_bytes(), number: 0, bytes_read: 0 }
    }

    pub(super) fn with_blank_ones(file: SourceFile<'f>) -> Self {
        Lines { has_blank_ones: true, ..Lines::new(file) }
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let read = self.bytes.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes_read += read as u64;
            let text = if bytes.len() as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
                self.bytes_read += self.bytes.skip_until(b'\n')? as u64;
                Err(format!("a line of more than {MAX_LINE_BYTES} bytes"))
            } else if !self.has_blank_ones && bytes.trim_ascii().is_empty() {
                continue;
            } else {
                String::from_utf8(bytes).map_err(|error| format!("not UTF-8: {error}"))
            };
            return Ok(Some(Line { text, number: self.number, bytes_read: self.bytes_read }));
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.next_line().transpose()?;
        Some(line.map_err(|error| Error::file(&self.name, self.number + 1, error.to_string())))
    }
}

/// The values of a file that follow each other, and the elements of its lists.
struct Values<'f> {
    name: String,
    bytes: Counted<'f>,
    max_memory: Option<usize>,
    /// Whether a list is one value.
    whole_lists: bool,
    messages: Option<MessageLists>,
    is_in_list: bool,
    number: u64,
    /// Whether a fault ended the file.
    has_ended: bool,
}

impl<'f> Values<'f> {
    fn new(file: SourceFile<'f>, shape: JsonShape, max_memory: Option<usize>) -> Self {
        let whole_lists = shape == JsonShape::Lists;
        let messages = match shape {
            JsonShape::Messages(needed) => Some(MessageLists::new(needed, max_memory)),
            _ => None,
        };
        let name = file.name.clone();
        let memory = ValueMemory::new(max_memory);
        let bytes = Counted { bytes: file.into_bytes(), line: 0, bytes_read: 0, memory };
        Values { name, bytes, max_memory, whole_lists, messages, is_in_list: false, number: 0, has_ended: false }
    }

    fn next_value(&mut self) -> std::result::Result<Option<Value>, String> {
        if let Some(messages) = &mut self.messages {
            return messages.next_value(&mut self.bytes);
        }
        loop {
            let Some(byte) = self.bytes.peek().map_err(|error| error.to_string())? else {
                return if self.is_in_list { Err("EOF while parsing a list".to_owned()) } else { Ok(None) };
            };
            match byte {
                b'[' if !self.is_in_list && !self.whole_lists => self.is_in_list = true,
                b']' if self.is_in_list => self.is_in_list = false,
                b',' if self.is_in_list => {}
                // serde_json reads no byte behind the end of these.
                b'{' | b'[' => break,
                _ => return Err("expected a JSON object or a list of them".to_owned()),
            }
            self.bytes.skip_byte();
        }
        self.bytes.memory = ValueMemory::new(self.max_memory);
        let value = Value::deserialize(&mut serde_json::Deserializer::from_reader(&mut self.bytes));
        let reason = |error: serde_json::Error| {
            let reason = error.to_string();
            // Its place counts from the beginning of the value.
            reason.split(" at line ").next().unwrap_or_default().to_owned()
        };
        value.map(Some).map_err(reason)
    }
}

impl Iterator for Values<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let value = self.next_value();
        let (line, bytes_read) = (self.bytes.line + 1, self.bytes.bytes_read);
        match value {
            Ok(None) => None,
            Ok(Some(value)) => {
                self.number += 1;
                Some(Ok(Piece { value: Ok(value), line, bytes_read, number: Some(self.number) }))
            }
            Err(reason) => {
                self.has_ended = true;
                Some(Err(Error::file(&self.name, line, reason)))
            }
        }
    }
}
