//! A random rotation, which spreads what a vector has in a few components over all of them.
//!
//! Codes of few bits need this: a bit for each component says the more, the more alike the components are. Inner
//! products stay the same. The rotation takes `n log n` steps, as in the fast Johnson-Lindenstrauss transform (Ailon and
//! Chazelle, STOC 2006): rounds of turned rows, random signs, and a Walsh-Hadamard transform.

use super::codes::PER_LINE;

/// Components that are transformed alike, in one register or a few.
const LANES: usize = 16;

const ROUNDS: usize = 3;

/// Before each round, a row is turned by so many lanes more than the row above it. With these numbers a single component
/// spreads to all lanes even where there are only eight rows, as in the shortest vectors.
const TURNS: [usize; ROUNDS] = [0, 1, 8];

/// A rotation of vectors, padded with zeros to a whole number of lines. The same for each dimension, on every processor,
/// to the last bit.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    /// For each round and component, 1 or -1.
    signs: Vec<f32>,
    /// The cosines of angles, and then their sines. In the end each component of the first half is turned with one of the
    /// second half by an angle of their own. Without this, the components of a vector that had few would be equal but for
    /// their signs, and the errors of their codes would add up.
    angles: Vec<f32>,
    width: usize,
}

impl Rotation {
    pub(crate) fn new(dimension: usize) -> Self {
        let width = dimension.next_multiple_of(PER_LINE);
        let mut state = 0x6d6e_656d_6f6eu64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u32 << 24) as f32
        };
        let signs = (0..ROUNDS * width).map(|_| if random() < 0.5 { 1.0 } else { -1.0 }).collect();
        // Tangents of half the angles, because sines differ between processors in the last bit.
        let tangents: Vec<f32> = (0..width / 2).map(|_| random()).collect();
        let cosines = tangents.iter().map(|tangent| (1.0 - tangent * tangent) / (1.0 + tangent * tangent));
        let sines = tangents.iter().map(|tangent| 2.0 * tangent / (1.0 + tangent * tangent));
        Rotation { signs, angles: cosines.chain(sines).collect(), width }
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.signs.capacity() + self.angles.capacity()) * size_of::<f32>()
    }

    /// Rotates a vector. Each instruction set compiles this function for itself.
    #[inline(always)]
    pub(super) fn rotate(&self, vector: &[f32], rotated: &mut Vec<f32>) {
        rotated.clear();
        rotated.extend_from_slice(vector);
        // The rest is room for turned rows.
        rotated.resize(3 * self.width, 0.0);
        let (components, room) = rotated.split_at_mut(self.width);
        let rows = components.as_chunks_mut::<LANES>().0;
        for (round, signs) in self.signs.chunks_exact(self.width).enumerate() {
            if TURNS[round] > 0 {
                turn(rows, room, |row| row * TURNS[round] % LANES);
            }
            rows.as_flattened_mut().iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            let [first, last] = parts(rows.len());
            transform(&mut rows[first]);
            transform(&mut rows[last]);
        }
        self.turn_pairs(components, 1.0);
        rotated.truncate(self.width);
    }

    /// Turns each component of the first half with one of the second half.
    #[inline(always)]
    fn turn_pairs(&self, components: &mut [f32], direction: f32) {
        let half = self.width / 2;
        let (low, high) = components.split_at_mut(half);
        let (cosines, sines) = self.angles.split_at(half);
        for i in 0..half {
            let (a, b, cosine, sine) = (low[i], high[i], cosines[i], direction * sines[i]);
            (low[i], high[i]) = (cosine * a - sine * b, sine * a + cosine * b);
        }
    }

    /// Rotates a vector back, and cuts it to `dimension` components.
    pub(crate) fn rotate_back(&self, vector: &mut Vec<f32>, dimension: usize) {
        let mut room = vec![0.0; 2 * self.width];
        self.turn_pairs(vector, -1.0);
        let rows = vector.as_chunks_mut::<LANES>().0;
        for (round, signs) in self.signs.chunks_exact(self.width).enumerate().rev() {
            let [first, last] = parts(rows.len());
            transform(&mut rows[last]);
            transform(&mut rows[first]);
            rows.as_flattened_mut().iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            if TURNS[round] > 0 {
                turn(rows, &mut room, |row| (LANES - row * TURNS[round] % LANES) % LANES);
            }
        }
        vector.truncate(dimension);
    }
}

/// Returns two ranges of rows that cover all of them, each as long as the largest power of two below their number. The
/// second is empty where the first covers all.
fn parts(rows: usize) -> [std::ops::Range<usize>; 2] {
    let length = 1 << rows.ilog2();
    [0..length, if length < rows { rows - length..rows } else { rows..rows }]
}

/// Turns each row by a number of lanes of its own, so that the next transform mixes components of different lanes.
#[inline(always)]
fn turn(rows: &mut [[f32; LANES]], room: &mut [f32], lanes: impl Fn(usize) -> usize) {
    for (row, twice) in rows.iter().zip(room.as_chunks_mut::<LANES>().0.as_chunks_mut::<2>().0) {
        *twice = [*row; 2];
    }
    for (i, row) in rows.iter_mut().enumerate() {
        row.copy_from_slice(&room[2 * LANES * i + lanes(i)..][..LANES]);
    }
}

/// The Walsh-Hadamard transform of each lane, of length-preserving scale, so that twice is once undone. The number of
/// rows is a power of two.
#[inline(always)]
fn transform(rows: &mut [[f32; LANES]]) {
    let mut half = 1;
    while half < rows.len() {
        for pair in rows.chunks_exact_mut(2 * half) {
            let (low, high) = pair.as_flattened_mut().split_at_mut(half * LANES);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (rows.len().max(1) as f32).sqrt();
    rows.as_flattened_mut().iter_mut().for_each(|x| *x *= scale);
}

pub(super) fn rotate_scalar(rotation: &Rotation, vector: &[f32], rotated: &mut Vec<f32>) {
    rotation.rotate(vector, rotated);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_rotation_keeps_lengths_and_can_be_undone(vector in prop::collection::vec(-1.0f32..1.0, 1..700)) {
            let length = |vector: &[f32]| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            let rotation = Rotation::new(vector.len());
            let mut rotated = Vec::new();
            rotation.rotate(&vector, &mut rotated);
            prop_assert!((length(&rotated) - length(&vector)).abs() <= 1e-5 * length(&vector).max(1.0));
            rotation.rotate_back(&mut rotated, vector.len());
            for (back, x) in rotated.iter().zip(&vector) {
                prop_assert!((back - x).abs() < 1e-4, "{back} is not {x}");
            }
        }
    }

    #[test]
    fn one_component_becomes_many_alike() {
        for dimension in [2, 256, 384, 768, 1000] {
            let rotation = Rotation::new(dimension);
            for component in [0, dimension / 2, dimension - 1] {
                let mut vector = vec![0.0; dimension];
                vector[component] = 1.0;
                let mut rotated = Vec::new();
                rotation.rotate(&vector, &mut rotated);
                let largest = rotated.iter().fold(0.0f32, |max, x| max.max(x.abs()));
                assert!(largest * (rotated.len() as f32).sqrt() < 10.0, "{dimension}: {largest}");
            }
        }
    }
}
