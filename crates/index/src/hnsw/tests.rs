//! Tests of the graph that look at its internals.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use proptest::prelude::*;

use super::{
    beam::BeamSearch,
    codes::{self, mix},
    encoding::{decode_delta, decode_page, encode_delta, encode_page, rows_per_page},
    graph::Graph,
    links::{self, Links, List},
    search::Searcher,
    *,
};
use crate::{
    Damaged, SearchOptions, VectorIndex,
    distance::{BLOCK_ROWS, Line, SignTable},
};

const DIMENSION: usize = 16;

/// With more than a few links, also with the codes of neighbors.
fn options(m: usize) -> HnswOptions {
    HnswOptions { m, ef_construction: 32, graph_above: 0, neighbor_codes: m >= 8, half_precision: m >= 8 }
}

/// Returns the next number of a seeded sequence, below `count`.
fn random_below(state: &mut u64, count: usize) -> usize {
    *state = mix(*state);
    (*state >> 33) as usize % count.max(1)
}

/// A unit vector near one of 12 centers; every tenth vector is exactly one of 5 centers.
fn vector(state: &mut u64) -> Vec<f32> {
    let component = |state: &mut u64| random_below(state, 2001) as f32 / 1000.0 - 1.0;
    let is_copy = random_below(state, 10) == 0;
    let mut center = random_below(state, if is_copy { 5 } else { 12 }) as u64 + 77;
    let spread = if is_copy { 0.0 } else { 0.6 };
    let mut vector: Vec<f32> = (0..DIMENSION).map(|_| component(&mut center) + spread * component(state)).collect();
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= norm);
    vector
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pages(index: &HnswIndex) -> Vec<Vec<u8>> {
    let count = index.rows().div_ceil(rows_per_page(index.options.m));
    (0..count as u32).map(|page| index.page(page)).collect()
}

fn small_delta() -> Delta {
    Delta {
        levels: vec![(1, 0), (258, 1)],
        cleared: vec![7],
        lists: vec![
            List { row: 1, layer: 0, links: vec![258] },
            List { row: 258, layer: 0, links: vec![1, 2] },
            List { row: 258, layer: 1, links: vec![] },
        ],
    }
}

fn small_links() -> Links {
    let mut links = Links::new(4);
    links.grow(3);
    links.add(0, 1);
    links.add(2, 1);
    links.set(0, 0, &[0, 2]);
    links.set(0, 1, &[2]);
    links.set(2, 0, &[0]);
    links.set(2, 1, &[0]);
    links
}

/// Stored databases outlive releases: cases may be added, but these bytes must never change.
#[test]
fn the_bytes_of_deltas_and_pages_never_change() {
    assert_eq!(
        hex(&encode_delta(&small_delta(), 16)),
        "1000\
         02000000\
         0100000000\
         0201000001\
         01000000\
         07000000\
         03000000\
         01000000000102010000\
         0201000000020100000002000000\
         020100000100"
    );
    assert_eq!(
        hex(&encode_page(&small_links(), 0)),
        "0400010200000000020000000102000000ff01010000000001\
         00000000"
    );
    assert_eq!([4, 16, 64].map(rows_per_page), [1536, 467, 123], "where a page begins is part of the stored format");
}

fn any_delta() -> impl Strategy<Value = Delta> {
    let list = (0..1000u32, 0..16u8, prop::collection::vec(0..1000u32, 0..=8)).prop_map(|(row, layer, links)| List {
        row,
        layer,
        links,
    });
    let levels = prop::collection::vec((0..1000u32, 0..=links::MAX_LEVEL), 0..20);
    let cleared = prop::collection::vec(0..1000u32, 0..20);
    (levels, cleared, prop::collection::vec(list, 0..20)).prop_map(|(levels, cleared, lists)| Delta {
        levels,
        lists,
        cleared,
    })
}

proptest! {
    #[test]
    fn a_delta_is_decoded_as_it_was_encoded(delta in any_delta()) {
        prop_assert_eq!(decode_delta(&encode_delta(&delta, 8), 1000).unwrap(), (8, delta));
    }

    #[test]
    fn a_page_is_decoded_as_it_was_encoded(deltas in prop::collection::vec(any_delta(), 1..4)) {
        let mut graph = Graph::new(1, &options(8));
        graph.links.grow(1000);
        deltas.iter().for_each(|delta| graph.apply(delta));
        let mut read = Links::new(8);
        read.grow(1000);
        for page in 0..1000u32.div_ceil(rows_per_page(8) as u32) {
            let bytes = encode_page(&graph.links, page);
            decode_page(&mut read, page, &bytes).unwrap();
            prop_assert_eq!(encode_page(&read, page), bytes);
        }
        prop_assert_eq!(read.count(), graph.links.count());
    }
}

/// Returns the bytes cut at every length, and with every bit flipped.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let cut = (0..bytes.len()).map(|length| bytes[..length].to_vec());
    let flipped = (0..bytes.len() * 8).map(|bit| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    cut.chain(flipped)
}

/// Checksums of the store find damage before. If a checksum is right by chance, nothing panics and no row is out of
/// range.
#[test]
fn damaged_parts_lead_to_no_missing_row() {
    const ROWS: u32 = 12;
    let mut state = 3;
    let index = HnswIndex::new(DIMENSION, options(4));
    for row in 0..ROWS {
        index.insert(&[row], &vector(&mut state));
    }
    let planning = index.lock_planning();
    let delta = index.encode(&index.plan_step(&planning, true).unwrap());
    drop(planning);
    while index.improve() {}
    let page = index.page(0);
    let query = vector(&mut state);
    for (what, is_page) in [(page, true), (delta, false)] {
        let (mut read, mut refused) = (0, 0);
        for bytes in damaged(&what) {
            let mut loader = Loader::new(DIMENSION, ROWS as usize, options(4), None);
            (0..u64::from(ROWS)).for_each(|row| loader.row(Some(&vector(&mut (row + 9)))));
            let result = if is_page { loader.page(0, &bytes) } else { loader.delta(&bytes) };
            match result.and_then(|()| loader.check_parents()) {
                Ok(()) => read += 1,
                Err(Damaged(_)) => {
                    refused += 1;
                    loader.forget_parts();
                }
            }
            let index = loader.finish(&[]);
            assert!(index.graph.read().links.rows() == ROWS as usize);
            let found = index.search(&query, &SearchOptions::new(ROWS as usize)).neighbors;
            assert_eq!(found.len(), ROWS as usize, "all rows are found, linked or not");
            index.remove(&[3, 4]);
            while index.improve() {}
        }
        assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
    }
    assert!(Loader::new(1, 1, options(4), None).page(u32::MAX, &[4, 0, 255]).is_err());
}

/// The codes of neighbors are those of the present links, if they are not stale. They are stale only while there is work.
fn assert_coded(index: &HnswIndex) {
    let graph = index.graph.read();
    let Some(neighbor_codes) = &graph.neighbor_codes else { return };
    let linked = (0..graph.links.rows() as u32).filter(|&row| graph.links.has(row));
    for row in linked {
        match neighbor_codes.blocks(row) {
            Some(blocks) => {
                let blocks: Vec<Line> = blocks.flatten().copied().collect();
                let again = neighbor_codes.encode(&graph.codes, &graph.links, row, &mut Default::default());
                assert!(blocks == again, "the codes of the neighbors of row {row} are old");
            }
            None => assert!(graph.has_work(true), "the codes of the neighbors of row {row} are stale"),
        }
    }
}

/// An index, and a model of its stored form.
struct Stored {
    index: HnswIndex,
    m: usize,
    rows: Vec<Option<Vec<f32>>>,
    free: BTreeSet<u32>,
    pages: BTreeMap<u32, Vec<u8>>,
    deltas: BTreeMap<u32, Vec<u8>>,
    next: u32,
    /// The pages that are still to be written, and the number of the last delta that they contain.
    folding: Option<(Vec<u32>, u32)>,
}

impl Stored {
    fn new(m: usize) -> Self {
        Stored {
            index: HnswIndex::new(DIMENSION, options(m)),
            m,
            rows: Vec::new(),
            free: BTreeSet::new(),
            pages: BTreeMap::new(),
            deltas: BTreeMap::new(),
            next: 0,
            folding: None,
        }
    }

    fn live_rows(&self) -> Vec<u32> {
        (0..).zip(&self.rows).filter(|(_, row)| row.is_some()).map(|(row, _)| row).collect()
    }

    fn store(&mut self, delta: &Delta) {
        self.deltas.insert(self.next, self.index.encode(delta));
        self.next += 1;
        for &row in delta.freed() {
            assert!(self.rows[row as usize].is_none(), "row {row} is in use, but it was freed");
            self.free.insert(row);
        }
    }

    /// Adds rows, in one commit with their links if they can be linked at once.
    fn add(&mut self, count: usize, state: &mut u64) {
        let vectors: Vec<Vec<f32>> = (0..count).map(|_| vector(state)).collect();
        let mut rows: Vec<u32> = Vec::new();
        for vector in &vectors {
            rows.push(self.free.pop_first().unwrap_or_else(|| {
                self.rows.push(None);
                self.rows.len() as u32 - 1
            }));
            self.rows[rows[rows.len() - 1] as usize] = Some(vector.clone());
        }
        let planning = self.index.lock_planning();
        let is_stored = self.index.is_stored();
        let delta = is_stored.then(|| self.index.plan_new(&planning, &rows, &vectors.concat())).flatten();
        if let Some(delta) = &delta {
            self.store(delta);
        }
        self.index.insert(&rows, &vectors.concat());
        if let Some(delta) = &delta {
            self.index.apply(delta);
        }
    }

    fn remove(&mut self, count: usize, state: &mut u64) {
        let mut live = self.live_rows();
        let rows: Vec<u32> =
            (0..count.min(live.len())).map(|_| live.swap_remove(random_below(state, live.len()))).collect();
        self.index.remove(&rows);
        rows.iter().for_each(|&row| self.rows[row as usize] = None);
        if !self.index.is_stored() {
            self.free.extend(rows);
        }
    }

    fn step(&mut self) -> bool {
        if !self.index.has_work(true) {
            return false;
        }
        if !self.index.is_stored() {
            self.store(&Delta::default());
            self.index.set_stored(true);
        }
        let planning = self.index.lock_planning();
        if let Some(delta) = self.index.plan_step(&planning, true) {
            self.store(&delta);
            self.index.apply(&delta);
        }
        true
    }

    /// Does one transaction of writing pages: writes a page, or, after all of them, drops the deltas that they contain.
    fn fold(&mut self) {
        match &mut self.folding {
            None if self.next > 0 => self.folding = Some((self.index.take_changed_pages(), self.next - 1)),
            None => {}
            Some((pages, last)) => match pages.pop() {
                Some(page) => drop(self.pages.insert(page, self.index.page(page))),
                None => {
                    let kept = self.deltas.split_off(&(*last + 1));
                    self.deltas = kept;
                    self.folding = None;
                }
            },
        }
    }

    fn load(&self) -> HnswIndex {
        let mut loader = Loader::new(DIMENSION, self.rows.len(), options(self.m), None);
        self.rows.iter().for_each(|row| loader.row(row.as_deref()));
        self.pages.iter().for_each(|(&page, bytes)| loader.page(page, bytes).unwrap());
        self.deltas.values().for_each(|bytes| loader.delta(bytes).unwrap());
        loader.finish(&self.free.iter().copied().collect::<Vec<_>>())
    }

    fn assert_loads(&self) {
        let free: Vec<u32> = self.free.iter().copied().collect();
        assert_eq!(self.index.check_with(&free), [""; 0]);
        let loaded = self.load();
        assert_eq!(loaded.check_with(&free), [""; 0]);
        if self.index.is_stored() {
            assert_eq!(pages(&loaded), pages(&self.index));
        }
        assert_eq!((loaded.counts(), loaded.is_stored()), (self.index.counts(), self.index.is_stored()));
        assert_coded(&loaded);
        assert_coded(&self.index);
        let (loaded, index) = (loaded.graph.read(), self.index.graph.read());
        type Rows = fn(&Graph) -> Vec<u32>;
        let all: [Rows; 3] = [|g| g.live.iter().collect(), |g| g.tail.iter().collect(), |g| g.removed.iter().collect()];
        for of in all {
            assert_eq!(of(&loaded), of(&index));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// At any time, also between the transactions that write pages, the stored rows, pages and deltas give the same
    /// graph again. The loaded graph goes on in the same way.
    #[test]
    fn a_graph_is_loaded_as_it_was(
        m in prop::sample::select(vec![4, 64]),
        steps in prop::collection::vec((0..8u8, 1..60_usize), 1..50),
        seed in any::<u64>(),
    ) {
        let mut state = seed;
        let mut stored = Stored::new(m);
        for (step, size) in steps {
            match step {
                0 => stored.add(size * 2, &mut state),
                1 => stored.add(size % 4, &mut state),
                2 => stored.remove(size, &mut state),
                3 => drop(stored.step()),
                4..7 => stored.fold(),
                _ => {
                    stored.index = stored.load();
                    stored.folding = None;
                }
            }
            stored.assert_loads();
        }
        while stored.step() {}
        stored.assert_loads();
        let (live, linked) = stored.index.counts();
        prop_assert_eq!((live, linked), (stored.live_rows().len(), live));
        prop_assert_eq!(stored.free.len(), stored.rows.len() - live, "all removed rows can be reused");
    }
}

/// Builds an index of `count` linked rows. Returns their vectors as well.
fn build(m: usize, count: usize, seed: u64) -> (HnswIndex, Vec<Vec<f32>>) {
    let mut state = seed;
    let index = HnswIndex::new(DIMENSION, options(m));
    let vectors: Vec<Vec<f32>> = (0..count).map(|_| vector(&mut state)).collect();
    index.insert(&(0..count as u32).collect::<Vec<_>>(), &vectors.concat());
    while index.improve() {}
    (index, vectors)
}

#[test]
fn the_graph_does_not_depend_on_threads() {
    let pages_with = |threads: usize| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
            let (index, _) = build(8, 1000, 11);
            index.remove(&(0..1000).step_by(3).collect::<Vec<_>>());
            while index.improve() {}
            pages(&index)
        })
    };
    assert_eq!(pages_with(1), pages_with(3));
}

/// Whichever rows are removed, no link leads to them afterwards, the other rows form one tree, and vectors inserted
/// again are found.
#[test]
fn removals_leave_the_graph_sound() {
    type Choice = fn(&Graph) -> Vec<u32>;
    let root = |graph: &Graph| (0..400).find(|&row| graph.links.parent(row) == row).unwrap();
    assert!(build(4, 400, 1).0.graph.read().links.parent(0) == 0, "the first row is the root");
    let choices: [(&str, Choice); 8] = [
        ("the root", |_| vec![0]),
        ("the root and its children", |graph| graph.links.children(0).chain([0]).collect()),
        ("the entry", |graph| graph.links.entry().into_iter().collect()),
        ("upper layers", |graph| (0..400).filter(|&row| graph.links.level(row) > Some(0)).collect()),
        ("a cluster", |graph| {
            let query = graph.originals.as_ref().unwrap().row(5, &mut Vec::new()).to_vec();
            let mut searcher = Searcher { graph, originals: None, beam: BeamSearch::default() };
            searcher.search_exactly(&query, 100).into_iter().map(|neighbor| neighbor.row).collect()
        }),
        ("rows with children", |graph| (0..400).filter(|&row| graph.links.children(row).next().is_some()).collect()),
        ("all but one", |_| (0..400).filter(|&row| row != 221).collect()),
        ("all", |_| (0..400).collect()),
    ];
    for (m, (what, choice)) in [4, 16].into_iter().flat_map(|m| choices.map(|choice| (m, choice))) {
        let (index, vectors) = build(m, 400, 1);
        assert_eq!(index.check(), [""; 0], "{m}, {what}");
        let removed = choice(&index.graph.read());
        index.remove(&removed);
        let planning = index.lock_planning();
        let delta = index.plan_step(&planning, true).unwrap();
        index.apply(&delta);
        drop(planning);
        assert_eq!(index.check(), [""; 0], "{m}, {what}");
        assert!(!index.improve() && removed.iter().all(|&row| !index.graph.read().links.has(row)));
        if removed.len() < 400 {
            root(&index.graph.read());
        }
        // The rows are reused, from the last to the first.
        let rows: Vec<u32> = removed.iter().copied().rev().collect();
        let again: Vec<f32> = removed.iter().flat_map(|&row| vectors[row as usize].clone()).collect();
        index.insert(&rows, &again);
        while index.improve() {}
        assert_eq!(index.check(), [""; 0], "{m}, {what}");
        assert_eq!(index.counts(), (400, 400));
        let is_found = |vector: &&[f32]| index.search(vector, &SearchOptions::new(1)).neighbors[0].score > 0.999;
        let found = again.chunks_exact(DIMENSION).filter(is_found).count();
        // With the fewest links, parents and children leave little room for other links.
        let least = if m == 4 { rows.len() * 9 / 10 } else { rows.len() };
        assert!(found >= least, "{m}, {what}: {found} of {} are found", rows.len());
    }
}

/// Walks down the tree in search of a parent are short.
#[test]
fn the_tree_of_duplicates_is_low() {
    let index = HnswIndex::new(DIMENSION, options(4));
    let same = vector(&mut 1);
    let rows: Vec<u32> = (0..4000).collect();
    index.insert(&rows, &same.repeat(rows.len()));
    while index.improve() {}
    let height = |index: &HnswIndex| {
        let graph = index.graph.read();
        let depth = |mut row: u32| {
            let mut depth = 0;
            while graph.links.parent(row) != row {
                row = graph.links.parent(row);
                depth += 1;
            }
            depth
        };
        (0..4000).filter(|&row| graph.links.has(row)).map(depth).max().unwrap()
    };
    assert!(height(&index) < 40, "{}", height(&index));
    index.remove(&(0..4000).step_by(2).collect::<Vec<_>>());
    while index.improve() {}
    assert_eq!(index.check(), [""; 0]);
    assert!(height(&index) < 60, "{}", height(&index));
}

/// Rows that are removed before a broken graph is dropped are free then, and may be in use again when the next graph
/// begins.
#[test]
fn rows_reserved_by_a_dropped_graph_are_free() {
    let mut state = 5;
    let index = HnswIndex::new(DIMENSION, options(8));
    for row in 0..100 {
        index.insert(&[row], &vector(&mut state));
    }
    index.set_stored(true);
    index.remove(&[3, 4]);
    index.set_stored(false);
    index.insert(&[3], &vector(&mut state));
    let planning = index.lock_planning();
    while let Some(delta) = index.plan_step(&planning, true) {
        assert_eq!(delta.freed(), [0; 0]);
        index.apply(&delta);
    }
    assert_eq!((index.counts(), index.check()), ((99, 99), vec![]));
}

#[test]
fn inserts_and_searches_do_not_wait_for_a_plan() {
    let index = HnswIndex::new(64, HnswOptions { graph_above: 0, ..HnswOptions::default() });
    let vector = |row: u32| -> Vec<f32> {
        let bits = codes::mix(u64::from(row));
        (0..64).map(|i| if bits >> i & 1 == 1 { 0.125 } else { -0.125 }).collect()
    };
    let rows: Vec<u32> = (0..3000).collect();
    index.insert(&rows, &rows.iter().flat_map(|&row| vector(row)).collect::<Vec<_>>());
    let is_over = AtomicBool::new(false);
    let mut inserted = 3000;
    let mut steps = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..4 {
                index.improve();
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            index.insert(&[inserted], &vector(inserted));
            assert_eq!(index.search(&vector(inserted), &SearchOptions::new(1)).neighbors[0].row, inserted);
            inserted += 1;
            steps += 1;
        }
    });
    assert!(steps > 40, "{steps} inserts beside 4 steps");
    while index.improve() {}
    assert_eq!((index.counts(), index.check()), ((inserted as usize, inserted as usize), vec![]));
}

/// Estimates have no bias, and errors of the size that their authors' bound gives: 1 / sqrt(dimension) of the distances.
#[test]
fn estimates_are_near_the_scores() {
    const WIDE: usize = 256;
    let mut state = 3;
    let index = HnswIndex::new(WIDE, HnswOptions { neighbor_codes: true, graph_above: 0, ..HnswOptions::default() });
    let center: Vec<f32> = (0..WIDE).map(|_| random_below(&mut state, 2001) as f32 - 1000.0).collect();
    let mut near = || {
        let vector = center.iter().map(|x| x + random_below(&mut state, 2001) as f32 - 1000.0).collect::<Vec<_>>();
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.into_iter().map(|x| x / norm).collect::<Vec<_>>()
    };
    let (vectors, queries): (Vec<_>, Vec<_>) = ((0..500).map(|_| near()).collect(), (0..20).map(|_| near()).collect());
    index.insert(&(0..500).collect::<Vec<_>>(), &vectors.concat());
    while index.improve() {}
    assert_coded(&index);
    let graph = index.graph.read();
    let neighbor_codes = graph.neighbor_codes.as_ref().unwrap();
    let kernels = graph.codes.kernels();
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for query in &queries {
        let mut coded = codes::CodedQuery::default();
        graph.codes.encode_query(query, &mut coded);
        let mut table = SignTable::default();
        kernels.tabulate(coded.rotated(), &mut table);
        for row in 0..500 {
            let score = |row: u32| kernels.dot(query, &vectors[row as usize]);
            let mut scores = [0.0; BLOCK_ROWS];
            let block = neighbor_codes.blocks(row).unwrap().next().unwrap();
            kernels.estimate(&table, score(row), block, 0.0, &mut scores);
            for (&link, estimate) in graph.links.of(row, 0).iter().zip(scores) {
                // Relative to the distances of query and neighbor from the row.
                let distance = |a: &[f32], b: &[f32]| (2.0 - 2.0 * kernels.dot(a, b)).max(1e-9).sqrt();
                let [row, link] = [row, link].map(|row| &vectors[row as usize][..]);
                let error = (estimate - kernels.dot(query, link)) / (distance(query, row) * distance(row, link));
                (count, sum, squares) = (count + 1.0, sum + error, squares + error * error);
            }
        }
    }
    let (mean, deviation) = (sum / count, (squares / count).sqrt());
    assert!(mean.abs() < 0.1 / (WIDE as f32).sqrt(), "{mean}");
    assert!(deviation < 1.0 / (WIDE as f32).sqrt(), "{deviation}");
}

#[test]
fn decoded_vectors_are_near_the_inserted_ones() {
    let mut state = 9;
    for dimension in [2, 100, 384] {
        let mut codes = codes::Codes::new(dimension);
        for row in 0..50 {
            let vector: Vec<f32> = (0..dimension).map(|_| random_below(&mut state, 2001) as f32 - 1000.0).collect();
            codes.put(row, &vector);
            let mut decoded = Vec::new();
            codes.decode(row, &mut decoded);
            assert_eq!(decoded.len(), dimension);
            let squares = |vector: &mut dyn Iterator<Item = f32>| vector.map(|x| x * x).sum::<f32>();
            let error = squares(&mut decoded.iter().zip(&vector).map(|(a, b)| a - b));
            let length = squares(&mut vector.iter().copied());
            assert!(error.sqrt() <= 0.02 * length.sqrt(), "{dimension}: {}", (error / length).sqrt());
        }
    }
}

/// Rows of which a source of vectors counts those that are read.
struct Counted {
    vectors: Vec<Vec<f32>>,
    read: AtomicUsize,
}

impl Originals for Counted {
    fn read(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        self.read.fetch_add(rows.len(), Ordering::Relaxed);
        rows.iter().enumerate().for_each(|(at, row)| visit(at, &self.vectors[*row as usize]));
    }
}

/// An index without vectors finds the rows that are nearest by their vectors, and reads few of these.
#[test]
fn rows_too_close_to_tell_are_scored_by_their_vectors() {
    const ROWS: usize = 2000;
    const K: usize = 10;
    let mut state = 5;
    let vectors: Vec<Vec<f32>> = (0..ROWS).map(|_| vector(&mut state)).collect();
    let source = Arc::new(Counted { vectors: vectors.clone(), read: AtomicUsize::new(0) });
    let mut loader = Loader::new(DIMENSION, ROWS, options(4), Some(Arc::clone(&source) as Arc<dyn Originals>));
    vectors.iter().for_each(|vector| loader.row(Some(vector)));
    let index = loader.finish(&[]);
    let (mut others, mut read) = (0, 0);
    for _ in 0..100 {
        let query = vector(&mut state);
        let mut exact: Vec<f32> = vectors.iter().map(|vector| crate::distance::dot(&query, vector)).collect();
        exact.sort_unstable_by(|a, b| b.total_cmp(a));
        let is_other = |row: u32| crate::distance::dot(&query, &vectors[row as usize]) < exact[K - 1] - 1e-6;
        let before = source.read.load(Ordering::Relaxed);
        let found = index.search_exactly(&query, K);
        assert_eq!(found.len(), K);
        others += found.iter().filter(|found| is_other(found.row)).count();
        read += source.read.load(Ordering::Relaxed) - before;
        let before = source.read.load(Ordering::Relaxed);
        index.search(&query, &SearchOptions::new(K).by_codes(true));
        assert_eq!(source.read.load(Ordering::Relaxed), before);
        let rows: Vec<u32> = found.iter().map(|found| found.row).collect();
        index.products(&query, &rows, &mut |at, product| {
            assert!((product - crate::distance::dot(&query, &vectors[rows[at] as usize])).abs() < 0.01);
        });
    }
    assert!(others <= 2, "{others} of {} rows are not among the nearest", 100 * K);
    assert!((1..100 * K * 10).contains(&read), "{read} vectors were read");
}

/// Rows loaded in parts are those loaded one after the other, whatever keeps the vectors.
#[test]
fn parts_are_joined_in_order() {
    let rows = Loader::PART_ROWS + 5000;
    let vector = |row: usize| {
        let (y, x) = (row as f32 * 0.001).sin_cos();
        (!row.is_multiple_of(7)).then_some([x, y])
    };
    struct NoVectors;
    impl Originals for NoVectors {
        fn read(&self, _: &[u32], _: &mut dyn FnMut(usize, &[f32])) {}
    }
    for (graph_above, has_source) in [(0, false), (0, true), (usize::MAX, false)] {
        let options = HnswOptions { graph_above, ..options(4) };
        let source = || has_source.then(|| Arc::new(NoVectors) as Arc<dyn Originals>);
        let mut whole = Loader::new(2, rows, options, source());
        (0..rows).for_each(|row| whole.row(vector(row).as_ref().map(<[f32; 2]>::as_slice)));
        let mut joined = Loader::new(2, rows, options, source());
        for first in (0..rows).step_by(Loader::PART_ROWS) {
            let mut part = joined.part();
            for row in first..rows.min(first + Loader::PART_ROWS) {
                part.row(vector(row).as_ref().map(<[f32; 2]>::as_slice));
            }
            joined.append(part);
        }
        let [whole, joined] = [whole, joined].map(|loader| loader.finish(&[]));
        assert_eq!((whole.rows(), whole.counts()), (joined.rows(), joined.counts()));
        let all = |index: &HnswIndex| {
            let mut all = Vec::new();
            index.vectors(&(0..rows as u32).collect::<Vec<_>>(), &mut |at, vector| all.push((at, vector.to_vec())));
            all
        };
        assert_eq!(all(&whole), all(&joined));
        joined.insert(&[rows as u32], &[1.0, 0.0]);
        assert_eq!(joined.rows(), rows + 1);
    }
}
