//! Vectors that are kept outside of the index.

/// A source of the original vectors, for an index that keeps only codes.
pub trait Originals: Send + Sync {
    /// Calls `visit` with the position in `rows` and the vector of each row that can be read.
    fn read(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32]));
}
