//! Names of things: the namespace wall, sessions, messages and models.
//!
//! The user's own strings are checked once, here. They are keys of the store, never file names.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The longest message or session id, in bytes.
pub const MAX_ID_BYTES: usize = 512;
const MAX_SEGMENTS: usize = 8;
const MAX_SEGMENT_BYTES: usize = 128;

/// The wall between tenants: 1 to 8 path segments of 1 to 128 bytes, such as `acme/user-42`.
///
/// Every call names one; nothing of one namespace is ever returned for another. A prefix is not a
/// parent: `acme` and `acme/user-42` are as separate as any two.
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
    /// Checks and takes a namespace.
    ///
    /// # Errors
    /// [`Error::InvalidNamespace`]: no segment or more than 8, an empty or too long segment, or a control character.
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

    /// The namespace for a dictionary of context keys, such as `{"app": "chat", "user": "42"}`: a segment a key, `key=value`,
    /// sorted, so that the same keys in any order give the same namespace, and others another. A dictionary that is
    /// empty, or too large for segments, is told apart by a hash.
    ///
    /// ```
    /// use mnemon::Namespace;
    /// let namespace = Namespace::from_context([("user", "42"), ("app", "chat")]);
    /// assert_eq!(namespace.as_str(), "app=chat/user=42");
    /// ```
    pub fn from_context<'a>(context: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let context: BTreeMap<&str, &str> = context.into_iter().collect();
        // '%' first of all, so that what is escaped cannot be written plainly.
        let escape = |text: &str| -> String {
            let special = |c: char| matches!(c, '%' | '/' | '=') || c.is_control();
            text.chars().map(|c| if special(c) { format!("%{:02X}", u32::from(c)) } else { c.into() }).collect()
        };
        let pairs: Vec<String> =
            context.into_iter().map(|(key, value)| format!("{}={}", escape(key), escape(value))).collect();
        let path = pairs.join("/");
        Namespace::new(path.clone()).unwrap_or_else(|_| {
            let hash = Sha256::digest(path).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            Namespace::new(format!("context/{hash}")).expect("two short segments")
        })
    }

    /// The namespace as text, segments joined by `/`.
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

/// Checks a message or session id: 1 to [`MAX_ID_BYTES`] bytes, any characters.
pub(crate) fn check_id(what: &str, id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::message(format!("the {what} is empty")));
    }
    if id.len() > MAX_ID_BYTES {
        return Err(Error::message(format!("the {what} has {} bytes, more than {MAX_ID_BYTES}", id.len())));
    }
    Ok(())
}

/// Which model made a vector: vectors of different identities are never compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ModelIdentity {
    /// A name for people.
    pub name: String,
    /// Components of a vector.
    pub dimension: usize,
    /// Hash of all that changes a vector: model and tokenizer files, pooling, prefixes, limits. Hexadecimal.
    pub hash: String,
}

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.hash.get(..12).unwrap_or(&self.hash);
        write!(f, "{} ({} dimensions, {short})", self.name, self.dimension)
    }
}

/// The database's number for a namespace; every key of the store begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespaceId(pub(crate) u32);

/// The database's number for a generation: one complete set of vectors made by one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GenerationId(pub(crate) u32);
