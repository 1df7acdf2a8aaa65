//! The HNSW index: rows are inserted, removed and reused, and the graph stays whole and finds them.

use mnemon::{ExactIndex, HnswIndex, HnswOptions, SearchOptions, VectorIndex};

use crate::support::{below, normalized, random, vectors};

const DIMENSION: usize = 24;

/// A distribution of vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Clusters,
    /// Some dozens of each vector.
    Duplicates,
    /// Many that differ by less than codes tell.
    NearDuplicates,
    /// One of them half of the time.
    Zeros,
}

fn draw(kind: Kind, count: usize, state: &mut u64) -> Vec<Vec<f32>> {
    // The centres are the same each time.
    let base: Vec<Vec<f32>> = vectors(if kind == Kind::Clusters { 20 } else { 40 }, DIMENSION, 8)
        .chunks_exact(DIMENSION)
        .map(<[f32]>::to_vec)
        .collect();
    let mut one = |_| {
        let near = &base[below(state, base.len())];
        let mut noisy = |size: f32| normalized(near.iter().map(|x| x + size * random(state)).collect());
        match kind {
            Kind::Clusters => noisy(0.3),
            Kind::Duplicates => near.clone(),
            Kind::NearDuplicates => noisy(1e-3),
            Kind::Zeros => {
                let vector = noisy(0.3);
                if random(state) > 0.0 { vec![0.0; DIMENSION] } else { vector }
            }
        }
    };
    (0..count).map(&mut one).collect()
}

/// An index with what should be in it.
struct Churned {
    index: HnswIndex,
    rows: Vec<Option<Vec<f32>>>,
}

impl Churned {
    fn new(neighbor_codes: bool) -> Self {
        let mut options = HnswOptions::default();
        (options.graph_above, options.ef_construction, options.neighbor_codes) = (0, 64, neighbor_codes);
        Churned { index: HnswIndex::new(DIMENSION, options), rows: Vec::new() }
    }

    fn of(&self, alive: bool) -> Vec<u32> {
        (0..).zip(&self.rows).filter(|(_, row)| row.is_some() == alive).map(|(row, _)| row).collect()
    }

    fn insert(&mut self, rows: &[u32], vectors: Vec<Vec<f32>>) {
        self.index.insert(rows, &vectors.concat());
        for (&row, vector) in rows.iter().zip(vectors) {
            if row as usize == self.rows.len() {
                self.rows.push(None);
            }
            self.rows[row as usize] = Some(vector);
        }
    }

    fn append(&mut self, vectors: Vec<Vec<f32>>) {
        let first = self.rows.len() as u32;
        self.insert(&(first..first + vectors.len() as u32).collect::<Vec<_>>(), vectors);
    }

    fn step(&mut self, kind: Kind, state: &mut u64) {
        match below(state, 5) {
            0 | 1 => {
                let count = below(state, 150);
                self.append(draw(kind, count, state));
            }
            2 => {
                let mut living = self.of(true);
                let count = below(state, 80).min(living.len());
                let rows: Vec<u32> = (0..count).map(|_| living.swap_remove(below(state, living.len()))).collect();
                self.index.remove(&rows);
                rows.iter().for_each(|&row| self.rows[row as usize] = None);
            }
            3 => {
                let mut dead = self.of(false);
                dead.truncate(below(state, 80));
                self.insert(&dead, draw(kind, dead.len(), state));
            }
            _ => {
                for _ in 0..below(state, 4) {
                    self.index.improve();
                }
            }
        }
    }

    fn assert_sound(&self, kind: Kind) {
        assert_eq!(self.index.check(), [""; 0], "{kind:?}");
        for (row, vector) in (0..).zip(&self.rows) {
            let Some(vector) = vector.as_ref().filter(|vector| vector.iter().any(|&x| x != 0.0)) else { continue };
            let found = self.index.search(vector, &SearchOptions::new(1)).neighbors[0];
            let is_it = if kind == Kind::Clusters { found.row == row } else { found.score > 0.9999 };
            assert!(is_it, "{kind:?}: row {row} finds {found:?}");
        }
    }

    /// The share of the truly nearest 10 that are found.
    fn recall(&self, kind: Kind, state: &mut u64) -> f64 {
        let exact = ExactIndex::new(DIMENSION);
        for (row, vector) in (0..).zip(&self.rows) {
            exact.insert(&[row], vector.as_deref().unwrap_or(&[0.0; DIMENSION]));
            if vector.is_none() {
                exact.remove(&[row]);
            }
        }
        let (mut right, mut all) = (0, 0);
        for query in draw(kind, 100, state).iter().filter(|query| query.iter().any(|&x| x != 0.0)) {
            let wanted = exact.search(query, &SearchOptions::new(10)).neighbors;
            let found = self.index.search(query, &SearchOptions::new(10)).neighbors;
            assert_eq!(found.len(), wanted.len());
            let Some(last) = wanted.last() else { return 1.0 };
            right += found.iter().filter(|near| near.score > last.score - 1e-5).count();
            all += wanted.len();
        }
        right as f64 / all as f64
    }
}

/// `MNEMON_GRAPH_RUNS` sets how often; default 1.
#[test]
fn after_random_changes_the_graph_is_whole_and_finds_all_rows() {
    let runs = std::env::var("MNEMON_GRAPH_RUNS").map_or(1, |runs| runs.parse().unwrap());
    const KINDS: [Kind; 4] = [Kind::Clusters, Kind::Duplicates, Kind::NearDuplicates, Kind::Zeros];
    let cases = (0..runs).flat_map(|run: u64| KINDS.map(|kind| (run, kind)));
    for ((run, kind), neighbor_codes) in cases.flat_map(|case| [false, true].map(|codes| (case, codes))) {
        let mut state = 1000 + run;
        let mut churned = Churned::new(neighbor_codes);
        for step in 0..40 {
            churned.step(kind, &mut state);
            if step % 10 == 9 {
                churned.assert_sound(kind);
            }
        }
        while churned.index.improve() {}
        churned.assert_sound(kind);
        let recall = churned.recall(kind, &mut state);
        // What is the same as another is reached through it alone.
        let least = if kind == Kind::Clusters { 0.98 } else { 0.9 };
        assert!(recall >= least, "{kind:?}, run {run}, neighbors' codes {neighbor_codes}: recall {recall}");
    }
}

#[test]
fn three_thousand_rows_are_found() {
    for neighbor_codes in [false, true] {
        let mut state = 3;
        let mut churned = Churned::new(neighbor_codes);
        churned.append(draw(Kind::Clusters, 3000, &mut state));
        while churned.index.improve() {}
        churned.assert_sound(Kind::Clusters);
        let recall = churned.recall(Kind::Clusters, &mut state);
        assert!(recall >= 0.98, "recall {recall}");
    }
}

#[test]
fn rows_are_found_after_all_were_removed_and_inserted_again() {
    let mut state = 4;
    let mut churned = Churned::new(true);
    churned.append(draw(Kind::Clusters, 500, &mut state));
    for improved in [false, true, true] {
        if improved {
            while churned.index.improve() {}
        }
        let rows = churned.of(true);
        churned.index.remove(&rows);
        assert!(churned.index.search(&[0.1; DIMENSION], &SearchOptions::new(5)).neighbors.is_empty());
        if improved {
            while churned.index.improve() {}
        }
        assert_eq!(churned.index.check(), [""; 0]);
        churned.rows.fill(None);
        churned.insert(&rows, draw(Kind::Clusters, rows.len(), &mut state));
        churned.assert_sound(Kind::Clusters);
    }
}
