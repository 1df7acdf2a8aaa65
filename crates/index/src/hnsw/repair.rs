//! Plans the unlinking of removed rows.
//!
//! The links of every list with a removed row are chosen again, among the list's own links and those of its removed
//! rows (the consolidation of FreshDiskANN, Singh et al., arXiv 2105.09613). The children of removed rows get new
//! parents, which are never below these children in the tree, so the tree stays connected.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;
use rayon::prelude::*;

use super::{
    codes::CodedQuery,
    graph::Graph,
    links::{Delta, List},
    plan::{MAX_CHILDREN, pick_child, prune},
};
use crate::Bitmap;

/// Rows whose links are examined under one read lock.
const ROWS_PER_LOCK: usize = 4096;

/// The changes of the tree.
struct TreeChanges<'a> {
    /// Rows that leave the graph.
    gone: &'a Bitmap,
    /// The new parents of orphans.
    parents: BTreeMap<u32, u32>,
    /// The children that rows get.
    children: BTreeMap<u32, Vec<u32>>,
}

/// Plans the unlinking of removed rows, which may be in the graph or not.
pub(super) fn plan_repair(graph: &RwLock<Graph>, rows: &[u32]) -> Delta {
    let mut gone = Bitmap::default();
    let (tree, all) = {
        let graph = graph.read();
        for &row in rows.iter().filter(|&&row| graph.links.has(row)) {
            gone.insert(row);
        }
        (TreeChanges::new(&graph, &gone), (0..graph.links.rows() as u32).collect::<Vec<_>>())
    };
    // The lists of rows whose children or parent change are chosen again as well.
    let mut touched: BTreeSet<u32> = tree.parents.iter().flat_map(|(&child, &parent)| [child, parent]).collect();
    if gone.count() > 0 {
        touched.par_extend(all.par_chunks(ROWS_PER_LOCK).flat_map_iter(|rows| {
            let graph = graph.read();
            let leads_to_gone =
                |row: u32| graph.links.lists(row).any(|(_, list)| list.iter().any(|&link| gone.contains(link)));
            rows.iter().copied().filter(|&row| graph.links.has(row) && leads_to_gone(row)).collect::<Vec<_>>()
        }));
    }
    let touched: Vec<u32> = touched.into_iter().filter(|&row| !gone.contains(row)).collect();
    let lists = touched
        .into_par_iter()
        .map_init(CodedQuery::default, |query, row| {
            let graph = graph.read();
            let repaired = |(layer, list): (u8, &[u32])| {
                let links = repair_list(&graph, row, layer, list, &tree, query);
                List { row, layer, links }
            };
            graph.links.lists(row).map(repaired).collect::<Vec<_>>()
        })
        .flatten()
        .collect();
    Delta { levels: Vec::new(), lists, cleared: rows.to_vec() }
}

/// Chooses the links of a list again, without the rows that leave.
fn repair_list(
    graph: &Graph,
    row: u32,
    layer: u8,
    old: &[u32],
    tree: &TreeChanges,
    query: &mut CodedQuery,
) -> Vec<u32> {
    let mut pinned = Vec::new();
    if layer == 0 {
        pinned.push(tree.parent(graph, row));
        pinned.extend(tree.children_of(graph, row));
    }
    let mut all: Vec<u32> = pinned.clone();
    if !graph.live.contains(row) {
        // The row will be unlinked soon itself, so its list only has to be valid.
        all.extend(old.iter().filter(|&&link| !tree.gone.contains(link) && !pinned.contains(&link)));
        all.truncate(graph.links.capacity(layer));
        return all;
    }
    for &link in old {
        let reached: &[u32] = if graph.live.contains(link) { &[link] } else { graph.links.of(link, layer) };
        all.extend(reached.iter().filter(|&&link| link != row && graph.live.contains(link)));
    }
    all.sort_unstable();
    all.dedup();
    prune(graph, row, layer, &all, &pinned, query)
}

impl<'a> TreeChanges<'a> {
    /// Finds new parents for the rows whose parents leave.
    fn new(graph: &Graph, gone: &'a Bitmap) -> Self {
        let mut tree = TreeChanges { gone, parents: BTreeMap::new(), children: BTreeMap::new() };
        for removed in gone.iter() {
            for orphan in graph.links.children(removed).filter(|&child| !gone.contains(child)) {
                tree.adopt(graph, orphan);
            }
        }
        tree
    }

    /// Returns the parent of a row after the change, as far as it is decided.
    fn parent(&self, graph: &Graph, row: u32) -> u32 {
        self.parents.get(&row).copied().unwrap_or_else(|| graph.links.parent(row))
    }

    /// Returns the children of a row after the change, as far as they are decided.
    fn children_of<'b>(&'b self, graph: &'b Graph, row: u32) -> impl Iterator<Item = u32> + 'b {
        let kept = graph
            .links
            .children(row)
            .filter(move |&child| !self.gone.contains(child) && self.parent(graph, child) == row);
        let new = self.children.get(&row).into_iter().flatten().copied();
        kept.chain(new.filter(move |child| graph.links.parent(*child) != row))
    }

    /// Gives an orphan a new parent: the nearest ancestor that stays or, if that has enough children, a row below that
    /// ancestor. The new parent is never below the orphan, because the orphan is not linked to the tree at this moment.
    fn adopt(&mut self, graph: &Graph, orphan: u32) {
        // The walk ends at an ancestor that stays, or at the root if the root leaves, too.
        let mut ancestor = graph.links.parent(orphan);
        while self.gone.contains(ancestor) {
            let next = graph.links.parent(ancestor);
            if next == ancestor {
                break;
            }
            ancestor = next;
        }
        let mut parent = ancestor;
        if self.gone.contains(ancestor) {
            match self.children.get(&ancestor).and_then(|heirs| heirs.first()) {
                // The root leaves. The first orphan whose walk ends there becomes the new root.
                None => {
                    self.children.insert(ancestor, vec![orphan]);
                    self.parents.insert(orphan, orphan);
                    return;
                }
                Some(&root) => parent = root,
            }
        }
        while self.children_of(graph, parent).count() >= MAX_CHILDREN {
            let Some(below) = pick_child(self.children_of(graph, parent), orphan, parent) else { break };
            parent = below;
        }
        self.parents.insert(orphan, parent);
        self.children.entry(parent).or_default().push(orphan);
    }
}
