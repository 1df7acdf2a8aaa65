//! The encoding of a text's passages: their number, the range of each, then their vectors. All numbers are little
//! endian.

use std::{ops::Range, sync::Arc};

use crate::embed::Passage;

const COUNT_BYTES: usize = 4;
/// Start and end, 8 bytes each.
const RANGE_BYTES: usize = 16;

pub(super) fn encode(passages: &[Passage]) -> Arc<[u8]> {
    let components: usize = passages.iter().map(|passage| passage.vector.len()).sum();
    let mut bytes = Vec::with_capacity(COUNT_BYTES + passages.len() * RANGE_BYTES + components * 4);
    bytes.extend((passages.len() as u32).to_le_bytes());
    for Range { start, end } in passages.iter().map(|passage| &passage.range) {
        bytes.extend((*start as u64).to_le_bytes());
        bytes.extend((*end as u64).to_le_bytes());
    }
    for Passage { vector, .. } in passages {
        let begin = bytes.len();
        bytes.resize(begin + vector.len() * 4, 0);
        for (bytes, x) in bytes[begin..].as_chunks_mut::<4>().0.iter_mut().zip(vector) {
            *bytes = x.to_le_bytes();
        }
    }
    bytes.into()
}

/// Decodes the passages of a text of `text_bytes` bytes, at least one, each with a vector of this dimension. `None`:
/// the bytes encode anything else.
pub(super) fn decode(bytes: &[u8], dimension: usize, text_bytes: usize) -> Option<Vec<Passage>> {
    let (count, rest) = bytes.split_first_chunk::<COUNT_BYTES>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let (ranges, vectors) = rest.split_at_checked(count.checked_mul(RANGE_BYTES)?)?;
    if count == 0 || dimension == 0 || vectors.len() != count.checked_mul(dimension)?.checked_mul(4)? {
        return None;
    }
    let position =
        |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok().filter(|&position| position <= text_bytes);
    ranges
        .as_chunks::<8>()
        .0
        .as_chunks::<2>()
        .0
        .iter()
        .zip(vectors.chunks_exact(dimension * 4))
        .map(|([start, end], vector)| {
            let (start, end) = (position(start)?, position(end)?);
            let vector = vector.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
            (start <= end).then_some(Passage { range: start..end, vector })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_passages_are_decoded(count in 1usize..4, dimension in 1usize..9, bits in prop::collection::vec(any::<u32>(), 32)) {
            let passages: Vec<Passage> = (0..count)
                .map(|i| {
                    let vector = (0..dimension).map(|j| f32::from_bits(bits[i * dimension + j])).collect();
                    Passage { range: i * 3..i * 5, vector }
                })
                .collect();
            let bytes = encode(&passages);
            let decoded = decode(&bytes, dimension, 15).unwrap();
            // Compared as bits, because NaN is not equal to itself.
            prop_assert_eq!(encode(&decoded), bytes.clone());
            prop_assert_eq!(decoded.len(), count);
            let other_dimension = decode(&bytes, dimension + 1, 15);
            prop_assert!(other_dimension.is_none());
            // The text is one byte shorter than the end of the last passage, if that is not empty.
            let outside = decode(&bytes, dimension, ((count - 1) * 5).saturating_sub(1));
            prop_assert_eq!(outside.is_some(), count == 1);
            for cut in 0..bytes.len() {
                prop_assert!(decode(&bytes[..cut], dimension, 15).is_none());
            }
        }
    }
}
