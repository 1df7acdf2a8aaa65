//! The folder in which mnemon keeps what it fetched for the user: models, and ONNX Runtime.

use std::{env, path::PathBuf};

/// Returns the user's data folder: `$XDG_DATA_HOME/mnemon`, else `~/.local/share/mnemon`, or `~/Library/Application
/// Support/mnemon` on macOS; on Windows `%LOCALAPPDATA%\mnemon`. `None`: the environment names no home. The folder may
/// not exist.
///
/// Native code is loaded from it. So the path is always absolute: a relative one would depend on the working folder.
pub(crate) fn path() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else {
        let of_home = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
        variable("XDG_DATA_HOME").or_else(|| Some(env::home_dir().filter(|home| home.is_absolute())?.join(of_home)))
    };
    base.map(|base| base.join("mnemon"))
}
