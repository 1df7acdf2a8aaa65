//! Inner products of packed 4-bit codes with 8-bit queries.
//!
//! A plane packs 128 codes of 4 bits into each [`Line`]: byte `j` holds component `j` in its low half and component
//! `64 + j` in its high half. A query has two lines of signed bytes for each: components 0 to 63, and 64 to 127. The
//! result is exact, so every instruction set gives the same.

use super::Kernels;

/// A cache line, and where one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(in crate::index) struct Line<T = u8>(pub(in crate::index) [T; 64]);

/// Components that one line of a plane holds.
pub(in crate::index) const PER_LINE: usize = 128;

/// The inner products of a query with each of some rows. A row has half as many lines as the query.
pub(super) type CodeKernel = fn(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]);

impl Kernels {
    /// The inner product of `query` with each of `rows`, into `products`.
    ///
    /// # Panics
    /// If a row has not half as many lines as the query, or there are fewer products than rows.
    #[inline]
    pub(in crate::index) fn products(&self, query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
        assert!(rows.len() <= products.len(), "a product a row");
        assert!(rows.iter().all(|row| row.len() * 2 == query.len()), "codes of one index have one length");
        (self.codes)(query, rows, products);
    }
}

pub(super) fn scalar(query: &[Line<i8>], rows: &[&[Line]], products: &mut [i32]) {
    for (row, product) in rows.iter().zip(products) {
        *product = 0;
        for (line, query) in row.iter().zip(query.as_chunks::<2>().0) {
            for j in 0..64 {
                let (low, high) = (i32::from(line.0[j] & 15), i32::from(line.0[j] >> 4));
                *product += low * i32::from(query[0].0[j]) + high * i32::from(query[1].0[j]);
            }
        }
    }
}
