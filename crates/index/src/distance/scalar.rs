//! Functions of vectors in plain Rust, for any processor.

use half::f16;

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum_of_products(a, b, |x| x)
}

/// Returns the inner product of a vector and one of finite numbers with 16 bits.
pub(super) fn dot_half(a: &[f32], b: &[f16]) -> f32 {
    sum_of_products(a, b, widened)
}

#[inline(always)]
fn sum_of_products<T: Copy>(a: &[f32], b: &[T], component: impl Fn(T) -> f32) -> f32 {
    // Eight sums, so that the compiler can use the vector registers of the target.
    let mut sums = [0.0f32; 8];
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * component(b[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * component(*b)).sum();
    sums.iter().sum::<f32>() + rest
}

/// Converts a finite number, subnormal ones included, in steps that a compiler can do for many numbers at once.
#[inline(always)]
pub(super) fn widened(x: f16) -> f32 {
    /// 2 to the power of the difference of the exponents' offsets, 127 - 15.
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(x.to_bits());
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * REBIAS;
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

/// Adds a row of codes, scaled, to a vector. Each instruction set compiles this function for itself.
#[inline(always)]
pub(super) fn add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) {
    // The product is rounded before it is added: a fused operation would give other bits.
    for (sum, &code) in sum.iter_mut().zip(codes) {
        *sum += scale * f32::from(code.cast_signed());
    }
}
