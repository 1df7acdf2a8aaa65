//! [`Namespace`]: the name of one tenant's data.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    MAX_ID_BYTES, hex,
    labels::{escape, unescape},
};
use crate::error::{Error, Result};

const MAX_LABELS: usize = 16;
/// The first character of a companion's name. [`Namespace::new`] accepts no control character.
const COMPANION: char = '\u{1}';
/// Limits of a path that [`Namespace::from_context`] makes. A context over them is hashed, so they can never change.
const MAX_CONTEXT_KEYS: usize = 8;
const MAX_CONTEXT_LABEL_BYTES: usize = 128;

/// The name of a namespace, which separates tenants: a path of 1 to 16 labels, such as `acme/user-42`.
///
/// A label has 1 to 512 bytes of any characters but control characters; two labels are the same if their bytes are. In
/// the text of a namespace the labels are joined by `/`. A slash inside of a label is written `%2F`, and a `%2F` inside
/// of a label `%252F`; [`from_labels`](Self::from_labels) and [`labels`](Self::labels) do this. Every other `%` stands
/// for itself. The text of a namespace parses to the same namespace.
///
/// Every call names its namespaces, and no data of one namespace is ever returned for another. A prefix is not a
/// parent: `acme` and `acme/user-42` are as separate as any two namespaces, except in the calls that take a prefix,
/// such as [`Engine::namespaces`](crate::Engine::namespaces). They take it in whole labels: `acme/user-4` is no prefix
/// of `acme/user-42`.
///
/// ```
/// use mnemon::Namespace;
/// let namespace: Namespace = "acme/user-42".parse()?;
/// assert!("acme//x".parse::<Namespace>().is_err());
///
/// let notes = Namespace::from_labels(["acme", "Notes 1/2"])?;
/// assert_eq!(notes.as_str(), "acme/Notes 1%2F2");
/// assert_eq!(notes.labels().collect::<Vec<_>>(), ["acme", "Notes 1/2"]);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(String);

impl Namespace {
    /// Checks the text of a path and makes a namespace of it.
    ///
    /// # Errors
    /// [`Error::InvalidNamespace`]: no label or more than 16, a label that is empty or longer than 512 bytes, or a
    /// control character.
    pub fn new(path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        let reason = if path.is_empty() {
            "it is empty"
        } else if path.split('/').count() > MAX_LABELS {
            "it has more than 16 labels"
        } else if path.split('/').any(str::is_empty) {
            "a label is empty"
        } else if path.split('/').any(|label| unescape(label).len() > MAX_ID_BYTES) {
            "a label is longer than 512 bytes"
        } else if path.chars().any(char::is_control) {
            "it has a control character"
        } else {
            return Ok(Namespace(path));
        };
        Err(Error::InvalidNamespace { given: path, reason })
    }

    /// Makes the namespace with these labels, which may contain slashes.
    ///
    /// # Errors
    /// Those of [`Namespace::new`].
    pub fn from_labels(labels: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        let labels: Vec<String> = labels.into_iter().map(|label| escape(label.as_ref()).into_owned()).collect();
        Namespace::new(labels.join("/"))
    }

    /// Makes the namespace of a dictionary of context keys, such as `{"app": "chat", "user": "42"}`: one label
    /// `key=value` for each key, sorted, so that equal dictionaries give the same namespace in any order, and different
    /// ones give different namespaces. A dictionary that is empty, has more than 8 keys or a long value is hashed.
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
        let is_short = pairs.iter().all(|pair| pair.len() <= MAX_CONTEXT_LABEL_BYTES);
        let path = pairs.join("/");
        match (1..=MAX_CONTEXT_KEYS).contains(&pairs.len()) && is_short {
            true => Namespace(path),
            false => Namespace(format!("context/{}", hex(&Sha256::digest(path)))),
        }
    }

    /// Returns the name of the companion of this namespace: the namespace that holds the indexed texts of its
    /// documents, as messages. No user can name it.
    pub(crate) fn document_texts(&self) -> Namespace {
        Namespace(format!("{COMPANION}{}", self.0))
    }

    /// Returns the namespace whose companion this one is, if it is a companion.
    pub(crate) fn owner(&self) -> Option<Namespace> {
        self.0.strip_prefix(COMPANION).map(|owner| Namespace(owner.to_owned()))
    }

    /// Returns the namespace as text: its escaped labels, joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Iterates over the labels.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = Cow<'_, str>> {
        self.0.split('/').map(unescape)
    }

    /// Returns true if the first labels of this namespace are those of `prefix`, all of them.
    pub fn starts_with(&self, prefix: &Namespace) -> bool {
        let rest = self.0.strip_prefix(&prefix.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
