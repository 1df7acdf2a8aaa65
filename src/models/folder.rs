//! Reading model folders: the manifest, and files checked against the manifest's hashes.

use std::{collections::BTreeMap, fs, path::Path};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::manifest::{self, Kind};
use crate::{
    error::{BoxError, Error, Result},
    ids::hex,
};

pub(crate) const MANIFEST: &str = "manifest.toml";

/// Reads the manifest of a folder that holds a model of this kind.
pub(crate) fn manifest<M: DeserializeOwned>(folder: &Path, kind: Kind) -> Result<M> {
    let text = fs::read_to_string(folder.join(MANIFEST))
        .map_err(|error| invalid(folder, format!("manifest.toml: {error}"), Some(error.into())))?;
    manifest::parse(&text, kind).map_err(|reason| invalid(folder, format!("manifest.toml: {reason}"), None))
}

/// Checks that these files are in the folder, and that the manifest has their hashes.
pub(crate) fn check(folder: &Path, files: &[&str], hashes: &BTreeMap<String, String>) -> Result<()> {
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

/// Checks that a file is in the folder, even if its name is a symbolic link.
pub(crate) fn confined(folder: &Path, file: &str) -> Result<()> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| invalid(folder, format!("{file}: {error}"), Some(error.into())))
    };
    if real(&folder.join(file))?.starts_with(real(folder)?) {
        return Ok(());
    }
    Err(invalid(folder, format!("{file} is a symbolic link out of the folder; put the file itself there"), None))
}

/// Reads a file, whose presence [`check`] has confirmed, and compares its hash.
pub(crate) fn read(folder: &Path, file: &str, hashes: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let path = folder.join(file);
    let bytes = fs::read(&path).map_err(|error| invalid(folder, format!("{file}: {error}"), Some(error.into())))?;
    let expected = hashes[file].to_ascii_lowercase();
    let found = hex(&Sha256::digest(&bytes));
    if found != expected {
        return Err(Error::ModelHashMismatch { path, expected, found });
    }
    Ok(bytes)
}

/// Checks the hashes of the files that the manifest names and the caller has not read.
pub(crate) fn check_others(folder: &Path, read_already: &[&str], hashes: &BTreeMap<String, String>) -> Result<()> {
    for file in hashes.keys().filter(|file| !read_already.contains(&file.as_str())) {
        check(folder, &[file], hashes)?;
        read(folder, file, hashes)?;
    }
    Ok(())
}

pub(crate) fn invalid(folder: &Path, reason: impl Into<String>, source: Option<BoxError>) -> Error {
    let reason = reason.into();
    // A reason may quote its source, which would be shown twice.
    let source = source.filter(|source| !reason.contains(&source.to_string()));
    Error::InvalidModel { path: folder.to_path_buf(), reason, source }
}
