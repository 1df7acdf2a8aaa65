//! The encoding of a vector in the precision of its generation.
//!
//! With 32 bits, the components are stored; with 16, each rounded to the nearest number of half precision. With 8 bits,
//! a scale and one code per component: a component is its code times the scale. All are little endian.
//!
//! Codes are `round(127 x / max|x|)`. The scale is not `max|x| / 127` but the one that makes the codes a unit vector: so
//! a cosine changes only by the angle that rounding turns the vector, reading need not normalize, and a damaged scale
//! shows in the length. A vector that was read is written to the same bytes.

use half::{f16, slice::HalfFloatSliceExt};

use crate::config::Precision;

const SCALE_BYTES: usize = 4;
const MAX_CODE: f32 = 127.0;
/// The number of 16-bit components that are converted at once: processors have instructions for many.
const HALVES: usize = 64;

/// The number of bytes of a vector.
pub(super) fn bytes(precision: Precision, dimension: usize) -> usize {
    match precision {
        Precision::F32 => dimension * 4,
        Precision::F16 => dimension * 2,
        Precision::I8 => SCALE_BYTES + dimension,
    }
}

/// Encodes a unit vector or a zero vector.
pub(super) fn write(precision: Precision, vector: &[f32], bytes: &mut [u8]) {
    match precision {
        Precision::F32 => {
            for (bytes, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(vector) {
                *bytes = x.to_le_bytes();
            }
        }
        Precision::F16 => {
            for (bytes, x) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(vector) {
                *bytes = f16::from_f32(*x).to_le_bytes();
            }
        }
        Precision::I8 => {
            let (scale, codes) = bytes.split_first_chunk_mut::<SCALE_BYTES>().expect("a row has room for its scale");
            let max = vector.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
            let mut squares = 0u64;
            for (byte, x) in codes.iter_mut().zip(vector) {
                // In a zero vector this is NaN, which is cast to 0.
                let code = (x / max * MAX_CODE).round() as i8;
                *byte = code as u8;
                squares += u64::from(code.unsigned_abs()).pow(2);
            }
            let length = (squares as f64).sqrt();
            *scale = if squares == 0 { 0.0 } else { (1.0 / length) as f32 }.to_le_bytes();
        }
    }
}

/// Decodes a vector and appends its components to `vector`.
pub(super) fn read(precision: Precision, bytes: &[u8], vector: &mut Vec<f32>) {
    match precision {
        Precision::F32 => vector.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
        Precision::F16 => {
            for bytes in bytes.as_chunks::<2>().0.chunks(HALVES) {
                let mut halves = [f16::ZERO; HALVES];
                let halves = &mut halves[..bytes.len()];
                halves.iter_mut().zip(bytes).for_each(|(half, bytes)| *half = f16::from_le_bytes(*bytes));
                let begin = vector.len();
                vector.resize(begin + bytes.len(), 0.0);
                halves.convert_to_f32_slice(&mut vector[begin..]);
            }
        }
        Precision::I8 => {
            let (scale, codes) = bytes.split_first_chunk::<SCALE_BYTES>().expect("a row has room for its scale");
            let scale = f32::from_le_bytes(*scale);
            vector.extend(codes.iter().map(|&code| f32::from(code as i8) * scale));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(precision: Precision, vector: &[f32]) -> Vec<u8> {
        let mut all = vec![0; bytes(precision, vector.len())];
        write(precision, vector, &mut all);
        all
    }

    fn read_back(precision: Precision, vector: &[f32]) -> Vec<f32> {
        let mut read_back = Vec::new();
        read(precision, &written(precision, vector), &mut read_back);
        read_back
    }

    fn product(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    }

    /// Components of similar size, and some that are much larger than the others.
    fn unit_vector() -> impl Strategy<Value = Vec<f32>> {
        let component = prop_oneof![8 => -1.0f32..1.0, 1 => -1000.0f32..1000.0, 1 => Just(0.0)];
        proptest::collection::vec(component, 1..600).prop_filter_map("no direction", |vector| {
            let length = product(&vector, &vector).sqrt();
            (length > 1e-3).then(|| vector.iter().map(|&x| (f64::from(x) / length) as f32).collect())
        })
    }

    proptest! {
        #[test]
        fn f32_components_keep_all_bits(vector in proptest::collection::vec(any::<u32>().prop_map(f32::from_bits), 1..50)) {
            let bits = |vector: &[f32]| vector.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&read_back(Precision::F32, &vector)), bits(&vector));
        }

        /// Rounding moves each component by half a step at most: that bounds the angle.
        #[test]
        fn i8_rounding_turns_a_vector_by_a_bounded_angle(vector in unit_vector()) {
            let found = read_back(Precision::I8, &vector);
            prop_assert_eq!(found.len(), vector.len());
            prop_assert!((product(&found, &found) - 1.0).abs() < 1e-6);
            let step = f64::from(vector.iter().fold(0.0, |max: f32, x| max.max(x.abs()))) / 127.0;
            let moved = step / 2.0 * (vector.len() as f64).sqrt();
            let cosine = product(&found, &vector);
            prop_assert!(cosine > 0.0 || moved >= 1.0);
            prop_assert!(1.0 - cosine * cosine <= moved * moved + 1e-6, "{} for {}", cosine, moved);
        }

        /// Half precision has 11 significant bits.
        #[test]
        fn f16_rounding_moves_a_component_by_a_bounded_part(vector in unit_vector()) {
            let found = read_back(Precision::F16, &vector);
            prop_assert_eq!(found.len(), vector.len());
            for (found, x) in found.iter().zip(&vector) {
                prop_assert!((found - x).abs() <= x.abs() / 2048.0 + 3e-8, "{} is not {}", found, x);
            }
        }

        #[test]
        fn a_vector_that_was_read_is_written_to_the_same_bytes(vector in unit_vector()) {
            for precision in [Precision::F16, Precision::I8] {
                let found = read_back(precision, &vector);
                prop_assert_eq!(written(precision, &found), written(precision, &vector));
            }
        }

        /// Vectors of an embedder are checked before they are stored. Others must not cause a panic.
        #[test]
        fn any_numbers_can_be_written(vector in proptest::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..50)) {
            for precision in [Precision::F16, Precision::I8] {
                prop_assert_eq!(read_back(precision, &vector).len(), vector.len());
            }
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        for precision in [Precision::F32, Precision::F16, Precision::I8] {
            assert_eq!(read_back(precision, &[0.0; 7]), [0.0; 7]);
            assert_eq!(read_back(precision, &[0.0, -0.0]), [0.0; 2]);
        }
    }
}
