//! Whether texts, or pairs of them, may share a run: only if none of their bits change.
//!
//! A manifest may promise too much (padding that is not exact, quantised activations that it does not name), and kernels
//! differ: ONNX Runtime takes the last few numbers of a tensor by other instructions, so that a graph whose rows are no
//! multiple of a register wide gives other bits in company. So it is tried.

use super::schedule::{Execute, Limits};

/// Lengths that are tried: odd, and more than one block of any kernel.
const LENGTHS: [usize; 3] = [3, 9, 34];
const ROWS: usize = 5;

/// The limits, as far as this model keeps its bits under them. Cost: some 20 short runs.
pub(super) fn tried(executor: &mut impl Execute, largest_id: u32, promised: Limits) -> Limits {
    let mut limits = promised;
    if limits.padded && !is_exact(executor, &rows(largest_id, |row| LENGTHS[row % LENGTHS.len()])) {
        tracing::warn!(
            "padding changes vectors: texts of different lengths do not share runs, whatever manifest.toml says"
        );
        limits.padded = false;
    }
    let alike = |length: &usize| is_exact(executor, &rows(largest_id, |_| *length));
    if limits.rows > 1 && !limits.padded && !LENGTHS.iter().all(alike) {
        tracing::warn!("results depend on their company: each text has a run of its own");
        limits.rows = 1;
    }
    limits
}

/// Whether each row gives alone what it gives with the others. Rows that fail alone say nothing; those that fail only together, as
/// of a graph for one row, may not share a run.
fn is_exact(executor: &mut impl Execute, rows: &[Vec<u32>]) -> bool {
    let all: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let alone: Result<Vec<_>, _> = all.iter().map(|row| executor.execute(&[row])).collect();
    match (alone, executor.execute(&all)) {
        (Ok(alone), Ok(together)) => alone.concat() == together,
        (Ok(_), Err(_)) => false,
        (Err(_), _) => true,
    }
}

/// Seeded rows (D. Lehmer's generator), so that a model is always found the same.
fn rows(largest_id: u32, length: impl Fn(usize) -> usize) -> Vec<Vec<u32>> {
    let mut state = 1_u64;
    let mut token = || {
        state = state * 48_271 % 0x7fff_ffff;
        (state % (u64::from(largest_id) + 1)) as u32
    };
    (0..ROWS).map(|row| (0..length(row)).map(|_| token()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Result};

    /// Takes so many rows a run; a row that is padded gives something else; a large number nothing.
    struct Takes {
        rows: usize,
        counted: bool,
    }

    impl Execute for Takes {
        fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
            if rows.len() > self.rows || rows.iter().any(|row| row.iter().any(|&token| token > 8)) {
                return Err(Error::Embedding { reason: "on purpose".into(), source: None });
            }
            let longest = rows.iter().map(|row| row.len()).max().unwrap();
            let length = |row: &&[u32]| if self.counted { longest } else { row.len() };
            Ok(rows.iter().map(|row| vec![row.iter().sum::<u32>() as f32, length(row) as f32]).collect())
        }
    }

    #[test]
    fn what_keeps_its_bits_goes_together() {
        let check = |rows, counted, largest_id, padded, expected| {
            let found =
                tried(&mut Takes { rows, counted }, largest_id, Limits { tokens: 64, rows: usize::MAX, padded });
            assert_eq!((found.rows, found.padded), expected, "{rows} rows, counted {counted}, padded {padded}");
        };
        for padded in [true, false] {
            check(usize::MAX, false, 8, padded, (usize::MAX, padded));
            check(usize::MAX, true, 8, padded, (usize::MAX, false));
            check(1, false, 8, padded, (1, false));
        }
        // Nothing can be said of what fails alone.
        check(1, false, 1000, false, (usize::MAX, false));
    }
}
