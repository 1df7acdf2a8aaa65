//! A search from query to result: which way to go, and what the codes found scored with the vectors themselves.

use super::{
    Originals,
    beam::{Candidate, Scratch, refine},
    graph::Graph,
};
use crate::index::{Found, Neighbor, Search, distance::prefetch};

impl Graph {
    /// Exact scores of the best candidates.
    pub(super) fn search(
        &self,
        query: &[f32],
        search: &Search,
        source: Option<&dyn Originals>,
        scratch: &mut Scratch,
    ) -> Found {
        assert_eq!(query.len(), self.dimension, "the query's dimension is the index's");
        if search.k == 0 || self.alive.count() == 0 {
            return Found::default();
        }
        if !self.has_codes() {
            return self.scan_originals(query, search);
        }
        self.codes.query(query, &mut scratch.query);
        let cut_short = self.collect(search, scratch);
        let neighbors = self.rescore(query, search.k, source, scratch);
        Found { neighbors, cut_short }
    }

    /// Collects candidates in the scratch's pool. Returns whether the deadline ended it.
    fn collect(&self, search: &Search, scratch: &mut Scratch) -> bool {
        let ef = search.ef.max(search.k).min(self.rows);
        let copies = search.k.max(ef / 4);
        let deadline = search.deadline;
        let is_allowed = |row: u32| search.allowed.is_none_or(|allowed| allowed.contains(row));
        let few = search.allowed.is_some_and(|allowed| allowed.count() <= self.scan_limit(ef, allowed.count()));
        let enough = search.k.min(self.alive.count());
        if self.links.count() > 0 && !few {
            let mut done = None;
            if search.allowed.is_none() {
                scratch.descend(&self.links, &self.codes, 0, (ef, copies));
                let is_alive = |row| self.alive.contains(row);
                let cut_short = scratch.search(&self.links, &self.codes, 0, is_alive, deadline);
                if self.dead.count() > 0 {
                    scratch.pool.retain(is_alive);
                }
                // Else the removed took the places of too many.
                done = (cut_short || scratch.pool.candidates().len() >= enough).then_some(cut_short);
            }
            if done.is_none() {
                let is_allowed = |row| self.alive.contains(row) && is_allowed(row);
                scratch.descend(&self.links, &self.codes, 0, (ef, copies));
                done = scratch.search_allowed(&self.links, &self.codes, is_allowed, self.alive.count(), deadline);
            }
            if let Some(cut_short) = done {
                let tail = self.tail.iter().filter(|&row| is_allowed(row));
                let cut_short = (self.tail.count() > 0 && scratch.scan_rest(&self.codes, tail, deadline)) || cut_short;
                if cut_short || scratch.pool.candidates().len() >= enough {
                    return cut_short;
                }
            }
        }
        // Few rows are allowed, or too few near the query: all of them, which is as fast then.
        scratch.pool.reset(ef);
        match search.allowed {
            Some(allowed) => {
                scratch.scan(&self.codes, allowed.iter().filter(|&row| self.alive.contains(row)), deadline)
            }
            None => scratch.scan(&self.codes, self.alive.iter(), deadline),
        }
    }

    /// The most allowed rows that are sooner scanned than found by a traversal, which scores some ten rows for each of `ef`
    /// candidates, and as many times more as there are rows for one that is allowed.
    fn scan_limit(&self, ef: usize, allowed: usize) -> usize {
        (ef * 10).saturating_mul(self.links.count()) / allowed.max(1)
    }

    /// The best `k` of the pool by the vectors themselves.
    fn rescore(&self, query: &[f32], k: usize, source: Option<&dyn Originals>, scratch: &mut Scratch) -> Vec<Neighbor> {
        let Scratch { query: codes_query, pool, .. } = scratch;
        let mut candidates: Vec<Candidate> = pool.candidates().to_vec();
        refine(&self.codes, codes_query, &mut candidates);
        // Only what rounding may have put on the wrong side of the last place.
        if let Some(last) = candidates.get(k - 1) {
            let error = |candidate: &Candidate| codes_query.error(self.codes.scale(candidate.row()));
            let floor = last.score - error(last);
            let mut place = 0;
            candidates.retain(|candidate| {
                place += 1;
                place <= k || candidate.score + error(candidate) >= floor
            });
        }
        let kernels = self.codes.kernels();
        let mut found: Vec<Neighbor> = match (&self.originals, source) {
            (Some(originals), _) => {
                candidates.iter().for_each(|candidate| prefetch(originals.row(candidate.row())));
                let score = |candidate: &Candidate| kernels.dot(query, originals.row(candidate.row()));
                candidates.iter().map(|candidate| Neighbor { row: candidate.row(), score: score(candidate) }).collect()
            }
            (None, source) => {
                let rows: Vec<u32> = candidates.iter().map(|candidate| candidate.row()).collect();
                let mut scores: Vec<f32> = candidates.iter().map(|candidate| candidate.score).collect();
                if let Some(source) = source {
                    source.read(&rows, &mut |i, vector| scores[i] = kernels.dot(query, vector));
                }
                rows.into_iter().zip(scores).map(|(row, score)| Neighbor { row, score }).collect()
            }
        };
        found.sort_unstable_by(Neighbor::order);
        found.truncate(k);
        found
    }

    /// Before there are codes, rows are few.
    fn scan_originals(&self, query: &[f32], search: &Search) -> Found {
        let originals = self.originals.as_ref().expect("without codes there are vectors");
        let mut found = Vec::new();
        let mut cut_short = false;
        for (i, row) in self.alive.iter().enumerate() {
            if i % 256 == 255 && search.is_late() {
                cut_short = true;
                break;
            }
            if search.allowed.is_none_or(|allowed| allowed.contains(row)) {
                found.push(Neighbor { row, score: self.codes.kernels().dot(query, originals.row(row)) });
            }
        }
        if found.len() > search.k {
            found.select_nth_unstable_by(search.k - 1, Neighbor::order);
            found.truncate(search.k);
        }
        found.sort_unstable_by(Neighbor::order);
        Found { neighbors: found, cut_short }
    }

    /// The nearest `k` rows by scoring every row, as far as codes can tell: for measuring recall.
    pub(super) fn search_exactly(
        &self,
        query: &[f32],
        k: usize,
        source: Option<&dyn Originals>,
        scratch: &mut Scratch,
    ) -> Vec<Neighbor> {
        if k == 0 || self.alive.count() == 0 || !self.has_codes() {
            return self.search(query, &Search::new(k), source, scratch).neighbors;
        }
        self.codes.query(query, &mut scratch.query);
        // Wide enough that what the coarse codes get wrong is not lost.
        scratch.pool.reset(4 * k.min(self.rows) + 64);
        scratch.scan(&self.codes, self.alive.iter(), None);
        self.rescore(query, k, source, scratch)
    }
}

#[cfg(test)]
mod tests {
    use crate::index::{HnswIndex, HnswOptions, Search, VectorIndex};

    #[test]
    fn asking_for_more_than_there_is_finds_all() {
        let index = HnswIndex::new(2, HnswOptions { m: 4, ef_construction: 16, graph_above: 0 });
        let vector = |row: u32| [(row as f32).cos(), (row as f32).sin()];
        index.insert(&(0..500).collect::<Vec<_>>(), &(0..500).flat_map(vector).collect::<Vec<_>>());
        for _ in 0..20 {
            for k in [500, 501, usize::MAX / 2, usize::MAX] {
                assert_eq!(index.search(&[1.0, 0.0], &Search::new(k)).neighbors.len(), 500);
                let odd = crate::index::Bitmap::from_fn(5000, |row| row % 2 == 1);
                let search = Search::new(k).allowed(Some(&odd));
                assert_eq!(index.search(&[1.0, 0.0], &search).neighbors.len(), 250);
                assert_eq!(index.search_exactly(&[1.0, 0.0], k).len(), 500);
            }
            index.improve();
        }
    }

    /// What is like what is said all the time: the copies are nearer to it than what else is near.
    #[test]
    fn what_is_near_many_copies_is_found_among_them() {
        const DIMENSION: usize = 64;
        let mut state = 1u64;
        let mut random = || {
            state = crate::index::hnsw::codes::mix(state);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut unit = |near: &[f32], noise: f32| -> Vec<f32> {
            let scale = noise * (3.0 / DIMENSION as f32).sqrt();
            let sum: Vec<f32> = near.iter().map(|x| x + scale * random()).collect();
            let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
            sum.iter().map(|x| x / norm).collect()
        };
        let nowhere = [0.0; DIMENSION];
        let said = unit(&nowhere, 1.0);
        let near: Vec<Vec<f32>> = (0..300).map(|_| unit(&said, 0.6)).collect();
        let mut all: Vec<Vec<f32>> = (0..1000).map(|_| unit(&nowhere, 1.0)).chain(near.iter().cloned()).collect();
        all.extend(std::iter::repeat_n(said.clone(), 300));
        let index = HnswIndex::new(DIMENSION, HnswOptions { graph_above: 0, ..HnswOptions::default() });
        for (first, some) in (0u32..).step_by(100).zip(all.chunks(100)) {
            index.insert(&(first..first + 100).collect::<Vec<_>>(), &some.concat());
            while index.improve() {}
        }
        assert_eq!(index.check(), [""; 0]);
        let find = |query: &[f32], k: usize| index.search(query, &Search::new(k)).neighbors;
        let is_found = |vector: &&Vec<f32>| find(vector, 10)[0].score > 0.999;
        assert!(near.iter().filter(is_found).count() >= 290, "{}", near.iter().filter(is_found).count());
        assert!(find(&said, 100).iter().all(|copy| copy.score > 0.999));
        // Still linked, and no longer there.
        index.remove(&(1300..1600).step_by(2).collect::<Vec<_>>());
        assert!(find(&said, 100).iter().all(|copy| copy.score > 0.999));
        assert!(near.iter().filter(is_found).count() >= 290, "{}", near.iter().filter(is_found).count());
        while index.improve() {}
        assert_eq!(index.check(), [""; 0]);
        assert!(find(&said, 100).iter().all(|copy| copy.score > 0.999));
        assert!(near.iter().filter(is_found).count() >= 290, "{}", near.iter().filter(is_found).count());
    }
}
