//! A model folder: its manifest, and its files, checked against the hashes in it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path},
};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::manifest::{self, Kind, hex};
use crate::error::{BoxError, Error, Result};

pub(super) const MANIFEST: &str = "manifest.toml";

/// Reads the manifest of a folder that holds a model of this kind.
pub(super) fn manifest<M: DeserializeOwned>(folder: &Path, kind: Kind) -> Result<M> {
    let text = fs::read_to_string(folder.join(MANIFEST))
        .map_err(|error| invalid(folder, format!("manifest.toml: {error}"), Some(error.into())))?;
    manifest::parse(&text, kind).map_err(|reason| invalid(folder, format!("manifest.toml: {reason}"), None))
}

/// Checks that these files are in the folder, and their hashes in the manifest.
pub(super) fn check(folder: &Path, files: &[&str], hashes: &BTreeMap<String, String>) -> Result<()> {
    for file in files {
        if !hashes.contains_key(*file) {
            return Err(invalid(folder, format!("manifest.toml: [files] does not name {file}"), None));
        }
        if !folder.join(file).is_file() {
            return Err(invalid(folder, format!("{file} is missing"), None));
        }
    }
    Ok(())
}

/// Whether this is the name of a file and no more: no folder, no drive, no way out, on any system.
pub(super) fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let one = matches!(components.next(), Some(Component::Normal(only)) if only == name) && components.next().is_none();
    one && !name.contains(['/', '\\', ':', '\0'])
}

/// Checks that a file of the folder is in the folder, also where it is a link.
pub(super) fn confined(folder: &Path, file: &str) -> Result<()> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| invalid(folder, format!("{file}: {error}"), Some(error.into())))
    };
    if real(&folder.join(file))?.starts_with(real(folder)?) {
        return Ok(());
    }
    Err(invalid(folder, format!("{file} is a link that leads out of the folder; put the file itself there"), None))
}

/// Reads a file that was [`check`]ed for, and compares its hash.
pub(super) fn read(folder: &Path, file: &str, hashes: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let path = folder.join(file);
    let bytes = fs::read(&path).map_err(|error| invalid(folder, format!("{file}: {error}"), Some(error.into())))?;
    let expected = hashes[file].to_ascii_lowercase();
    let found = hex(&Sha256::digest(&bytes));
    if found != expected {
        return Err(Error::ModelHashMismatch { path, expected, found });
    }
    Ok(bytes)
}

pub(super) fn invalid(folder: &Path, reason: impl Into<String>, source: Option<BoxError>) -> Error {
    Error::InvalidModel { path: folder.to_path_buf(), reason: reason.into(), source }
}
