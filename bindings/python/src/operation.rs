//! Batches of operations on documents.

use mnemon::{DocumentNamespaces, DocumentOptions, DocumentOutcome, DocumentSearch, Namespace};
use pyo3::{IntoPyObjectExt, prelude::*, types::PyDict};

use crate::{
    documents::Document,
    errors::raised,
    query::filter,
    values::{from_python, namespace},
};

/// An operation of `Engine.document_batch`, made by one of the static methods.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct DocumentOperation(pub(crate) mnemon::DocumentOperation);

#[pymethods]
impl DocumentOperation {
    /// Reads a document. The outcome is the `Document`, or `None`.
    #[staticmethod]
    #[pyo3(signature = (namespace, key, *, refresh_ttl = false))]
    fn get(py: Python<'_>, namespace: &str, key: String, refresh_ttl: bool) -> PyResult<Self> {
        let namespace = self::namespace(py, namespace)?;
        Ok(DocumentOperation(mnemon::DocumentOperation::Get { namespace, key, refresh_ttl }))
    }

    /// Puts a document, see `Documents.put`. The outcome is `None`.
    #[staticmethod]
    #[pyo3(signature = (namespace, key, value, *, index = None, ttl_minutes = None))]
    fn put(
        namespace: &str,
        key: String,
        value: &Bound<'_, PyAny>,
        index: Option<Vec<String>>,
        ttl_minutes: Option<f64>,
    ) -> PyResult<Self> {
        let namespace = self::namespace(value.py(), namespace)?;
        let (value, options) = (from_python(value)?, options(index, ttl_minutes));
        Ok(DocumentOperation(mnemon::DocumentOperation::Put { namespace, key, value, options }))
    }

    /// Deletes a document. The outcome is whether there was one.
    #[staticmethod]
    fn delete(py: Python<'_>, namespace: &str, key: String) -> PyResult<Self> {
        let namespace = self::namespace(py, namespace)?;
        Ok(DocumentOperation(mnemon::DocumentOperation::Delete { namespace, key }))
    }

    /// Searches documents, see `Documents.search`. The outcome is a list of them.
    #[staticmethod]
    #[pyo3(signature = (namespace, query = None, *, r#where = None, below = false, limit = 10, offset = 0,
        refresh_ttl = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn search(
        py: Python<'_>,
        namespace: &str,
        query: Option<String>,
        r#where: Option<&Bound<'_, PyDict>>,
        below: bool,
        limit: usize,
        offset: usize,
        refresh_ttl: bool,
    ) -> PyResult<Self> {
        let namespace = self::namespace(py, namespace)?;
        let search = search(query, r#where, below, limit, offset)?.refresh_ttl(refresh_ttl);
        Ok(DocumentOperation(mnemon::DocumentOperation::Search { namespace, search }))
    }

    /// Lets the batch fail with `DocumentChangedError`, and change nothing, unless the document has this value; `None`:
    /// there is no such document. The outcome is `None`.
    #[staticmethod]
    fn expect(namespace: &str, key: String, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let namespace = self::namespace(value.py(), namespace)?;
        let value = if value.is_none() { None } else { Some(from_python(value)?) };
        Ok(DocumentOperation(mnemon::DocumentOperation::Expect { namespace, key, value }))
    }

    /// Lists the namespaces that have documents, by the labels that they begin and end with; `"*"` is any label. The
    /// outcome is a list of them. Namespaces with more than `max_depth` labels are shortened to these.
    #[staticmethod]
    #[pyo3(signature = (*, prefix = Vec::new(), suffix = Vec::new(), max_depth = None, limit = 100, offset = 0))]
    fn namespaces(
        prefix: Vec<String>,
        suffix: Vec<String>,
        max_depth: Option<usize>,
        limit: usize,
        offset: usize,
    ) -> Self {
        let mut request = DocumentNamespaces::default().prefix(prefix).suffix(suffix).limit(limit).offset(offset);
        request.max_depth = max_depth;
        DocumentOperation(mnemon::DocumentOperation::ListNamespaces(request))
    }
}

pub(crate) fn options(index: Option<Vec<String>>, ttl_minutes: Option<f64>) -> DocumentOptions {
    let mut options = DocumentOptions::default();
    options.index = index.unwrap_or(options.index);
    options.ttl_minutes = ttl_minutes;
    options
}

pub(crate) fn search(
    query: Option<String>,
    r#where: Option<&Bound<'_, PyDict>>,
    below: bool,
    limit: usize,
    offset: usize,
) -> PyResult<DocumentSearch> {
    let mut search = DocumentSearch::default().below(below).limit(limit).offset(offset);
    search.query = query;
    search.filter = r#where.map(filter).transpose()?;
    Ok(search)
}

/// Returns the outcome of an operation as a Python object.
pub(crate) fn outcome(py: Python<'_>, outcome: DocumentOutcome) -> PyResult<Bound<'_, PyAny>> {
    let wrapped = |documents: Vec<_>| documents.into_iter().map(Document).collect::<Vec<_>>();
    match outcome {
        DocumentOutcome::Got(document) => document.map(Document).into_bound_py_any(py),
        DocumentOutcome::Found(documents) => wrapped(documents).into_bound_py_any(py),
        DocumentOutcome::Deleted(was_there) => was_there.into_bound_py_any(py),
        DocumentOutcome::Namespaces(namespaces) => {
            let names: Vec<&str> = namespaces.iter().map(Namespace::as_str).collect();
            names.into_bound_py_any(py)
        }
        _ => Ok(py.None().into_bound(py)),
    }
}

/// Returns the namespace of these labels, any texts: what a slash separates, with slashes in a label written `%2F`.
#[pyfunction]
pub(crate) fn namespace_of(py: Python<'_>, labels: Vec<String>) -> PyResult<String> {
    let namespace = Namespace::from_labels(&labels).map_err(|error| raised(py, error))?;
    Ok(namespace.as_str().to_owned())
}

/// Returns the labels of a namespace.
#[pyfunction]
pub(crate) fn labels_of(py: Python<'_>, namespace: &str) -> PyResult<Vec<String>> {
    Ok(self::namespace(py, namespace)?.labels().map(std::borrow::Cow::into_owned).collect())
}
