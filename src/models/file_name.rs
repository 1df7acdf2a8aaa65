//! Names that are safe to use as a file in a folder.

use std::path::{Component, Path};

/// Returns true if this is the name of a file and nothing more, on any system: no folder, no drive, no way out of the
/// folder.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let one = matches!(components.next(), Some(Component::Normal(only)) if only == name) && components.next().is_none();
    one && !name.contains(['/', '\\', ':', '\0'])
}
