//! Functions of plain vectors.

use std::sync::OnceLock;

use super::distance::Kernels;

/// Returns the inner product of two vectors of the same length.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(Kernels::detect).dot(a, b)
}

/// Returns true if all components are finite numbers. Reads all of them, which is faster than stopping early.
pub(crate) fn is_finite(vector: &[f32]) -> bool {
    vector.iter().fold(true, |all, x| all & x.is_finite())
}
