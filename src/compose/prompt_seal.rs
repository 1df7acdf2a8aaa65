//! Recognisable text around rendered memory.

use super::seal_key::{CHECKSUM_CHARS, SealKey};

/// Wraps a text with a keyed checksum, by which the wrapped text is recognised later. Nobody without the key can make
/// text that is recognised.
///
/// Use it for a [`Renderer`](crate::Renderer) of your own. The wrapped text must contain neither `before_checksum`,
/// which must not be empty, nor `end`.
///
/// ```
/// use mnemon::{PromptSeal, SealKey};
/// let (seal, key) = (PromptSeal { before_checksum: "[memory ", after_checksum: "]\n", end: "[/memory]" }, SealKey::random());
/// let memory = seal.seal("Ada rows.\n", &key);
/// assert_eq!(seal.strip(&format!("Before. {memory} After."), &key), Some("Before.  After.".to_owned()));
/// assert_eq!(seal.strip(&memory, &SealKey::random()), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PromptSeal {
    /// The text before the checksum.
    pub before_checksum: &'static str,
    /// The text between the checksum and the wrapped text.
    pub after_checksum: &'static str,
    /// The text after the wrapped text.
    pub end: &'static str,
}

impl PromptSeal {
    /// Wraps a text.
    pub fn seal(&self, body: &str, key: &SealKey) -> String {
        format!("{}{}{}{body}{}", self.before_checksum, key.checksum(body), self.after_checksum, self.end)
    }

    /// Removes every text that was wrapped with this key and is unchanged, each with a line feed that follows it.
    /// `None` if there is none. Cost: linear in the length of the text.
    pub fn strip(&self, text: &str, key: &SealKey) -> Option<String> {
        if self.before_checksum.is_empty() {
            return None;
        }
        let mut kept = String::new();
        let mut rest = text;
        let mut found = false;
        while let Some(index) = rest.find(self.before_checksum) {
            let (before, candidate) = rest.split_at(index);
            kept.push_str(before);
            match self.sealed_bytes(candidate, key) {
                Some(length) => {
                    found = true;
                    rest = candidate[length..].strip_prefix('\n').unwrap_or(&candidate[length..]);
                }
                None => {
                    kept.push_str(self.before_checksum);
                    rest = &candidate[self.before_checksum.len()..];
                }
            }
        }
        kept.push_str(rest);
        found.then_some(kept)
    }

    /// Returns the length of the wrapped text that `text` begins with. `None` if it does not begin with an unchanged
    /// one. Reads no further than to the next beginning of a wrapped text: a message may contain thousands.
    fn sealed_bytes(&self, text: &str, key: &SealKey) -> Option<usize> {
        let PromptSeal { before_checksum, after_checksum, end } = self;
        let (checksum, rest) = text.strip_prefix(before_checksum)?.split_at_checked(CHECKSUM_CHARS)?;
        let rest = rest.strip_prefix(after_checksum)?;
        let rest = rest.find(before_checksum).map_or(rest, |next| &rest[..next]);
        let body = &rest[..rest.find(end)?];
        let length = before_checksum.len() + checksum.len() + after_checksum.len() + body.len() + end.len();
        key.is_checksum(checksum, body).then_some(length)
    }
}
