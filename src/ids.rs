//! Names of namespaces, sessions, messages and models, and the numbers that stand for names in the store.
//!
//! Names that users choose are checked once, here. Invariant: they are keys in the store, never file names.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The longest message or session id, in bytes.
pub const MAX_ID_BYTES: usize = 512;

const MAX_LABELS: usize = 16;
/// A pattern of the names of namespaces.
#[cfg(feature = "schemars")]
const PATTERN: &str = r"^[^/\x00-\x1f\x7f-\x9f]+(/[^/\x00-\x1f\x7f-\x9f]+){0,15}$";
/// The first character of a companion's name, which [`Namespace::new`] refuses in the names that users choose.
const COMPANION: char = '\u{1}';
/// The limits of a path of [`Namespace::from_context`]. A larger context is hashed, so the limits can never change.
const MAX_CONTEXT_KEYS: usize = 8;
const MAX_CONTEXT_LABEL_BYTES: usize = 128;

/// The name of a namespace, such as `acme/user-42`: 1 to 16 labels, joined by `/`. A label has 1 to 512 bytes and no
/// control characters; a slash inside it is written `%2F`.
///
/// A namespace separates tenants. Labels are compared byte by byte. The text of a namespace parses to the same namespace. A
/// `%2F` inside a label is written `%252F`; [`from_labels`](Self::from_labels) and [`labels`](Self::labels) convert them. Every
/// other `%` stands for itself.
///
/// Every call names its namespaces, and no data of one namespace is ever returned for another. A prefix is not a parent:
/// `acme` and `acme/user-42` are as separate as any two namespaces, except in the calls that take a prefix, such as
/// [`Engine::namespaces`](crate::Engine::namespaces). A prefix consists of whole labels: `acme/user-4` is not a prefix of
/// `acme/user-42`.
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(extend("maxLength" = MAX_LABELS * (MAX_ID_BYTES + 1) - 1, "pattern" = PATTERN)))]
pub struct Namespace(String);

impl Namespace {
    /// Parses the text of a namespace.
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
        } else if path.split('/').any(|label| unescape_label(label).len() > MAX_ID_BYTES) {
            "a label is longer than 512 bytes"
        } else if path.chars().any(char::is_control) {
            "it has a control character"
        } else {
            return Ok(Namespace(path));
        };
        Err(Error::InvalidNamespace { given: path, reason })
    }

    /// Creates the namespace with these labels, which may contain slashes.
    ///
    /// # Errors
    /// Those of [`Namespace::new`].
    pub fn from_labels(labels: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        let labels: Vec<String> = labels.into_iter().map(|label| escape_label(label.as_ref()).into_owned()).collect();
        Namespace::new(labels.join("/"))
    }

    /// Creates the namespace of a dictionary of context keys, such as `{"app": "chat", "user": "42"}`. It has one label
    /// `key=value` for each key, sorted. Equal dictionaries give the same namespace, and different ones give different
    /// namespaces. A dictionary that is empty, has more than 8 keys or a long value is hashed.
    ///
    /// ```
    /// use mnemon::Namespace;
    /// let namespace = Namespace::from_context([("user", "42"), ("app", "chat")]);
    /// assert_eq!(namespace.as_str(), "app=chat/user=42");
    /// ```
    pub fn from_context<'a>(context: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let context: BTreeMap<&str, &str> = context.into_iter().collect();
        // A % is escaped too, so that the text %2F in a key cannot be mistaken for an escaped slash.
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

    /// Returns the companion of this namespace, which is a namespace that holds the indexed texts of its documents as
    /// messages. Its name is one that users cannot write.
    pub(crate) fn document_texts(&self) -> Namespace {
        Namespace(format!("{COMPANION}{}", self.0))
    }

    /// Returns the owner of this companion, or `None` if the namespace is not a companion.
    pub(crate) fn owner(&self) -> Option<Namespace> {
        self.0.strip_prefix(COMPANION).map(|owner| Namespace(owner.to_owned()))
    }

    /// Returns the namespace as text: its escaped labels, joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Iterates over the labels.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = Cow<'_, str>> {
        self.0.split('/').map(unescape_label)
    }

    /// Returns true if this namespace begins with all labels of `prefix`.
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

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns 32 random bytes, for a secret.
///
/// # Panics
/// If the system has no random bytes. Without them, messages cannot get new ids either.
pub(crate) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}

/// A commit of a database: its number, which grows by one with each, and its random id. As text: `1204-9f86d081884c7d65`.
///
/// [`Engine::anchor`](crate::Engine::anchor) returns that of the last commit, and
/// [`Config::anchor`](field@crate::Config::anchor) has an opening fail if the database does not have the commit. A database keeps the ids of
/// its last 65,536 commits; an older one is known by its number alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    pub(crate) number: u64,
    pub(crate) id: u64,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.number, self.id)
    }
}

impl FromStr for Anchor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.trim().split_once('-').filter(|(_, id)| id.len() == 16).and_then(|(number, id)| {
            Some(Anchor { number: number.parse().ok()?, id: u64::from_str_radix(id, 16).ok()? })
        });
        parsed.ok_or_else(|| Error::InvalidConfig {
            reason: format!("{text:?} is no anchor, which is the number and the id of a commit: 1204-9f86d081884c7d65"),
        })
    }
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
    /// The number of components of a vector.
    pub dimension: usize,
    /// The hash of everything that determines a vector: model and tokenizer files, pooling, prefixes, limits.
    /// Hexadecimal.
    pub hash: String,
}

impl ModelIdentity {
    /// Identifies the vectors that a program gives with its documents, by the name of the model that it made them with.
    pub(crate) fn given(name: &str, dimension: usize) -> Self {
        let hash = hex(&Sha256::digest(format!("given vectors\0{name}")));
        ModelIdentity { name: name.to_owned(), dimension, hash }
    }

    /// Returns true if the vectors are given by the program: see [`GivenVectors`](crate::models::GivenVectors).
    pub fn is_given(&self) -> bool {
        *self == Self::given(&self.name, self.dimension)
    }

    /// Checks a vector that was given, and scales it to length 1; zero stays zero. The error is the reason.
    pub(crate) fn unit(&self, vector: &[f32]) -> std::result::Result<Vec<f32>, String> {
        if vector.len() != self.dimension {
            return Err(format!(
                "a vector of {} components; give those of {:?}, which have {}",
                vector.len(),
                self.name,
                self.dimension
            ));
        }
        let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        match length.is_finite() {
            true if length > 0.0 => Ok(vector.iter().map(|&x| (f64::from(x) / length) as f32).collect()),
            true => Ok(vector.to_vec()),
            false => Err("a component of a vector is not finite".to_owned()),
        }
    }
}

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.hash.get(..12).unwrap_or(&self.hash);
        write!(f, "{} ({} dimensions, {short})", self.name, self.dimension)
    }
}

/// The number of a namespace in the database. Every key of the store begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespaceId(pub(crate) u32);

/// The number of a generation in the database, which is one complete set of vectors of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GenerationId(pub(crate) u32);

/// Returns the text of a label, in which slashes are escaped.
///
/// A slash is written `%2F`. A label that already contains `%2F`, or `%25…2F` with any number of `25`, is written with
/// one `25` more. Everything else stands for itself, including a single `%`. So each text without slashes is the text of
/// exactly one label, and each label has exactly one text.
fn escape_label(label: &str) -> Cow<'_, str> {
    if !label.contains(['/', '%']) {
        return Cow::Borrowed(label);
    }
    let mut text = String::with_capacity(label.len() + 8);
    let mut rest = label;
    while let Some(at) = rest.find(['/', '%']) {
        text.push_str(&rest[..at]);
        let special = &rest[at..];
        text.push_str(match (special.starts_with('/'), escape_depth(special)) {
            (true, _) => "%2F",
            (false, None) => "%",
            (false, Some(_)) => "%25",
        });
        rest = &special[1..];
    }
    Cow::Owned(text + rest)
}

/// Returns the label of a text without slashes: the inverse of [`escape_label`].
fn unescape_label(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut label = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        label.push_str(&rest[..at]);
        let special = &rest[at..];
        let (shown, length) = match escape_depth(special) {
            None => ("%", 1),
            Some(0) => ("/", 3),
            Some(_) => ("%", 3),
        };
        label.push_str(shown);
        rest = &special[length..];
    }
    Cow::Owned(label + rest)
}

/// Returns the number of `25` between a `%` at the beginning of the text and the `2F` that follows, or `None` if no `2F`
/// follows.
fn escape_depth(text: &str) -> Option<usize> {
    let mut rest = text.strip_prefix('%')?;
    let mut depth = 0;
    while let Some(shorter) = rest.strip_prefix("25") {
        (rest, depth) = (shorter, depth + 1);
    }
    rest.starts_with("2F").then_some(depth)
}
