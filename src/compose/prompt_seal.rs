//! Recognisable text around rendered memory.

use sha2::{Digest, Sha256};

/// The number of hexadecimal digits of a checksum.
const CHECKSUM_CHARS: usize = 8;

/// Wraps a text with a checksum, by which the wrapped text is recognised later.
///
/// Use it for a [`Renderer`](crate::Renderer) of your own. The wrapped text must not contain `end`.
///
/// ```
/// let seal = mnemon::PromptSeal { before_checksum: "[memory ", after_checksum: "]\n", end: "[/memory]" };
/// let memory = seal.seal("Ada rows.\n");
/// assert_eq!(seal.strip(&format!("Before. {memory} After.")), Some("Before.  After.".to_owned()));
/// assert_eq!(seal.strip("[memory 12345678]\nMine.\n[/memory]"), None);
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
    pub fn seal(&self, body: &str) -> String {
        format!("{}{}{}{body}{}", self.before_checksum, checksum(body), self.after_checksum, self.end)
    }

    /// Removes every wrapped text that is unchanged since [`seal`](PromptSeal::seal), each with a line feed that
    /// follows it. `None` if there is none.
    pub fn strip(&self, text: &str) -> Option<String> {
        let mut kept = String::new();
        let mut rest = text;
        let mut found = false;
        while let Some(index) = rest.find(self.before_checksum) {
            let (before, candidate) = rest.split_at(index);
            kept.push_str(before);
            match self.sealed_bytes(candidate) {
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
    /// one.
    fn sealed_bytes(&self, text: &str) -> Option<usize> {
        let PromptSeal { before_checksum, after_checksum, end } = self;
        let (sum, body) = text.strip_prefix(before_checksum)?.split_once(after_checksum)?;
        let body = &body[..body.find(end)?];
        let length = before_checksum.len() + sum.len() + after_checksum.len() + body.len() + end.len();
        (sum.len() == CHECKSUM_CHARS && checksum(body) == sum).then_some(length)
    }
}

fn checksum(body: &str) -> String {
    Sha256::digest(body).iter().take(CHECKSUM_CHARS / 2).map(|byte| format!("{byte:02x}")).collect()
}
