//! Bytes of JSON that are counted while they are read: their place, and the memory that their values take.

use std::io::{self, BufRead, Read};

/// The most bytes of one value, such as a conversation: a compressed file might never end.
const MAX_VALUE_BYTES: usize = 1 << 30;
/// The memory that an object or a list takes, and an element or a field of one, in bytes.
const COLLECTION_BYTES: usize = 640;
const ELEMENT_BYTES: usize = 32;

/// Bytes that are counted. serde_json asks for one at a time, so the position is that of the JSON that was parsed.
pub(super) struct Counted<'f> {
    pub(super) bytes: Box<dyn BufRead + 'f>,
    /// Number of line feeds.
    pub(super) line: u64,
    pub(super) bytes_read: u64,
    pub(super) memory: ValueMemory,
}

impl Counted<'_> {
    /// Skips white space, and returns the next byte without reading it.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.bytes.fill_buf()?.first().copied() {
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.line += u64::from(byte == b'\n');
                    self.skip_byte();
                }
                byte => return Ok(byte),
            }
        }
    }

    /// Returns the next byte, be it white space, without reading it.
    pub(super) fn next_byte(&mut self) -> io::Result<Option<u8>> {
        Ok(self.bytes.fill_buf()?.first().copied())
    }

    pub(super) fn skip_byte(&mut self) {
        self.bytes.consume(1);
        self.bytes_read += 1;
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(out)?;
        self.memory.take(&out[..read])?;
        self.bytes_read += read as u64;
        self.line += out[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(read)
    }
}

/// The memory that a value of JSON may still take, counted while its text is read: before memory is spent on it.
pub(super) struct ValueMemory {
    max: usize,
    left: usize,
    /// Whether objects, lists and their elements count, too.
    counts_collections: bool,
    is_in_text: bool,
    is_escaped: bool,
}

impl ValueMemory {
    pub(super) fn new(max_memory: Option<usize>) -> Self {
        let max = max_memory.unwrap_or(MAX_VALUE_BYTES);
        let counts_collections = max_memory.is_some();
        ValueMemory { max, left: max, counts_collections, is_in_text: false, is_escaped: false }
    }

    pub(super) fn taken(&self) -> usize {
        self.max - self.left
    }

    /// Counts a part of the text.
    ///
    /// # Errors
    /// The value would take more memory than it may.
    pub(super) fn take(&mut self, text: &[u8]) -> io::Result<()> {
        let mut taken = text.len();
        let counted = if self.counts_collections { text } else { &[] };
        for byte in counted {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                b'{' | b'[' if !self.is_in_text => taken += COLLECTION_BYTES,
                b',' if !self.is_in_text => taken += ELEMENT_BYTES,
                _ => {}
            }
        }
        let left = self.left.checked_sub(taken);
        self.left = left.ok_or_else(|| {
            io::Error::other(format!("a value that takes more than {} bytes of memory: divide the file", self.max))
        })?;
        Ok(())
    }
}

/// Bytes of one value of JSON, which may take so much memory.
pub(super) struct WithinMemory<R>(pub(super) R, pub(super) ValueMemory);

impl<R: Read> Read for WithinMemory<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(out)?;
        self.1.take(&out[..read])?;
        Ok(read)
    }
}
