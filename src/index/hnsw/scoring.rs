//! Scores of rows by their codes, many rows in one call.

use super::{
    candidates::ScoredRow,
    codes::{CodedQuery, Codes},
};
use crate::index::distance::{Line, prefetch};

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
            visit(ScoredRow::new(query.coarse_score(product, codes.scale(row)), row));
        }
    }
}

/// Scores candidates again by both planes, and sorts them, nearest first.
pub(super) fn refine(codes: &Codes, query: &CodedQuery, candidates: &mut [ScoredRow]) {
    for candidate in &*candidates {
        prefetch(codes.fine(candidate.row()));
    }
    let (mut coarse, mut fine) = ([0; GROUP], [0; GROUP]);
    for group in candidates.chunks_mut(GROUP) {
        let mut lines: [&[Line]; GROUP] = [&[]; GROUP];
        for (slot, candidate) in lines.iter_mut().zip(&*group) {
            *slot = codes.coarse(candidate.row());
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut coarse);
        for (slot, candidate) in lines.iter_mut().zip(&*group) {
            *slot = codes.fine(candidate.row());
        }
        codes.kernels().products(query.lines(), &lines[..group.len()], &mut fine);
        for (i, candidate) in group.iter_mut().enumerate() {
            candidate.score = query.score(coarse[i], fine[i], codes.scale(candidate.row()));
        }
    }
    candidates.sort_unstable_by(ScoredRow::order);
}
