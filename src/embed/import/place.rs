//! Putting a model that was made into its place: whole, or not at all. The same model, if it is there already, is mended.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    embed::{
        Model, OnnxEmbedder,
        folder::{self, MANIFEST, invalid},
        manifest::{Kind, Manifest},
    },
    error::{Error, Result},
};

/// A model's files, all in memory.
pub(in crate::embed) struct Made {
    pub(in crate::embed) files: BTreeMap<String, Bytes>,
    pub(in crate::embed) manifest: Manifest,
}

/// The manifest of the model that is in this place.
///
/// # Errors
/// Something is there, and is no model folder.
pub(in crate::embed) fn there(destination: &Path) -> Result<Option<Manifest>> {
    if destination.symlink_metadata().is_err() {
        return Ok(None);
    }
    if !destination.join(MANIFEST).is_file() {
        return Err(taken(destination, "and is no model folder"));
    }
    let no_model = |reason: &str| taken(destination, &format!("and is no model: {reason}"));
    match folder::manifest::<Manifest>(destination, Kind::Embedder) {
        Ok(manifest) => match manifest.fault() {
            Some(fault) => Err(no_model(&fault)),
            None => Ok(Some(manifest)),
        },
        Err(Error::InvalidModel { reason, .. }) => Err(no_model(&reason)),
        Err(error) => Err(error),
    }
}

pub(in crate::embed) fn taken(destination: &Path, how: &str) -> Error {
    let remedy = "give another destination, or delete it first";
    invalid(destination, format!("it is there already, {how}; {remedy}"), None)
}

/// The folder that this place is in.
pub(in crate::embed) fn beside(destination: &Path) -> &Path {
    destination.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The files in this place that are not those of the manifest, or are missing.
pub(in crate::embed) fn damaged<'m>(destination: &Path, manifest: &'m Manifest) -> Vec<&'m str> {
    let names = manifest.files.keys().map(String::as_str);
    names.filter(|name| folder::read(destination, name, &manifest.files).is_err()).collect()
}

/// Runs the model, and moves it to its place; if it is there already, only what is damaged of it.
pub(in crate::embed) fn place(made: Made, source: &Path, destination: &Path) -> Result<Model> {
    let Made { mut files, mut manifest } = made;
    let found = there(destination)?;
    if let Some(found) = &found {
        // The same files may come from another mirror, or from a repository whose description was changed.
        manifest.source.clone_from(&found.source);
        manifest.description.clone_from(&found.description);
        manifest.license.clone_from(&found.license);
        if *found != manifest {
            return Err(taken(destination, "with another model"));
        }
        let damaged = damaged(destination, &manifest);
        if damaged.is_empty() {
            return Model::open(destination);
        }
        files.retain(|name, _| damaged.contains(&name.as_str()));
    }
    let unwritable = |error: io::Error| invalid(destination, "it cannot be written", Some(error.into()));
    let staging = Staging::beside(destination, &manifest.name).map_err(unwritable)?;
    staging.write(&files, &manifest).map_err(unwritable)?;
    // Loading the model takes its own memory.
    drop(files);
    if found.is_none() {
        run(&staging.0).map_err(|error| match error {
            // What was tried is a folder that is soon gone.
            Error::InvalidModel { reason, source: cause, .. } => invalid(source, reason, cause),
            error => error,
        })?;
        match fs::rename(&staging.0, destination) {
            Ok(()) => return Model::open(destination),
            // Another call was faster: perhaps it is the same model.
            Err(_) if there(destination)?.as_ref() == Some(&manifest) => {}
            Err(error) => return Err(unwritable(error)),
        }
    }
    for file in damaged(destination, &manifest) {
        fs::rename(staging.0.join(file), destination.join(file)).map_err(unwritable)?;
    }
    Model::open(destination)
}

fn run(folder: &Path) -> Result<()> {
    OnnxEmbedder::new(Model::open(folder)?).map(drop)
}

/// A new folder under a name that is not looked for. What is left of it in the end is removed.
struct Staging(PathBuf);

impl Staging {
    fn beside(destination: &Path, name: &str) -> io::Result<Self> {
        let beside = beside(destination);
        fs::create_dir_all(beside)?;
        let staging = beside.join(format!(".{name}.import-{}", Uuid::now_v7().simple()));
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
        // Whatever went wrong is said; a folder that cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
