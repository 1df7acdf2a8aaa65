//! Vectors as 8-bit codes in two planes of 4 bits.
//!
//! A component is stored as `code - 128` times the row's scale, `code` in 0 to 255. The coarse plane has the upper 4 bits
//! of each code, the fine one the lower: a traversal reads the coarse plane alone, half of the memory, and what is worth
//! it is scored with both.

use super::chunks::Chunks;
use crate::index::distance::{Kernels, Line, PER_LINE, rounded, scale};

/// The middle of the fine codes: what the coarse plane alone takes them for.
const MIDDLE: f32 = 7.5;

#[derive(Debug)]
pub(super) struct Codes {
    kernels: Kernels,
    dimension: usize,
    coarse: Chunks<Line>,
    fine: Chunks<Line>,
    scales: Chunks<f32>,
}

/// A query, or a row in the place of one.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    lines: Vec<Line<i8>>,
    scale: f32,
    /// The sum of the codes: what the offset of the rows' codes multiplies.
    sum: f32,
}

impl Codes {
    pub(super) fn new(dimension: usize) -> Self {
        let lines = dimension.div_ceil(PER_LINE);
        Codes {
            kernels: Kernels::detect(),
            dimension,
            coarse: Chunks::new(lines),
            fine: Chunks::new(lines),
            scales: Chunks::new(1),
        }
    }

    fn lines(&self) -> usize {
        self.dimension.div_ceil(PER_LINE)
    }

    pub(super) fn rows(&self) -> usize {
        self.scales.rows()
    }

    /// Encodes a vector into a row: the next, or an old one.
    pub(super) fn put(&mut self, row: u32, vector: &[f32]) {
        if row as usize == self.rows() {
            self.coarse.push_default(Line([0; 64]));
            self.fine.push_default(Line([0; 64]));
            self.scales.push(&[0.0]);
        }
        let scale = self.kernels.encode(vector, self.coarse.row_mut(row), self.fine.row_mut(row));
        self.scales.put(row, &[scale]);
    }

    /// Makes a row's code that of another: a stand-in for what was erased.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let (coarse, fine) = (self.coarse.row(from).to_vec(), self.fine.row(from).to_vec());
        let scale = self.scale(from);
        self.coarse.put(to, &coarse);
        self.fine.put(to, &fine);
        self.scales.put(to, &[scale]);
    }

    /// Makes `query` stand for a vector.
    pub(super) fn query(&self, vector: &[f32], query: &mut Query) {
        let (scale, inverse) = scale(vector);
        query.lines.clear();
        query.lines.resize(self.lines() * 2, Line([0; 64]));
        let mut sum = 0;
        for (line, part) in query.lines.iter_mut().zip(vector.chunks(64)) {
            for (code, x) in line.0.iter_mut().zip(part) {
                *code = rounded(x * inverse);
            }
            sum += line.0.iter().map(|&code| i32::from(code)).sum::<i32>();
        }
        query.scale = scale;
        query.sum = sum as f32;
    }

    /// Makes `query` stand for a row.
    pub(super) fn row_query(&self, row: u32, query: &mut Query) {
        query.lines.resize(self.lines() * 2, Line([0; 64]));
        let sum = self.kernels.unpack(self.coarse.row(row), self.fine.row(row), &mut query.lines);
        query.scale = self.scale(row);
        query.sum = sum as f32;
    }

    /// The vector that a row's code stands for.
    pub(super) fn decode(&self, row: u32, vector: &mut Vec<f32>) {
        let mut query = Query::default();
        self.row_query(row, &mut query);
        vector.clear();
        let codes = query.lines.iter().flat_map(|line| line.0).take(self.dimension);
        vector.extend(codes.map(|code| f32::from(code) * query.scale));
    }

    #[inline(always)]
    pub(super) fn coarse(&self, row: u32) -> &[Line] {
        self.coarse.row(row)
    }

    #[inline(always)]
    pub(super) fn fine(&self, row: u32) -> &[Line] {
        self.fine.row(row)
    }

    #[inline(always)]
    pub(super) fn scale(&self, row: u32) -> f32 {
        self.scales.row(row)[0]
    }

    pub(super) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// A number that says what a row holds: the same for the same code.
    pub(super) fn hash(&self, row: u32) -> u64 {
        let words = self.coarse.row(row).iter().chain(self.fine.row(row)).flat_map(|line| line.0.as_chunks::<8>().0);
        words.fold(0, |hash, word| mix(hash ^ u64::from_le_bytes(*word)))
    }

    /// Whether two rows have the same code: their vectors are the same, or as good as.
    pub(super) fn same(&self, a: u32, b: u32) -> bool {
        self.coarse.row(a) == self.coarse.row(b) && self.fine.row(a) == self.fine.row(b)
    }
}

impl Query {
    pub(super) fn lines(&self) -> &[Line<i8>] {
        &self.lines
    }

    /// The score of a row from the product with its coarse plane.
    #[inline(always)]
    pub(super) fn coarse_score(&self, product: i32, scale: f32) -> f32 {
        (product as f32 * 16.0 + self.sum * (MIDDLE - 128.0)) * (scale * self.scale)
    }

    /// How far a score from both planes may be from the true one, nearly always: four standard deviations of what rounding
    /// adds, for unit vectors.
    pub(super) fn error(&self, scale: f32) -> f32 {
        4.0 * 0.289 * self.scale.hypot(scale)
    }

    /// The score of a row from the products with both planes.
    #[inline(always)]
    pub(super) fn score(&self, coarse: i32, fine: i32, scale: f32) -> f32 {
        ((coarse * 16 + fine) as f32 - self.sum * 128.0) * (scale * self.scale)
    }
}

/// The finaliser of SplitMix64 (Steele et al. 2014).
pub(super) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
