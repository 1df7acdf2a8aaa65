//! The folder that a new model is written to.

use std::path::PathBuf;

use mnemon::Model;

/// Returns the folder for a model of this name: in the given folder, or `$MNEMON_MODELS`, or the user's data folder.
pub(super) fn destination(to: Option<PathBuf>, name: &str) -> PathBuf {
    to.or_else(Model::home).unwrap_or_else(|| PathBuf::from("models")).join(name)
}
