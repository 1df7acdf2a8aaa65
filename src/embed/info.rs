//! What a model folder says of itself, and whether it is as it says.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Model, OnnxEmbedder, external, fit,
    folder::{MANIFEST, invalid},
    manifest::{Pooling, Quantization},
};
use crate::error::{Error, Result};

/// All that a model's manifest says, with the sizes of its files. [`Model`] says what each field means.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelInfo {
    /// What it is called.
    pub name: String,
    /// The folder, or `<bundled>/NAME`.
    pub path: PathBuf,
    /// One line about it.
    pub description: String,
    /// Where it comes from.
    pub source: String,
    /// Its licence.
    pub license: String,
    /// Components of a vector.
    pub dimension: usize,
    /// Components that the graph gives, if they are more.
    pub model_dimension: Option<usize>,
    /// How the vectors of tokens become one.
    pub pooling: Pooling,
    /// The graph's output that is read, if it is not the usual one.
    pub output: Option<String>,
    /// Tokens of a run, special ones included.
    pub max_tokens: usize,
    /// Put before each question.
    pub query_prefix: String,
    /// Put before each text that is to be found.
    pub document_prefix: String,
    /// What is in 8 bits.
    pub quantization: Quantization,
    /// Whether padding a text leaves its vector as it is, bit by bit.
    pub padding_exact: bool,
    /// Hash of all that changes a vector: [`ModelIdentity::hash`](crate::ModelIdentity::hash).
    pub hash: String,
    /// The files that the manifest names.
    pub files: Vec<ModelFile>,
}

/// A file of a model folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelFile {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What the manifest says its sha256 is, in hexadecimal.
    pub sha256: String,
}

impl Model {
    /// What its manifest says. No file is read, only sizes are looked up.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: a file is gone.
    pub fn info(&self) -> Result<ModelInfo> {
        let manifest = self.manifest.clone();
        let file = |(name, sha256): (String, String)| Ok(ModelFile { bytes: self.size(&name)?, name, sha256 });
        Ok(ModelInfo {
            name: manifest.name,
            path: self.path(),
            description: manifest.description,
            source: manifest.source,
            license: manifest.license,
            dimension: manifest.dimension,
            model_dimension: manifest.model_dimension,
            pooling: manifest.pooling,
            output: manifest.output,
            max_tokens: manifest.max_tokens,
            query_prefix: manifest.query_prefix,
            document_prefix: manifest.document_prefix,
            quantization: manifest.quantization,
            padding_exact: manifest.padding_exact,
            hash: self.identity().hash.clone(),
            files: manifest.files.into_iter().map(file).collect::<Result<_>>()?,
        })
    }

    /// The models that [`Model::find`] finds by name: the bundled one, then those in `$MNEMON_MODELS`, `./models`, and the
    /// `models` of the sources, each with its folder, or what is wrong with it. Of two with one name the first is found.
    pub fn installed() -> Vec<(PathBuf, Result<Model>)> {
        let mut models = Vec::new();
        #[cfg(feature = "bundled-model")]
        models.push((Model::bundled().path(), Ok(Model::bundled())));
        let mut seen = BTreeSet::new();
        for home in Model::homes().filter(|home| seen.insert(home.canonicalize().ok())) {
            let entries = home.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
            let mut folders: Vec<PathBuf> =
                entries.filter(|path| !hidden(path) && path.join(MANIFEST).is_file()).collect();
            folders.sort();
            models.extend(folders.into_iter().map(|folder| (folder.clone(), Model::open(folder))));
        }
        models
    }

    /// What is wrong with the model, one line each: files that are not those of the manifest, weights outside the folder, a
    /// tokenizer that does not fit the graph, a graph that does not load or run, or gives something else than the manifest says.
    ///
    /// Cost: reads every file, and loads and runs the model.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`]: nothing is known then of whether it runs.
    pub fn verify(&self) -> Result<Vec<String>> {
        let mut problems: Vec<Error> = Vec::new();
        for file in self.manifest.files.keys() {
            problems.extend(self.read(file).err());
        }
        if problems.is_empty() {
            problems.extend(self.check_fit().err());
        }
        // What is not as it was when it was made is not parsed.
        if problems.is_empty() {
            match OnnxEmbedder::new(self.clone()) {
                Ok(_) => {}
                Err(error @ Error::RuntimeNotFound { .. }) => return Err(error),
                Err(error) => problems.push(error),
            }
        }
        Ok(problems.iter().map(|problem| chain(problem)).collect())
    }

    fn check_fit(&self) -> Result<()> {
        let graph = self.graph()?;
        let model = external::parse(&self.path(), "model.onnx", &graph.bytes.into_owned().into())?;
        fit::check(&self.path(), &model, &self.read("tokenizer.json")?)
    }

    fn size(&self, file: &str) -> Result<u64> {
        match self.folder() {
            Some(folder) => {
                let metadata = fs::metadata(folder.join(file));
                let gone = |error: std::io::Error| invalid(folder, format!("{file}: {error}"), Some(error.into()));
                Ok(metadata.map_err(gone)?.len())
            }
            None => Ok(self.read(file)?.len() as u64),
        }
    }
}

/// Whether it is none that is looked for by name, such as one that is still being made.
fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// An error with those behind it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        // Some say what is behind them in their own text.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
