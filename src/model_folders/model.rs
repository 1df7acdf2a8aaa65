//! Embedding models: in folders, and the one that is compiled in.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::folder::{self, MANIFEST, Manifest, ModelKind};
use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
};

/// The files of every model folder, beside `manifest.toml`.
const FILES: [&str; 2] = ["model.onnx", "tokenizer.json"];

/// The environment variable that names a folder of model folders.
const MODELS_ENV: &str = "MNEMON_MODELS";

/// The files of an embedding model, not yet loaded. [`OnnxEmbedder`](crate::OnnxEmbedder) runs them.
///
/// A model folder has the graph as `model.onnx`, the files that hold weights of the graph, its `tokenizer.json`, and a
/// `manifest.toml`:
///
/// ```toml
/// name = "nomic-embed-text-v1.5"
/// description = "English sentence encoder"
/// source = "nomic-ai/nomic-embed-text-v1.5"
/// license = "Apache-2.0"
/// dimension = 256                         # components of a vector, 1 to 65,535
/// model_dimension = 768                   # optional: components of the output, if a vector is the first of them
/// pooling = "mean"                        # or "cls", "last_token", "none": the output has one row for each text
/// output = "last_hidden_state"            # optional; default: "sentence_embedding" without pooling,
///                                         # "last_hidden_state" with pooling, or the only output
/// normalize = true                        # required: vectors are compared by angle
/// max_tokens = 2048                       # of one text, special tokens included; longer text is split into windows
/// query_prefix = "search_query: "         # prepended to each query
/// document_prefix = "search_document: "   # prepended to each document
/// quantization = "none"                   # or "static", or "dynamic": activations are quantized at run time
/// padding_exact = false                   # optional: whether padding changes no bit of a vector
///
/// [files]                                 # sha256
/// "model.onnx" = "..."
/// "tokenizer.json" = "..."
///
/// [made_from]                             # optional: sha256 of the files that model.onnx was built from
/// "config.json" = "..."
/// "model.safetensors" = "..."
/// "tokenizer.json" = "..."
/// ```
///
/// Models that were made from the same files with the same settings are the same model, whichever tool built the graph:
/// a database that was made with one opens with the other.
///
/// If a model has attention, the memory of a batch grows with the square of its longest text: the scores of 12 heads
/// take 50 MB for 1,024 tokens, and 3 GB for 8,192. Few texts of such lengths run at a time; a lower `max_tokens`
/// bounds the memory, because longer text is split into windows.
///
/// Every file that `[files]` names is checked against its hash when the model is loaded, and before it is parsed. A
/// graph may have weights in other files (ONNX external data) if they are in the folder itself and named in `[files]`.
/// Other files, such as `config.json`, may be in the folder and in `[files]`; their contents are not used.
///
/// [`Model::import`] makes such a folder from the exports of common tools.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) manifest: Manifest,
    identity: ModelIdentity,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Folder(PathBuf),
    #[cfg(feature = "bundled-model")]
    Bundled,
}

impl Model {
    /// The name of the default model.
    pub const DEFAULT: &str = "static-en-256";

    /// Returns the default model, which is compiled into the program.
    #[cfg(feature = "bundled-model")]
    pub fn bundled() -> Self {
        let manifest = toml::from_str(bundled::MANIFEST).expect("the bundled manifest is valid, which a test checks");
        Model::new(manifest, Source::Bundled)
    }

    /// Opens the model in a folder. Reads the manifest only.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: `manifest.toml` is missing, does not parse, is a reranker's, or has an invalid value;
    /// or a file that it names is missing.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let path = folder.as_ref();
        let manifest: Manifest = folder::read_manifest(path, ModelKind::Embedder)?;
        if let Some(fault) = manifest.fault() {
            return Err(folder::invalid(path, fault, None));
        }
        folder::check(path, &FILES, &manifest.files)?;
        let named: Vec<&str> = manifest.files.keys().map(String::as_str).collect();
        folder::check(path, &named, &manifest.files)?;
        Ok(Model::new(manifest, Source::Folder(path.to_path_buf())))
    }

    /// Finds a model by path or name: a folder with a `manifest.toml`; the bundled model by its name; a folder of this
    /// name in `$MNEMON_MODELS`, in `models` beside the executable, in `models` of the user's data folder
    /// ([`Model::home`]), or in `./models`.
    ///
    /// # Errors
    /// [`Error::ModelNotFound`] with the folders that were tried; those of [`Model::open`].
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

    /// Returns the folder that new models belong in, so that they are found by name from everywhere: `$MNEMON_MODELS`,
    /// or else `models` in the user's data folder, which is `$XDG_DATA_HOME/mnemon`, or else `~/.local/share/mnemon`,
    /// or `~/Library/Application Support/mnemon` on macOS; on Windows `%LOCALAPPDATA%\mnemon`. `None`: the environment
    /// names no home.
    pub fn home() -> Option<PathBuf> {
        let given = std::env::var_os(MODELS_ENV).filter(|home| !home.is_empty());
        given.map(PathBuf::from).or_else(|| Some(data_folder()?.join("models")))
    }

    pub(crate) fn homes() -> impl Iterator<Item = PathBuf> {
        let given = std::env::var_os(MODELS_ENV).filter(|home| !home.is_empty()).map(PathBuf::from);
        let executable = std::env::current_exe().ok();
        let beside = executable.as_deref().and_then(Path::parent).map(|folder| folder.join("models"));
        let own = data_folder().map(|folder| folder.join("models"));
        [given, beside, own, Some(PathBuf::from("models"))].into_iter().flatten()
    }

    fn new(manifest: Manifest, source: Source) -> Self {
        let identity =
            ModelIdentity { name: manifest.name.clone(), dimension: manifest.dimension, hash: manifest.hash() };
        Model { manifest, identity, source }
    }

    /// Finds the model of this identity among those of its name, whatever their folders are called.
    ///
    /// # Errors
    /// [`Error::ModelMismatch`]: only another model of this name is installed. [`Error::ModelNotFound`]; those of
    /// [`Model::open`].
    pub(crate) fn find_same(identity: &ModelIdentity) -> Result<Self> {
        let named = Model::find(&identity.name);
        let installed = Model::installed().into_iter().filter_map(|(_, model)| model.ok());
        let others = installed.filter(|model| model.identity.name == identity.name);
        if let Some(same) = named.iter().cloned().chain(others).find(|model| model.is_same(identity)) {
            return Ok(same);
        }
        let given = named?;
        let given = format!("{} in {}", given.identity, given.path().display());
        Err(Error::ModelMismatch { stored: identity.to_string(), given })
    }

    /// Returns true if this model made the vectors that a database has with this identity, perhaps by an earlier
    /// version of this crate.
    pub(crate) fn is_same(&self, stored: &ModelIdentity) -> bool {
        stored.dimension == self.identity.dimension
            && (stored.hash == self.identity.hash || stored.hash == self.manifest.hash_of_files())
    }

    /// Returns the identity of the model's vectors.
    pub fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// Returns one line with the model's description, source and licence.
    pub fn description(&self) -> String {
        format!("{} ({}; {})", self.manifest.description, self.manifest.source, self.manifest.license)
    }

    /// Returns the model's folder. `None`: the model is bundled.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.source {
            Source::Folder(folder) => Some(folder),
            #[cfg(feature = "bundled-model")]
            Source::Bundled => None,
        }
    }

    /// Returns the folder, or `<bundled>/NAME`.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.source {
            Source::Folder(folder) => folder.clone(),
            #[cfg(feature = "bundled-model")]
            Source::Bundled => Path::new("<bundled>").join(&self.manifest.name),
        }
    }

    /// Checks the hashes of the files that the manifest names and the caller has not read.
    pub(crate) fn check_others(&self, read_already: &[&str]) -> Result<()> {
        match self.folder() {
            Some(folder) => folder::check_others(folder, read_already, &self.manifest.files),
            None => Ok(()),
        }
    }

    pub(crate) fn read(&self, file: &str) -> Result<Cow<'static, [u8]>> {
        match &self.source {
            Source::Folder(path) => {
                folder::check(path, &[file], &self.manifest.files)?;
                folder::read(path, file, &self.manifest.files).map(Cow::Owned)
            }
            // Hashes of the bundled files are checked by a test, not on every start.
            #[cfg(feature = "bundled-model")]
            Source::Bundled => Ok(bundled::file(file).into()),
        }
    }
}

/// Returns the user's data folder: `$XDG_DATA_HOME/mnemon`, else `~/.local/share/mnemon`, or `~/Library/Application
/// Support/mnemon` on macOS; on Windows `%LOCALAPPDATA%\mnemon`. `None`: the environment names no home. The folder may
/// not exist.
///
/// Native code is loaded from it. So the path is always absolute: a relative one would depend on the working folder.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else {
        let of_home = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
        variable("XDG_DATA_HOME")
            .or_else(|| Some(std::env::home_dir().filter(|home| home.is_absolute())?.join(of_home)))
    };
    base.map(|base| base.join("mnemon"))
}

/// The default model's files, compiled into the program.
#[cfg(feature = "bundled-model")]
mod bundled {
    macro_rules! bundle {
        ($file:literal) => {
            include_bytes!(concat!("../../models/static-en-256/", $file))
        };
    }

    pub(super) const MANIFEST: &str = include_str!("../../models/static-en-256/manifest.toml");

    /// Returns the bytes of a file that the manifest names.
    pub(super) fn file(name: &str) -> &'static [u8] {
        match name {
            "model.onnx" => bundle!("model.onnx"),
            "tokenizer.json" => bundle!("tokenizer.json"),
            "config.json" => bundle!("config.json"),
            "special_tokens_map.json" => bundle!("special_tokens_map.json"),
            "tokenizer_config.json" => bundle!("tokenizer_config.json"),
            _ => unreachable!("only files that the bundled manifest names are read"),
        }
    }
}
