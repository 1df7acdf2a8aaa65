//! Documents: JSON values under keys.

use std::sync::Arc;

use mnemon::Namespace;
use pyo3::{
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
};

use crate::{
    operation::{options, search},
    shared::Shared,
    values::{List, Real, Text, bad_document, count, datetime, from_python, switch, texts, to_python},
    vectors::Vectors,
};

/// The documents of a namespace: JSON values under keys.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Documents {
    engine: Arc<Shared>,
    /// The object of the engine, which closes it when nothing refers to it.
    owner: Py<PyAny>,
    namespace: Namespace,
}

impl Documents {
    pub(crate) fn new(engine: Arc<Shared>, owner: Py<PyAny>, namespace: Namespace) -> Self {
        Documents { engine, owner, namespace }
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl AsyncFnOnce(mnemon::Documents) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.engine.call(py, async move |engine: &mnemon::Engine| call(engine.documents(&self.namespace)).await)
    }
}

#[pymethods]
impl Documents {
    /// Stores a value under a key. `index` has the paths to the texts that a search finds it by, such as `"title"` or
    /// `"parts[*].text"`; default: the whole value; an empty list: none. `ttl_minutes` is the time to live. `vectors` has one
    /// for each text, an array of two dimensions or a list of lists, in a database of `GivenVectors`; they are scaled to
    /// length 1. Raises `InvalidDocumentError`.
    #[pyo3(signature = (key, value, *, index = None, ttl_minutes = None, vectors = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Text,
        value: &Bound<'_, PyAny>,
        index: Option<List<Text>>,
        ttl_minutes: Option<Real>,
        vectors: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let options = options(index, ttl_minutes, vectors)?;
        let value: serde_json::Value = from_python(value, bad_document)?;
        self.call(py, async |documents| documents.put(key.0, self.engine.secrets.value(value), options).await)
    }

    /// Returns the document, or `None`.
    fn get(&self, py: Python<'_>, key: Text) -> PyResult<Option<Document>> {
        Ok(self.call(py, async |documents| documents.get(&key).await)?.map(Document))
    }

    /// Returns whether there was such a document.
    fn delete(&self, py: Python<'_>, key: Text) -> PyResult<bool> {
        self.call(py, async |documents| documents.delete(&key).await)
    }

    /// Returns the documents that answer `query` best, or without one those that were put last. `where` is a filter on
    /// the values; `below` searches the namespaces below this one too. `vector` is that of the query, an array or a list, which
    /// is then not embedded; with a vector alone the score is the cosine, and what is pending is not found.
    #[pyo3(signature = (query = None, *, r#where = None, below = false, limit = 10, offset = 0, vector = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn search(
        &self,
        py: Python<'_>,
        query: Option<Text>,
        r#where: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = switch)] below: bool,
        #[pyo3(from_py_with = count)] limit: usize,
        #[pyo3(from_py_with = count)] offset: usize,
        vector: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Document>> {
        let search = search(query, r#where, below, limit, offset, vector)?;
        Ok(self.call(py, async |documents| documents.search(search).await)?.into_iter().map(Document).collect())
    }

    /// Returns the stored vectors of documents, a row for each key, as `Engine.vectors` does: of a document with several
    /// indexed texts the mean.
    fn vectors(&self, py: Python<'_>, keys: List<Text>) -> PyResult<Vectors> {
        let keys = texts(keys);
        self.engine.call(py, async |engine| {
            let dimension = engine.model().dimension;
            Ok(Vectors::means(engine.documents(&self.namespace).vectors(keys).await?, dimension))
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    #[getter]
    fn namespace(&self) -> &str {
        self.namespace.as_str()
    }

    fn __repr__(&self) -> String {
        format!("<mnemon.Documents of {:?}>", self.namespace.as_str())
    }
}

/// A value that is stored under a key. `score` is that of the best text for the query of a search.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Document(pub(crate) mnemon::Document);

#[pymethods]
impl Document {
    #[getter]
    fn namespace(&self) -> &str {
        self.0.namespace.as_str()
    }

    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.value)
    }

    #[getter]
    fn created_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime(py, self.0.created_at)
    }

    #[getter]
    fn updated_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime(py, self.0.updated_at)
    }

    #[getter]
    fn expires_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.expires_at.map(|time| datetime(py, time)).transpose()
    }

    #[getter]
    fn score(&self) -> Option<f32> {
        self.0.score
    }

    fn __repr__(&self) -> String {
        format!("Document({:?}, {})", self.0.key, self.0.value)
    }
}
