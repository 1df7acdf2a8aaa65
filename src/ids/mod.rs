//! Names of namespaces, sessions, messages and models.
//!
//! Names that users choose are checked once, here. They are keys in the store, never file names.

mod labels;
mod namespace;

use std::fmt;

use serde::Serialize;

pub use self::namespace::Namespace;
use crate::error::{Error, Result};

/// The longest message or session id, in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns 32 random bytes, for a secret.
///
/// # Panics
/// If the system has none, which also keeps messages from getting new ids.
pub(crate) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}

/// Checks a message or session id: 1 to [`MAX_ID_BYTES`] bytes of any characters.
pub(crate) fn check_id(what: &str, id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::message(format!("the {what} is empty")));
    }
    if id.len() > MAX_ID_BYTES {
        return Err(Error::message(format!("the {what} has {} bytes, more than {MAX_ID_BYTES}", id.len())));
    }
    Ok(())
}

/// Identifies the model that made a vector. Vectors of different identities are never compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ModelIdentity {
    /// The model's name, for people to read.
    pub name: String,
    /// Components of a vector.
    pub dimension: usize,
    /// Hash of everything that changes a vector: model and tokenizer files, pooling, prefixes, limits. Hexadecimal.
    pub hash: String,
}

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.hash.get(..12).unwrap_or(&self.hash);
        write!(f, "{} ({} dimensions, {short})", self.name, self.dimension)
    }
}

/// The number of a namespace in the database; every key of the store begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespaceId(pub(crate) u32);

impl NamespaceId {
    /// The bit that tells the number of a companion from that of its owner. No database has so many namespaces.
    const COMPANION: u32 = 1 << 31;

    /// Returns the number of the companion of this namespace, see [`Namespace::document_texts`].
    pub(crate) fn document_texts(self) -> Self {
        NamespaceId(self.0 | Self::COMPANION)
    }

    /// Returns the number of the namespace whose companion this one is, if it is a companion.
    pub(crate) fn owner(self) -> Option<Self> {
        (self.0 & Self::COMPANION != 0).then_some(NamespaceId(self.0 & !Self::COMPANION))
    }
}

/// The number of a generation in the database: one complete set of vectors, made by one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GenerationId(pub(crate) u32);
