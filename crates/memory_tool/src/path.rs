//! The path of a file or directory: `/memories`, and below it names joined by `/`.
//!
//! A path is checked once, when it is parsed. Nothing resolves or decodes it: it is a key of a document.

use std::{cmp::Ordering, fmt};

const ROOT: &str = "/memories";
/// The most bytes of a path below `/memories`, which is the key of a document.
const MAX_BYTES: usize = 512;

/// A path by its key: the names joined by `/`, and nothing for `/memories` itself. Paths are ordered name by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// Parses a path. The error is the text for the model.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix(ROOT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else {
            let (start, cut) = (&text[..text.floor_char_boundary(MAX_BYTES)], text.len() > MAX_BYTES);
            return Err(format!("Error: Path must start with {ROOT}, got: {start}{}", if cut { "..." } else { "" }));
        };
        let key = rest.strip_prefix('/').unwrap_or(rest);
        Self::of_names(key.strip_suffix('/').unwrap_or(key))
    }

    fn of_names(key: &str) -> Result<Self, String> {
        if key.len() > MAX_BYTES {
            return Err(format!("Error: The path has {} bytes below {ROOT}, more than {MAX_BYTES}", key.len()));
        }
        let has_any = |parts: &[&str]| parts.iter().any(|part| key.to_ascii_lowercase().contains(part));
        if key.split('/').any(|name| name == "..") || has_any(&["\\", "%2e", "%2f", "%5c"]) {
            return Err(format!(
                "Error: Path {ROOT}/{key} would escape {ROOT} directory. Write it without \"..\", backslashes, %2e, %2f and %5c."
            ));
        }
        let is_wrong = |name: &str| name.is_empty() || name == "." || name.contains(char::is_control);
        if !key.is_empty() && key.split('/').any(is_wrong) {
            let path = format!("{ROOT}/{key}");
            return Err(format!(
                "Error: Path {path:?} is not valid. Its names must not be empty or \".\", and have no control characters."
            ));
        }
        Ok(Path(key.to_owned()))
    }

    /// Returns the path of a document with this key, if the key is one.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        Self::of_names(key).ok()
    }

    pub(crate) fn key(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rest of another path that is below this one.
    pub(crate) fn relative<'a>(&self, other: &'a Path) -> Option<&'a str> {
        let rest = other.0.strip_prefix(&self.0)?;
        match self.is_root() {
            true => Some(rest).filter(|rest| !rest.is_empty()),
            false => rest.strip_prefix('/'),
        }
    }

    /// Returns the path at `relative` below this one, or this one if that is empty.
    pub(crate) fn join(&self, relative: &str) -> Result<Self, String> {
        match relative.is_empty() {
            true => Ok(self.clone()),
            false => Self::of_names(&format!("{}/{relative}", self.0)),
        }
    }

    /// Iterates over the directories between `/memories` and this path.
    pub(crate) fn above(&self) -> impl Iterator<Item = Path> {
        self.0.match_indices('/').map(|(at, _)| Path(self.0[..at].to_owned()))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.split('/').cmp(other.0.split('/'))
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_root() {
            true => f.write_str(ROOT),
            false => write!(f, "{ROOT}/{}", self.0),
        }
    }
}
