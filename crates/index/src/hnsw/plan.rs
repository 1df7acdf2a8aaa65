//! Plans the links of new rows.
//!
//! A batch is planned against the present graph, which is only read. So the rows of a batch are searched in parallel,
//! users' searches go on, and the same batch gives the same delta with any number of threads. (These are the batches of
//! ParlayANN, Manohar et al., arXiv 2305.04359, except that the rows of a batch are also compared with each other and
//! may be linked.)
//!
//! The planning lock guarantees that nobody else changes links, or the vectors of linked rows, in the meantime. So the
//! read lock is taken for one row at a time: a writer that waits for the lock, and the searches that queue behind the
//! writer, need not wait for the whole plan. The lock is never held while a thread waits for other threads, because
//! such a thread may run unrelated work of the pool.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use rayon::prelude::*;

use super::{
    beam::BeamSearch,
    candidates::KeepBest,
    codes::{CodedQuery, Codes, ScoredRow, mix, refine, score_coarsely},
    graph::Graph,
    links::{Delta, List, MAX_LEVEL},
};
use crate::distance::Line;

/// Maximum number of children of a row. Children take slots of the row's list on layer 0 that no other link can have.
pub(super) const MAX_CHILDREN: usize = 6;

/// Maximum number of candidates with the same code.
const MAX_COPIES: usize = 4;

/// Chosen rows that are compared in one call of a kernel.
const GROUP: usize = 8;

/// How many times nearer to a chosen row than to `row` a candidate must be to be left out. A slack above 1 keeps some
/// longer links, which give shorter searches (DiskANN, Subramanya et al., NeurIPS 2019). Of 1 to 1.25, the best value
/// on real texts.
const ALPHA: f32 = 1.03;

/// Lists of links by layer and row.
type Lists = BTreeMap<(u8, u32), Vec<u32>>;

/// A new row with its candidates on each layer, from layer 0.
struct NewRow {
    row: u32,
    candidates: Vec<Vec<ScoredRow>>,
}

/// Plans the links of rows that have codes and are not in the graph.
pub(super) fn plan_links(graph: &RwLock<Graph>, rows: &[u32]) -> Delta {
    let levels: Vec<u8> = rows.iter().map(|&row| draw_level(&graph.read(), row)).collect();
    let new: Vec<NewRow> = rows
        .par_iter()
        .zip(&levels)
        .map_init(BeamSearch::default, |beam, (&row, &level)| NewRow {
            row,
            candidates: find_candidates(&graph.read(), row, level, rows, &levels, beam),
        })
        .collect();
    let parents = choose_parents(graph, &new);
    let mut lists = choose_links(graph, &new, &parents);
    // The links in the other direction: each chosen row links back, as far as its list allows.
    let mut incoming = Lists::new();
    for ((layer, row), links) in &lists {
        for &link in links {
            incoming.entry((*layer, link)).or_default().push(*row);
        }
    }
    let parents: BTreeMap<u32, u32> = new.iter().zip(parents).map(|(new, parent)| (new.row, parent)).collect();
    let merged: Vec<_> = incoming
        .into_par_iter()
        .map_init(CodedQuery::default, |query, ((layer, row), more)| {
            let graph = &*graph.read();
            let old = lists.get(&(layer, row)).map_or_else(|| graph.links.of(row, layer), Vec::as_slice);
            ((layer, row), add_links(graph, row, layer, old, &more, &parents, query))
        })
        .collect();
    lists.extend(merged);
    Delta {
        levels: rows.iter().copied().zip(levels).collect(),
        lists: lists.into_iter().map(|((layer, row), links)| List { row, layer, links }).collect(),
        cleared: Vec::new(),
    }
}

/// Chooses the parent of each new row: the nearest row in the graph, or before it in the batch, that may have another
/// child. The first row of a graph is its own parent.
fn choose_parents(graph: &RwLock<Graph>, new: &[NewRow]) -> Vec<u32> {
    let positions: BTreeMap<u32, usize> = new.iter().zip(0..).map(|(new, position)| (new.row, position)).collect();
    // The children that rows get from this batch.
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut parents = Vec::with_capacity(new.len());
    for (position, NewRow { row, candidates, .. }) in new.iter().enumerate() {
        let graph = graph.read();
        let is_before = |row: u32| positions.get(&row).is_none_or(|&other| other < position);
        let children_of = |row: u32| graph.links.children(row).chain(children.get(&row).into_iter().flatten().copied());
        let is_full = |row: u32| children_of(row).take(MAX_CHILDREN).count() >= MAX_CHILDREN;
        let before: Vec<u32> =
            candidates[0].iter().map(|candidate| candidate.row).filter(|&row| is_before(row)).collect();
        let is_copy = |other: &u32| graph.codes.same(*other, *row);
        let copies = before.iter().copied().take_while(is_copy);
        // Copies are placed below each other if possible, so that a search which finds one of them finds all.
        let has_copies = |copy: &u32| children_of(*copy).any(|child| is_copy(&child));
        let copy_parent = copies.clone().find(|&copy| !is_full(copy)).or_else(|| copies.clone().find(has_copies));
        let nearest_with_room = || before.iter().copied().find(|&row| !is_full(row));
        let nearest = before.first().copied().or(graph.links.entry()).unwrap_or(new[0].row);
        // Rarely, all near rows are full. Then a walk down the tree finds a row that is not.
        let mut parent = copy_parent.or_else(nearest_with_room).unwrap_or(nearest);
        while is_full(parent) {
            let copy = pick_child(children_of(parent).filter(is_copy), *row, parent);
            let below = copy.or_else(|| pick_child(children_of(parent), *row, parent));
            parent = below.expect("a full row has children");
        }
        if parent != *row {
            children.entry(parent).or_default().push(*row);
        }
        parents.push(parent);
    }
    parents
}

/// Chooses the first links of the new rows. On layer 0 the parent is the first of them.
fn choose_links(graph: &RwLock<Graph>, new: &[NewRow], parents: &[u32]) -> Lists {
    let lists: Vec<Vec<_>> = new
        .par_iter()
        .zip(parents)
        .map_init(CodedQuery::default, |query, (new, &parent)| {
            let graph = graph.read();
            let list = |(layer, candidates): (u8, &Vec<ScoredRow>)| {
                let pinned = if layer == 0 { &[parent][..] } else { &[] };
                let links =
                    select(&graph.codes, new.row, candidates, graph.links.initial_capacity(layer), pinned, query);
                ((layer, new.row), links)
            };
            (0..).zip(&new.candidates).map(list).collect()
        })
        .collect();
    lists.into_iter().flatten().collect()
}

/// Draws the level of a row from a geometric distribution: one row in `m` is a layer higher. Depends only on the row
/// and its code.
fn draw_level(graph: &Graph, row: u32) -> u8 {
    let uniform = (mix(graph.codes.hash(row) ^ mix(u64::from(row))) >> 11) as f64 / (1u64 << 53) as f64;
    let level = -(1.0 - uniform).ln() / (graph.links.m() as f64).ln();
    (level as u8).min(MAX_LEVEL)
}

/// Returns the nearest rows of the graph and of the batch, for each layer from 0 to `level`.
fn find_candidates(
    graph: &Graph,
    row: u32,
    level: u8,
    batch: &[u32],
    levels: &[u8],
    beam: &mut BeamSearch,
) -> Vec<Vec<ScoredRow>> {
    let Graph { codes, links, ef_construction, .. } = graph;
    codes.row_query(row, &mut beam.query);
    let top = links.entry().and_then(|entry| links.level(entry));
    let begin = top.map_or(0, |top| level.min(top));
    beam.descend(links, codes, begin, *ef_construction, MAX_COPIES);
    let mut layers = Vec::new();
    for layer in (0..=level).rev() {
        if layer < begin {
            beam.next_layer(links.rows());
        }
        if layer <= begin {
            beam.search(links, codes, layer, |_| true, None);
        }
        // Above `begin`, the graph has no rows.
        let mut found = if layer <= begin { beam.candidates.iter().collect() } else { Vec::new() };
        let others = batch.iter().zip(levels).filter(|(other, level)| **other != row && **level >= layer);
        let floor = if layer <= begin { beam.candidates.floor() } else { f32::NEG_INFINITY };
        beam.score_into(codes, others.map(|(&other, _)| other), floor, &mut found);
        drop_copies(codes, &mut found);
        found.truncate(*ef_construction);
        refine(codes, &beam.query, &mut found);
        found.sort_unstable_by(ScoredRow::order);
        layers.push(found);
    }
    layers.reverse();
    layers
}

/// Keeps at most [`MAX_COPIES`] of the candidates with the same code. The candidates are sorted.
fn drop_copies(codes: &Codes, candidates: &mut Vec<ScoredRow>) {
    let mut kept: Vec<ScoredRow> = Vec::with_capacity(candidates.len());
    for &candidate in &*candidates {
        let ties = kept.iter().rev().take_while(|other| other.score == candidate.score);
        if ties.filter(|other| codes.same(other.row, candidate.row)).take(MAX_COPIES).count() < MAX_COPIES {
            kept.push(candidate);
        }
    }
    *candidates = kept;
}

/// Adds links to a list. If there are too many, the most useful ones are kept.
fn add_links(
    graph: &Graph,
    row: u32,
    layer: u8,
    old: &[u32],
    more: &[u32],
    parents: &BTreeMap<u32, u32>,
    query: &mut CodedQuery,
) -> Vec<u32> {
    let mut all = old.to_vec();
    all.extend(more.iter().filter(|link| !old.contains(link)));
    if all.len() <= graph.links.capacity(layer) {
        return all;
    }
    let mut pinned = Vec::new();
    if layer == 0 {
        let parent = |row: u32| parents.get(&row).copied().unwrap_or_else(|| graph.links.parent(row));
        pinned.push(parent(row));
        pinned.extend(all.iter().copied().filter(|&link| link != row && parent(link) == row));
    }
    prune(graph, row, layer, &all, &pinned, query)
}

/// Returns the most useful links of `row`, as many as a list of this layer holds. The `pinned` links come first and are
/// always kept.
pub(super) fn prune(
    graph: &Graph,
    row: u32,
    layer: u8,
    links: &[u32],
    pinned: &[u32],
    query: &mut CodedQuery,
) -> Vec<u32> {
    graph.codes.row_query(row, query);
    let mut candidates = Vec::with_capacity(links.len());
    score_coarsely(&graph.codes, query, links, |candidate| candidates.push(candidate));
    refine(&graph.codes, query, &mut candidates);
    candidates.sort_unstable_by(ScoredRow::order);
    select(&graph.codes, row, &candidates, graph.links.capacity(layer), pinned, query)
}

/// Chooses at most `capacity` links of `row` among candidates that are sorted from the nearest. A candidate is chosen
/// if it is nearer to `row` than to every row chosen before (Malkov and Yashunin, arXiv 1603.09320, algorithm 4, with
/// the slack of DiskANN). The `pinned` rows are always chosen, first.
///
/// If several rows have the same code, only the first is chosen, because a list full of copies leads nowhere else.
fn select(
    codes: &Codes,
    row: u32,
    candidates: &[ScoredRow],
    capacity: usize,
    pinned: &[u32],
    query: &mut CodedQuery,
) -> Vec<u32> {
    let mut chosen: Vec<u32> = pinned.to_vec();
    let (mut coarse, mut fine) = ([0; GROUP], [0; GROUP]);
    'candidates: for candidate in candidates {
        if chosen.len() >= capacity {
            break;
        }
        let id = candidate.row;
        if id == row || pinned.contains(&id) {
            continue;
        }
        codes.row_query(id, query);
        for group in chosen.chunks(GROUP) {
            let mut rows: [&[Line]; GROUP] = [&[]; GROUP];
            for (slot, &other) in rows.iter_mut().zip(group) {
                *slot = codes.coarse(other);
            }
            codes.kernels().products(query.lines(), &rows[..group.len()], &mut coarse);
            for (slot, &other) in rows.iter_mut().zip(group) {
                *slot = codes.fine(other);
            }
            codes.kernels().products(query.lines(), &rows[..group.len()], &mut fine);
            for (i, &other) in group.iter().enumerate() {
                let score = query.score(coarse[i], fine[i], codes.scale(other));
                // Copies of a chosen row are as near to `row` as the chosen row is, so the first test does not leave
                // them out.
                if (1.0 - score) * ALPHA < 1.0 - candidate.score
                    || (score >= 0.99 * candidate.score && codes.same(id, other))
                {
                    continue 'candidates;
                }
            }
        }
        chosen.push(id);
    }
    chosen
}

/// Picks one of the children of `parent`, a different one for different rows, so that the tree grows in breadth even if
/// many equal rows go down the tree from the same parent.
pub(super) fn pick_child(children: impl Iterator<Item = u32>, row: u32, parent: u32) -> Option<u32> {
    let children: Vec<u32> = children.collect();
    let hash = mix(u64::from(row) << 32 | u64::from(parent));
    children.get((hash % children.len().max(1) as u64) as usize).copied()
}

#[cfg(test)]
mod tests {
    use crate::{HnswIndex, HnswOptions, SearchOptions, VectorIndex};

    /// Such rows come from a text that is repeated thousands of times, such as "ok".
    #[test]
    fn equal_rows_make_no_deep_tree() {
        for m in [4, 16] {
            let index =
                HnswIndex::new(2, HnswOptions { m, ef_construction: 16, graph_above: 0, ..HnswOptions::default() });
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
            // The children of every third row need other parents.
            index.remove(&(0..ROWS).step_by(3).collect::<Vec<_>>());
            while index.improve() {}
            assert_eq!(index.check(), [""; 0]);
            assert!(depth(&index) < 60, "{}", depth(&index));
            assert_eq!(index.search(&[1.0, 0.0], &SearchOptions::new(5000)).neighbors.len(), 4000);
        }
    }
}
