//! The state of an index: vectors, codes, links, and the sets of rows; and the check of its invariants.

use std::collections::BTreeSet;

use super::{
    HnswOptions,
    codes::Codes,
    encoding::rows_per_page,
    links::{Delta, Links, List},
    neighbor_codes::NeighborCodes,
    row_table::VectorTable,
};
use crate::Bitmap;

/// Removed rows are unlinked when they exceed the linked rows divided by this number, because finding the links that
/// lead to them is a pass over all links.
const REPAIR_DIVISOR: usize = 64;

/// A graph, the vectors that it links, and the rows that are not linked yet.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) dimension: usize,
    pub(super) ef_construction: usize,
    /// The codes of every row once there is a graph; empty before.
    pub(super) codes: Codes,
    /// The original vectors, unless they are read from a source outside of the index.
    pub(super) originals: Option<VectorTable>,
    pub(super) links: Links,
    /// The codes of each row's neighbors, if the options ask for them.
    pub(super) neighbor_codes: Option<NeighborCodes>,
    /// The number of the next row.
    pub(super) rows: usize,
    /// Rows that searches may return.
    pub(super) live: Bitmap,
    /// Live rows that are not linked. Searches scan them.
    pub(super) tail: Bitmap,
    /// Removed rows that links may still lead to. They must not be reused before a delta unlinks them.
    pub(super) removed: Bitmap,
    /// Pages of links that differ from the stored ones.
    pub(super) changed_pages: BTreeSet<u32>,
}

impl Graph {
    pub(super) fn memory_bytes(&self) -> usize {
        let rows = [&self.live, &self.tail, &self.removed].map(Bitmap::memory_bytes).iter().sum::<usize>();
        let neighbor_codes = self.neighbor_codes.as_ref().map_or(0, NeighborCodes::memory_bytes);
        let originals = self.originals.as_ref().map_or(0, VectorTable::memory_bytes);
        self.codes.memory_bytes() + originals + self.links.memory_bytes() + neighbor_codes + rows
    }

    pub(super) fn new(dimension: usize, options: &HnswOptions) -> Self {
        let (codes, links) = (Codes::new(dimension), Links::new(options.m));
        let neighbor_codes = options.neighbor_codes.then(|| NeighborCodes::new(codes.lines(), links.capacity(0)));
        Graph {
            dimension,
            ef_construction: options.ef_construction,
            codes,
            originals: Some(VectorTable::new(dimension, options.half_precision)),
            links,
            neighbor_codes,
            rows: 0,
            live: Bitmap::default(),
            tail: Bitmap::default(),
            removed: Bitmap::default(),
            changed_pages: BTreeSet::new(),
        }
    }

    #[inline]
    pub(super) fn has_codes(&self) -> bool {
        self.codes.rows() > 0
    }

    /// Returns true if there are rows to link, or removed rows to unlink: any if `is_thorough`, else enough to be worth a
    /// pass.
    pub(super) fn has_links_to_change(&self, is_thorough: bool) -> bool {
        let removed = self.removed.count();
        let is_enough = is_thorough || removed > self.links.count() / REPAIR_DIVISOR;
        self.has_codes() && (self.tail.count() > 0 || (removed > 0 && is_enough))
    }

    /// Returns true if there are links to change or codes of neighbors to compute.
    pub(super) fn has_work(&self, is_thorough: bool) -> bool {
        self.has_links_to_change(is_thorough) || self.has_stale_codes()
    }

    /// Returns true if codes of neighbors can be computed. They wait until all rows are linked, because linking changes
    /// many of them again.
    pub(super) fn has_stale_codes(&self) -> bool {
        self.links.count() > 0
            && self.tail.count() == 0
            && self.neighbor_codes.as_ref().is_some_and(NeighborCodes::has_stale)
    }

    /// Encodes all rows that have no codes yet, and makes room for their links.
    pub(super) fn encode(&mut self) {
        if let Some(originals) = &self.originals {
            let mut decoded = Vec::new();
            for row in self.codes.rows() as u32..originals.rows() as u32 {
                self.codes.put(row, originals.row(row, &mut decoded));
            }
        }
        self.grow_links();
    }

    pub(super) fn grow_links(&mut self) {
        self.links.grow(self.codes.rows());
        if let Some(neighbor_codes) = &mut self.neighbor_codes {
            neighbor_codes.grow(self.codes.rows());
        }
    }

    /// Writes the vector of a row, over an old one if there is one. Searches find the row only once it is live.
    pub(super) fn write(&mut self, row: u32, vector: &[f32]) {
        if let Some(originals) = &mut self.originals {
            originals.put(row, vector);
        }
        if self.originals.is_none() || self.has_codes() {
            self.codes.put(row, vector);
            self.grow_links();
        }
    }

    /// Makes a written row live.
    pub(super) fn make_live(&mut self, row: u32) {
        assert!(self.live.insert(row), "row {row} is in use");
        self.rows = self.rows.max(row as usize + 1);
        self.removed.remove(row);
        if !self.links.has(row) {
            self.tail.insert(row);
        }
    }

    /// Removes a row from the live rows. If it `is_reserved`, links may lead to the row, and it must not be reused yet.
    pub(super) fn remove(&mut self, row: u32, is_reserved: bool) {
        if self.live.remove(row) {
            self.tail.remove(row);
            if is_reserved {
                self.removed.insert(row);
            }
        }
    }

    /// Applies a delta in one go.
    pub(super) fn apply(&mut self, delta: &Delta) {
        self.begin(delta);
        self.set_lists(&delta.lists);
        self.end(delta);
    }

    /// Does the first part of a delta: adds the new rows, which no link leads to yet.
    pub(super) fn begin(&mut self, delta: &Delta) {
        let per_page = rows_per_page(self.links.m()) as u32;
        let rows = delta.cleared.iter().copied().chain(delta.levels.iter().map(|(row, _)| *row));
        self.changed_pages.extend(rows.chain(delta.lists.iter().map(|list| list.row)).map(|row| row / per_page));
        delta.levels.iter().for_each(|&(row, level)| self.links.add(row, level));
    }

    /// Does the second part: sets lists of links. Until all lists of the delta are set, the new rows are in the tail as
    /// well, and the rows that leave are still in the graph.
    pub(super) fn set_lists(&mut self, lists: &[List]) {
        for list in lists {
            self.links.set(list.row, list.layer, &list.links);
            if list.layer == 0
                && let Some(neighbor_codes) = &mut self.neighbor_codes
            {
                neighbor_codes.mark_stale(list.row);
            }
        }
    }

    /// Does the last part: new rows leave the tail, and rows that no link leads to any more leave the graph.
    pub(super) fn end(&mut self, delta: &Delta) {
        for &(row, _) in &delta.levels {
            self.links.raise_entry(row);
            self.tail.remove(row);
        }
        for &row in &delta.cleared {
            self.links.remove(row);
            self.removed.remove(row);
        }
    }
}

/// Describes each violated invariant in a line; a sound graph gives none. Every link leads to another row of the graph
/// that is on the same layer, and no list has a link twice; parents and children link to each other, and there is one
/// root; and every row is reachable from the entry.
pub(super) fn check(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    let links = &graph.links;
    let mut roots = 0;
    for row in (0..links.rows() as u32).filter(|&row| links.has(row)) {
        for (layer, list) in links.lists(row) {
            for (i, &link) in list.iter().enumerate() {
                if links.level(link).is_none_or(|level| level < layer) {
                    problems
                        .push(format!("row {row} links on layer {layer} to row {link}, which is not on that layer"));
                } else if list[..i].contains(&link) || (link == row && (layer, i) != (0, 0)) {
                    problems.push(format!("row {row} links on layer {layer} to row {link} twice, or to itself"));
                }
            }
        }
        match links.of(row, 0).first() {
            None => problems.push(format!("row {row} has no links")),
            Some(&parent) if parent == row => roots += 1,
            Some(&parent) if links.has(parent) && !links.of(parent, 0).contains(&row) => {
                problems.push(format!("row {row} has no link from its parent {parent}"));
            }
            Some(_) => {}
        }
    }
    if roots != usize::from(links.count() > 0) {
        problems.push(format!("the graph has {roots} roots"));
    }
    if problems.is_empty() && reachable_rows(graph) != links.count() {
        problems.push(format!("only {} of {} rows are reachable", reachable_rows(graph), links.count()));
    }
    problems
}

fn reachable_rows(graph: &Graph) -> usize {
    let Some(entry) = graph.links.entry() else { return 0 };
    let mut seen = vec![false; graph.links.rows()];
    let mut queue = vec![entry];
    seen[entry as usize] = true;
    let mut count = 0;
    while let Some(row) = queue.pop() {
        count += 1;
        for &link in graph.links.of(row, 0) {
            if !std::mem::replace(&mut seen[link as usize], true) {
                queue.push(link);
            }
        }
    }
    count
}
