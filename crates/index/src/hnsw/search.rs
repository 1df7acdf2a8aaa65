//! Answers a query: chooses between graph and scan, and scores the candidates with the original vectors.

use super::{
    Originals,
    beam::BeamSearch,
    codes::{ScoredRow, refine},
    graph::Graph,
    neighbor_codes::Neighborhoods,
};
use crate::{Bitmap, Neighbor, SearchOptions, SearchResult};

/// Rows scanned between two reads of the clock, while there are no codes.
const ROWS_PER_CLOCK_READ: usize = 256;

/// Approximate number of rows that a traversal scores for each candidate.
const SCORED_PER_CANDIDATE: usize = 10;

/// Approximate number of rows that a scan scores in the time in which a traversal scores one: a scan reads codes that
/// follow one another.
const SCANNED_PER_SCORED: usize = 3;

/// Number of rows that a scan scores in the time in which a traversal without a filter deals with one of very many
/// candidates.
const SCANNED_PER_CANDIDATE: usize = 16;

/// A graph, and the vectors and the state that a search of it uses.
pub(super) struct Searcher<'a> {
    pub(super) graph: &'a Graph,
    /// The source of the vectors, if the graph does not keep them.
    pub(super) originals: Option<&'a dyn Originals>,
    pub(super) beam: BeamSearch,
}

impl Searcher<'_> {
    /// Returns the nearest rows, with scores by the original vectors if these are in memory, else by the codes.
    pub(super) fn search(&mut self, query: &[f32], search: &SearchOptions) -> SearchResult {
        assert_eq!(query.len(), self.graph.dimension, "the query has the dimension of the index");
        if search.k == 0 || self.graph.live.count() == 0 {
            return SearchResult::default();
        }
        if !self.graph.has_codes() {
            return self.scan_originals(query, search);
        }
        self.graph.codes.encode_query(query, &mut self.beam.query);
        let cut_short = self.collect_candidates(search);
        SearchResult { neighbors: self.rescore(query, search.k, search.by_codes), cut_short }
    }

    /// Returns the nearest `k` rows by scoring every row by its code, and the best again by their vectors. Used to
    /// measure recall.
    pub(super) fn search_exactly(&mut self, query: &[f32], k: usize) -> Vec<Neighbor> {
        let graph = self.graph;
        if k == 0 || graph.live.count() == 0 || !graph.has_codes() {
            return self.search(query, &SearchOptions::new(k)).neighbors;
        }
        graph.codes.encode_query(query, &mut self.beam.query);
        // Wide enough that rows which the coarse codes score too low are not lost.
        self.beam.candidates.reset(4 * k.min(graph.rows) + 64, usize::MAX);
        self.beam.scan(&graph.codes, graph.live.iter(), None);
        self.rescore(query, k, false)
    }

    /// Collects candidates by their coarse codes. Returns true if the deadline ended the search.
    fn collect_candidates(&mut self, search: &SearchOptions) -> bool {
        let graph = self.graph;
        let ef = search.ef.max(search.k).min(graph.rows);
        let is_scan_cheaper = match search.allowed.map(Bitmap::count) {
            Some(allowed) => allowed <= self.scan_limit(ef, allowed),
            None => graph.live.count() <= ef * SCANNED_PER_CANDIDATE,
        };
        if graph.links.count() > 0
            && !is_scan_cheaper
            && let Some(cut_short) = self.collect_from_graph(search, ef)
        {
            return cut_short;
        }
        // Few rows are allowed, or too few near the query, or many candidates are kept. Then scanning all allowed rows is
        // as fast as the graph.
        let (beam, codes, deadline) = (&mut self.beam, &graph.codes, search.deadline);
        beam.candidates.reset(ef, usize::MAX);
        match search.allowed {
            Some(allowed) => beam.scan(codes, allowed.iter().filter(|&row| graph.live.contains(row)), deadline),
            None => beam.scan(codes, graph.live.iter(), deadline),
        }
    }

    /// Collects candidates from the graph and its tail. Returns whether the deadline ended the search; `None` if it
    /// found fewer candidates than there should be.
    fn collect_from_graph(&mut self, search: &SearchOptions, ef: usize) -> Option<bool> {
        let Searcher { graph, beam, .. } = self;
        let (links, codes, deadline) = (&graph.links, &graph.codes, search.deadline);
        let max_copies = search.k.max(ef / 4);
        let is_live = |row: u32| graph.live.contains(row);
        let is_allowed = |row: u32| search.allowed.is_none_or(|allowed| allowed.contains(row));
        let enough = search.k.min(graph.live.count());
        beam.candidates.reset(ef, max_copies);
        let mut done = None;
        if search.allowed.is_none() && !beam.candidates.is_wide() {
            let cut_short = match &graph.neighbor_codes {
                Some(neighbor_codes) => {
                    // Walking through layer 1 takes longer than coming from afar on layer 0.
                    beam.descend(links, codes, 1, ef, max_copies);
                    beam.search_neighborhoods(Neighborhoods { links, codes, neighbor_codes }, is_live, deadline)
                }
                None => {
                    beam.descend(links, codes, 0, ef, max_copies);
                    beam.search(links, codes, 0, is_live, deadline)
                }
            };
            if graph.removed.count() > 0 {
                beam.candidates.retain(is_live);
            }
            // With too few candidates left, removed rows took too many of the slots: the search is repeated without
            // them.
            done = (cut_short || beam.candidates.len() >= enough).then_some(cut_short);
        }
        let cut_short = match done {
            Some(cut_short) => cut_short,
            None => {
                beam.descend(links, codes, 0, ef, max_copies);
                let is_allowed = |row| is_live(row) && is_allowed(row);
                beam.search_allowed(links, codes, is_allowed, graph.live.count(), deadline)?
            }
        };
        let tail = graph.tail.iter().filter(|&row| is_allowed(row));
        let cut_short = (graph.tail.count() > 0 && beam.scan_unvisited(codes, tail, deadline)) || cut_short;
        (cut_short || beam.candidates.len() >= enough).then_some(cut_short)
    }

    /// Returns the number of allowed rows up to which a scan is faster than a traversal. A traversal scores more rows
    /// the rarer allowed rows are.
    fn scan_limit(&self, ef: usize, allowed: usize) -> usize {
        (ef * SCORED_PER_CANDIDATE * SCANNED_PER_SCORED).saturating_mul(self.graph.links.count()) / allowed.max(1)
    }

    /// Scores the candidates again, and returns the best `k`.
    fn rescore(&self, query: &[f32], k: usize, by_codes: bool) -> Vec<Neighbor> {
        let Searcher { graph, beam, .. } = self;
        let coded_query = &beam.query;
        let mut candidates: Vec<ScoredRow> = beam.candidates.iter().collect();
        drop_hopeless(&mut candidates, k, |row| coded_query.coarse_error_bound(graph.codes.scale(row)));
        refine(&graph.codes, coded_query, &mut candidates);
        drop_hopeless(&mut candidates, k, |row| coded_query.error_bound(graph.codes.scale(row)));
        let kernels = graph.codes.kernels();
        let mut found: Vec<Neighbor> = match &graph.originals {
            Some(originals) => {
                candidates.iter().for_each(|candidate| originals.prefetch(candidate.row));
                let score = |candidate: &ScoredRow| originals.dot(kernels, query, candidate.row);
                candidates.iter().map(|candidate| Neighbor { row: candidate.row, score: score(candidate) }).collect()
            }
            None => {
                if let Some(originals) = self.originals.filter(|_| !by_codes) {
                    let error = |row: u32| coded_query.error_bound(graph.codes.scale(row));
                    let close = close_calls(&mut candidates, k, error);
                    let rows: Vec<u32> = close.iter().map(|candidate| candidate.row).collect();
                    originals.read(&rows, &mut |i, vector| close[i].score = kernels.dot(query, vector));
                }
                candidates.iter().map(|&ScoredRow { row, score }| Neighbor { row, score }).collect()
            }
        };
        found.sort_unstable_by(Neighbor::order);
        found.truncate(k);
        found
    }

    /// Scans the original vectors of the allowed rows. Used before there are codes, when rows are few.
    fn scan_originals(&self, query: &[f32], search: &SearchOptions) -> SearchResult {
        let graph = self.graph;
        let originals = graph.originals.as_ref().expect("an index without codes keeps its vectors");
        let mut found = Vec::new();
        let mut cut_short = false;
        for (i, row) in graph.live.iter().enumerate() {
            if (i + 1) % ROWS_PER_CLOCK_READ == 0 && search.is_late() {
                cut_short = true;
                break;
            }
            if search.allowed.is_none_or(|allowed| allowed.contains(row)) {
                found.push(Neighbor { row, score: originals.dot(graph.codes.kernels(), query, row) });
            }
        }
        if found.len() > search.k {
            found.select_nth_unstable_by(search.k - 1, Neighbor::order);
            found.truncate(search.k);
        }
        found.sort_unstable_by(Neighbor::order);
        SearchResult { neighbors: found, cut_short }
    }
}

/// Drops the candidates that rounding cannot have put on the wrong side of position `k`. `error` is a bound on the error of
/// a row's score.
fn drop_hopeless(candidates: &mut Vec<ScoredRow>, k: usize, error: impl Fn(u32) -> f32) {
    if candidates.len() > k {
        let (last, margin) = boundary(candidates, k, error);
        candidates.retain(|candidate| candidate.score >= last - margin);
    }
}

/// Returns the candidates that rounding may have put on the wrong side of position `k`, of those that are not hopeless.
fn close_calls(candidates: &mut [ScoredRow], k: usize, error: impl Fn(u32) -> f32) -> &mut [ScoredRow] {
    if candidates.len() <= k {
        return &mut [];
    }
    let (last, margin) = boundary(candidates, k, error);
    candidates.sort_unstable_by(ScoredRow::order);
    let certain = candidates.partition_point(|candidate| candidate.score > last + margin);
    &mut candidates[certain..]
}

/// Returns the score at position `k`, and by how much rounding may have changed its difference to another one.
fn boundary(candidates: &mut [ScoredRow], k: usize, error: impl Fn(u32) -> f32) -> (f32, f32) {
    let (_, last, _) = candidates.select_nth_unstable_by(k - 1, ScoredRow::order);
    // The errors of both rows are about alike, and independent.
    (last.score, std::f32::consts::SQRT_2 * error(last.row))
}

#[cfg(test)]
mod tests {
    use crate::{HnswIndex, HnswOptions, SearchOptions, VectorIndex};

    #[test]
    fn a_search_for_more_rows_than_there_are_finds_all() {
        let index =
            HnswIndex::new(2, HnswOptions { m: 4, ef_construction: 16, graph_above: 0, ..HnswOptions::default() });
        let vector = |row: u32| [(row as f32).cos(), (row as f32).sin()];
        index.insert(&(0..500).collect::<Vec<_>>(), &(0..500).flat_map(vector).collect::<Vec<_>>());
        for _ in 0..20 {
            for k in [500, 501, usize::MAX / 2, usize::MAX] {
                assert_eq!(index.search(&[1.0, 0.0], &SearchOptions::new(k)).neighbors.len(), 500);
                let odd = crate::Bitmap::from_fn(5000, |row| row % 2 == 1);
                let search = SearchOptions::new(k).allowed(Some(&odd));
                assert_eq!(index.search(&[1.0, 0.0], &search).neighbors.len(), 250);
                assert_eq!(index.search_exactly(&[1.0, 0.0], k).len(), 500);
            }
            index.improve();
        }
    }

    /// With very many candidates, those of a graph are not sorted until its search ends.
    #[test]
    fn a_graph_finds_very_many_rows() {
        const ROWS: u32 = 12_000;
        let index =
            HnswIndex::new(2, HnswOptions { m: 4, ef_construction: 16, graph_above: 0, ..HnswOptions::default() });
        let vector = |row: u32| [(row as f32).cos(), (row as f32).sin()];
        index.insert(&(0..ROWS).collect::<Vec<_>>(), &(0..ROWS).flat_map(vector).collect::<Vec<_>>());
        while index.improve() {}
        index.remove(&(0..ROWS).step_by(10).collect::<Vec<_>>());
        let allowed = crate::Bitmap::from_fn(ROWS as usize, |row| row % 7 != 0);
        for (allowed, k) in [(None, 4500), (Some(&allowed), 4200)] {
            let options = SearchOptions::new(k).allowed(allowed);
            let found = index.with_searcher(|searcher| {
                searcher.graph.codes.encode_query(&[1.0, 0.0], &mut searcher.beam.query);
                assert_eq!(searcher.collect_from_graph(&options, k), Some(false));
                searcher.rescore(&[1.0, 0.0], k, false)
            });
            let mut exact = index.search_exactly(&[1.0, 0.0], ROWS as usize);
            exact.retain(|found| allowed.is_none_or(|allowed| allowed.contains(found.row)));
            assert_eq!(found.len(), k);
            let right = found.iter().filter(|found| found.score >= exact[k - 1].score - 0.01).count();
            assert!(right * 100 >= k * 99, "{right} of {k}");
            assert!(found.is_sorted_by(|a, b| a.order(b).is_lt()));
        }
    }

    /// Vectors near a text that is repeated very often: the copies of that text are nearer to each of them than the
    /// other vectors.
    #[test]
    fn rows_near_many_copies_of_one_vector_are_found() {
        const DIMENSION: usize = 64;
        let mut state = 1u64;
        let mut random = || {
            state = crate::hnsw::codes::mix(state);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut unit = |near: &[f32], noise: f32| -> Vec<f32> {
            let scale = noise * (3.0 / DIMENSION as f32).sqrt();
            let sum: Vec<f32> = near.iter().map(|x| x + scale * random()).collect();
            let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
            sum.iter().map(|x| x / norm).collect()
        };
        let origin = [0.0; DIMENSION];
        let repeated = unit(&origin, 1.0);
        let near: Vec<Vec<f32>> = (0..300).map(|_| unit(&repeated, 0.6)).collect();
        let mut all: Vec<Vec<f32>> = (0..1000).map(|_| unit(&origin, 1.0)).chain(near.iter().cloned()).collect();
        all.extend(std::iter::repeat_n(repeated.clone(), 300));
        for neighbor_codes in [false, true] {
            let options = HnswOptions { graph_above: 0, neighbor_codes, ..HnswOptions::default() };
            let index = HnswIndex::new(DIMENSION, options);
            for (first, some) in (0u32..).step_by(100).zip(all.chunks(100)) {
                index.insert(&(first..first + 100).collect::<Vec<_>>(), &some.concat());
                while index.improve() {}
            }
            assert_eq!(index.check(), [""; 0]);
            let find = |query: &[f32], k: usize| index.search(query, &SearchOptions::new(k)).neighbors;
            let is_found = |vector: &&Vec<f32>| find(vector, 10)[0].score > 0.999;
            assert!(near.iter().filter(is_found).count() >= 290, "{}", near.iter().filter(is_found).count());
            assert!(find(&repeated, 100).iter().all(|copy| copy.score > 0.999));
            // These rows are removed, but still linked.
            index.remove(&(1300..1600).step_by(2).collect::<Vec<_>>());
            assert!(find(&repeated, 100).iter().all(|copy| copy.score > 0.999));
            assert!(near.iter().filter(is_found).count() >= 290, "{}", near.iter().filter(is_found).count());
            while index.improve() {}
            assert_eq!(index.check(), [""; 0]);
            assert!(find(&repeated, 100).iter().all(|copy| copy.score > 0.999));
            assert!(near.iter().filter(is_found).count() >= 290, "{}", near.iter().filter(is_found).count());
        }
    }
}
