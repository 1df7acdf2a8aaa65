//! Where files come from: a path, or a stream.

use std::{
    fmt,
    fs::File,
    io::{BufRead, BufReader, Cursor, Read},
    path::Path,
};

use crate::error::{Error, Result};

/// The bytes of a file that are looked at to find out its format.
const HEAD_BYTES: u64 = 1 << 18;

/// A file, or several of which one is given.
pub struct Source<'s> {
    files: std::vec::IntoIter<SourceFile<'s>>,
}

impl<'s> Source<'s> {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> Result<Source<'static>> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::file(&name, 0, error.to_string()))?;
        Ok(Source::stream(&name, file))
    }

    /// Reads a stream, such as stdin, as one file of a name.
    pub fn stream(name: &str, bytes: impl Read + 's) -> Self {
        let file = SourceFile { name: name.to_owned(), head: None, rest: Box::new(bytes) };
        Source { files: vec![file].into_iter() }
    }

    /// Returns the next file, or `None` after the last.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn next_file(&mut self) -> Result<Option<SourceFile<'s>>> {
        Ok(self.files.next())
    }
}

/// A file that is read once, from its beginning to its end.
pub struct SourceFile<'s> {
    /// Its path, as the user knows it.
    pub name: String,
    head: Option<Vec<u8>>,
    rest: Box<dyn Read + 's>,
}

impl<'s> SourceFile<'s> {
    /// Returns the first bytes of the file, which are still read afterwards.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn head(&mut self) -> Result<&[u8]> {
        if self.head.is_none() {
            let mut head = Vec::new();
            let read = self.rest.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
            read.map_err(|error| Error::file(&self.name, 1, error.to_string()))?;
            self.head = Some(head);
        }
        Ok(self.head.as_deref().unwrap_or_default())
    }

    /// Returns all bytes of the file.
    pub(super) fn into_bytes(self) -> Box<dyn BufRead + 's> {
        let head = Cursor::new(self.head.unwrap_or_default());
        Box::new(BufReader::with_capacity(1 << 16, head.chain(self.rest)))
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.files.as_slice()).finish()
    }
}

impl fmt::Debug for SourceFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceFile").field(&self.name).finish()
    }
}
