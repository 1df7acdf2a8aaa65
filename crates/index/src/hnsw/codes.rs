//! Vectors as 8-bit codes, in two planes of 4 bits, and the scores of rows by their codes.
//!
//! A vector is rotated before it is coded, so that no few components take all of the codes' range.
//!
//! A component is stored as a code from 0 to 255, which stands for `code - 128` times the scale of its row. The coarse
//! plane has the upper 4 bits of each code, the fine plane the lower ones. A traversal reads only the coarse plane,
//! half of the memory; the best candidates are scored again with both planes.

use std::{cmp::Ordering, sync::OnceLock};

use super::row_table::RowTable;
use crate::distance::{CodedRow, Kernels, Line, PER_LINE, Rotation, prefetch, rounded, scale};

/// The mean of the fine codes, which a score by the coarse plane alone assumes.
const MIDDLE: f32 = 7.5;

/// The number of rows up to which their scales, half a MiB, stay in the second-level cache.
const CACHED_SCALES: usize = 1 << 17;

/// Rows scored in one call of a kernel.
const GROUP: usize = 32;

#[derive(Debug)]
pub(super) struct Codes {
    kernels: Kernels,
    dimension: usize,
    /// Made for the first row: most namespaces have too few rows for a graph, and the rotation takes kilobytes.
    rotation: OnceLock<Rotation>,
    /// Room for a rotated vector.
    rotated: Vec<f32>,
    coarse: RowTable<Line>,
    fine: RowTable<Line>,
    scales: RowTable<f32>,
}

/// A vector to be compared with coded rows: a query, or a row used as a query.
#[derive(Clone, Debug, Default)]
pub(super) struct CodedQuery {
    lines: Vec<Line<i8>>,
    /// The rotated query; not of a row.
    rotated: Vec<f32>,
    scale: f32,
    /// The sum of the codes. The offset of the rows' codes is multiplied by this sum.
    sum: f32,
}

impl Codes {
    pub(super) fn new(dimension: usize) -> Self {
        let lines = dimension.div_ceil(PER_LINE);
        Codes {
            kernels: Kernels::detect(),
            dimension,
            rotation: OnceLock::new(),
            rotated: Vec::new(),
            coarse: RowTable::new(lines),
            fine: RowTable::new(lines),
            scales: RowTable::new(1),
        }
    }

    fn rotation(&self) -> &Rotation {
        self.rotation.get_or_init(|| Rotation::new(self.dimension))
    }

    /// Returns the number of lines in each plane of a row.
    pub(super) fn lines(&self) -> usize {
        self.dimension.div_ceil(PER_LINE)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let rotation = self.rotation.get().map_or(0, Rotation::memory_bytes);
        self.coarse.memory_bytes() + self.fine.memory_bytes() + self.scales.memory_bytes() + rotation
    }

    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.scales.rows()
    }

    /// Encodes a vector into a row: the next row, or an existing one.
    pub(super) fn put(&mut self, row: u32, vector: &[f32]) {
        if row as usize == self.rows() {
            self.coarse.push_filled(Line([0; 64]));
            self.fine.push_filled(Line([0; 64]));
            self.scales.push(&[0.0]);
        }
        let rotation = self.rotation.get_or_init(|| Rotation::new(self.dimension));
        self.kernels.rotate(rotation, vector, &mut self.rotated);
        let scale = self.kernels.encode(&self.rotated, self.coarse.row_mut(row), self.fine.row_mut(row));
        self.scales.put(row, &[scale]);
    }

    /// Appends the rows of other codes, as [`RowTable::append`] does.
    pub(super) fn append(&mut self, other: Codes) {
        self.coarse.append(other.coarse);
        self.fine.append(other.fine);
        self.scales.append(other.scales);
    }

    /// Copies the code of one row to another, as a stand-in for an erased vector.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let (coarse, fine) = (self.coarse.row(from).to_vec(), self.fine.row(from).to_vec());
        let scale = self.scale(from);
        self.coarse.put(to, &coarse);
        self.fine.put(to, &fine);
        self.scales.put(to, &[scale]);
    }

    pub(super) fn encode_query(&self, vector: &[f32], query: &mut CodedQuery) {
        self.kernels.rotate(self.rotation(), vector, &mut query.rotated);
        let (scale, inverse) = scale(&query.rotated);
        query.lines.resize(self.lines() * 2, Line([0; 64]));
        let mut sum = 0;
        for (line, part) in query.lines.iter_mut().zip(query.rotated.as_chunks::<64>().0) {
            for (code, x) in line.0.iter_mut().zip(part) {
                *code = rounded(x * inverse);
            }
            sum += line.0.iter().map(|&code| i32::from(code)).sum::<i32>();
        }
        query.scale = scale;
        query.sum = sum as f32;
    }

    pub(super) fn row_query(&self, row: u32, query: &mut CodedQuery) {
        query.lines.resize(self.lines() * 2, Line([0; 64]));
        let sum = self.kernels.unpack(self.coarse.row(row), self.fine.row(row), &mut query.lines);
        query.scale = self.scale(row);
        query.sum = sum as f32;
    }

    pub(super) fn decode(&self, row: u32, vector: &mut Vec<f32>) {
        let mut query = CodedQuery::default();
        self.row_query(row, &mut query);
        vector.clear();
        vector.extend(query.lines.iter().flat_map(|line| line.0).map(|code| f32::from(code) * query.scale));
        self.rotation().rotate_back(vector, self.dimension);
    }

    #[inline(always)]
    pub(super) fn coarse(&self, row: u32) -> &[Line] {
        self.coarse.row(row)
    }

    /// Asks the processor to load what a score by the coarse plane reads: the plane and the scale. A small table of
    /// scales stays in the cache by itself, and the rate of loads is what bounds a search.
    #[inline(always)]
    pub(super) fn prefetch_coarse(&self, row: u32) {
        prefetch(self.coarse.row(row));
        if self.rows() > CACHED_SCALES {
            self.prefetch_scale(row);
        }
    }

    /// Asks the processor to load the scale of a row. A search that also reads other tables drives scales out of the cache.
    #[inline(always)]
    pub(super) fn prefetch_scale(&self, row: u32) {
        prefetch(self.scales.row(row));
    }

    #[inline(always)]
    pub(super) fn fine(&self, row: u32) -> &[Line] {
        self.fine.row(row)
    }

    /// Returns the scale of a row: the difference between two neighboring codes.
    #[inline(always)]
    pub(super) fn scale(&self, row: u32) -> f32 {
        self.scales.row(row)[0]
    }

    #[inline]
    pub(super) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    pub(super) fn hash(&self, row: u32) -> u64 {
        let words = self.coarse.row(row).iter().chain(self.fine.row(row)).flat_map(|line| line.0.as_chunks::<8>().0);
        words.fold(0, |hash, word| mix(hash ^ u64::from_le_bytes(*word)))
    }

    /// Returns true if two rows have the same code, so that their vectors are equal or nearly so.
    pub(super) fn same(&self, a: u32, b: u32) -> bool {
        self.coarse.row(a) == self.coarse.row(b) && self.fine.row(a) == self.fine.row(b)
    }
}

impl CodedQuery {
    #[inline]
    pub(super) fn lines(&self) -> &[Line<i8>] {
        &self.lines
    }

    pub(super) fn rotated(&self) -> &[f32] {
        &self.rotated
    }

    /// Returns the row that this query was made of.
    pub(super) fn as_row(&self) -> CodedRow<'_> {
        CodedRow { lines: &self.lines, scale: self.scale }
    }

    /// Computes the score of a row from the product with its coarse plane.
    #[inline(always)]
    pub(super) fn coarse_score(&self, product: i32, scale: f32) -> f32 {
        (product as f32 * 16.0 + self.sum * (MIDDLE - 128.0)) * (scale * self.scale)
    }

    /// Returns a bound on the error of a score from both planes, for unit vectors: four standard deviations of the
    /// rounding error, so it holds nearly always.
    pub(super) fn error_bound(&self, scale: f32) -> f32 {
        4.0 * 0.289 * (self.scale * self.scale + scale * scale).sqrt()
    }

    /// Same as [`error_bound`](Self::error_bound), of a score from the coarse plane alone.
    pub(super) fn coarse_error_bound(&self, scale: f32) -> f32 {
        self.error_bound(16.0 * scale)
    }

    /// Computes what the fine plane adds to the score of a row by the coarse plane, from the product with it.
    #[inline(always)]
    pub(super) fn fine_score(&self, product: i32, scale: f32) -> f32 {
        (product as f32 - self.sum * MIDDLE) * (scale * self.scale)
    }

    /// Computes the score of a row from the products with both planes.
    #[inline(always)]
    pub(super) fn score(&self, coarse: i32, fine: i32, scale: f32) -> f32 {
        ((coarse * 16 + fine) as f32 - self.sum * 128.0) * (scale * self.scale)
    }
}

/// A row with its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoredRow {
    pub(super) score: f32,
    pub(super) row: u32,
}

impl ScoredRow {
    /// Orders rows from the highest score to the lowest, and equal scores by ascending row.
    #[inline]
    pub(super) fn order(&self, other: &ScoredRow) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

/// The nearer row is the greater one, so it is at the top of a heap.
impl Ord for ScoredRow {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order(self)
    }
}

impl PartialOrd for ScoredRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScoredRow {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScoredRow {}

/// Calls `visit` with each of `rows` and its score by the coarse plane.
#[inline(always)]
pub(super) fn score_coarsely(codes: &Codes, query: &CodedQuery, rows: &[u32], mut visit: impl FnMut(ScoredRow)) {
    let mut products = [0; GROUP];
    for group in rows.chunks(GROUP) {
        let mut lines: [&[Line]; GROUP] = [&[]; GROUP];
        for (slot, &row) in lines.iter_mut().zip(group) {
            *slot = codes.coarse(row);
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut products);
        for (&row, &product) in group.iter().zip(&products) {
            visit(ScoredRow { score: query.coarse_score(product, codes.scale(row)), row });
        }
    }
}

#[inline(always)]
pub(super) fn score_one_coarsely(codes: &Codes, query: &CodedQuery, row: u32) -> f32 {
    let mut product = [0];
    codes.kernels().products(query.lines(), &[codes.coarse(row)], &mut product);
    query.coarse_score(product[0], codes.scale(row))
}

/// Scores rows by both planes.
pub(super) fn score_finely(codes: &Codes, query: &CodedQuery, rows: &[u32]) -> Vec<ScoredRow> {
    rows.iter().for_each(|&row| codes.prefetch_coarse(row));
    let mut scored = Vec::with_capacity(rows.len());
    score_coarsely(codes, query, rows, |row| scored.push(row));
    refine(codes, query, &mut scored);
    scored
}

/// Scores candidates, which have scores by the coarse plane, by both planes.
pub(super) fn refine(codes: &Codes, query: &CodedQuery, candidates: &mut [ScoredRow]) {
    for candidate in &*candidates {
        prefetch(codes.fine(candidate.row));
    }
    let mut products = [0; GROUP];
    for group in candidates.chunks_mut(GROUP) {
        let mut lines: [&[Line]; GROUP] = [&[]; GROUP];
        for (slot, candidate) in lines.iter_mut().zip(&*group) {
            *slot = codes.fine(candidate.row);
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut products);
        for (candidate, &product) in group.iter_mut().zip(&products) {
            candidate.score += query.fine_score(product, codes.scale(candidate.row));
        }
    }
}

/// Scrambles the bits of a number: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
pub(super) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
