//! The graph with all that it stands on: codes, links, and which rows are alive.

use std::collections::BTreeSet;

use super::{
    chunks::Chunks,
    codes::Codes,
    delta::{Delta, List, rows_per_page},
    links::Links,
};
use crate::index::Bitmap;

/// Removed rows are unlinked when they are more than one in so many: looking for who leads to them is a pass over all links.
const REPAIR_SHARE: usize = 64;

#[derive(Debug)]
pub(super) struct Graph {
    pub(super) dimension: usize,
    pub(super) ef_construction: usize,
    /// Of every row, once the graph has begun; before that, of none.
    pub(super) codes: Codes,
    /// The vectors themselves, unless they are read from elsewhere.
    pub(super) originals: Option<Chunks<f32>>,
    pub(super) links: Links,
    /// The number of the next row.
    pub(super) rows: usize,
    pub(super) alive: Bitmap,
    /// Alive, and not in the graph.
    pub(super) tail: Bitmap,
    /// Removed, and maybe linked to: their numbers must not be given again yet.
    pub(super) dead: Bitmap,
    /// Pages of links that differ from those stored.
    pub(super) changed_pages: BTreeSet<u32>,
}

impl Graph {
    pub(super) fn new(dimension: usize, m: usize, ef_construction: usize) -> Self {
        Graph {
            dimension,
            ef_construction,
            codes: Codes::new(dimension),
            originals: Some(Chunks::new(dimension)),
            links: Links::new(m),
            rows: 0,
            alive: Bitmap::default(),
            tail: Bitmap::default(),
            dead: Bitmap::default(),
            changed_pages: BTreeSet::new(),
        }
    }

    /// Whether rows have codes.
    pub(super) fn has_codes(&self) -> bool {
        self.codes.rows() > 0
    }

    /// Whether rows are to be linked, or enough removed ones to be unlinked.
    pub(super) fn has_work(&self, is_thorough: bool) -> bool {
        let dead = self.dead.count();
        let is_much = is_thorough || dead > self.links.count() / REPAIR_SHARE;
        self.has_codes() && (self.tail.count() > 0 || (dead > 0 && is_much))
    }

    /// Gives codes to all rows.
    pub(super) fn encode(&mut self) {
        if let Some(originals) = &self.originals {
            for row in self.codes.rows()..originals.rows() {
                self.codes.put(row as u32, originals.row(row as u32));
            }
        }
        self.links.grow(self.codes.rows());
    }

    /// Writes what a row holds, whatever was there. It is found only when it is alive.
    pub(super) fn write(&mut self, row: u32, vector: &[f32]) {
        if let Some(originals) = &mut self.originals {
            originals.put(row, vector);
        }
        if self.originals.is_none() || self.has_codes() {
            self.codes.put(row, vector);
            self.links.grow(self.codes.rows());
        }
    }

    /// Makes a row alive that was written.
    pub(super) fn enliven(&mut self, row: u32) {
        assert!(self.alive.insert(row), "row {row} is in use");
        self.rows = self.rows.max(row as usize + 1);
        self.dead.remove(row);
        if !self.links.has(row) {
            self.tail.insert(row);
        }
    }

    /// Takes a row out of what is found. `is_kept`: others may link to it.
    pub(super) fn kill(&mut self, row: u32, is_kept: bool) {
        if self.alive.remove(row) {
            self.tail.remove(row);
            if is_kept {
                self.dead.insert(row);
            }
        }
    }

    /// Makes a planned change.
    pub(super) fn apply(&mut self, delta: &Delta) {
        self.begin(delta);
        self.set_lists(&delta.lists);
        self.end(delta);
    }

    /// The first part of a change: rows come in, and nothing leads to them yet.
    pub(super) fn begin(&mut self, delta: &Delta) {
        let per_page = rows_per_page(self.links.m()) as u32;
        let rows = delta.cleared.iter().copied().chain(delta.levels.iter().map(|(row, _)| *row));
        self.changed_pages.extend(rows.chain(delta.lists.iter().map(|list| list.row)).map(|row| row / per_page));
        delta.levels.iter().for_each(|&(row, level)| self.links.add(row, level));
    }

    /// The second part, as many lists at a time as is wanted: until all are set, new rows are in the tail as well, and what
    /// goes is still there.
    pub(super) fn set_lists(&mut self, lists: &[List]) {
        lists.iter().for_each(|list| self.links.set(list.row, list.layer, &list.links));
    }

    /// The last part: nothing leads to what goes any more.
    pub(super) fn end(&mut self, delta: &Delta) {
        for &(row, _) in &delta.levels {
            self.links.raise_entry(row);
            self.tail.remove(row);
        }
        for &row in &delta.cleared {
            self.links.remove(row);
            self.dead.remove(row);
        }
    }
}
