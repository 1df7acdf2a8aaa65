//! Which candidates become links: near ones, in different directions.

use super::{
    beam::Candidate,
    codes::{Codes, Query},
};
use crate::index::distance::Line;

/// Kept rows compared in one call.
const GROUP: usize = 8;

/// How much nearer to a chosen row a candidate must be to be left out: a little longer links than nearest give shorter
/// searches (DiskANN, Subramanya et al. 2019). Of 1 to 1.25, the best on real texts.
const ALPHA: f32 = 1.03;

/// Chooses links of `row` out of candidates, nearest first: those that are nearer to it than to any chosen before them
/// (Malkov and Yashunin, arXiv 1603.09320, algorithm 4, with DiskANN's slack), `capacity` at most. `pinned` are chosen whatever the others are.
///
/// Of rows with one code, the first alone is chosen: a list full of what says the same leads nowhere.
pub(super) fn select(
    codes: &Codes,
    row: u32,
    candidates: &[Candidate],
    capacity: usize,
    pinned: &[u32],
    query: &mut Query,
) -> Vec<u32> {
    let mut chosen: Vec<u32> = pinned.to_vec();
    let (mut coarse, mut fine) = ([0; GROUP], [0; GROUP]);
    'candidates: for candidate in candidates {
        if chosen.len() >= capacity {
            break;
        }
        let id = candidate.row();
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
                // Rows with one code are as near to `row` as each other.
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
