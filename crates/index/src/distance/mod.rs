//! Inner products of vectors and of packed codes, and sums of scaled bytes, one file for each instruction set, chosen at
//! run time.
//!
//! All `unsafe` code of the crate is in this folder. The instruction sets give the same integers for codes, the same bits
//! for sums, and the same inner products of vectors within rounding, because they add the products in different orders.
//!
//! - `kernels` has the table of functions that an instruction set provides, and the table in plain Rust; `avx2`, `avx512`
//!   and `neon` have the others.
//! - `rotation` is what vectors are coded after, `codes` the format of their packed codes, and `neighbor_codes` that of
//!   codes relative to another row, each with the portable functions for it.
//! - `memory_hints` tells the processor and the system what is needed next.

use std::sync::OnceLock;

/// Compiles the portable functions of a table for the processors that have `features`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! compile_portable {
    ($features:literal) => {
        compile_portable! { $features:
            encode(vector: &[f32], coarse: &mut [Line], fine: &mut [Line]) -> f32 = super::codes::encode,
            unpack(coarse: &[Line], fine: &[Line], query: &mut [Line<i8>]) -> i32 = super::codes::unpack,
            add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) -> () = super::codes::add_scaled,
            rotate(rotation: &Rotation, vector: &[f32], rotated: &mut Vec<f32>) -> () = Rotation::rotate,
            tabulate(query: &[f32], table: &mut SignTable) -> () = neighbor_codes::tabulate,
            put_neighbor(row: CodedRow, neighbor: CodedRow, slot: usize, block: &mut [Line]) -> () =
                neighbor_codes::put_neighbor,
        }
    };
    ($features:literal: $($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $portable:path,)*) => {
        $(fn $name($($argument: $type),*) -> $result {
            #[target_feature(enable = $features)]
            fn compiled($($argument: $type),*) -> $result {
                $portable($($argument),*)
            }
            // SAFETY: only `detect` returns this function, after it has found the features.
            unsafe { compiled($($argument),*) }
        })*
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod codes;
mod kernels;
mod memory_hints;
mod neighbor_codes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod rotation;

pub(super) use codes::{Line, PER_LINE, rounded, scale};
pub(super) use kernels::Kernels;
pub(super) use memory_hints::{prefer_huge_pages, prefetch};
pub(super) use neighbor_codes::{BLOCK_ROWS, CodedRow, SignTable, block_lines, clear_block};
pub(super) use rotation::Rotation;

/// Returns the inner product of two vectors of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    detected().dot(a, b)
}

/// Adds `scale` times each of the signed bytes `codes` to its component of `sum`, with the same bits on every processor.
pub fn add_scaled(sum: &mut [f32], codes: &[u8], scale: f32) {
    detected().add_scaled(sum, codes, scale);
}

fn detected() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(Kernels::detect)
}

/// Returns true if all components are finite numbers. Reads all of them, which is faster than stopping early.
pub fn is_finite(vector: &[f32]) -> bool {
    vector.iter().fold(true, |all, x| all & x.is_finite())
}

impl Kernels {
    /// Returns the fastest functions that this processor can run.
    pub(crate) fn detect() -> Self {
        *available().last().expect("scalar code runs everywhere")
    }
}

/// Returns the tables of functions that this processor can run, slowest first.
fn available() -> Vec<Kernels> {
    #[allow(unused_mut, reason = "other processors add nothing")]
    let mut all = vec![kernels::SCALAR];
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        all.extend(avx2::detect());
        all.extend(avx512::detect());
    }
    #[cfg(target_arch = "aarch64")]
    all.extend(neon::detect());
    all
}

#[cfg(test)]
mod tests {
    use half::f16;
    use proptest::prelude::*;

    use super::{kernels::SCALAR, *};

    proptest! {
        #[test]
        fn every_instruction_set_agrees_with_scalar(
            pairs in proptest::collection::vec((-1.0f32..1.0, -1.0f32..1.0), 0..300),
            skip in 0usize..4,
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            // Sub-slices that no vector register is aligned to.
            let skip = skip.min(a.len());
            let (a, b) = (&a[skip..], &b[skip..]);
            let exact: f64 = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            for kernels in available() {
                let got = f64::from(kernels.dot(a, b));
                let name = kernels.name;
                prop_assert!((got - exact).abs() <= 1e-5 * (1.0 + a.len() as f64), "{name}: {got} is not {exact}");
            }
        }

        #[test]
        fn every_instruction_set_multiplies_halves(
            pairs in proptest::collection::vec((-1.0f32..1.0, any::<u16>()), 0..300),
        ) {
            let finite = |bits| Some(f16::from_bits(bits)).filter(|x| x.is_finite()).unwrap_or(f16::MAX);
            let (a, b): (Vec<f32>, Vec<f16>) = pairs.into_iter().map(|(x, bits)| (x, finite(bits))).unzip();
            let products = || a.iter().zip(&b).map(|(x, y)| f64::from(*x) * y.to_f64());
            let exact: f64 = products().sum();
            let most = 1e-5 * products().map(f64::abs).sum::<f64>();
            for kernels in available() {
                let got = f64::from(kernels.dot_half(&a, &b));
                prop_assert!((got - exact).abs() <= most, "{}: {} is not {}", kernels.name, got, exact);
            }
        }

        #[test]
        fn every_instruction_set_gives_the_same_sums(
            pairs in proptest::collection::vec((-1.0f32..1.0, any::<u8>()), 0..300),
            scale in any::<f32>(),
        ) {
            let (vector, codes): (Vec<f32>, Vec<u8>) = pairs.into_iter().unzip();
            let wanted: Vec<u32> =
                vector.iter().zip(&codes).map(|(x, &code)| (x + scale * f32::from(code as i8)).to_bits()).collect();
            for kernels in available() {
                let mut sum = vector.clone();
                kernels.add_scaled(&mut sum, &codes, scale);
                let sum: Vec<u32> = sum.into_iter().map(f32::to_bits).collect();
                prop_assert_eq!(&sum, &wanted, "{}", kernels.name);
            }
        }

        #[test]
        fn every_instruction_set_gives_the_same_codes(vector in proptest::collection::vec(-1.0f32..1.0, 1..400)) {
            let lines = vector.len().div_ceil(PER_LINE);
            let encode = |kernels: &Kernels| {
                let (mut coarse, mut fine) = (vec![Line([0; 64]); lines], vec![Line([0; 64]); lines]);
                let scale = kernels.encode(&vector, &mut coarse, &mut fine);
                (scale, coarse, fine)
            };
            let wanted = encode(&SCALAR);
            for (i, x) in vector.iter().enumerate() {
                let (line, j) = (i / PER_LINE, i % 64);
                let shift = if i % PER_LINE < 64 { 0 } else { 4 };
                let half = |plane: &[Line]| (plane[line].0[j] >> shift) & 15;
                let decoded = (f32::from(half(&wanted.1) * 16 + half(&wanted.2)) - 128.0) * wanted.0;
                prop_assert!((decoded - x).abs() <= wanted.0 * 0.501, "{decoded} is not {x}");
            }
            let unpack = |kernels: &Kernels| {
                let mut query = vec![Line([0; 64]); 2 * lines];
                (kernels.unpack(&wanted.1, &wanted.2, &mut query), query)
            };
            let (sum, query) = unpack(&SCALAR);
            let codes = || query.iter().flat_map(|line| line.0).map(i32::from);
            prop_assert_eq!(codes().sum::<i32>(), sum);
            for (code, x) in codes().zip(&vector) {
                prop_assert!((code as f32 * wanted.0 - x).abs() <= wanted.0 * 0.501, "{code} is not {x}");
            }
            for kernels in available() {
                prop_assert_eq!(&encode(&kernels), &wanted, "{}", kernels.name);
                prop_assert_eq!(&unpack(&kernels), &(sum, query.clone()), "{}", kernels.name);
            }
        }

        #[test]
        fn every_instruction_set_gives_the_same_products_of_codes(
            lines in 1usize..7,
            rows in 0usize..11,
            seed in any::<u64>(),
            extreme in any::<bool>(),
        ) {
            let mut state = seed;
            let mut byte = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if extreme { 0xff } else { (state >> 56) as u8 }
            };
            let query: Vec<Line<i8>> = (0..2 * lines)
                .map(|_| Line(std::array::from_fn(|_| if extreme { -128 } else { byte() as i8 })))
                .collect();
            let rows: Vec<Vec<Line>> =
                (0..rows).map(|_| (0..lines).map(|_| Line(std::array::from_fn(|_| byte()))).collect()).collect();
            let rows: Vec<&[Line]> = rows.iter().map(Vec::as_slice).collect();
            let mut wanted = vec![0; rows.len()];
            SCALAR.products(&query, &rows, &mut wanted);
            for kernels in available() {
                let mut got = vec![7; rows.len()];
                kernels.products(&query, &rows, &mut got);
                prop_assert_eq!(&got, &wanted, "{}", kernels.name);
            }
        }

        #[test]
        fn every_instruction_set_rotates_alike(vector in proptest::collection::vec(-1.0f32..1.0, 1..700)) {
            let rotation = Rotation::new(vector.len());
            let rotate = |kernels: &Kernels| {
                let mut rotated = Vec::new();
                kernels.rotate(&rotation, &vector, &mut rotated);
                rotated.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let wanted = rotate(&SCALAR);
            for kernels in available() {
                prop_assert_eq!(&rotate(&kernels), &wanted, "{}", kernels.name);
            }
        }

        #[test]
        fn every_instruction_set_estimates_alike(
            lines in 1usize..25,
            neighbors in 0..=BLOCK_ROWS,
            seed in any::<u64>(),
            extreme in any::<bool>(),
        ) {
            let mut state = seed;
            let mut byte = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if extreme { -127 + (state >> 63) as i8 * 127 } else { (state >> 56) as i8 }
            };
            let mut coded = || (0..2 * lines).map(|_| Line(std::array::from_fn(|_| byte()))).collect::<Vec<Line<i8>>>();
            let (row, others): (_, Vec<_>) = (coded(), (0..neighbors).map(|_| coded()).collect());
            let query: Vec<f32> = coded().iter().flat_map(|line| line.0).map(|x| f32::from(x) * 0.01).collect();
            let estimate = |kernels: &Kernels| {
                let mut table = SignTable::default();
                kernels.tabulate(&query, &mut table);
                let mut block = vec![Line([0; 64]); block_lines(lines)];
                clear_block(&mut block);
                for (slot, neighbor) in others.iter().enumerate() {
                    let [row, neighbor] = [&row, neighbor].map(|lines| CodedRow { lines, scale: 0.01 });
                    kernels.put_neighbor(row, neighbor, slot, &mut block);
                }
                let mut scores = [0.0; BLOCK_ROWS];
                let above = kernels.estimate(&table, 0.5, &block, 0.25, &mut scores);
                (above, scores.map(f32::to_bits), block)
            };
            let wanted = estimate(&SCALAR);
            for (slot, score) in wanted.1.into_iter().map(f32::from_bits).enumerate() {
                prop_assert_eq!(wanted.0 >> slot & 1 == 1, score > 0.25);
                prop_assert!(slot < neighbors || score < -1e29, "{score} without a neighbor");
            }
            for kernels in available() {
                prop_assert_eq!(&estimate(&kernels), &wanted, "{}", kernels.name);
            }
        }
    }
}
