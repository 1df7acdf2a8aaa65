//! Terms: the hashes that words are indexed by.

/// The version of the analyzer, stored with each segment. The terms of different versions differ even for the same
/// text, so a segment of another version must be rebuilt from the messages.
pub(super) const ANALYZER_VERSION: u16 = 1;

/// Number of bits of a term. Hashes of words are cut to this length, so that a term takes 6 bytes in a segment. In a
/// namespace with a million distinct terms, a term of a query collides with one of them with a probability of 10^6 /
/// 2^48, 4 in 10^9.
pub(super) const TERM_BITS: u32 = 48;

/// Returns the term of a folded and stemmed word: the upper bits of its hash.
pub(super) fn term(word: &str) -> u64 {
    hash(word) >> (u64::BITS - TERM_BITS)
}

/// Hashes a word with FNV-1a and the finalizer of MurmurHash3, because the upper bits of FNV-1a vary little for short
/// texts. Hashes are stored, and those of the standard library may change. The upper [`TERM_BITS`] are never all 0.
pub(super) fn hash(text: &str) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (hash ^ (hash >> 33)).max(1 << (u64::BITS - TERM_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored segments contain terms.
    #[test]
    fn terms_never_change() {
        assert_eq!(
            ["", "paint", "2023", "東京"].map(term),
            [263677158668953, 108898788745964, 135146077090781, 201213939934509]
        );
    }
}
