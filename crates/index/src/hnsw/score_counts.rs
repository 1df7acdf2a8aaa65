//! Tells a search which of its rows may be copies of others.

/// Counts scores: copies have one score. Different scores may share a count.
#[derive(Debug)]
pub(super) struct ScoreCounts([u32; 64]);

impl Default for ScoreCounts {
    fn default() -> Self {
        ScoreCounts([0; 64])
    }
}

impl ScoreCounts {
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Adds a score. Returns how often it was added, or more.
    #[inline(always)]
    pub(super) fn add(&mut self, score: f32) -> usize {
        let count = &mut self.0[(score.to_bits().wrapping_mul(0x9e37_79b9) >> 26) as usize];
        *count += 1;
        *count as usize
    }
}
