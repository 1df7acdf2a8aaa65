//! Inner products, one file per instruction set, chosen at run time.
//!
//! The only `unsafe` of the crate is in this folder. All give the same result within rounding: they add up in
//! different orders.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

/// The fastest inner product that this processor has.
#[derive(Clone, Copy)]
pub(super) struct Dot(Kernel);

/// The inner product of two slices of one length.
type Kernel = fn(&[f32], &[f32]) -> f32;

impl Dot {
    pub(super) fn detect() -> Self {
        Dot(available().last().expect("scalar is always there").1)
    }

    /// The inner product. The slices have the same length, or it panics.
    #[inline]
    pub(super) fn of(self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of one index have one dimension");
        (self.0)(a, b)
    }
}

/// What this processor can run, slowest first.
fn available() -> Vec<(&'static str, Kernel)> {
    #[allow(unused_mut, reason = "nothing to add on other processors")]
    let mut all: Vec<(&str, Kernel)> = vec![("scalar", scalar::dot)];
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(avx2::detect().map(|dot| ("avx2", dot)));
        all.extend(avx512::detect().map(|dot| ("avx512", dot)));
    }
    #[cfg(target_arch = "aarch64")]
    all.extend(neon::detect().map(|dot| ("neon", dot)));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_instruction_set_agrees_with_scalar(
            pairs in proptest::collection::vec((-1.0f32..1.0, -1.0f32..1.0), 0..300),
            skip in 0usize..4,
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            // Sub-slices are not aligned to any vector register.
            let skip = skip.min(a.len());
            let (a, b) = (&a[skip..], &b[skip..]);
            let exact: f64 = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            for (name, dot) in available() {
                let got = f64::from(dot(a, b));
                prop_assert!((got - exact).abs() <= 1e-5 * (1.0 + a.len() as f64), "{name}: {got} is not {exact}");
            }
        }
    }
}
