//! The folder that a new model is written to.

use std::path::PathBuf;

/// Returns the folder for a model of this name: in the given folder, or `$MNEMON_MODELS`, or `./models`.
pub(super) fn destination(to: Option<PathBuf>, name: &str) -> PathBuf {
    let home = to.or_else(|| std::env::var_os("MNEMON_MODELS").filter(|home| !home.is_empty()).map(PathBuf::from));
    home.unwrap_or_else(|| PathBuf::from("models")).join(name)
}
