//! Growing tables of rows: [`RowTable`], of which the others are made, and [`VectorTable`], the original vectors of an
//! index with 32 or 16 bits a component.

use half::{f16, slice::HalfFloatSliceExt};

use crate::distance::{Kernels, prefer_huge_pages, prefetch};

/// Rows in one allocation. An allocation takes tens of megabytes, of which only the used pages are resident.
pub(super) const CHUNK_ROWS: usize = 1 << 16;

/// Number of rows up to which the first allocation grows as needed, because most namespaces are small.
const FEW_ROWS: usize = 4096;

/// A table of rows of `width` values each. Above [`FEW_ROWS`], growing never moves the rows.
#[derive(Debug)]
pub(super) struct RowTable<T> {
    width: usize,
    rows: usize,
    chunks: Vec<Vec<T>>,
}

impl<T: Copy> RowTable<T> {
    pub(super) fn new(width: usize) -> Self {
        RowTable { width, rows: 0, chunks: Vec::new() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    #[inline]
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

    pub(super) fn push(&mut self, row: &[T]) {
        assert_eq!(row.len(), self.width, "all rows of a table have one width");
        self.last_chunk().extend_from_slice(row);
        self.rows += 1;
    }

    /// Appends a row whose values are all `value`.
    pub(super) fn push_filled(&mut self, value: T) {
        let width = self.width;
        self.last_chunk().extend(std::iter::repeat_n(value, width));
        self.rows += 1;
    }

    /// Appends the rows of another table. The rows that are here must fill their chunks.
    pub(super) fn append(&mut self, mut other: RowTable<T>) {
        assert!(self.rows.is_multiple_of(CHUNK_ROWS) && self.width == other.width, "tables are joined at their chunks");
        if self.rows > 0
            && let Some(last) = other.chunks.last_mut()
        {
            last.reserve_exact(CHUNK_ROWS * self.width - last.len());
        }
        self.chunks.append(&mut other.chunks);
        self.rows += other.rows;
    }

    /// Returns the chunk that the next row is appended to.
    fn last_chunk(&mut self) -> &mut Vec<T> {
        if self.rows.is_multiple_of(CHUNK_ROWS) {
            self.chunks.push(Vec::new());
        }
        let chunk = self.chunks.last_mut().expect("a chunk was pushed for the first row");
        let is_large = if self.rows < CHUNK_ROWS { self.rows == FEW_ROWS } else { chunk.is_empty() };
        if is_large {
            chunk.reserve_exact(CHUNK_ROWS * self.width - chunk.len());
            prefer_huge_pages(chunk);
        }
        chunk
    }

    /// Returns the bytes of memory that the table takes. Pages of a large allocation that were never used are not
    /// resident, and do not count.
    pub(super) fn memory_bytes(&self) -> usize {
        let used = |chunk: &Vec<T>| if self.rows > FEW_ROWS { chunk.len() } else { chunk.capacity() };
        self.chunks.iter().map(used).sum::<usize>() * size_of::<T>()
    }

    /// Overwrites a row, or appends it if it is the next one.
    pub(super) fn put(&mut self, row: u32, values: &[T]) {
        if row as usize == self.rows {
            self.push(values);
        } else {
            self.row_mut(row).copy_from_slice(values);
        }
    }
}

/// A growing table of vectors of one dimension.
#[derive(Debug)]
pub(super) enum VectorTable {
    F32(RowTable<f32>),
    F16(RowTable<f16>),
}

impl VectorTable {
    pub(super) fn new(dimension: usize, half_precision: bool) -> Self {
        match half_precision {
            false => VectorTable::F32(RowTable::new(dimension)),
            true => VectorTable::F16(RowTable::new(dimension)),
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            VectorTable::F32(rows) => rows.rows(),
            VectorTable::F16(rows) => rows.rows(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            VectorTable::F32(rows) => rows.memory_bytes(),
            VectorTable::F16(rows) => rows.memory_bytes(),
        }
    }

    /// Appends the rows of another table of the same precision, as [`RowTable::append`] does.
    pub(super) fn append(&mut self, other: VectorTable) {
        match (self, other) {
            (VectorTable::F32(rows), VectorTable::F32(other)) => rows.append(other),
            (VectorTable::F16(rows), VectorTable::F16(other)) => rows.append(other),
            _ => panic!("tables of two precisions are not joined"),
        }
    }

    /// Overwrites a row, or appends it if it is the next one. Components that do not fit 16 bits are rounded.
    pub(super) fn put(&mut self, row: u32, vector: &[f32]) {
        match self {
            VectorTable::F32(rows) => rows.put(row, vector),
            VectorTable::F16(rows) => {
                if row as usize == rows.rows() {
                    rows.push_filled(f16::ZERO);
                }
                rows.row_mut(row).convert_from_f32_slice(vector);
            }
        }
    }

    /// Returns the vector of a row; `decoded` has it if it is not stored with 32 bits.
    pub(super) fn row<'a>(&'a self, row: u32, decoded: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            VectorTable::F32(rows) => rows.row(row),
            VectorTable::F16(rows) => {
                decoded.resize(rows.width(), 0.0);
                rows.row(row).convert_to_f32_slice(decoded);
                decoded
            }
        }
    }

    #[inline]
    pub(super) fn dot(&self, kernels: &Kernels, query: &[f32], row: u32) -> f32 {
        match self {
            VectorTable::F32(rows) => kernels.dot(query, rows.row(row)),
            VectorTable::F16(rows) => kernels.dot_half(query, rows.row(row)),
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, row: u32) {
        match self {
            VectorTable::F32(rows) => prefetch(rows.row(row)),
            VectorTable::F16(rows) => prefetch(rows.row(row)),
        }
    }
}
