//! The embedding models: those in folders, and the one that is compiled in.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    folder,
    manifest::{Kind, Manifest},
};
use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
};

/// The files that every model folder has beside `manifest.toml`.
const FILES: [&str; 5] =
    ["model.onnx", "tokenizer.json", "config.json", "special_tokens_map.json", "tokenizer_config.json"];

/// The environment variable that names a folder of model folders.
const MODELS_ENV: &str = "MNEMON_MODELS";

/// An embedding model's files, not yet loaded.
///
/// A folder holds `model.onnx`, `tokenizer.json`, `config.json`, `special_tokens_map.json`, `tokenizer_config.json` and
/// `manifest.toml` with dimension, pooling, limits, prefixes, licence and the sha256 of each file. Every file is
/// checked against its hash when it is read.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) manifest: Manifest,
    identity: ModelIdentity,
    source: Source,
}

/// A graph as ONNX Runtime takes it, all in memory: nothing is read that was not checked.
pub(super) struct Graph {
    /// `model.onnx`.
    pub(super) bytes: Cow<'static, [u8]>,
    /// The files that it has weights in, by the names in the graph.
    pub(super) external: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Source {
    Folder(PathBuf),
    #[cfg(feature = "bundled-model")]
    Bundled,
}

impl Model {
    /// The name of the model that is used when none is given.
    pub const DEFAULT: &str = "static-en-256";

    /// The default model, compiled into the program.
    #[cfg(feature = "bundled-model")]
    pub fn bundled() -> Self {
        let manifest = toml::from_str(bundled::MANIFEST).expect("the committed manifest parses: tested");
        Model::new(manifest, Source::Bundled)
    }

    /// The model in a folder.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: no `manifest.toml`, one that does not parse or is a reranker's, or a file it names is
    /// missing.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let path = folder.as_ref();
        let manifest: Manifest = folder::manifest(path, Kind::Embedder)?;
        if let Some(fault) = manifest.fault() {
            return Err(folder::invalid(path, fault, None));
        }
        folder::check(path, &FILES, &manifest.files)?;
        Ok(Model::new(manifest, Source::Folder(path.to_path_buf())))
    }

    /// The model of this name or path: a folder with a `manifest.toml`; the bundled model by its name; a folder of this
    /// name in `$MNEMON_MODELS`, `./models`, or the `models` of the sources that the crate was built from.
    ///
    /// # Errors
    /// [`Error::ModelNotFound`] with the places looked in; else as [`Model::open`].
    pub fn find(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if path.join("manifest.toml").is_file() {
            return Model::open(path);
        }
        #[cfg(feature = "bundled-model")]
        if name == Model::DEFAULT {
            return Ok(Model::bundled());
        }
        let mut looked = vec![path.to_path_buf()];
        let homes = [
            std::env::var_os(MODELS_ENV).map(PathBuf::from),
            Some(PathBuf::from("models")),
            Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("models")),
        ];
        for home in homes.into_iter().flatten() {
            let folder = home.join(name);
            if folder.join("manifest.toml").is_file() {
                return Model::open(folder);
            }
            looked.push(folder);
        }
        Err(Error::ModelNotFound { name: name.to_owned(), looked })
    }

    fn new(manifest: Manifest, source: Source) -> Self {
        let identity =
            ModelIdentity { name: manifest.name.clone(), dimension: manifest.dimension, hash: manifest.hash() };
        Model { manifest, identity, source }
    }

    /// What its vectors are told apart by.
    pub fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// One line about it: what it is, its source and its licence.
    pub fn description(&self) -> String {
        format!("{} ({}; {})", self.manifest.description, self.manifest.source, self.manifest.license)
    }

    /// The folder, or `<bundled>/NAME`.
    pub(super) fn path(&self) -> PathBuf {
        match &self.source {
            Source::Folder(folder) => folder.clone(),
            #[cfg(feature = "bundled-model")]
            Source::Bundled => Path::new("<bundled>").join(&self.manifest.name),
        }
    }

    /// The graph, its hashes checked.
    pub(super) fn graph(&self) -> Result<Graph> {
        Ok(Graph { bytes: self.read("model.onnx")?, external: Vec::new() })
    }

    /// Reads one of [`FILES`] and checks its hash.
    pub(super) fn read(&self, file: &str) -> Result<Cow<'static, [u8]>> {
        match &self.source {
            Source::Folder(path) => folder::read(path, file, &self.manifest.files).map(Cow::Owned),
            // Compiled in: its hashes are checked by a test, not on every start.
            #[cfg(feature = "bundled-model")]
            Source::Bundled => Ok(bundled::file(file).into()),
        }
    }
}

#[cfg(feature = "bundled-model")]
mod bundled {
    macro_rules! bundle {
        ($file:literal) => {
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/static-en-256/", $file))
        };
    }

    pub(super) const MANIFEST: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/static-en-256/manifest.toml"));

    pub(super) fn file(name: &str) -> &'static [u8] {
        match name {
            "model.onnx" => bundle!("model.onnx"),
            "tokenizer.json" => bundle!("tokenizer.json"),
            "config.json" => bundle!("config.json"),
            "special_tokens_map.json" => bundle!("special_tokens_map.json"),
            "tokenizer_config.json" => bundle!("tokenizer_config.json"),
            _ => unreachable!("only the names in FILES are read"),
        }
    }
}
