//! Scores of rows by their codes, many rows in one call.

use super::{
    candidates::ScoredRow,
    codes::{CodedQuery, Codes},
};
use crate::distance::{Line, prefetch};

/// Rows scored in one call of a kernel.
const GROUP: usize = 32;

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

/// Returns the score of a row by the coarse plane.
#[inline(always)]
pub(super) fn score_one_coarsely(codes: &Codes, query: &CodedQuery, row: u32) -> f32 {
    let mut product = [0];
    codes.kernels().products(query.lines(), &[codes.coarse(row)], &mut product);
    query.coarse_score(product[0], codes.scale(row))
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
