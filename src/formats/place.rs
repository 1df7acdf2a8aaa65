//! The namespaces of folders in which coding agents work.

use std::path::{Component, Path};

use crate::{error::Result, ids::Namespace};

/// Folders of a path that are labels of their own in its namespace.
const FOLDERS: usize = 15;

/// Returns the namespace of a folder: `code` and the path of the repository that it is in, or else its own.
///
/// # Errors
/// [`Error::InvalidNamespace`](crate::Error::InvalidNamespace): the path has control characters, or a part of more than 512
/// bytes.
pub fn namespace_of(folder: &Path) -> Result<Namespace> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder);
    let mut folders: Vec<String> = root
        .components()
        .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    // A namespace has at most 16 labels: the first folders of a deeper path share one.
    let first = folders.len().saturating_sub(FOLDERS - 1);
    if first > 1 {
        folders.splice(..first, [folders[..first].join("/")]);
    }
    Namespace::from_labels(std::iter::once("code".to_owned()).chain(folders))
}
