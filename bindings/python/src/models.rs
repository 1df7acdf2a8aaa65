//! Embedders and rerankers: models by name, models of servers, and those that are written in Python.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use mnemon::{Config, CrossEncoder, Error, Model, ModelIdentity, OnnxEmbedder, OnnxOptions, RerankerInfo, Result};
use pyo3::{
    prelude::*,
    types::{PyList, PyString},
};

use crate::{
    callback::{Callee, Kept, attribute, call, embedding_for, numbers, rows},
    errors::{cause, raised, wrong_type},
    servers::OpenAiEmbedder,
    values::{Text, dimension},
    vectors::GivenVectors,
    wait::apart,
};

static ENGINES: AtomicU64 = AtomicU64::new(0);

/// How the models of an engine are run.
#[derive(Clone)]
pub(crate) struct ModelOptions {
    onnx: OnnxOptions,
    /// The number of the engine in this process.
    pub(crate) number: u64,
}

impl ModelOptions {
    pub(crate) fn of(config: &Config) -> Self {
        let mut options = OnnxOptions::default();
        options.device = config.device.clone();
        options.threads = config.threads;
        ModelOptions { onnx: options, number: ENGINES.fetch_add(1, Relaxed) }
    }

    /// Returns the embedder that an object stands for: the name or folder of a model, an `OpenAiEmbedder`, `GivenVectors`, or
    /// an object as `mnemon.Embedder` describes it, which is kept.
    pub(crate) fn embedder(&self, object: &Bound<'_, PyAny>, kept: &Kept) -> PyResult<Arc<dyn mnemon::Embedder>> {
        let py = object.py();
        if let Some(name) = name(object)? {
            let options = self.onnx.clone();
            let opened = apart(py, move || OnnxEmbedder::open(Model::find(&name)?, options))?;
            return Ok(Arc::new(opened.map_err(|error| raised(py, error))?));
        }
        if let Ok(given) = object.cast::<GivenVectors>() {
            return Ok(Arc::new(given.get().0.clone()));
        }
        match object.cast::<OpenAiEmbedder>() {
            Ok(embedder) => Ok(Arc::new(embedder.get().0.clone())),
            Err(_) => Ok(Arc::new(PythonEmbedder::new(object, kept, self.number)?)),
        }
    }

    /// Returns the reranker that an object stands for: the name or folder of a model, or an object as
    /// `mnemon.Reranker` describes it, which is kept.
    pub(crate) fn reranker(&self, object: &Bound<'_, PyAny>, kept: &Kept) -> PyResult<Arc<dyn mnemon::Reranker>> {
        let py = object.py();
        if let Some(name) = name(object)? {
            let threads = self.onnx.threads;
            let open = move || CrossEncoder::with_options(RerankerInfo::find(&name)?.path, threads, None);
            return Ok(Arc::new(apart(py, open)?.map_err(|error| raised(py, error))?));
        }
        let name = attribute(object, "name", "Reranker")?.extract::<Text>()?.0;
        attribute(object, "rerank", "Reranker")?;
        Ok(Arc::new(PythonReranker { name, object: kept.callee(object) }))
    }
}

/// Returns the name or path that an object is, if it is one.
fn name(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(path) = object.extract::<PathBuf>() else { return Ok(None) };
    let name = path.into_os_string().into_string();
    name.map(Some).map_err(|_| wrong_type(object.py(), "the path of a model is not text"))
}

/// Calls an object with `name`, `dimension` and `embed_documents`.
struct PythonEmbedder {
    identity: ModelIdentity,
    object: Callee,
    has_query: bool,
    /// The number of the engine.
    engine: u64,
}

impl PythonEmbedder {
    fn new(object: &Bound<'_, PyAny>, kept: &Kept, engine: u64) -> PyResult<Self> {
        let name = attribute(object, "name", "Embedder")?.extract::<Text>()?.0;
        let hash = match object.getattr_opt("hash")? {
            Some(hash) => hash.extract::<Text>()?.0,
            None => name.bytes().map(|byte| format!("{byte:02x}")).collect(),
        };
        let dimension = dimension(&attribute(object, "dimension", "Embedder")?)?;
        attribute(object, "embed_documents", "Embedder")?;
        let has_query = object.hasattr("embed_query")?;
        let identity = ModelIdentity { name, dimension, hash };
        Ok(PythonEmbedder { identity, object: kept.callee(object), has_query, engine })
    }
}

impl mnemon::Embedder for PythonEmbedder {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let embed = |object: &Bound<'_, PyAny>| {
            rows(&object.call_method1("embed_documents", (PyList::new(object.py(), texts)?,))?)
        };
        embedding_for(self.engine, || call(&self.object, embed, embedding))
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        if self.has_query {
            let embed = |object: &Bound<'_, PyAny>| {
                numbers(&object.call_method1("embed_query", (PyString::new(object.py(), text),))?)
            };
            return embedding_for(self.engine, || call(&self.object, embed, embedding));
        }
        let rows = self.embed_documents(&[text])?;
        let wrong = || Error::Embedding { reason: "embed_documents returned no vector".to_owned(), source: None };
        rows.into_iter().next().ok_or_else(wrong)
    }
}

fn embedding(_: Python<'_>, reason: String, error: PyErr) -> Error {
    Error::Embedding { source: Some(cause(&reason, error)), reason }
}

/// Calls an object with `name` and `rerank`.
struct PythonReranker {
    name: String,
    object: Callee,
}

impl mnemon::Reranker for PythonReranker {
    fn name(&self) -> &str {
        &self.name
    }

    fn rerank(&self, query: &str, passages: &[&str]) -> Result<Vec<f32>> {
        let rerank = |object: &Bound<'_, PyAny>| {
            numbers(&object.call_method1("rerank", (query, PyList::new(object.py(), passages)?))?)
        };
        call(&self.object, rerank, |_, reason, error| Error::Reranking {
            reranker: self.name.clone(),
            source: Some(cause(&reason, error)),
            reason,
        })
    }
}
