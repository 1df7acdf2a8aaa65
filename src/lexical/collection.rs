//! Counts of the documents of several indexes.

use std::collections::HashMap;

/// The documents of several indexes as one collection, by which the terms of a query weigh the same in all of them.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pub(super) documents: usize,
    pub(super) total_length: u64,
    /// For each term of the query, the number of documents that contain it.
    pub(super) frequencies: HashMap<u64, usize>,
}
