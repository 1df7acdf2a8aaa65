//! Names of namespaces, sessions, messages and models.
//!
//! Names that users choose are checked once, here. They are keys in the store, never file names.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The longest message or session id, in bytes.
pub const MAX_ID_BYTES: usize = 512;
/// The first character of a companion's name. [`Namespace::new`] accepts no control character.
const COMPANION: char = '\u{1}';
const MAX_SEGMENTS: usize = 8;
const MAX_SEGMENT_BYTES: usize = 128;

/// The name of a namespace, which separates tenants: 1 to 8 path segments of 1 to 128 bytes, such as `acme/user-42`.
///
/// Every call names a namespace, and no data of one namespace is ever returned for another. A prefix is not a parent:
/// `acme` and `acme/user-42` are as separate as any two namespaces.
///
/// ```
/// let namespace: mnemon::Namespace = "acme/user-42".parse()?;
/// assert!("acme//x".parse::<mnemon::Namespace>().is_err());
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

impl Namespace {
    /// Checks a path and makes a namespace of it.
    ///
    /// # Errors
    /// [`Error::InvalidNamespace`]: no segment or more than 8, a segment that is empty or too long, or a control
    /// character.
    pub fn new(path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        let reason = if path.is_empty() {
            "it is empty"
        } else if path.split('/').count() > MAX_SEGMENTS {
            "it has more than 8 segments"
        } else if path.split('/').any(str::is_empty) {
            "a segment is empty"
        } else if path.split('/').any(|segment| segment.len() > MAX_SEGMENT_BYTES) {
            "a segment is longer than 128 bytes"
        } else if path.chars().any(char::is_control) {
            "it has a control character"
        } else {
            return Ok(Namespace(path));
        };
        Err(Error::InvalidNamespace { given: path, reason })
    }

    /// Makes the namespace of a dictionary of context keys, such as `{"app": "chat", "user": "42"}`: one segment
    /// `key=value` for each key, sorted, so that equal dictionaries give the same namespace in any order, and different
    /// ones give different namespaces. A dictionary that is empty or too large for segments is hashed.
    ///
    /// ```
    /// use mnemon::Namespace;
    /// let namespace = Namespace::from_context([("user", "42"), ("app", "chat")]);
    /// assert_eq!(namespace.as_str(), "app=chat/user=42");
    /// ```
    pub fn from_context<'a>(context: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let context: BTreeMap<&str, &str> = context.into_iter().collect();
        // '%' is escaped too, so that an escape sequence in a key cannot be mistaken for an escaped character.
        let escape = |text: &str| -> String {
            let special = |c: char| matches!(c, '%' | '/' | '=') || c.is_control();
            text.chars().map(|c| if special(c) { format!("%{:02X}", u32::from(c)) } else { c.into() }).collect()
        };
        let pairs: Vec<String> =
            context.into_iter().map(|(key, value)| format!("{}={}", escape(key), escape(value))).collect();
        let path = pairs.join("/");
        Namespace::new(path.clone()).unwrap_or_else(|_| {
            let hash = hex(&Sha256::digest(path));
            Namespace::new(format!("context/{hash}")).expect("two short segments are a valid namespace")
        })
    }

    /// Returns the name of the companion of this namespace: the namespace that holds the indexed texts of its documents,
    /// as messages. No user can name it.
    pub(crate) fn document_texts(&self) -> Namespace {
        Namespace(format!("{COMPANION}{}", self.0))
    }

    /// Returns the namespace whose companion this one is, if it is a companion.
    pub(crate) fn owner(&self) -> Option<Namespace> {
        self.0.strip_prefix(COMPANION).map(|owner| Namespace(owner.to_owned()))
    }

    /// Returns the namespace as text, its segments joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(path: &str) -> Result<Self> {
        Namespace::new(path)
    }
}

impl TryFrom<String> for Namespace {
    type Error = Error;

    fn try_from(path: String) -> Result<Self> {
        Namespace::new(path)
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> String {
        namespace.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
