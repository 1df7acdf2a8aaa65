//! Functions of plain vectors.

use std::sync::OnceLock;

use super::distance::Kernels;

/// Returns the inner product of two vectors of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    kernels().dot(a, b)
}

/// Adds `scale` times each of the signed bytes `codes` to its component of `sum`, with the same bits on every processor.
pub fn add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) {
    kernels().add_scaled(sum, codes, scale);
}

fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(Kernels::detect)
}

/// Returns true if all components are finite numbers. Reads all of them, which is faster than stopping early.
pub fn is_finite(vector: &[f32]) -> bool {
    vector.iter().fold(true, |all, x| all & x.is_finite())
}
