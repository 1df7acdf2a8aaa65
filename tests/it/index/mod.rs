//! Vector indexes: the same tests for each; approximate results are compared with exact ones.

mod hnsw;

use std::collections::BTreeSet;

use mnemon::{Bitmap, ExactIndex, HnswIndex, HnswOptions, Neighbor, SearchOptions, VectorIndex};
use proptest::prelude::*;

use crate::support::{normalized, random, vectors};

const DIMENSION: usize = 24;

fn backends() -> Vec<(&'static str, Box<dyn VectorIndex>)> {
    vec![
        ("exact", Box::new(ExactIndex::new(DIMENSION))),
        ("hnsw", Box::new(hnsw(16, 0))),
        ("hnsw above 100", Box::new(hnsw(16, 100))),
        ("hnsw with few links", Box::new(hnsw(4, 0))),
        ("hnsw with neighbors' codes", Box::new(with_neighbor_codes())),
        ("hnsw with half precision", Box::new(with_half_precision())),
        ("hnsw_rs", Box::new(mnemon::HnswRsIndex::new(DIMENSION, 0))),
        ("hnsw_rs above 100", Box::new(mnemon::HnswRsIndex::new(DIMENSION, 100))),
    ]
}

/// The most that rounding changes a score.
fn rounding(name: &str) -> f32 {
    if name.contains("half precision") { 5e-4 } else { 1e-5 }
}

fn with_neighbor_codes() -> HnswIndex {
    let mut options = HnswOptions::default();
    (options.graph_above, options.neighbor_codes) = (0, true);
    HnswIndex::new(DIMENSION, options)
}

fn with_half_precision() -> HnswIndex {
    let mut options = HnswOptions::default();
    (options.graph_above, options.half_precision) = (100, true);
    HnswIndex::new(DIMENSION, options)
}

fn hnsw(m: usize, graph_above: usize) -> HnswIndex {
    let mut options = HnswOptions::default();
    (options.m, options.graph_above) = (m, graph_above);
    HnswIndex::new(DIMENSION, options)
}

/// Returns the nearest rows by a scan.
fn by_hand(rows: &[f32], query: &[f32], k: usize, counts: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut scored: Vec<(f64, u32)> = rows
        .chunks_exact(DIMENSION)
        .zip(0..)
        .filter(|(_, row)| counts(*row))
        .map(|(vector, row)| (vector.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum(), row))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.into_iter().take(k).map(|(_, row)| row).collect()
}

fn rows(found: &[Neighbor]) -> Vec<u32> {
    found.iter().map(|neighbor| neighbor.row).collect()
}

/// Inserts vectors at the next rows.
fn append(index: &dyn VectorIndex, vectors: &[f32]) {
    let first = index.rows() as u32;
    let rows: Vec<u32> = (first..first + (vectors.len() / DIMENSION) as u32).collect();
    index.insert(&rows, vectors);
}

fn find(index: &dyn VectorIndex, query: &[f32], k: usize, ef: usize, allowed: Option<&Bitmap>) -> Vec<Neighbor> {
    let found = index.search(query, &SearchOptions::new(k).ef(ef).allowed(allowed));
    assert!(!found.cut_short, "there is no deadline");
    found.neighbors
}

fn query(seed: u64) -> Vec<f32> {
    let mut state = seed;
    normalized((0..DIMENSION).map(|_| random(&mut state)).collect())
}

#[test]
fn an_empty_index_and_one_of_a_single_row_are_searched() {
    for (name, index) in backends() {
        assert_eq!(find(&*index, &query(1), 5, 10, None), [], "{name}");
        append(&*index, &query(2));
        let found = find(&*index, &query(2), 5, 10, None);
        assert_eq!(rows(&found), [0], "{name}");
        assert!((found[0].score - 1.0).abs() < rounding(name), "{name}: {}", found[0].score);
        while index.improve() {}
        assert_eq!(rows(&find(&*index, &query(2), 5, 10, None)), [0], "{name}, improved");
        index.remove(&[0, 7]);
        assert_eq!(find(&*index, &query(2), 5, 10, None), [], "{name}, removed");
        assert_eq!(index.rows(), 1);
    }
}

#[test]
fn duplicates_and_zero_vectors_do_not_hide_rows() {
    for (name, index) in backends() {
        let same = query(3);
        for _ in 0..300 {
            append(&*index, &same);
            append(&*index, &[0.0; DIMENSION]);
        }
        while index.improve() {}
        let found = find(&*index, &same, 20, 50, None);
        assert_eq!(found.len(), 20, "{name}");
        assert!(found.iter().all(|neighbor| (neighbor.score - 1.0).abs() < rounding(name)), "{name}: {found:?}");
    }
}

#[test]
fn the_graph_finds_nearly_what_exact_finds() {
    let data = vectors(3000, DIMENSION, 5);
    for (name, index) in backends() {
        append(&*index, &data);
        while index.improve() {}
        let mut found = 0;
        for seed in 0..100 {
            let query = query(seed);
            let wanted: BTreeSet<u32> = by_hand(&data, &query, 10, |_| true).into_iter().collect();
            found += find(&*index, &query, 10, 128, None).iter().filter(|n| wanted.contains(&n.row)).count();
        }
        let least = if name == "hnsw with few links" { 600 } else { 980 };
        assert!(found >= least, "{name}: {found} of 1000");
    }
}

#[test]
fn searches_run_during_inserts_and_improvement() {
    let data = vectors(4000, DIMENSION, 9);
    for (name, index) in backends() {
        std::thread::scope(|scope| {
            scope.spawn(|| data.chunks_exact(DIMENSION * 100).for_each(|rows| append(&*index, rows)));
            scope.spawn(|| {
                while index.rows() < 4000 || index.improve() {
                    index.improve();
                }
            });
            for _ in 0..300 {
                let before = index.rows();
                let found = find(&*index, &data[..DIMENSION], 5, 64, None);
                assert!(found.len() >= before.min(5), "{name}");
                assert!(before == 0 || found[0].score > 0.999, "{name}: row 0 is found as soon as it is in");
                assert_eq!(
                    rows(&found).into_iter().collect::<BTreeSet<_>>().len(),
                    found.len(),
                    "{name}: no row twice"
                );
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any order of inserts, removals, improvement and filtered searches: exact results are those by hand; the
    /// graph's are allowed rows only, in order, and k if there are k.
    #[test]
    fn inserts_removals_and_filters_in_any_order_leave_right_results(
        seed in any::<u64>(),
        steps in proptest::collection::vec((0u8..4, 1usize..60), 1..20),
        modulus in 1u32..8,
        k in 1usize..30,
    ) {
        for (name, index) in backends() {
            let mut data: Vec<f32> = Vec::new();
            let mut removed = BTreeSet::new();
            let mut state = seed;
            for (step, size) in &steps {
                match step {
                    0 | 1 => {
                        let more = vectors(*size, DIMENSION, state);
                        append(&*index, &more);
                        data.extend(more);
                    }
                    2 => {
                        let count = (data.len() / DIMENSION).max(1);
                        let rows: Vec<u32> = (0..*size / 4).map(|i| ((i * 7 + *size) % count) as u32).collect();
                        index.remove(&rows);
                        removed.extend(rows.into_iter().filter(|row| (*row as usize) < data.len() / DIMENSION));
                    }
                    _ => while index.improve() {},
                }
                random(&mut state);
            }
            let count = data.len() / DIMENSION;
            let filter = Bitmap::from_fn(count, |row| row % modulus == 0);
            for allowed in [None, Some(&filter)] {
                let counts = |row| !removed.contains(&row) && allowed.is_none_or(|allowed| allowed.contains(row));
                let live = (0..count as u32).filter(|row| counts(*row)).count();
                let query = query(state);
                let found = find(&*index, &query, k, 64, allowed);
                prop_assert_eq!(found.len(), live.min(k), "{}", name);
                prop_assert!(found.iter().all(|neighbor| counts(neighbor.row)), "{}", name);
                prop_assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{}", name);
                if name == "exact" {
                    let wanted = by_hand(&data, &query, k, counts);
                    let near = |a: &u32, b: &u32| a == b || {
                        let score = |row: u32| -> f32 { data[row as usize * DIMENSION..].iter().zip(&query).map(|(a, b)| a * b).sum() };
                        (score(*a) - score(*b)).abs() < 1e-5
                    };
                    prop_assert!(rows(&found).iter().zip(&wanted).all(|(a, b)| near(a, b)), "{:?} {:?}", found, wanted);
                }
            }
        }
    }

    #[test]
    fn a_bitmap_is_a_set(rows in proptest::collection::btree_set(0u32..500, 0..60)) {
        let mut bitmap = Bitmap::default();
        for &row in &rows {
            prop_assert!(bitmap.insert(row));
            prop_assert!(!bitmap.insert(row));
        }
        prop_assert_eq!(bitmap.count(), rows.len());
        prop_assert!((0..600).all(|row| bitmap.contains(row) == rows.contains(&row)));
        prop_assert_eq!(bitmap.iter().collect::<BTreeSet<_>>(), rows);
    }
}
