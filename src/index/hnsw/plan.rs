//! What linking new rows changes.
//!
//! A batch is planned against the graph as it is, which is only read: so rows are searched in parallel, searches for
//! users go on, and the same batch gives the same change whatever the threads do. (The batches of ParlayANN, Manohar et al.,
//! arXiv 2305.04359, but that rows of one batch are compared with each other and may be linked.)
//!
//! Nobody else changes links meanwhile, nor what linked rows hold. So the lock is taken for a row at a time: a writer that
//! waits for it, and the searches that then wait for the writer, do not wait for the whole plan. And it is never held where
//! a thread waits for others, and may take up who knows what.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use rayon::prelude::*;

use super::{
    beam::{Candidate, Scratch, refine},
    codes::{Codes, Query, mix},
    delta::{Delta, List},
    graph::Graph,
    links::MAX_LEVEL,
    select::select,
};

/// The children that a row takes on layer 0: they have places of its list for ever.
pub(super) const MAX_CHILDREN: usize = 6;

/// One of the children of `near`, another for another row, so that the tree grows in breadth: of rows that are all the same,
/// say, each goes down from the same one.
pub(super) fn one_of(children: impl Iterator<Item = u32>, row: u32, near: u32) -> Option<u32> {
    let children: Vec<u32> = children.collect();
    let drawn = mix(u64::from(row) << 32 | u64::from(near));
    children.get((drawn % children.len().max(1) as u64) as usize).copied()
}

/// Rows with one code that a new row looks at.
const COPIES: usize = 4;

/// Leaves as many of those with one code, of candidates in order.
fn drop_copies(codes: &Codes, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for &candidate in &*candidates {
        let same = kept.iter().rev().take_while(|other| other.score == candidate.score);
        if same.filter(|other| codes.same(other.row(), candidate.row())).take(COPIES).count() < COPIES {
            kept.push(candidate);
        }
    }
    *candidates = kept;
}

/// Links by layer and row.
pub(super) type Lists = BTreeMap<(u8, u32), Vec<u32>>;

/// A new row with its candidates, by layer.
struct New {
    row: u32,
    candidates: Vec<Vec<Candidate>>,
}

/// Plans the linking of rows that have codes and are not in the graph.
pub(super) fn plan(graph: &RwLock<Graph>, rows: &[u32]) -> Delta {
    let levels: Vec<u8> = rows.iter().map(|&row| graph.read().draw_level(row)).collect();
    let new: Vec<New> = rows
        .par_iter()
        .zip(&levels)
        .map_init(Scratch::default, |scratch, (&row, &level)| New {
            row,
            candidates: graph.read().candidates(row, level, rows, &levels, scratch),
        })
        .collect();
    let parents = choose_parents(graph, &new);
    let mut lists = choose_links(graph, &new, &parents);
    let mut incoming = Lists::new();
    for ((layer, row), links) in &lists {
        for &link in links {
            incoming.entry((*layer, link)).or_default().push(*row);
        }
    }
    let parents: BTreeMap<u32, u32> = new.iter().zip(parents).map(|(new, parent)| (new.row, parent)).collect();
    let merged: Vec<_> = incoming
        .into_par_iter()
        .map_init(Query::default, |query, ((layer, row), more)| {
            let graph = graph.read();
            let old = lists.get(&(layer, row)).map_or_else(|| graph.links.of(row, layer), Vec::as_slice);
            ((layer, row), graph.merge(row, layer, old, &more, &parents, query))
        })
        .collect();
    lists.extend(merged);
    Delta {
        levels: rows.iter().copied().zip(levels).collect(),
        lists: lists.into_iter().map(|((layer, row), links)| List { row, layer, links }).collect(),
        cleared: Vec::new(),
    }
}

/// The parent of each new row: the nearest row, of the graph or before it in the batch, that may have one more child.
/// The first row of all is its own.
fn choose_parents(graph: &RwLock<Graph>, new: &[New]) -> Vec<u32> {
    let places: BTreeMap<u32, usize> = new.iter().zip(0..).map(|(new, place)| (new.row, place)).collect();
    // Of this batch.
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut parents = Vec::with_capacity(new.len());
    for (place, New { row, candidates, .. }) in new.iter().enumerate() {
        let graph = graph.read();
        let is_before = |row: u32| places.get(&row).is_none_or(|&other| other < place);
        let of = |row: u32| graph.links.children(row).chain(children.get(&row).into_iter().flatten().copied());
        let is_full = |row: u32| of(row).take(MAX_CHILDREN).count() >= MAX_CHILDREN;
        let before: Vec<u32> =
            candidates[0].iter().map(|candidate| candidate.row()).filter(|&row| is_before(row)).collect();
        let is_copy = |other: &u32| graph.codes.same(*other, *row);
        let copies = before.iter().copied().take_while(is_copy);
        // Copies are below each other, as far as they can: whoever finds one finds all.
        let has_copies = |copy: &u32| of(*copy).any(|child| is_copy(&child));
        let of_copies = copies.clone().find(|&copy| !is_full(copy)).or_else(|| copies.clone().find(has_copies));
        let not_full = || before.iter().copied().find(|&row| !is_full(row));
        let nearest = before.first().copied().or(graph.links.entry()).unwrap_or(new[0].row);
        // Rare: all that are near have enough. Down the tree there is one that has not.
        let mut parent = of_copies.or_else(not_full).unwrap_or(nearest);
        while is_full(parent) {
            let below = one_of(of(parent).filter(is_copy), *row, parent).or_else(|| one_of(of(parent), *row, parent));
            parent = below.expect("it has children");
        }
        if parent != *row {
            children.entry(parent).or_default().push(*row);
        }
        parents.push(parent);
    }
    parents
}

/// The links that new rows begin with, their parents first.
fn choose_links(graph: &RwLock<Graph>, new: &[New], parents: &[u32]) -> Lists {
    let lists: Vec<Vec<_>> = new
        .par_iter()
        .zip(parents)
        .map_init(Query::default, |query, (new, &parent)| {
            let graph = graph.read();
            let list = |(layer, candidates): (u8, &Vec<Candidate>)| {
                let pinned = if layer == 0 { &[parent][..] } else { &[] };
                let links = select(&graph.codes, new.row, candidates, graph.links.first_links(layer), pinned, query);
                ((layer, new.row), links)
            };
            (0..).zip(&new.candidates).map(list).collect()
        })
        .collect();
    lists.into_iter().flatten().collect()
}

impl Graph {
    /// Geometric, by what the row holds: one in `m` is a layer higher.
    fn draw_level(&self, row: u32) -> u8 {
        let uniform = (mix(self.codes.hash(row) ^ mix(u64::from(row))) >> 11) as f64 / (1u64 << 53) as f64;
        let level = -(1.0 - uniform).ln() / (self.links.m() as f64).ln();
        (level as u8).min(MAX_LEVEL)
    }

    /// The nearest rows of the graph and of the batch, by layer from 0.
    fn candidates(
        &self,
        row: u32,
        level: u8,
        batch: &[u32],
        levels: &[u8],
        scratch: &mut Scratch,
    ) -> Vec<Vec<Candidate>> {
        self.codes.row_query(row, &mut scratch.query);
        let top = self.links.entry().and_then(|entry| self.links.level(entry));
        let begin = top.map_or(0, |top| level.min(top));
        scratch.descend(&self.links, &self.codes, begin, (self.ef_construction, COPIES));
        let mut layers = Vec::new();
        for layer in (0..=level).rev() {
            if layer < begin {
                scratch.next_layer(self.links.rows());
            }
            if layer <= begin {
                scratch.search(&self.links, &self.codes, layer, |_| true, None);
            }
            // Nobody of the graph is above that.
            let mut found = if layer <= begin { scratch.pool.candidates().to_vec() } else { Vec::new() };
            let mates = batch.iter().zip(levels).filter(|(mate, level)| **mate != row && **level >= layer);
            scratch.add(&self.codes, mates.map(|(&mate, _)| mate), &mut found);
            drop_copies(&self.codes, &mut found);
            found.truncate(self.ef_construction);
            refine(&self.codes, &scratch.query, &mut found);
            layers.push(found);
        }
        layers.reverse();
        layers
    }

    /// A list with more links in it, the less useful left out if there are too many.
    fn merge(
        &self,
        row: u32,
        layer: u8,
        old: &[u32],
        more: &[u32],
        parents: &BTreeMap<u32, u32>,
        query: &mut Query,
    ) -> Vec<u32> {
        let mut all = old.to_vec();
        all.extend(more.iter().filter(|link| !old.contains(link)));
        if all.len() <= self.links.capacity(layer) {
            return all;
        }
        let mut pinned = Vec::new();
        if layer == 0 {
            let parent = |row: u32| parents.get(&row).copied().unwrap_or_else(|| self.links.parent(row));
            pinned.push(parent(row));
            pinned.extend(all.iter().copied().filter(|&link| link != row && parent(link) == row));
        }
        self.prune(row, layer, &all, &pinned, query)
    }

    /// The links of `row` that are most useful, `pinned` first and in any case.
    pub(super) fn prune(&self, row: u32, layer: u8, links: &[u32], pinned: &[u32], query: &mut Query) -> Vec<u32> {
        self.codes.row_query(row, query);
        let mut candidates: Vec<Candidate> = links.iter().map(|&link| Candidate::new(0.0, link)).collect();
        refine(&self.codes, query, &mut candidates);
        select(&self.codes, row, &candidates, self.links.capacity(layer), pinned, query)
    }
}

#[cfg(test)]
mod tests {
    use crate::index::{HnswIndex, HnswOptions, Search, VectorIndex};

    /// Whatever is said again and again, "ok" say.
    #[test]
    fn rows_that_are_the_same_make_no_deep_tree() {
        for m in [4, 16] {
            let index = HnswIndex::new(2, HnswOptions { m, ef_construction: 16, graph_above: 0 });
            const ROWS: u32 = 6000;
            index.insert(&(0..ROWS).collect::<Vec<_>>(), &[1.0, 0.0].repeat(ROWS as usize));
            while index.improve() {}
            assert_eq!(index.check(), [""; 0]);
            let depth = |index: &HnswIndex| {
                let graph = index.graph.read();
                let above = |row: &u32| Some(graph.links.parent(*row)).filter(|parent| parent != row);
                let rows = (0..ROWS).filter(|&row| graph.links.has(row));
                rows.map(|row| std::iter::successors(Some(row), above).count()).max().unwrap()
            };
            assert!(depth(&index) < 60, "{}", depth(&index));
            // Every third, whose children need other parents.
            index.remove(&(0..ROWS).step_by(3).collect::<Vec<_>>());
            while index.improve() {}
            assert_eq!(index.check(), [""; 0]);
            assert!(depth(&index) < 60, "{}", depth(&index));
            assert_eq!(index.search(&[1.0, 0.0], &Search::new(5000)).neighbors.len(), 4000);
        }
    }
}
