//! Embedders that are written in Python.

use std::sync::Arc;

use mnemon::{Error, ModelIdentity, Result};
use pyo3::{buffer::PyBuffer, exceptions::PyTypeError, prelude::*, types::PyString};

/// Calls an object with `name`, `dimension` and `embed_documents`, from the engine's threads.
struct PythonEmbedder {
    identity: ModelIdentity,
    object: Py<PyAny>,
    has_query: bool,
}

/// Returns the embedder that an object stands for.
pub(crate) fn embedder(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn mnemon::Embedder>> {
    let missing = |name| {
        PyTypeError::new_err(format!("an embedder has an attribute {name:?}; help(mnemon.Embedder) lists all of them"))
    };
    let attribute = |name: &'static str| object.getattr(name).map_err(|_| missing(name));
    let name: String = attribute("name")?.extract()?;
    let hash = match object.getattr_opt("hash")? {
        Some(hash) => hash.extract()?,
        None => name.bytes().map(|byte| format!("{byte:02x}")).collect(),
    };
    let identity = ModelIdentity { name, dimension: attribute("dimension")?.extract()?, hash };
    attribute("embed_documents")?;
    let has_query = object.hasattr("embed_query")?;
    Ok(Arc::new(PythonEmbedder { identity, object: object.clone().unbind(), has_query }))
}

impl mnemon::Embedder for PythonEmbedder {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.call(|object| rows(&object.call_method1("embed_documents", (texts.to_vec(),))?))
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        if self.has_query {
            return self
                .call(|object| object.call_method1("embed_query", (PyString::new(object.py(), text),))?.extract());
        }
        let rows = self.embed_documents(&[text])?;
        let wrong = || Error::Embedding { reason: "embed_documents returned no vector".to_owned(), source: None };
        rows.into_iter().next().ok_or_else(wrong)
    }
}

impl PythonEmbedder {
    fn call<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        // `None` while the interpreter ends.
        let result = Python::try_attach(|py| call(self.object.bind(py)));
        match result {
            Some(Ok(result)) => Ok(result),
            Some(Err(error)) => Err(Error::Embedding { reason: error.to_string(), source: Some(error.into()) }),
            None => Err(Error::Closed),
        }
    }
}

/// Returns the rows of an array of 32-bit floats, such as numpy's, or of a sequence of sequences.
fn rows(vectors: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    let Ok(buffer) = PyBuffer::<f32>::get(vectors) else { return vectors.extract() };
    let &[_, width] = buffer.shape() else {
        return Err(PyTypeError::new_err("vectors are an array of two dimensions"));
    };
    let values = buffer.to_vec(vectors.py())?;
    Ok(values.chunks(width.max(1)).map(<[f32]>::to_vec).collect())
}
