//! The stored vectors of candidates, by which near-duplicates and diverse hits are found.
//!
//! Few of them are needed as a rule, so they are read one by one, after the index was searched.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::{namespace::NamespaceIndex, rank::Ranked};

/// The stored vectors of candidates.
pub(super) enum CandidateVectors<'s> {
    /// Those in an index, as long as it reuses no more rows than it had when it was searched.
    InIndex { index: &'s RwLock<NamespaceIndex>, rows_reused: u64 },
    /// Those of several namespaces, by origin and row.
    Copied(HashMap<(u32, u32), Vec<f32>>),
}

impl CandidateVectors<'_> {
    /// Returns the vector of a candidate. Empty if it has none, or if the row was removed since or its number reused.
    pub(super) fn of(&self, candidate: &Ranked) -> Vec<f32> {
        let Some(row) = candidate.row else { return Vec::new() };
        match self {
            CandidateVectors::InIndex { index, rows_reused } => {
                let index = index.read();
                if index.rows_reused == *rows_reused { index.row_vector(row) } else { Vec::new() }
            }
            CandidateVectors::Copied(vectors) => vectors.get(&(candidate.origin, row)).cloned().unwrap_or_default(),
        }
    }
}
