//! The embedding models: those in folders, and the one that is compiled in.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    external,
    folder::{self, MANIFEST},
    manifest::{Kind, Manifest},
};
use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
};

/// The files that every model folder has beside `manifest.toml`.
const FILES: [&str; 2] = ["model.onnx", "tokenizer.json"];

/// The environment variable that names a folder of model folders.
const MODELS_ENV: &str = "MNEMON_MODELS";

/// An embedding model's files, not yet loaded.
///
/// A folder holds the graph as `model.onnx`, with the files that it has weights in, its `tokenizer.json`, and a
/// `manifest.toml`:
///
/// ```toml
/// name = "nomic-embed-text-v1.5"
/// description = "English sentence encoder"
/// source = "nomic-ai/nomic-embed-text-v1.5"
/// license = "Apache-2.0"
/// dimension = 256                         # components of a vector, 1 to 65,535
/// model_dimension = 768                   # optional: what the graph gives, if a vector is the first `dimension` of it
/// pooling = "mean"                        # or "cls", "last_token", "none": the output has a row a text
/// output = "last_hidden_state"            # optional: else "sentence_embedding" without pooling, "last_hidden_state" with
///                                         # it, or the only one
/// normalize = true                        # always: vectors are compared by angle
/// max_tokens = 2048                       # of one run, special tokens included; longer text is split into windows
/// query_prefix = "search_query: "         # put before each question
/// document_prefix = "search_document: "   # put before each text that is to be found
/// quantization = "none"                   # or "static", or "dynamic": activations are quantised at run time
/// padding_exact = false                   # optional: whether padding a text leaves its vector as it is, bit by bit
///
/// [files]                                 # sha256
/// "model.onnx" = "..."
/// "tokenizer.json" = "..."
/// ```
///
/// Where a model has attention, the memory of a run grows with the square of its longest text: the scores of 12 heads take 50 MB
/// for 1,024 tokens, and 3 GB for 8,192. Texts that are so long run few at a time; a lower `max_tokens` is a bound, as more is split
/// into windows.
///
/// Every file is checked against its hash when it is read, before anything parses it. A graph may have weights in other files
/// (ONNX external data) if they are in the folder itself and named in `[files]`. Other files, such as `config.json`, may be
/// there, and may be named; nothing reads them.
///
/// [`Model::import`] makes such a folder from what the usual tools export.
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
    /// [`Error::InvalidModel`]: no `manifest.toml`, one that does not parse, is a reranker's or says what cannot be, or a file it
    /// names is missing.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let path = folder.as_ref();
        let manifest: Manifest = folder::manifest(path, Kind::Embedder)?;
        if let Some(fault) = manifest.fault() {
            return Err(folder::invalid(path, fault, None));
        }
        folder::check(path, &FILES, &manifest.files)?;
        let named: Vec<&str> = manifest.files.keys().map(String::as_str).collect();
        folder::check(path, &named, &manifest.files)?;
        Ok(Model::new(manifest, Source::Folder(path.to_path_buf())))
    }

    /// The model of this name or path: a folder with a `manifest.toml`; the bundled model by its name; a folder of this
    /// name in `$MNEMON_MODELS`, `./models`, or the `models` of the sources that the crate was built from.
    ///
    /// # Errors
    /// [`Error::ModelNotFound`] with the places looked in; else as [`Model::open`].
    pub fn find(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if path.join(MANIFEST).is_file() {
            return Model::open(path);
        }
        #[cfg(feature = "bundled-model")]
        if name == Model::DEFAULT {
            return Ok(Model::bundled());
        }
        let mut looked = vec![path.to_path_buf()];
        for home in Model::homes() {
            let folder = home.join(name);
            if folder.join(MANIFEST).is_file() {
                return Model::open(folder);
            }
            looked.push(folder);
        }
        Err(Error::ModelNotFound { name: name.to_owned(), looked })
    }

    /// The folders of model folders.
    pub(super) fn homes() -> impl Iterator<Item = PathBuf> {
        let homes = [
            std::env::var_os(MODELS_ENV).map(PathBuf::from),
            Some(PathBuf::from("models")),
            Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("models")),
        ];
        homes.into_iter().flatten()
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

    /// None of the bundled one.
    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.source {
            Source::Folder(folder) => Some(folder),
            #[cfg(feature = "bundled-model")]
            Source::Bundled => None,
        }
    }

    /// The folder, or `<bundled>/NAME`.
    pub(super) fn path(&self) -> PathBuf {
        match &self.source {
            Source::Folder(folder) => folder.clone(),
            #[cfg(feature = "bundled-model")]
            Source::Bundled => Path::new("<bundled>").join(&self.manifest.name),
        }
    }

    /// The graph with its weights, all hashes checked, and nothing of it outside the folder.
    pub(super) fn graph(&self) -> Result<Graph> {
        match &self.source {
            Source::Folder(path) => {
                let bytes = folder::read(path, "model.onnx", &self.manifest.files)?;
                let external = external::read(path, &bytes, &self.manifest.files)?;
                Ok(Graph { bytes: bytes.into(), external })
            }
            #[cfg(feature = "bundled-model")]
            Source::Bundled => Ok(Graph { bytes: self.read("model.onnx")?, external: Vec::new() }),
        }
    }

    /// Reads a file that the manifest names and checks its hash.
    pub(super) fn read(&self, file: &str) -> Result<Cow<'static, [u8]>> {
        match &self.source {
            Source::Folder(path) => {
                folder::check(path, &[file], &self.manifest.files)?;
                folder::read(path, file, &self.manifest.files).map(Cow::Owned)
            }
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
            _ => unreachable!("only what its manifest names is read"),
        }
    }
}
