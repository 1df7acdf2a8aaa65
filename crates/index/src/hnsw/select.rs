//! Chooses links among candidates: near ones, in different directions.

use super::{
    candidates::ScoredRow,
    codes::{CodedQuery, Codes},
};
use crate::distance::Line;

/// Chosen rows that are compared in one call of a kernel.
const GROUP: usize = 8;

/// How many times nearer to a chosen row than to `row` a candidate must be to be left out. A slack above 1 keeps some
/// longer links, which give shorter searches (DiskANN, Subramanya et al., NeurIPS 2019). Of 1 to 1.25, the best value
/// on real texts.
const ALPHA: f32 = 1.03;

/// Chooses at most `capacity` links of `row` among candidates that are sorted from the nearest. A candidate is chosen
/// if it is nearer to `row` than to every row chosen before (Malkov and Yashunin, arXiv 1603.09320, algorithm 4, with
/// the slack of DiskANN). The `pinned` rows are always chosen, first.
///
/// If several rows have the same code, only the first is chosen, because a list full of copies leads nowhere else.
pub(super) fn select(
    codes: &Codes,
    row: u32,
    candidates: &[ScoredRow],
    capacity: usize,
    pinned: &[u32],
    query: &mut CodedQuery,
) -> Vec<u32> {
    let mut chosen: Vec<u32> = pinned.to_vec();
    let (mut coarse, mut fine) = ([0; GROUP], [0; GROUP]);
    'candidates: for candidate in candidates {
        if chosen.len() >= capacity {
            break;
        }
        let id = candidate.row;
        if id == row || pinned.contains(&id) {
            continue;
        }
        codes.row_query(id, query);
        for group in chosen.chunks(GROUP) {
            let mut rows: [&[Line]; GROUP] = [&[]; GROUP];
            for (slot, &other) in rows.iter_mut().zip(group) {
                *slot = codes.coarse(other);
            }
            codes.kernels().products(query.lines(), &rows[..group.len()], &mut coarse);
            for (slot, &other) in rows.iter_mut().zip(group) {
                *slot = codes.fine(other);
            }
            codes.kernels().products(query.lines(), &rows[..group.len()], &mut fine);
            for (i, &other) in group.iter().enumerate() {
                let score = query.score(coarse[i], fine[i], codes.scale(other));
                // Copies of a chosen row are as near to `row` as the chosen row is, so the first test does not leave
                // them out.
                if (1.0 - score) * ALPHA < 1.0 - candidate.score
                    || (score >= 0.99 * candidate.score && codes.same(id, other))
                {
                    continue 'candidates;
                }
            }
        }
        chosen.push(id);
    }
    chosen
}
