//! The original vectors of an index, with 32 or 16 bits a component.

use half::{f16, slice::HalfFloatSliceExt};

use super::row_table::RowTable;
use crate::distance::{Kernels, prefetch};

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

    /// Returns the number of rows.
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

    /// Returns the inner product of a query and a row.
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
