//! Putting an index together again from what is stored: rows, pages of links, and the changes since.

use std::sync::Arc;

use super::{
    HnswIndex, HnswOptions, Originals,
    delta::{Delta, decode_page, peek_m},
    graph::Graph,
    links::Links,
};
use crate::error::{Error, Result};

pub(crate) struct Loader {
    graph: Graph,
    options: HnswOptions,
    source: Option<Arc<dyn Originals>>,
    has_parts: bool,
}

impl Loader {
    /// Of about `alive` rows that are alive. If there is a `source`, it is asked for vectors once there is a graph, and they are not kept.
    pub(crate) fn new(
        dimension: usize,
        alive: usize,
        options: HnswOptions,
        source: Option<Arc<dyn Originals>>,
    ) -> Self {
        let mut graph = Graph::new(dimension, options.m, options.ef_construction);
        if alive > options.graph_above && source.is_some() {
            graph.originals = None;
        }
        Loader { graph, options, source, has_parts: false }
    }

    /// Adds the next row, of finite components; `None` was removed.
    pub(crate) fn row(&mut self, vector: Option<&[f32]>) {
        let row = self.graph.rows as u32;
        match vector {
            Some(vector) => {
                self.graph.write(row, vector);
                self.graph.enliven(row);
            }
            None => {
                let zeros = vec![0.0; self.graph.dimension];
                self.graph.write(row, &zeros);
                self.graph.rows += 1;
            }
        }
    }

    /// Adds a page of links, after all rows.
    pub(crate) fn page(&mut self, page: u32, bytes: &[u8]) -> Result<()> {
        self.begin(bytes)?;
        decode_page(&mut self.graph.links, page, bytes)
    }

    /// Makes a change again, after all pages.
    pub(crate) fn delta(&mut self, bytes: &[u8]) -> Result<()> {
        self.begin(bytes)?;
        let (m, delta) = Delta::decode(bytes, self.graph.rows)?;
        if m != self.graph.links.m() {
            return Err(Error::corrupted("a change of the graph is of another graph"));
        }
        self.graph.apply(&delta);
        Ok(())
    }

    /// Forgets what was read of links: all rows are to be linked again.
    pub(crate) fn forget_parts(&mut self) {
        self.has_parts = false;
        self.graph.links = Links::new(self.options.m);
        self.graph.links.grow(self.graph.codes.rows());
        self.graph.changed_pages.clear();
        // Changes that were made took the rows they linked out of it.
        self.graph.tail = self.graph.alive.clone();
    }

    /// `free` are the removed rows that nothing links to.
    pub(crate) fn finish(mut self, free: &[u32]) -> HnswIndex {
        let graph = &mut self.graph;
        if self.has_parts || graph.alive.count() > self.options.graph_above {
            graph.encode();
        }
        if self.source.is_some() && graph.has_codes() {
            graph.originals = None;
        }
        for row in 0..graph.rows as u32 {
            if graph.alive.contains(row) {
                // A change may have taken out what had the number before.
                match graph.links.has(row) {
                    true => graph.tail.remove(row),
                    false => graph.tail.insert(row),
                };
            } else if self.has_parts {
                graph.dead.insert(row);
            }
        }
        for &row in free.iter().filter(|&&row| !graph.links.has(row)) {
            graph.dead.remove(row);
        }
        // A removed row has no vector any more. That of a neighbor stands in for it, so that searches go through it until it
        // is unlinked.
        let linked: Vec<u32> = graph.dead.iter().filter(|&row| graph.links.has(row)).collect();
        for row in linked {
            let alive = graph.links.of(row, 0).iter().copied().find(|&link| graph.alive.contains(link));
            if let Some(link) = alive {
                graph.codes.copy(link, row);
            }
        }
        let m = self.graph.links.m();
        let index = HnswIndex::with(self.graph, HnswOptions { m, ..self.options }, self.source);
        index.set_stored(self.has_parts);
        index
    }

    /// The first part says how many links a row has: a graph keeps the number that it was begun with.
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
    use crate::index::{Search, VectorIndex};

    const OPTIONS: HnswOptions = HnswOptions { m: 4, ef_construction: 16, graph_above: 0 };

    fn vector(row: u32) -> [f32; 2] {
        let (y, x) = (row as f32 * 0.01).sin_cos();
        [x, y]
    }

    /// With these changes, as they were stored, and then some that cannot be read.
    fn broken(rows: u32, changes: &[Vec<u8>]) -> HnswIndex {
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
        while let Some(delta) = index.plan_step(&index.wait_to_plan(), true) {
            changes.push(index.encode(&delta));
            index.apply(&delta);
        }
        changes
    }

    #[test]
    fn what_changes_linked_before_a_broken_one_is_linked_again() {
        let index = broken(200, &changes(200));
        assert_eq!(index.counts(), (200, 0));
        while index.improve() {}
        assert_eq!((index.counts(), index.check()), ((200, 200), vec![]));
        for row in 0..200 {
            assert_eq!(index.search(&vector(row), &Search::new(1)).neighbors[0].row, row);
        }
    }

    /// Rows that a commit links are planned before it is done, and it may fail.
    #[test]
    fn a_page_has_no_rows_that_were_never_committed() {
        let index = HnswIndex::new(2, OPTIONS);
        (0..100).for_each(|row| index.insert(&[row], &vector(row)));
        while index.improve() {}
        assert!(index.plan_new(&index.wait_to_plan(), &[100, 101], &[vector(100), vector(101)].concat()).is_some());
        let mut loader = Loader::new(2, 100, OPTIONS, None);
        (0..100).for_each(|row| loader.row(Some(&vector(row))));
        loader.page(0, &index.page(0)).unwrap();
        let loaded = loader.finish(&[]);
        assert_eq!((loaded.counts(), loaded.check()), ((100, 100), vec![]));
    }

    /// A graph that is broken is deleted from the store, which makes all dead rows free.
    #[test]
    fn rows_that_were_removed_before_a_broken_graph_was_deleted_are_not_freed_when_they_are_in_use() {
        let index = broken(200, &changes(200));
        index.set_stored(true);
        index.remove(&[3, 4, 5, 6, 7]);
        index.set_stored(false);
        index.insert(&[3, 4], &[vector(3), vector(4)].concat());
        index.set_stored(true);
        while let Some(delta) = index.plan_step(&index.wait_to_plan(), true) {
            assert_eq!(delta.freed(), [0; 0], "they are free already, and may be in use");
            index.apply(&delta);
        }
        assert_eq!((index.counts(), index.check()), ((197, 197), vec![]));
    }
}
