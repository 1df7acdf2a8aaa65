//! A planned change of the graph.

/// A change of the graph: the rows that come in, the rows that leave, and the lists of links that change. Applying a
/// delta again changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Rows that come into the graph, with their levels.
    pub(super) levels: Vec<(u32, u8)>,
    /// The changed lists, as they are after the change.
    pub(super) lists: Vec<List>,
    /// Rows that leave the graph, and may be reused afterwards.
    pub(super) cleared: Vec<u32>,
}

/// The links of a row on a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) row: u32,
    pub(super) layer: u8,
    pub(super) links: Vec<u32>,
}

impl Delta {
    /// Returns the number of rows that come into the graph.
    pub fn added(&self) -> usize {
        self.levels.len()
    }

    /// Returns the rows that may be reused after the change.
    pub fn freed(&self) -> &[u32] {
        &self.cleared
    }
}
