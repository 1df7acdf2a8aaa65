//! Compares the query with every row.

use std::{
    collections::BinaryHeap,
    ops::{ControlFlow, Range},
};

use parking_lot::RwLock;

use super::{Bitmap, Found, Neighbor, Search, VectorIndex, distance::Kernels, is_finite};
use crate::error::impl_debug;

/// Rows of one allocation: growing never copies what is there.
const CHUNK_ROWS: usize = 1024;
/// Rows between two looks at the clock.
const ROWS_A_LOOK: usize = 256;

/// Exact search: one SIMD inner product a row. The reference that other indexes are measured by.
///
/// Memory: 4 bytes a component. Search reads all of it, so it runs at the speed of memory.
pub struct ExactIndex {
    dimension: usize,
    kernels: Kernels,
    state: RwLock<State>,
}

impl_debug!(ExactIndex, self { dimension: self.dimension, rows: self.rows() });

#[derive(Default)]
struct State {
    chunks: Vec<Vec<f32>>,
    rows: usize,
    removed: Bitmap,
}

impl ExactIndex {
    /// An empty index of this dimension, at least 1.
    pub fn new(dimension: usize) -> Self {
        assert!(dimension > 0, "vectors have components");
        ExactIndex { dimension, kernels: Kernels::detect(), state: RwLock::default() }
    }

    /// The best rows of `range`.
    pub(super) fn scan(&self, range: Range<usize>, query: &[f32], search: &Search) -> Found {
        assert_eq!(query.len(), self.dimension, "the query's dimension is the index's");
        let state = self.state.read();
        let mut best = Best::new(search.k);
        let range = range.start..range.end.min(state.rows);
        let mut seen = 0;
        let mut visit = |row: u32| {
            seen += 1;
            if seen % ROWS_A_LOOK == 0 && search.is_late() {
                return ControlFlow::Break(());
            }
            let score = self.kernels.dot(query, state.row(row as usize, self.dimension));
            if score >= best.floor && !state.removed.contains(row) {
                best.push(Neighbor { row, score });
            }
            ControlFlow::Continue(())
        };
        let end = match search.allowed {
            // Few rows: visit those alone.
            Some(allowed) => allowed.iter().filter(|&row| range.contains(&(row as usize))).try_for_each(&mut visit),
            None => range.clone().try_for_each(|row| visit(row as u32)),
        };
        Found { neighbors: best.into_sorted(), cut_short: end.is_break() }
    }

    /// Copies of the rows of `range` that are not removed, with their numbers.
    pub(super) fn live_rows(&self, range: Range<usize>) -> Vec<(Vec<f32>, usize)> {
        let state = self.state.read();
        range
            .filter(|&row| !state.removed.contains(row as u32))
            .map(|row| (state.row(row, self.dimension).to_vec(), row))
            .collect()
    }

    pub(super) fn is_removed(&self, row: u32) -> bool {
        self.state.read().removed.contains(row)
    }
}

impl State {
    fn row(&self, row: usize, dimension: usize) -> &[f32] {
        let begin = row % CHUNK_ROWS * dimension;
        &self.chunks[row / CHUNK_ROWS][begin..begin + dimension]
    }

    fn row_mut(&mut self, row: usize, dimension: usize) -> &mut [f32] {
        let begin = row % CHUNK_ROWS * dimension;
        &mut self.chunks[row / CHUNK_ROWS][begin..begin + dimension]
    }
}

impl VectorIndex for ExactIndex {
    fn insert(&self, rows: &[u32], vectors: &[f32]) {
        assert_eq!(vectors.len(), rows.len() * self.dimension, "a vector a row");
        assert!(is_finite(vectors), "vectors are checked when they are made");
        let mut state = self.state.write();
        for (&row, vector) in rows.iter().zip(vectors.chunks_exact(self.dimension)) {
            if (row as usize) < state.rows {
                assert!(state.removed.remove(row), "row {row} is in use");
                state.row_mut(row as usize, self.dimension).copy_from_slice(vector);
                continue;
            }
            assert_eq!(row as usize, state.rows, "rows are numbered one after the other");
            if state.rows.is_multiple_of(CHUNK_ROWS) {
                // The first chunks grow as needed: most namespaces are small.
                let capacity = if state.rows == 0 { 0 } else { CHUNK_ROWS * self.dimension };
                state.chunks.push(Vec::with_capacity(capacity));
            }
            state.chunks.last_mut().expect("just pushed").extend_from_slice(vector);
            state.rows += 1;
        }
    }

    fn remove(&self, rows: &[u32]) {
        let mut state = self.state.write();
        for &row in rows {
            if (row as usize) < state.rows {
                state.removed.insert(row);
            }
        }
    }

    fn search(&self, query: &[f32], search: &Search) -> Found {
        self.scan(0..usize::MAX, query, search)
    }

    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        let state = self.state.read();
        for (at, &row) in rows.iter().enumerate() {
            if (row as usize) < state.rows && !state.removed.contains(row) {
                visit(at, state.row(row as usize, self.dimension));
            }
        }
    }

    fn rows(&self) -> usize {
        self.state.read().rows
    }
}

/// The best `k` seen so far.
struct Best {
    k: usize,
    heap: BinaryHeap<Worst>,
    /// Scores below this cannot enter.
    floor: f32,
}

/// Ordered so that the heap's top is the worst.
struct Worst(Neighbor);

impl Best {
    fn new(k: usize) -> Self {
        Best { k, heap: BinaryHeap::new(), floor: f32::NEG_INFINITY }
    }

    fn push(&mut self, neighbor: Neighbor) {
        if self.heap.len() < self.k {
            self.heap.push(Worst(neighbor));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && neighbor.order(&worst.0).is_lt()
        {
            *worst = Worst(neighbor);
        }
        if self.heap.len() == self.k {
            self.floor = self.heap.peek().map_or(f32::INFINITY, |worst| worst.0.score);
        }
    }

    fn into_sorted(self) -> Vec<Neighbor> {
        self.heap.into_sorted_vec().into_iter().map(|worst| worst.0).collect()
    }
}

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.order(&other.0)
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Worst {}
