//! Tests whether a model is batch invariant, so that a text has the same vector, bit by bit, alone and in a batch.
//!
//! A manifest may promise too much (padding that is not exact, quantized activations that it does not name), and
//! kernels differ: ONNX Runtime processes the last few numbers of a tensor with other instructions, so that a graph
//! whose rows are not a multiple of a register wide gives other bits in a batch. So the model itself is tested.

use super::schedule::{Execute, Limits};

/// Row lengths that are tested: odd ones, and one that exceeds a block of any kernel.
const LENGTHS: [usize; 3] = [3, 9, 34];
const ROWS: usize = 5;

/// Returns the promised limits, restricted to those under which this model is batch invariant. Cost: about 20 short
/// runs.
pub(crate) fn tested_limits(executor: &mut impl Execute, largest_id: u32, promised: Limits) -> Limits {
    let mut limits = promised;
    if limits.padded && !is_exact(executor, &rows(largest_id, |row| LENGTHS[row % LENGTHS.len()])) {
        tracing::warn!(
            "padding changes vectors, so texts of different lengths are not batched, although manifest.toml promises exact padding"
        );
        limits.padded = false;
    }
    let alike = |length: &usize| is_exact(executor, &rows(largest_id, |_| *length));
    if limits.rows > 1 && !limits.padded && !LENGTHS.iter().all(alike) {
        tracing::warn!("results depend on other texts in the batch, so each text is run alone");
        limits.rows = 1;
    }
    limits
}

/// Returns true if each row gives the same alone as in a batch. Rows that fail alone prove nothing; rows that fail only
/// in a batch, such as those of a graph for one row, may not be batched.
fn is_exact(executor: &mut impl Execute, rows: &[Vec<u32>]) -> bool {
    let all: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let alone: Result<Vec<_>, _> = all.iter().map(|row| executor.execute(&[row])).collect();
    match (alone, executor.execute(&all)) {
        (Ok(alone), Ok(together)) => alone.concat() == together,
        (Ok(_), Err(_)) => false,
        (Err(_), _) => true,
    }
}

/// Seeded random rows (D. Lehmer's generator), so that the result for a model is always the same.
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

    /// A model that takes a number of rows at a time, may count padding, and fails on large tokens.
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
    fn only_invariant_batches_are_allowed() {
        let check = |rows, counted, largest_id, padded, expected| {
            let found = tested_limits(
                &mut Takes { rows, counted },
                largest_id,
                Limits { tokens: 64, rows: usize::MAX, padded },
            );
            assert_eq!((found.rows, found.padded), expected, "{rows} rows, counted {counted}, padded {padded}");
        };
        for padded in [true, false] {
            check(usize::MAX, false, 8, padded, (usize::MAX, padded));
            check(usize::MAX, true, 8, padded, (usize::MAX, false));
            check(1, false, 8, padded, (1, false));
        }
        // Rows that fail alone prove nothing.
        check(1, false, 1000, false, (usize::MAX, false));
    }
}
