//! The journal of recalls.

use pyo3::{prelude::*, types::PyDict};

use crate::{
    errors::{not_a, raised},
    query::Query,
    values::{datetime, to_python},
};

/// A recall that the journal noted.
///
/// `number` rises from recall to recall, over all namespaces of the file. `at` is when the recall ended. `options` has
/// what the query set, by the names of the Rust crate. `hits` are dicts with the ids, ranks, scores and their terms,
/// best first, and have no text. `next_seq` is above the numbers of all messages that the namespace had; `version` is
/// that of the namespace in a copy of a shared database.
#[pyclass(frozen, eq, module = "mnemon")]
#[derive(PartialEq)]
pub(crate) struct JournalEntry(pub(crate) mnemon::JournalEntry);

#[pymethods]
impl JournalEntry {
    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    #[getter]
    fn at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime(py, self.0.at)
    }

    #[getter]
    fn namespace(&self) -> &str {
        self.0.namespace.as_str()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.options)
    }

    #[getter]
    fn model(&self) -> &str {
        &self.0.model
    }

    #[getter]
    fn next_seq(&self) -> u64 {
        self.0.next_seq
    }

    #[getter]
    fn version(&self) -> Option<u64> {
        self.0.version
    }

    #[getter]
    fn hits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.hits)
    }

    #[getter]
    fn answerability(&self) -> f32 {
        self.0.answerability
    }

    #[getter]
    fn cut_short(&self) -> bool {
        self.0.cut_short
    }

    /// Returns the query, with the time of the entry as its `now`, unless it was set. Raises `InvalidQueryError` if a
    /// later release noted options that this one does not know.
    fn query(&self, py: Python<'_>) -> PyResult<Query> {
        self.0.query().map(Query::from).map_err(|error| raised(py, error))
    }

    fn __repr__(&self) -> String {
        format!("JournalEntry({}, {:?})", self.0.number, self.0.text)
    }
}

/// Returns the entry that an object is.
pub(crate) fn entry_of(object: &Bound<'_, PyAny>) -> PyResult<Py<JournalEntry>> {
    object.cast::<JournalEntry>().map(|entry| entry.clone().unbind()).map_err(|_| not_a("a JournalEntry", object))
}

/// Returns a replay as a dict.
pub(crate) fn replay_dict<'py>(py: Python<'py>, replay: &mnemon::Replay) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("entry", replay.entry)?;
    dict.set_item("at", datetime(py, replay.at)?)?;
    dict.set_item("hits", to_python(py, &replay.hits)?)?;
    dict.set_item("answerability", replay.answerability)?;
    dict.set_item("is_other_model", replay.is_other_model)?;
    dict.set_item("is_unchanged", replay.is_unchanged())?;
    Ok(dict)
}
