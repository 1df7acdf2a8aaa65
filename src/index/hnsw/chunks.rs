//! A growing table of rows of one width, which never moves what it holds.

use crate::index::distance::prefer_huge_pages;

/// Rows of one allocation: tens of megabytes, of which only what is used is resident.
const CHUNK_ROWS: usize = 1 << 16;

/// Rows up to which the first allocation grows as needed: most namespaces are small.
const FEW_ROWS: usize = 4096;

#[derive(Debug)]
pub(super) struct Chunks<T> {
    width: usize,
    rows: usize,
    chunks: Vec<Vec<T>>,
}

impl<T: Copy> Chunks<T> {
    pub(super) fn new(width: usize) -> Self {
        Chunks { width, rows: 0, chunks: Vec::new() }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub(super) fn row(&self, row: u32) -> &[T] {
        let begin = row as usize % CHUNK_ROWS * self.width;
        &self.chunks[row as usize / CHUNK_ROWS][begin..begin + self.width]
    }

    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: u32) -> &mut [T] {
        let begin = row as usize % CHUNK_ROWS * self.width;
        &mut self.chunks[row as usize / CHUNK_ROWS][begin..begin + self.width]
    }

    /// Adds a row at the end.
    pub(super) fn push(&mut self, row: &[T]) {
        assert_eq!(row.len(), self.width, "rows have one width");
        self.last_chunk().extend_from_slice(row);
        self.rows += 1;
    }

    /// Adds a row of one value at the end.
    pub(super) fn push_default(&mut self, value: T) {
        let width = self.width;
        self.last_chunk().extend(std::iter::repeat_n(value, width));
        self.rows += 1;
    }

    /// Where the next row goes.
    fn last_chunk(&mut self) -> &mut Vec<T> {
        if self.rows.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Vec::new());
        }
        let chunk = self.chunks.last_mut().expect("just pushed");
        let is_large = if self.rows < CHUNK_ROWS { self.rows == FEW_ROWS } else { chunk.is_empty() };
        if is_large {
            chunk.reserve_exact(CHUNK_ROWS * self.width - chunk.len());
            prefer_huge_pages(chunk);
        }
        chunk
    }

    /// Puts a row at the end, or in the place of an old one.
    pub(super) fn put(&mut self, row: u32, values: &[T]) {
        if row as usize == self.rows {
            self.push(values);
        } else {
            self.row_mut(row).copy_from_slice(values);
        }
    }
}
