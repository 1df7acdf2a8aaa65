//! The namespaces of folders in which coding agents work.

use std::path::{Path, PathBuf};

use crate::{error::Result, ids::Namespace};

/// Folders of a path that are labels of their own in its namespace.
const FOLDERS: usize = 15;
/// Where Claude Code keeps the worktrees of a repository.
const WORKTREES: &str = "/.claude/worktrees/";

/// Returns the namespace of a folder: `code` and the path of the repository that it is in, or else its own.
///
/// A worktree of git belongs to the repository that it was made from. A folder of another machine, or one that is gone, is
/// taken for what its path says.
///
/// # Errors
/// [`Error::InvalidNamespace`](crate::Error::InvalidNamespace): the path has control characters, or a part of more than 512
/// bytes.
pub fn namespace_of(folder: &Path) -> Result<Namespace> {
    place_of(folder, false)
}

/// Same as [`namespace_of`], for a folder that may be one of another machine, which is not looked for on this one.
pub(super) fn place_of(folder: &Path, is_of_another_machine: bool) -> Result<Namespace> {
    let mut path = folder.to_string_lossy().into_owned();
    // Elsewhere a backslash is a character of a name.
    let is_windows = path.as_bytes().get(1) == Some(&b':') || path.starts_with(r"\\");
    if is_windows {
        path = path.replace('\\', "/");
    }
    let path = path.split_once(WORKTREES).map_or(&*path, |(repository, _)| repository);
    let folder = Path::new(path);
    let root = if is_of_another_machine { folder.to_path_buf() } else { repository(folder) };
    let root = root.to_string_lossy().into_owned();
    let root = if is_windows { root.replace('\\', "/") } else { root };
    let mut folders: Vec<String> =
        root.split('/').filter(|name| !matches!(*name, "" | ".")).map(str::to_owned).collect();
    if let Some(drive) = folders.first_mut().filter(|name| is_windows && name.ends_with(':')) {
        // Programs write it both ways.
        drive.make_ascii_uppercase();
    }
    // A namespace has at most 16 labels: the first folders of a deeper path share one.
    let first = folders.len().saturating_sub(FOLDERS - 1);
    if first > 1 {
        folders.splice(..first, [folders[..first].join("/")]);
    }
    Namespace::from_labels(std::iter::once("code".to_owned()).chain(folders))
}

/// Returns the folder of the repository that a folder is in, or the folder itself.
fn repository(folder: &Path) -> PathBuf {
    // One that is not absolute is of another system.
    let mut ancestors = folder.ancestors().filter(|_| folder.is_absolute());
    let Some(root) = ancestors.find(|folder| folder.join(".git").exists()) else { return folder.to_path_buf() };
    // In a worktree it is a file with the way to the repository's own.
    let link = std::fs::read_to_string(root.join(".git")).unwrap_or_default();
    let Some(target) = link.trim().strip_prefix("gitdir:") else { return root.to_path_buf() };
    let target = root.join(target.trim());
    let Some(worktrees) = target.parent().filter(|parent| parent.ends_with("worktrees")) else {
        return root.to_path_buf();
    };
    let git = worktrees.parent().unwrap_or(root);
    let repository = if git.ends_with(".git") { git.parent().unwrap_or(git) } else { git };
    // The way may lead through `..`.
    repository.canonicalize().unwrap_or_else(|_| repository.to_path_buf())
}
