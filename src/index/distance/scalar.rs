//! Functions of vectors in plain Rust, for any processor.

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums, so that the compiler can use the vector registers of the target.
    let mut sums = [0.0f32; 8];
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// Adds a row of codes, scaled, to a vector. Each instruction set compiles this function for itself.
#[inline(always)]
pub(super) fn add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) {
    // The product is rounded before it is added: a fused operation would give other bits.
    for (sum, &code) in sum.iter_mut().zip(codes) {
        *sum += scale * f32::from(code.cast_signed());
    }
}
