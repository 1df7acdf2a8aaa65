//! Installs a prepared model in its destination folder, completely or not at all. If the same model is already there,
//! its damaged files are restored.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    models::{
        Model,
        folder::{self, MANIFEST, invalid},
        manifest::{Kind, Manifest},
    },
    onnx::OnnxEmbedder,
};

/// The files of a model in memory, and its manifest, before they are written.
pub(super) struct PreparedModel {
    pub(super) files: BTreeMap<String, Bytes>,
    pub(super) manifest: Manifest,
}

/// Returns the manifest of the model at the destination. `None`: the destination does not exist.
///
/// # Errors
/// The destination exists and is not a valid model folder.
pub(super) fn existing(destination: &Path) -> Result<Option<Manifest>> {
    if destination.symlink_metadata().is_err() {
        return Ok(None);
    }
    if !destination.join(MANIFEST).is_file() {
        return Err(occupied(destination, "is not a model folder"));
    }
    let not_a_model = |reason: &str| occupied(destination, &format!("is not a valid model: {reason}"));
    match folder::manifest::<Manifest>(destination, Kind::Embedder) {
        Ok(manifest) => match manifest.fault() {
            Some(fault) => Err(not_a_model(&fault)),
            None => Ok(Some(manifest)),
        },
        Err(Error::InvalidModel { reason, .. }) => Err(not_a_model(&reason)),
        Err(error) => Err(error),
    }
}

/// Returns the error for a destination that holds something else.
pub(super) fn occupied(destination: &Path, problem: &str) -> Error {
    let remedy = "choose another destination, or delete this one first";
    invalid(destination, format!("the destination exists and {problem}; {remedy}"), None)
}

/// Returns the parent folder of the destination, where staging folders are created so that they can be renamed.
pub(super) fn parent(destination: &Path) -> &Path {
    destination.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the files of the manifest that are missing at the destination or have another hash.
pub(super) fn damaged<'m>(destination: &Path, manifest: &'m Manifest) -> Vec<&'m str> {
    let names = manifest.files.keys().map(String::as_str);
    names.filter(|name| folder::read(destination, name, &manifest.files).is_err()).collect()
}

/// Runs the model once and moves it to the destination. If the same model is already there, only its damaged files are
/// replaced.
pub(super) fn install(prepared: PreparedModel, source: &Path, destination: &Path) -> Result<Model> {
    let PreparedModel { mut files, mut manifest } = prepared;
    let found = existing(destination)?;
    if let Some(found) = &found {
        // Descriptive fields do not count: the same files may come from another mirror, or the repository's description
        // was changed.
        manifest.source.clone_from(&found.source);
        manifest.description.clone_from(&found.description);
        manifest.license.clone_from(&found.license);
        // A folder that an earlier version made keeps its identity.
        if found.made_from.is_empty() {
            manifest.made_from.clear();
        }
        if *found != manifest {
            return Err(occupied(destination, "contains another model"));
        }
        let damaged = damaged(destination, &manifest);
        if damaged.is_empty() {
            return Model::open(destination);
        }
        files.retain(|name, _| damaged.contains(&name.as_str()));
    }
    let unwritable = |error: io::Error| invalid(destination, "the destination cannot be written", Some(error.into()));
    let staging = Staging::beside(destination, &manifest.name).map_err(unwritable)?;
    staging.write(&files, &manifest).map_err(unwritable)?;
    // Frees the files before the model is loaded, which needs as much memory again.
    drop(files);
    if found.is_none() {
        run(&staging.0).map_err(|error| match error {
            // The error names the staging folder, which is about to be removed.
            Error::InvalidModel { reason, source: cause, .. } => invalid(source, reason, cause),
            error => error,
        })?;
        match fs::rename(&staging.0, destination) {
            Ok(()) => return Model::open(destination),
            // A concurrent call created the destination, perhaps with the same model.
            Err(_) if existing(destination)?.as_ref() == Some(&manifest) => {}
            Err(error) => return Err(unwritable(error)),
        }
    }
    for file in damaged(destination, &manifest) {
        fs::rename(staging.0.join(file), destination.join(file)).map_err(unwritable)?;
    }
    Model::open(destination)
}

/// Checks that the model loads and runs.
fn run(folder: &Path) -> Result<()> {
    OnnxEmbedder::new(Model::open(folder)?).map(drop)
}

/// A new hidden folder beside the destination. Dropping it removes the folder with all files that were not moved.
struct Staging(PathBuf);

impl Staging {
    fn beside(destination: &Path, name: &str) -> io::Result<Self> {
        let parent = parent(destination);
        fs::create_dir_all(parent)?;
        let staging = parent.join(format!(".{name}.import-{}", Uuid::now_v7().simple()));
        fs::create_dir(&staging)?;
        Ok(Staging(staging))
    }

    fn write(&self, files: &BTreeMap<String, Bytes>, manifest: &Manifest) -> io::Result<()> {
        let text = toml::to_string(manifest).map_err(io::Error::other)?;
        let files = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..]));
        for (name, bytes) in files.chain([(MANIFEST, text.as_bytes())]) {
            let mut file = File::create_new(self.0.join(name))?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes space; the cause of a failed import has already been returned.
        let _ = fs::remove_dir_all(&self.0);
    }
}
