//! What taking removed rows out of the graph changes.
//!
//! Every list with a removed row in it is chosen again, out of what it has and what the removed rows had (the consolidation
//! of FreshDiskANN, Singh et al., arXiv 2105.09613). The children of removed rows get new parents, which are never below
//! them, so the tree stays one.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;
use rayon::prelude::*;

use super::{
    codes::Query,
    delta::{Delta, List},
    graph::Graph,
    plan::{MAX_CHILDREN, one_of},
};
use crate::index::Bitmap;

/// Rows looked at while the lock is held.
const ROWS_A_LOCK: usize = 4096;

/// The tree where it changes.
struct Tree<'a> {
    gone: &'a Bitmap,
    parents: BTreeMap<u32, u32>,
    children: BTreeMap<u32, Vec<u32>>,
}

/// Plans taking rows out, which were removed: they may be in the graph or not.
pub(super) fn plan_repair(graph: &RwLock<Graph>, rows: &[u32]) -> Delta {
    let mut gone = Bitmap::default();
    let (tree, all) = {
        let graph = graph.read();
        for &row in rows.iter().filter(|&&row| graph.links.has(row)) {
            gone.insert(row);
        }
        (graph.mend_tree(&gone), (0..graph.links.rows() as u32).collect::<Vec<_>>())
    };
    // Those whose children or parent change have their lists chosen again too.
    let mut touched: BTreeSet<u32> = tree.parents.iter().flat_map(|(&child, &parent)| [child, parent]).collect();
    if gone.count() > 0 {
        touched.par_extend(all.par_chunks(ROWS_A_LOCK).flat_map_iter(|rows| {
            let graph = graph.read();
            let leads_there =
                |row: u32| graph.links.lists(row).any(|(_, list)| list.iter().any(|&link| gone.contains(link)));
            rows.iter().copied().filter(|&row| graph.links.has(row) && leads_there(row)).collect::<Vec<_>>()
        }));
    }
    let touched: Vec<u32> = touched.into_iter().filter(|&row| !gone.contains(row)).collect();
    let lists = touched
        .into_par_iter()
        .map_init(Query::default, |query, row| {
            let graph = graph.read();
            let list =
                |(layer, list): (u8, &[u32])| List { row, layer, links: graph.mend(row, layer, list, &tree, query) };
            graph.links.lists(row).map(list).collect::<Vec<_>>()
        })
        .flatten()
        .collect();
    Delta { levels: Vec::new(), lists, cleared: rows.to_vec() }
}

impl Graph {
    /// New parents for those whose parents are gone.
    fn mend_tree<'a>(&self, gone: &'a Bitmap) -> Tree<'a> {
        let mut tree = Tree { gone, parents: BTreeMap::new(), children: BTreeMap::new() };
        for removed in gone.iter() {
            for orphan in self.links.children(removed).filter(|&child| !gone.contains(child)) {
                tree.adopt(self, orphan);
            }
        }
        tree
    }

    /// A list without what is gone.
    fn mend(&self, row: u32, layer: u8, old: &[u32], tree: &Tree, query: &mut Query) -> Vec<u32> {
        let mut pinned = Vec::new();
        if layer == 0 {
            pinned.push(tree.parent(self, row));
            pinned.extend(tree.children_of(self, row));
        }
        let mut all: Vec<u32> = pinned.clone();
        if !self.alive.contains(row) {
            // Soon gone itself: it only has to lead nowhere wrong.
            all.extend(old.iter().filter(|&&link| !tree.gone.contains(link) && !pinned.contains(&link)));
            all.truncate(self.links.capacity(layer));
            return all;
        }
        for &link in old {
            let through: &[u32] = if self.alive.contains(link) { &[link] } else { self.links.of(link, layer) };
            all.extend(through.iter().filter(|&&link| link != row && self.alive.contains(link)));
        }
        all.sort_unstable();
        all.dedup();
        self.prune(row, layer, &all, &pinned, query)
    }
}

impl Tree<'_> {
    fn parent(&self, graph: &Graph, row: u32) -> u32 {
        self.parents.get(&row).copied().unwrap_or_else(|| graph.links.parent(row))
    }

    /// Children as they are after the change, so far.
    fn children_of<'a>(&'a self, graph: &'a Graph, row: u32) -> impl Iterator<Item = u32> + 'a {
        let kept = graph
            .links
            .children(row)
            .filter(move |&child| !self.gone.contains(child) && self.parent(graph, child) == row);
        let new = self.children.get(&row).into_iter().flatten().copied();
        kept.chain(new.filter(move |child| graph.links.parent(*child) != row))
    }

    /// Gives a row whose parent is gone another: the nearest above it that is left, or, where that has enough children, one
    /// below that, but never one below the row itself, which is not linked to it just then.
    fn adopt(&mut self, graph: &Graph, orphan: u32) {
        let mut above = graph.links.parent(orphan);
        // Up to one that is left. A gone root ends it.
        while self.gone.contains(above) {
            let next = graph.links.parent(above);
            if next == above {
                break;
            }
            above = next;
        }
        let parent = if self.gone.contains(above) {
            match self.children.get(&above).and_then(|heirs| heirs.first()) {
                // The root is gone: the first of the orphans that come to it is the new one.
                None => {
                    self.children.insert(above, vec![orphan]);
                    self.parents.insert(orphan, orphan);
                    return;
                }
                Some(&root) => root,
            }
        } else {
            above
        };
        let mut parent = parent;
        while self.children_of(graph, parent).count() >= MAX_CHILDREN {
            let Some(below) = one_of(self.children_of(graph, parent), orphan, parent) else { break };
            parent = below;
        }
        self.parents.insert(orphan, parent);
        self.children.entry(parent).or_default().push(orphan);
    }
}
