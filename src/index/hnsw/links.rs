//! Who is linked to whom.
//!
//! Layer 0 is a flat table of `2 * m` row numbers a row; the few rows of upper layers have a tower of `m` for each layer. A
//! list ends at [`NONE`]. The first link of a row on layer 0 is its parent, which has the row among its links too: a tree
//! of links that are never pruned, so that every row is reached from every other. The tree's root is its own parent.

use super::chunks::Chunks;

/// Ends a list.
pub(super) const NONE: u32 = u32::MAX;

/// The tower of a row that is not in the graph.
const ABSENT: u32 = u32::MAX;
/// The tower of a row on layer 0 alone.
const LOW: u32 = u32::MAX - 1;

/// No row is on a higher layer: with 2 links a row, one in 2^15 would be.
pub(super) const MAX_LEVEL: u8 = 15;

#[derive(Debug)]
pub(super) struct Links {
    m: usize,
    bottom: Chunks<u32>,
    /// By row: its place in `towers`.
    places: Chunks<u32>,
    towers: Vec<Vec<u32>>,
    free_towers: Vec<u32>,
    /// A row of the highest level: where searches begin.
    entry: Option<u32>,
    count: usize,
}

impl Links {
    pub(super) fn new(m: usize) -> Self {
        Links {
            m,
            bottom: Chunks::new(2 * m),
            places: Chunks::new(1),
            towers: Vec::new(),
            free_towers: Vec::new(),
            entry: None,
            count: 0,
        }
    }

    pub(super) fn m(&self) -> usize {
        self.m
    }

    /// The most links of a list.
    pub(super) fn capacity(&self, layer: u8) -> usize {
        if layer == 0 { 2 * self.m } else { self.m }
    }

    /// The links that a new row begins with, at most. On layer 0 a quarter more than `m`: as many as there is room for find a
    /// little more on real texts (recall@10 0.963, not 0.957, at ef 64), but take half as long again to build, and searches
    /// a tenth longer on clustered vectors.
    pub(super) fn first_links(&self, layer: u8) -> usize {
        if layer == 0 { self.m + self.m / 4 } else { self.m }
    }

    /// Rows there is room for.
    pub(super) fn rows(&self) -> usize {
        self.places.rows()
    }

    /// Rows that are in the graph.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn entry(&self) -> Option<u32> {
        self.entry
    }

    /// Makes room for rows, which are not in the graph yet.
    pub(super) fn grow(&mut self, rows: usize) {
        while self.places.rows() < rows {
            self.places.push(&[ABSENT]);
            self.bottom.push_default(NONE);
        }
    }

    /// The highest layer of a row, if it is in the graph.
    #[inline]
    pub(super) fn level(&self, row: u32) -> Option<u8> {
        match self.place(row) {
            ABSENT => None,
            LOW => Some(0),
            place => Some((self.towers[place as usize].len() / self.m) as u8),
        }
    }

    fn place(&self, row: u32) -> u32 {
        if (row as usize) < self.rows() { self.places.row(row)[0] } else { ABSENT }
    }

    pub(super) fn has(&self, row: u32) -> bool {
        self.place(row) != ABSENT
    }

    /// All places of a list on layer 0, the empty ones last.
    #[inline(always)]
    pub(super) fn bottom(&self, row: u32) -> &[u32] {
        self.bottom.row(row)
    }

    /// The links of a row on a layer.
    #[inline]
    pub(super) fn of(&self, row: u32, layer: u8) -> &[u32] {
        let all = match (layer, self.place(row)) {
            (_, ABSENT) => &[],
            (0, _) => self.bottom.row(row),
            (_, LOW) => &[],
            (layer, place) => {
                self.towers[place as usize].chunks_exact(self.m).nth(layer as usize - 1).unwrap_or_default()
            }
        };
        &all[..all.iter().position(|&link| link == NONE).unwrap_or(all.len())]
    }

    /// The parent of a row that is in the graph.
    pub(super) fn parent(&self, row: u32) -> u32 {
        self.bottom.row(row)[0]
    }

    /// The children of a row.
    pub(super) fn children(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        let is_child = move |link: u32| link != row && self.has(link) && self.parent(link) == row;
        self.of(row, 0).iter().copied().filter(move |&link| is_child(link))
    }

    /// Takes a row into the graph, without links. Searches begin elsewhere: see [`Links::raise_entry`].
    pub(super) fn add(&mut self, row: u32, level: u8) {
        self.remove(row);
        let place = if level == 0 {
            LOW
        } else {
            let tower = vec![NONE; level as usize * self.m];
            match self.free_towers.pop() {
                Some(place) => {
                    self.towers[place as usize] = tower;
                    place
                }
                None => {
                    self.towers.push(tower);
                    self.towers.len() as u32 - 1
                }
            }
        };
        self.places.row_mut(row)[0] = place;
        self.count += 1;
    }

    /// Makes a row the entry, if it is on a higher layer.
    pub(super) fn raise_entry(&mut self, row: u32) {
        if self.level(row) > self.entry.and_then(|entry| self.level(entry)) {
            self.entry = Some(row);
        }
    }

    /// Takes a row out of the graph. Links that lead to it are others' business.
    pub(super) fn remove(&mut self, row: u32) {
        match self.place(row) {
            ABSENT => return,
            LOW => {}
            place => {
                self.towers[place as usize] = Vec::new();
                self.free_towers.push(place);
            }
        }
        self.bottom.row_mut(row).fill(NONE);
        self.places.row_mut(row)[0] = ABSENT;
        self.count -= 1;
        if self.entry == Some(row) {
            // Rare: one row is the entry.
            let rows = (0..self.rows() as u32).filter_map(|row| Some((self.level(row)?, std::cmp::Reverse(row))));
            self.entry = rows.max().map(|(_, std::cmp::Reverse(row))| row);
        }
    }

    /// Sets the links of a row that is in the graph, as many as there is room for.
    pub(super) fn set(&mut self, row: u32, layer: u8, links: &[u32]) {
        let place = self.place(row);
        let list = match (layer, place) {
            (_, ABSENT) | (1.., LOW) => return,
            (0, _) => self.bottom.row_mut(row),
            (layer, place) => match self.towers[place as usize].chunks_exact_mut(self.m).nth(layer as usize - 1) {
                Some(list) => list,
                None => return,
            },
        };
        let count = links.len().min(list.len());
        list[..count].copy_from_slice(&links[..count]);
        list[count..].fill(NONE);
    }

    /// The layers and lists of a row that is in the graph, from layer 0.
    pub(super) fn lists(&self, row: u32) -> impl Iterator<Item = (u8, &[u32])> {
        (0..=self.level(row).unwrap_or(0)).map(move |layer| (layer, self.of(row, layer)))
    }
}
