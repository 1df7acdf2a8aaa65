//! The interface of all indexes.

use super::{SearchOptions, SearchResult, vector::dot};

/// An index over unit vectors of `f32` components, all of one dimension.
///
/// All methods take `&self`, and searches run beside inserts.
pub trait VectorIndex: Send + Sync {
    /// Inserts vectors at the given rows. `vectors` holds `rows.len()` times the dimension components, one vector after
    /// the other. Each row is either the next row number or a row that was removed.
    ///
    /// # Panics
    /// If `vectors` has another length or a component that is not finite, or if a row is neither the next one nor
    /// removed.
    fn insert(&self, rows: &[u32], vectors: &[f32]);

    /// Removes rows. Unknown rows are ignored.
    fn remove(&self, rows: &[u32]);

    /// Returns the rows nearest to `query`, which has the dimension of the index.
    ///
    /// # Panics
    /// If `query` has another dimension.
    fn search(&self, query: &[f32], search: &SearchOptions) -> SearchResult;

    /// Calls `visit` with the position in `rows` and the vector of each of these rows, in order, and skips the rows
    /// that were removed. An index that keeps only codes decodes them: a vector is within about 1 % of its length
    /// of the inserted one.
    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32]));

    /// Calls `visit` with the position in `rows` and the inner product with `query` of each of these rows, in order, and
    /// skips the rows that were removed. `query` has the dimension of the index. The default computes them from
    /// [`vectors`](Self::vectors).
    fn products(&self, query: &[f32], rows: &[u32], visit: &mut dyn FnMut(usize, f32)) {
        self.vectors(rows, &mut |position, row| visit(position, dot(query, row)));
    }

    /// Returns the next row number: the number of rows that were inserted, including those removed since.
    fn rows(&self) -> usize;

    /// Returns true if a search computes the score of each allowed row with its vector, so that it costs no less than
    /// reading all vectors. The default returns false.
    fn is_exact(&self) -> bool {
        false
    }

    /// Returns the bytes of memory that the index takes, approximately. The default returns 0.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Does one step of the work that makes later searches faster, such as linking new rows. Returns true if there is
    /// more to do. The default does nothing.
    fn improve(&self) -> bool {
        false
    }
}
