//! Batches of operations on documents.

use mnemon::{DocumentNamespaces, DocumentOptions, DocumentOutcome, DocumentSearch, Namespace};
use pyo3::{IntoPyObjectExt, prelude::*, types::IntoPyDict};

use crate::{
    callback::{numbers, rows},
    documents::Document,
    errors::{not_a, raised},
    message::{MessageLike, unwrapped},
    query::filter,
    values::{Count, Element, List, Real, Space, Text, bad_document, count, from_python, switch, texts},
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
    fn get(namespace: Space, key: Text, #[pyo3(from_py_with = switch)] refresh_ttl: bool) -> Self {
        DocumentOperation(mnemon::DocumentOperation::Get { namespace: namespace.0, key: key.0, refresh_ttl })
    }

    /// Puts a document, see `Documents.put`. The outcome is `None`.
    #[staticmethod]
    #[pyo3(signature = (namespace, key, value, *, index = None, ttl_minutes = None, vectors = None))]
    fn put(
        namespace: Space,
        key: Text,
        value: &Bound<'_, PyAny>,
        index: Option<List<Text>>,
        ttl_minutes: Option<Real>,
        vectors: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (value, options) = (from_python(value, bad_document)?, options(index, ttl_minutes, vectors)?);
        Ok(DocumentOperation(mnemon::DocumentOperation::Put { namespace: namespace.0, key: key.0, value, options }))
    }

    /// Deletes a document. The outcome is whether there was one.
    #[staticmethod]
    fn delete(namespace: Space, key: Text) -> Self {
        DocumentOperation(mnemon::DocumentOperation::Delete { namespace: namespace.0, key: key.0 })
    }

    /// Searches documents, see `Documents.search`. The outcome is a list of them.
    #[staticmethod]
    #[pyo3(signature = (namespace, query = None, *, r#where = None, below = false, limit = 10, offset = 0,
        refresh_ttl = false, vector = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn search(
        namespace: Space,
        query: Option<Text>,
        r#where: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = switch)] below: bool,
        #[pyo3(from_py_with = count)] limit: usize,
        #[pyo3(from_py_with = count)] offset: usize,
        #[pyo3(from_py_with = switch)] refresh_ttl: bool,
        vector: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let search = search(query, r#where, below, limit, offset, vector)?.refresh_ttl(refresh_ttl);
        Ok(DocumentOperation(mnemon::DocumentOperation::Search { namespace: namespace.0, search }))
    }

    /// Lets the batch fail with `DocumentChangedError`, and change nothing, unless the document has this value; `None`:
    /// there is no such document. The outcome is `None`.
    #[staticmethod]
    fn expect(namespace: Space, key: Text, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let value = if value.is_none() { None } else { Some(from_python(value, bad_document)?) };
        Ok(DocumentOperation(mnemon::DocumentOperation::Expect { namespace: namespace.0, key: key.0, value }))
    }

    /// Puts messages in the commit of the batch, see `Engine.put`. The outcome is a dict of how many were `new`, `replaced`
    /// and `unchanged`.
    #[staticmethod]
    fn put_messages(namespace: Space, messages: List<MessageLike>) -> Self {
        let messages = unwrapped(messages);
        DocumentOperation(mnemon::DocumentOperation::PutMessages { namespace: namespace.0, messages })
    }

    /// Deletes messages in the commit of the batch, see `Engine.delete`. The outcome is how many there were.
    #[staticmethod]
    fn delete_messages(namespace: Space, ids: List<Text>) -> Self {
        DocumentOperation(mnemon::DocumentOperation::DeleteMessages { namespace: namespace.0, ids: texts(ids) })
    }

    /// Deletes a session in the commit of the batch, see `Engine.delete_session`. The outcome is whether there was one.
    #[staticmethod]
    fn delete_session(namespace: Space, session: Text) -> Self {
        let (namespace, session) = (namespace.0, session.0);
        DocumentOperation(mnemon::DocumentOperation::DeleteSession { namespace, session })
    }

    /// Lists the namespaces that have documents, by the labels that they begin and end with; `"*"` is any label. The
    /// outcome is a list of them. Namespaces with more than `max_depth` labels are shortened to these.
    #[staticmethod]
    #[pyo3(signature = (*, prefix = List::default(), suffix = List::default(), max_depth = None, limit = 100, offset = 0))]
    fn namespaces(
        prefix: List<Text>,
        suffix: List<Text>,
        max_depth: Option<Count<usize>>,
        #[pyo3(from_py_with = count)] limit: usize,
        #[pyo3(from_py_with = count)] offset: usize,
    ) -> Self {
        let request = DocumentNamespaces::default().prefix(texts(prefix)).suffix(texts(suffix));
        let mut request = request.limit(limit).offset(offset);
        request.max_depth = max_depth.map(|depth| depth.0);
        DocumentOperation(mnemon::DocumentOperation::ListNamespaces(request))
    }
}

impl Element<'_> for DocumentOperation {
    fn is_one(object: &Bound<'_, PyAny>) -> bool {
        object.is_instance_of::<DocumentOperation>()
    }

    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        object.extract().map_err(|_| not_a("a DocumentOperation", object))
    }
}

pub(crate) fn options(
    index: Option<List<Text>>,
    ttl_minutes: Option<Real>,
    vectors: Option<&Bound<'_, PyAny>>,
) -> PyResult<DocumentOptions> {
    let mut options = DocumentOptions::default();
    options.index = index.map_or(options.index, texts);
    options.ttl_minutes = ttl_minutes.map(|minutes| minutes.0);
    options.vectors = vectors.map(rows).transpose()?.unwrap_or_default();
    Ok(options)
}

pub(crate) fn search(
    query: Option<Text>,
    r#where: Option<&Bound<'_, PyAny>>,
    below: bool,
    limit: usize,
    offset: usize,
    vector: Option<&Bound<'_, PyAny>>,
) -> PyResult<DocumentSearch> {
    let mut search = DocumentSearch::default().below(below).limit(limit).offset(offset);
    search.query = query.map(|query| query.0);
    search.vector = vector.map(numbers).transpose()?;
    search.filter = r#where.map(filter).transpose()?;
    Ok(search)
}

/// Returns the outcome of an operation as a Python object.
pub(crate) fn outcome(py: Python<'_>, outcome: DocumentOutcome) -> PyResult<Bound<'_, PyAny>> {
    let wrapped = |documents: Vec<_>| documents.into_iter().map(Document).collect::<Vec<_>>();
    match outcome {
        DocumentOutcome::Got(document) => document.map(Document).into_bound_py_any(py),
        DocumentOutcome::Found(documents) => wrapped(documents).into_bound_py_any(py),
        DocumentOutcome::Deleted(was_there) | DocumentOutcome::SessionDeleted(was_there) => {
            was_there.into_bound_py_any(py)
        }
        DocumentOutcome::MessagesDeleted(messages) => messages.into_bound_py_any(py),
        DocumentOutcome::MessagesPut { new, replaced, unchanged } => {
            [("new", new), ("replaced", replaced), ("unchanged", unchanged)].into_py_dict(py)?.into_bound_py_any(py)
        }
        DocumentOutcome::Namespaces(namespaces) => {
            let names: Vec<&str> = namespaces.iter().map(Namespace::as_str).collect();
            names.into_bound_py_any(py)
        }
        _ => Ok(py.None().into_bound(py)),
    }
}

/// Returns the namespace of these labels, any texts: what a slash separates, with slashes in a label written `%2F`.
#[pyfunction]
pub(crate) fn namespace_of(py: Python<'_>, labels: List<Text>) -> PyResult<String> {
    let namespace = Namespace::from_labels(texts(labels)).map_err(|error| raised(py, error))?;
    Ok(namespace.as_str().to_owned())
}

/// Returns the labels of a namespace.
#[pyfunction]
pub(crate) fn labels_of(namespace: Space) -> Vec<String> {
    namespace.0.labels().map(std::borrow::Cow::into_owned).collect()
}
