//! Rebuilds an index from its stored rows, pages of links, and the deltas that came after the pages.

use std::{fmt, sync::Arc};

use super::{
    HnswIndex, HnswOptions, Originals,
    encoding::{decode_delta, decode_page, peek_m},
    graph::Graph,
    links::Links,
    neighbor_codes::NeighborCodes,
    row_table::CHUNK_ROWS,
};
use crate::{Damaged, Result};

/// An index that is being loaded: first all rows, then all pages, then all deltas, in the order in which they were
/// stored.
///
/// Rows may be loaded in parts, by several threads: [`part`](Self::part) makes one, of [`PART_ROWS`](Self::PART_ROWS) rows
/// except the last, and [`append`](Self::append) joins them in order.
pub struct Loader {
    graph: Graph,
    options: HnswOptions,
    /// Rows are coded as they come, because they are enough for a graph.
    encodes: bool,
    originals: Option<Arc<dyn Originals>>,
    /// Whether a page or a delta was read.
    has_parts: bool,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Loader {
    /// Begins to load an index of about `live_count` live rows. With `originals`, the index keeps no vectors once there
    /// is a graph, and reads them from there.
    pub fn new(
        dimension: usize,
        live_count: usize,
        options: HnswOptions,
        originals: Option<Arc<dyn Originals>>,
    ) -> Self {
        // The codes of neighbors are computed at the end.
        let mut graph = Graph::new(dimension, &HnswOptions { neighbor_codes: false, ..options });
        let encodes = live_count > options.graph_above;
        if encodes && originals.is_some() {
            graph.originals = None;
        }
        Loader { graph, options, encodes, originals, has_parts: false }
    }

    /// Number of rows of a part.
    pub const PART_ROWS: usize = CHUNK_ROWS;

    /// Begins to load a part of the rows of this index.
    pub fn part(&self) -> Loader {
        let live_count = if self.encodes { usize::MAX } else { 0 };
        Loader::new(self.graph.dimension, live_count, self.options, self.originals.clone())
    }

    /// Appends the rows of a part.
    ///
    /// # Panics
    /// If a part before it has not exactly [`PART_ROWS`](Self::PART_ROWS) rows.
    pub fn append(&mut self, part: Loader) {
        let first = self.graph.rows as u32;
        self.graph.codes.append(part.graph.codes);
        if let (Some(originals), Some(more)) = (&mut self.graph.originals, part.graph.originals) {
            originals.append(more);
        }
        self.graph.rows += part.graph.rows;
        part.graph.live.iter().for_each(|row| self.graph.make_live(first + row));
    }

    /// Adds the next row, whose components are finite; `None` for a row that was removed.
    pub fn row(&mut self, vector: Option<&[f32]>) {
        let Loader { graph, encodes, .. } = self;
        let row = graph.rows as u32;
        let zeros = if vector.is_none() { vec![0.0; graph.dimension] } else { Vec::new() };
        if let Some(originals) = &mut graph.originals {
            originals.put(row, vector.unwrap_or(&zeros));
        }
        if *encodes {
            graph.codes.put(row, vector.unwrap_or(&zeros));
        }
        match vector {
            Some(_) => graph.make_live(row),
            None => graph.rows += 1,
        }
    }

    /// Adds a page of links.
    ///
    /// # Errors
    /// [`Damaged`] if the bytes are not a page of this graph.
    pub fn page(&mut self, page: u32, bytes: &[u8]) -> Result<()> {
        self.begin(bytes)?;
        decode_page(&mut self.graph.links, page, bytes)
    }

    /// Applies a stored delta. Pages that already contain its change stay the same.
    ///
    /// # Errors
    /// [`Damaged`] if the bytes are not a delta of this graph.
    pub fn delta(&mut self, bytes: &[u8]) -> Result<()> {
        self.begin(bytes)?;
        let (m, delta) = decode_delta(bytes, self.graph.rows)?;
        if m != self.graph.links.m() {
            return Err(Damaged("a stored change of a graph belongs to another graph"));
        }
        self.graph.apply(&delta);
        Ok(())
    }

    /// Checks the links of all parts together, after the last one.
    ///
    /// # Errors
    /// [`Damaged`] if the links to parents make no trees: changes of the graph walk along them.
    pub fn check_parents(&self) -> Result<()> {
        match self.graph.links.parents_make_trees() {
            true => Ok(()),
            false => Err(Damaged("the links of a stored graph do not lead to its root")),
        }
    }

    /// Drops all links that were read, so that all rows are linked again.
    pub fn forget_parts(&mut self) {
        self.has_parts = false;
        self.graph.links = Links::new(self.options.m);
        self.graph.links.grow(self.graph.codes.rows());
        self.graph.changed_pages.clear();
        // The deltas that were applied took the rows that they linked out of the tail.
        self.graph.tail = self.graph.live.clone();
    }

    /// Completes the index. `free` are the removed rows that no link leads to.
    pub fn finish(mut self, free: &[u32]) -> HnswIndex {
        let graph = &mut self.graph;
        if self.has_parts || graph.live.count() > self.options.graph_above {
            graph.encode();
        }
        if self.originals.is_some() && graph.has_codes() {
            graph.originals = None;
        }
        for row in 0..graph.rows as u32 {
            if graph.live.contains(row) {
                // A delta may have unlinked the removed row that had this number before.
                match graph.links.has(row) {
                    true => graph.tail.remove(row),
                    false => graph.tail.insert(row),
                };
            } else if self.has_parts {
                graph.removed.insert(row);
            }
        }
        for &row in free.iter().filter(|&&row| !graph.links.has(row)) {
            graph.removed.remove(row);
        }
        // A removed row has lost its vector. The code of a neighbor stands in for it, so that searches can pass through
        // the row until it is unlinked.
        let linked: Vec<u32> = graph.removed.iter().filter(|&row| graph.links.has(row)).collect();
        for row in linked {
            let live = graph.links.of(row, 0).iter().copied().find(|&link| graph.live.contains(link));
            if let Some(link) = live {
                graph.codes.copy(link, row);
            }
        }
        let m = self.graph.links.m();
        if self.options.neighbor_codes {
            let capacity = self.graph.links.capacity(0);
            self.graph.neighbor_codes = Some(NeighborCodes::new(self.graph.codes.lines(), capacity));
            self.graph.grow_links();
        }
        let index = HnswIndex::with_graph(self.graph, HnswOptions { m, ..self.options }, self.originals);
        index.set_stored(self.has_parts);
        index
    }

    /// Prepares the graph for its first page or delta, which contains `m`: a graph keeps the `m` that it was begun
    /// with.
    fn begin(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.has_parts {
            self.has_parts = true;
            self.graph.links = Links::new(peek_m(bytes)?);
            self.graph.encode();
            self.graph.links.grow(self.graph.rows);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        SearchOptions, VectorIndex,
        hnsw::links::{Delta, List},
    };

    const OPTIONS: HnswOptions =
        HnswOptions { m: 4, ef_construction: 16, graph_above: 0, neighbor_codes: false, half_precision: false };

    fn vector(row: u32) -> [f32; 2] {
        let (y, x) = (row as f32 * 0.01).sin_cos();
        [x, y]
    }

    /// Loads an index from these deltas, followed by one that cannot be decoded.
    fn load_broken(rows: u32, changes: &[Vec<u8>]) -> HnswIndex {
        let mut loader = Loader::new(2, rows as usize, OPTIONS, None);
        (0..rows).for_each(|row| loader.row(Some(&vector(row))));
        changes.iter().for_each(|bytes| loader.delta(bytes).unwrap());
        assert!(loader.delta(&[]).is_err());
        loader.forget_parts();
        loader.finish(&[])
    }

    fn changes(rows: u32) -> Vec<Vec<u8>> {
        let index = HnswIndex::new(2, OPTIONS);
        (0..rows).for_each(|row| index.insert(&[row], &vector(row)));
        let mut changes = Vec::new();
        while let Some(delta) = index.plan_step(&index.lock_planning(), true) {
            changes.push(index.encode(&delta));
            index.apply(&delta);
        }
        changes
    }

    #[test]
    fn rows_that_were_linked_by_deltas_before_a_broken_one_are_linked_again() {
        let index = load_broken(200, &changes(200));
        assert_eq!(index.counts(), (200, 0));
        while index.improve() {}
        assert_eq!((index.counts(), index.check()), ((200, 200), vec![]));
        for row in 0..200 {
            assert_eq!(index.search(&vector(row), &SearchOptions::new(1)).neighbors[0].row, row);
        }
    }

    /// The rows of a commit are planned before the commit is done, and it may fail.
    #[test]
    fn a_page_has_no_rows_that_were_never_committed() {
        let index = HnswIndex::new(2, OPTIONS);
        (0..100).for_each(|row| index.insert(&[row], &vector(row)));
        while index.improve() {}
        assert!(index.plan_new(&index.lock_planning(), &[100, 101], &[vector(100), vector(101)].concat()).is_some());
        let mut loader = Loader::new(2, 100, OPTIONS, None);
        (0..100).for_each(|row| loader.row(Some(&vector(row))));
        loader.page(0, &index.page(0)).unwrap();
        let loaded = loader.finish(&[]);
        assert_eq!((loaded.counts(), loaded.check()), ((100, 100), vec![]));
    }

    /// A walk from parent to parent would never end. Each list alone is sound.
    #[test]
    fn parents_in_a_circle_are_refused() {
        let index = HnswIndex::new(2, OPTIONS);
        for (parents, is_sound) in [([0, 0, 1], true), ([1, 1, 1], true), ([1, 2, 0], false), ([0, 2, 1], false)] {
            let mut delta = Delta::default();
            for (row, parent) in (0..).zip(parents) {
                delta.levels.push((row, 0));
                delta.lists.push(List { row, layer: 0, links: vec![parent] });
            }
            let mut loader = Loader::new(2, 3, OPTIONS, None);
            (0..3).for_each(|row| loader.row(Some(&vector(row))));
            loader.delta(&index.encode(&delta)).unwrap();
            assert_eq!(loader.check_parents().is_ok(), is_sound, "{parents:?}");
        }
    }

    /// A broken graph is deleted from the store, which makes all removed rows free.
    #[test]
    fn rows_that_became_free_with_a_broken_graph_are_not_freed_again() {
        let index = load_broken(200, &changes(200));
        index.set_stored(true);
        index.remove(&[3, 4, 5, 6, 7]);
        index.set_stored(false);
        index.insert(&[3, 4], &[vector(3), vector(4)].concat());
        index.set_stored(true);
        while let Some(delta) = index.plan_step(&index.lock_planning(), true) {
            assert_eq!(delta.freed(), [0; 0], "these rows are free already, and may be in use");
            index.apply(&delta);
        }
        assert_eq!((index.counts(), index.check()), ((197, 197), vec![]));
    }
}
