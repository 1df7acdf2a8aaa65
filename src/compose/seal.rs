//! The seal of rendered memory: text around it with a keyed checksum, and the secret key.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::ids::{hex, random_bytes};

/// Seals a text with a keyed checksum, by which it is recognised later. Nobody without the key can write text that is
/// recognised.
///
/// The checksum follows the text, so that a provider's prompt cache keeps what stands before a change. Use a seal for a
/// [`Renderer`](crate::Renderer) of your own. The sealed text must contain neither `begin` nor `before_checksum`, and neither
/// may be empty.
///
/// ```
/// use mnemon::{PromptSeal, SealKey};
/// let (seal, key) = (PromptSeal { begin: "[memory]\n", before_checksum: "[seal ", end: "][/memory]" }, SealKey::random());
/// let memory = seal.seal("Ada rows.\n", &key);
/// assert_eq!(seal.strip(&format!("Before. {memory} After."), &key), Some("Before.  After.".to_owned()));
/// assert_eq!(seal.strip(&memory, &SealKey::random()), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PromptSeal {
    /// The text before the sealed text.
    pub begin: &'static str,
    /// The text between the sealed text and the checksum.
    pub before_checksum: &'static str,
    /// The text after the checksum.
    pub end: &'static str,
}

impl PromptSeal {
    /// Seals a text.
    pub fn seal(&self, body: &str, key: &SealKey) -> String {
        format!("{}{body}{}{}{}", self.begin, self.before_checksum, key.checksum(body), self.end)
    }

    /// Removes every unchanged text that was sealed with this key, and the line feed after it, or before it at the end of
    /// the text. Returns `None` if there is none. Cost: linear in the length of the text.
    pub fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        if self.begin.is_empty() || self.before_checksum.is_empty() {
            return None;
        }
        let mut kept = String::new();
        let mut rest = text;
        let mut found = false;
        while let Some(index) = rest.find(self.begin) {
            let (before, candidate) = rest.split_at(index);
            kept.push_str(before);
            match self.sealed_bytes(candidate, key) {
                Some(length) => {
                    found = true;
                    rest = &candidate[length..];
                    match rest.strip_prefix('\n') {
                        Some(after) => rest = after,
                        None if rest.is_empty() => kept.truncate(kept.strip_suffix('\n').unwrap_or(&kept).len()),
                        None => {}
                    }
                }
                None => {
                    kept.push_str(self.begin);
                    rest = &candidate[self.begin.len()..];
                }
            }
        }
        kept.push_str(rest);
        found.then_some(kept)
    }

    /// Returns the length of the sealed text at the beginning of `text`, or `None` if there is none or it was changed.
    /// Reads only up to the next beginning of a sealed text, because a message may contain thousands of them.
    fn sealed_bytes(&self, text: &str, key: &SealKey) -> Option<usize> {
        let PromptSeal { begin, before_checksum, end } = self;
        let rest = text.strip_prefix(begin)?;
        let rest = rest.find(begin).map_or(rest, |next| &rest[..next]);
        let (body, rest) = rest.split_once(before_checksum)?;
        let (checksum, rest) = rest.split_at_checked(CHECKSUM_CHARS)?;
        let length = begin.len() + body.len() + before_checksum.len() + checksum.len() + end.len();
        (rest.starts_with(end) && key.is_checksum(checksum, body)).then_some(length)
    }
}

/// The number of hexadecimal digits of a checksum, which has 128 bits.
const CHECKSUM_CHARS: usize = 32;

/// The secret key of a seal. Text that was sealed with it is recognised, and nobody without the key can seal text.
///
/// Each database has its own key, which its memories use. If the prompts of a [`Composer`](crate::Composer) are to be
/// recognised after a restart, give the composer a key that you keep.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey([u8; 32]);

/// Does not show the key.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}

impl SealKey {
    /// Creates a key of these bytes, which must be random and secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        SealKey(bytes)
    }

    /// Creates a random key.
    ///
    /// # Panics
    /// If the system has no random bytes.
    pub fn random() -> Self {
        SealKey(random_bytes())
    }

    /// Returns the keyed checksum of a text: HMAC-SHA-256 (RFC 2104), truncated.
    fn checksum(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes()[..CHECKSUM_CHARS / 2])
    }

    /// Compares a checksum with that of a text. The time does not depend on where they differ, so that a checksum cannot
    /// be guessed byte by byte.
    fn is_checksum(&self, checksum: &str, text: &str) -> bool {
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
