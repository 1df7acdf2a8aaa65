//! A sample of a namespace's rows, and the typical message lengths estimated from it.

use crate::message::Role;

/// Number of rows sampled to estimate a namespace's score and length statistics.
const SAMPLE_ROWS: usize = 512;
/// A role has a typical length of its own if it wrote at least one in this many of the sampled messages.
const MIN_ROLE_SHARE: usize = 20;

/// Rows spread evenly over a namespace, and its typical lengths estimated from them. The same for every query until
/// rows change.
pub(super) struct Sample {
    pub(super) rows: Vec<u32>,
    pub(super) lengths: TypicalLengths,
}

/// Chooses about [`SAMPLE_ROWS`] live rows, spread evenly over rows 0 to `count`.
pub(super) fn spread(count: usize, is_live: impl Fn(u32) -> bool) -> Vec<u32> {
    // The offset within a step varies: speakers take turns, so with a fixed offset the sample could consist of one
    // speaker's messages, which may all be deleted.
    let sampled = |count: usize| {
        let step = count.div_ceil(SAMPLE_ROWS).max(1);
        let offset = move |begin: usize| ((begin as u32).wrapping_mul(0x9E37_79B9) >> 16) as usize % step;
        (0..count).step_by(step).map(move |begin| (begin + offset(begin)).min(count - 1))
    };
    let is_live = |row: &u32| is_live(*row);
    let rows: Vec<u32> = sampled(count).map(|row| row as u32).filter(is_live).collect();
    if rows.len() >= SAMPLE_ROWS / 4 {
        return rows;
    }
    // Most rows of the namespace were deleted: sample the list of live ones.
    let live: Vec<u32> = (0..count as u32).filter(is_live).collect();
    sampled(live.len()).map(|at| live[at]).collect()
}

/// Typical message lengths, as means of logarithms of term counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypicalLengths {
    /// For each role the sum over its messages, and their number.
    sums: Vec<(Role, f32, usize)>,
    by_role: Vec<(Role, f32)>,
    all: f32,
    /// The least of them.
    pub(super) tersest: f32,
}

impl TypicalLengths {
    pub(super) fn new(messages: impl Iterator<Item = (Role, f32)>) -> Self {
        Self::from_sums(messages.map(|(role, length)| (role, length, 1)))
    }

    /// The typical lengths of several namespaces together, each given with the number of its rows.
    pub(super) fn pooled<'a>(parts: impl Iterator<Item = (&'a TypicalLengths, usize)>) -> Self {
        Self::from_sums(parts.flat_map(|(part, rows)| {
            // A sample stands for all rows of its namespace.
            let scale = rows as f32 / part.sums.iter().map(|(.., count)| count).sum::<usize>().max(1) as f32;
            part.sums.iter().map(move |&(role, sum, count)| {
                let scaled = (count as f32 * scale).round().max(1.0);
                (role, sum / count as f32 * scaled, scaled as usize)
            })
        }))
    }

    fn from_sums(parts: impl Iterator<Item = (Role, f32, usize)>) -> Self {
        let mut sums: Vec<(Role, f32, usize)> = Vec::new();
        for (role, length, messages) in parts {
            match sums.iter_mut().find(|(other, ..)| *other == role) {
                Some((_, sum, count)) => (*sum, *count) = (*sum + length, *count + messages),
                None => sums.push((role, length, messages)),
            }
        }
        let count: usize = sums.iter().map(|(.., count)| count).sum();
        let all = sums.iter().map(|(_, sum, _)| sum).sum::<f32>() / count.max(1) as f32;
        let by_role: Vec<(Role, f32)> = sums
            .iter()
            .filter(|(.., of_role)| of_role * MIN_ROLE_SHARE >= count)
            .map(|&(role, sum, of_role)| (role, sum / of_role as f32))
            .collect();
        let tersest = by_role.iter().map(|(_, typical)| *typical).fold(f32::INFINITY, f32::min);
        TypicalLengths { sums, by_role, all, tersest: tersest.min(all) }
    }

    /// The typical length of a role's messages; of all messages, if the role is rare.
    pub(super) fn of_role(&self, role: Role) -> f32 {
        self.by_role.iter().find(|(other, _)| *other == role).map_or(self.all, |(_, typical)| *typical)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn a_sample_has_live_rows_alone() {
        let check = |rows: u32, is_live: fn(u32) -> bool, wanted: Range<usize>| {
            let live: Vec<u32> = (0..rows).filter(|&row| is_live(row)).collect();
            let spread = spread(rows as usize, is_live);
            assert!(wanted.contains(&spread.len()), "{} of {} of {rows}", spread.len(), live.len());
            assert!(spread.iter().all(|&row| is_live(row)) && spread.is_sorted_by(|a, b| a < b));
        };
        check(0, |_| true, 0..1);
        check(500, |_| true, 500..501);
        check(100_000, |_| true, SAMPLE_ROWS - 4..SAMPLE_ROWS + 1);
        check(100_000, |row| row % 2 == 0, SAMPLE_ROWS * 2 / 5..SAMPLE_ROWS + 1);
        // Few of these rows are where a sample of all rows looks.
        check(100_000, |row| row % 1000 == 7, 100..101);
        check(100_000, |row| row > 90_000 && row % 2 == 1, SAMPLE_ROWS / 2..SAMPLE_ROWS + 1);
        check(100_000, |_| false, 0..1);
    }
}
