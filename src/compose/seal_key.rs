//! The secret behind the checksums of rendered memory.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::ids::{hex, random_bytes};

/// The number of hexadecimal digits of a checksum: 128 bits.
pub(super) const CHECKSUM_CHARS: usize = 32;

/// A secret key. Text that was sealed with it is recognised, and nobody who does not have the key can seal text.
///
/// Every database has a key of its own, which its memories use. Give a [`Composer`](crate::Composer) of your own a key
/// that you keep, if its prompts are to be recognised after a restart.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey([u8; 32]);

/// Does not show the key.
impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(..)")
    }
}

impl SealKey {
    /// Makes a key of these bytes, which must be random and secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        SealKey(bytes)
    }

    /// Makes a random key.
    ///
    /// # Panics
    /// If the system has no random bytes.
    pub fn random() -> Self {
        SealKey(random_bytes())
    }

    /// Returns the keyed checksum of a text: HMAC-SHA-256 (RFC 2104), truncated.
    pub(super) fn checksum(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes()[..CHECKSUM_CHARS / 2])
    }

    /// Returns true if this is the checksum of a text. The time does not depend on where they differ, so that a
    /// checksum cannot be guessed byte by byte.
    pub(super) fn is_checksum(&self, checksum: &str, text: &str) -> bool {
        let expected = self.checksum(text);
        let pairs = expected.bytes().zip(checksum.bytes());
        checksum.len() == expected.len() && pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::SealKey;

    #[test]
    fn the_checksum_is_hmac_sha_256() {
        // RFC 4231, test case 1, whose key of 20 bytes is padded with zeros as HMAC itself does; truncated.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let key = SealKey::new(key);
        assert_eq!(key.checksum("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b");
        assert!(key.is_checksum("b0344c61d8db38535ca8afceaf0bf12b", "Hi There"));
        for wrong in ["", "b0344c61d8db38535ca8afceaf0bf12", "b0344c61d8db38535ca8afceaf0bf12c"] {
            assert!(!key.is_checksum(wrong, "Hi There"));
        }
    }
}
