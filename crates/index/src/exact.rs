//! Exact search: scans every row.

use std::{
    collections::BinaryHeap,
    fmt,
    ops::{ControlFlow, Range},
};

use parking_lot::RwLock;

use super::{Bitmap, Neighbor, SearchOptions, SearchResult, VectorIndex, distance::Kernels, is_finite};

/// Rows in one allocation. The index grows by such chunks, so that growing never copies vectors.
const CHUNK_ROWS: usize = 1024;
/// Rows scanned between two reads of the clock.
const ROWS_PER_CLOCK_READ: usize = 256;

/// An exact index, which computes one SIMD inner product for each row. Other indexes are compared with it.
///
/// Memory: 4 bytes for each component. A search reads all vectors, so its speed is that of the memory.
pub struct ExactIndex {
    dimension: usize,
    kernels: Kernels,
    state: RwLock<State>,
}

impl fmt::Debug for ExactIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExactIndex")
            .field("dimension", &self.dimension)
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    chunks: Vec<Vec<f32>>,
    rows: usize,
    removed: Bitmap,
}

impl ExactIndex {
    /// Creates an empty index of the given dimension.
    ///
    /// # Panics
    /// If `dimension` is 0.
    pub fn new(dimension: usize) -> Self {
        assert!(dimension > 0, "vectors have at least one component");
        ExactIndex { dimension, kernels: Kernels::detect(), state: RwLock::default() }
    }

    pub(super) fn scan(&self, range: Range<usize>, query: &[f32], search: &SearchOptions) -> SearchResult {
        assert_eq!(query.len(), self.dimension, "the query has the dimension of the index");
        let state = self.state.read();
        let mut best = Best::new(search.k);
        let range = range.start..range.end.min(state.rows);
        let mut seen = 0;
        let mut visit = |row: u32| {
            seen += 1;
            if seen % ROWS_PER_CLOCK_READ == 0 && search.is_late() {
                return ControlFlow::Break(());
            }
            let score = self.kernels.dot(query, state.row(row as usize, self.dimension));
            if score >= best.floor && !state.removed.contains(row) {
                best.push(Neighbor { row, score });
            }
            ControlFlow::Continue(())
        };
        let end = match search.allowed {
            // Only the allowed rows are visited, which are often few.
            Some(allowed) => allowed.iter().filter(|&row| range.contains(&(row as usize))).try_for_each(&mut visit),
            None => range.clone().try_for_each(|row| visit(row as u32)),
        };
        SearchResult { neighbors: best.into_sorted(), cut_short: end.is_break() }
    }

    /// Copies the vectors of `range` that are not removed, each with its row.
    #[cfg(feature = "hnsw_rs")]
    pub(super) fn live_rows(&self, range: Range<usize>) -> Vec<(Vec<f32>, usize)> {
        let state = self.state.read();
        range
            .filter(|&row| !state.removed.contains(row as u32))
            .map(|row| (state.row(row, self.dimension).to_vec(), row))
            .collect()
    }

    #[cfg(feature = "hnsw_rs")]
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
        assert_eq!(vectors.len(), rows.len() * self.dimension, "each row has a vector");
        assert!(is_finite(vectors), "vectors are checked before they are inserted");
        let mut state = self.state.write();
        for (&row, vector) in rows.iter().zip(vectors.chunks_exact(self.dimension)) {
            if (row as usize) < state.rows {
                assert!(state.removed.remove(row), "row {row} is in use");
                state.row_mut(row as usize, self.dimension).copy_from_slice(vector);
                continue;
            }
            assert_eq!(row as usize, state.rows, "new rows are numbered consecutively");
            if state.rows.is_multiple_of(CHUNK_ROWS) {
                // The first chunk grows as needed, because most namespaces are small.
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

    fn search(&self, query: &[f32], search: &SearchOptions) -> SearchResult {
        self.scan(0..usize::MAX, query, search)
    }

    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        let state = self.state.read();
        for (position, &row) in rows.iter().enumerate() {
            if (row as usize) < state.rows && !state.removed.contains(row) {
                visit(position, state.row(row as usize, self.dimension));
            }
        }
    }

    fn rows(&self) -> usize {
        self.state.read().rows
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        let state = self.state.read();
        state.rows * self.dimension * size_of::<f32>() + state.removed.memory_bytes()
    }
}

/// The `k` nearest rows seen so far.
struct Best {
    k: usize,
    heap: BinaryHeap<Worst>,
    /// A lower score cannot be among the best `k`.
    floor: f32,
}

/// A neighbor, ordered so that the top of the heap is the farthest.
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
