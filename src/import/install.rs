//! Installs a prepared model in its destination folder, completely or not at all, and verifies installed models
//! (`Model::verify`). If the same model is already there, its damaged files are restored.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    error::{BoxError, Error, Result},
    lock,
    model_folders::{
        Model,
        folder::{self, MANIFEST, Manifest, ModelKind, invalid},
    },
    onnx::{
        OnnxEmbedder,
        graph::files::{self, GraphFiles},
        tokenizer,
    },
};

/// The files of a model in memory, and its manifest, before they are written.
pub(super) struct PreparedModel {
    pub(super) files: BTreeMap<String, Bytes>,
    pub(super) manifest: Manifest,
}

/// Returns the manifest of the model at the destination, or `None` if the destination does not exist.
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
    match folder::read_manifest::<Manifest>(destination, ModelKind::Embedder) {
        Ok(manifest) => match manifest.fault() {
            Some(fault) => Err(not_a_model(&fault)),
            None => Ok(Some(manifest)),
        },
        Err(Error::InvalidModel { reason, .. }) => Err(not_a_model(&reason)),
        Err(error) => Err(error),
    }
}

/// Creates the error for a destination that holds something else.
pub(super) fn occupied(destination: &Path, problem: &str) -> Error {
    let remedy = "choose another destination, or delete this one first";
    invalid(destination, format!("the destination exists and {problem}; {remedy}"), None)
}

/// Returns the parent folder of the destination. Staging folders are created there, so that they can be renamed.
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
        // Descriptive fields do not count, because the same files may come from another mirror, or the repository's
        // description may have changed.
        manifest.source.clone_from(&found.source);
        manifest.description.clone_from(&found.description);
        manifest.license.clone_from(&found.license);
        // A folder that an earlier release made keeps its identity.
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
    let staging = StagingFolder::beside(destination, &manifest.name).map_err(unwritable)?;
    staging.write(&files, &manifest).map_err(unwritable)?;
    // The model is loaded next, which needs as much memory again.
    drop(files);
    if found.is_none() {
        check_that_it_runs(&staging.folder).map_err(|error| with_source_path(source, error))?;
        match fs::rename(&staging.folder, destination) {
            Ok(()) => return Model::open(destination),
            // A concurrent call has created the destination, perhaps with the same model.
            Err(_) if existing(destination)?.as_ref() == Some(&manifest) => {}
            Err(error) => return Err(unwritable(error)),
        }
    }
    for file in damaged(destination, &manifest) {
        fs::rename(staging.folder.join(file), destination.join(file)).map_err(unwritable)?;
    }
    Model::open(destination)
}

fn check_that_it_runs(folder: &Path) -> Result<()> {
    OnnxEmbedder::new(Model::open(folder)?).map(drop)
}

/// Replaces the staging folder, which is about to be removed, by the source in an error and its causes.
fn with_source_path(source: &Path, error: Error) -> Error {
    let cause = |cause: BoxError| match cause.downcast::<Error>() {
        Ok(error) => with_source_path(source, *error).into(),
        Err(cause) => cause,
    };
    match error {
        Error::InvalidModel { reason, source: own, .. } => invalid(source, reason, own.map(cause)),
        Error::Embedding { reason, source: own } => Error::Embedding { reason, source: own.map(cause) },
        error => error,
    }
}

/// A new hidden folder beside the destination. Dropping it removes the folder with all files that were not moved away.
struct StagingFolder {
    folder: PathBuf,
    /// The lock on the folder. On a system without such locks it is `None`, and the folder of a killed import stays.
    _lock: Option<File>,
}

impl StagingFolder {
    fn beside(destination: &Path, name: &str) -> io::Result<Self> {
        let parent = parent(destination);
        fs::create_dir_all(parent)?;
        let prefix = format!(".{name}.import-");
        remove_leftovers(parent, &prefix);
        loop {
            let folder = parent.join(format!("{prefix}{}", Uuid::now_v7().simple()));
            fs::create_dir(&folder)?;
            match lock_folder(&folder) {
                Ok(lock) => return Ok(StagingFolder { folder, _lock: Some(lock) }),
                // Another import is removing the folder, which was not locked yet.
                Err(TryLockError::WouldBlock) => {}
                Err(_) if !folder.exists() => {}
                Err(_) => return Ok(StagingFolder { folder, _lock: None }),
            }
        }
    }

    fn write(&self, files: &BTreeMap<String, Bytes>, manifest: &Manifest) -> io::Result<()> {
        let text = toml::to_string(manifest).map_err(io::Error::other)?;
        let files = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..]));
        for (name, bytes) in files.chain([(MANIFEST, text.as_bytes())]) {
            let mut file = File::create_new(self.folder.join(name))?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes space; the cause of a failed import has already been returned.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders of killed imports of a model.
fn remove_leftovers(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(prefix));
        if id.is_some_and(|id| Uuid::try_parse(id).is_ok())
            && let Ok(_lock) = lock_folder(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a folder, which not all operating and file systems can.
fn lock_folder(folder: &Path) -> std::result::Result<File, TryLockError> {
    lock::open(folder, File::options().read(true))
}

impl Model {
    /// Checks the model and returns its problems, one line each: files that differ from the manifest, weights outside
    /// the folder, a tokenizer that does not fit the graph, a graph that does not load or run, and outputs that
    /// contradict the manifest.
    ///
    /// Cost: reads every file, and loads and runs the model.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`]: running the model needs ONNX Runtime.
    pub fn verify(&self) -> Result<Vec<String>> {
        let mut problems: Vec<Error> = Vec::new();
        for file in self.manifest.files.keys() {
            problems.extend(self.read(file).err());
        }
        if problems.is_empty() {
            problems.extend(self.check_vocabulary().err());
        }
        // Changed files are not parsed.
        if problems.is_empty() {
            match OnnxEmbedder::new(self.clone()) {
                Ok(_) => {}
                Err(error @ Error::RuntimeNotFound { .. }) => return Err(error),
                Err(error) => problems.push(error),
            }
        }
        Ok(problems.iter().map(|problem| chain(problem)).collect())
    }

    fn check_vocabulary(&self) -> Result<()> {
        let graph = GraphFiles::read(self)?;
        let model = files::parse(&self.path(), "model.onnx", &graph.bytes)?;
        tokenizer::check_vocabulary(&self.path(), &model, &self.read("tokenizer.json")?)
    }
}

/// Formats an error and its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    crate::error::chain(error).split_whitespace().collect::<Vec<_>>().join(" ")
}
