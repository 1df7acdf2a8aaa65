//! Options and progress of a reindex.

use std::ops::ControlFlow;

use mnemon::{ReindexOptions, ReindexProgress, ReindexReport};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    callback::calling_back,
    errors::raised,
    values::{namespace, to_python},
};

/// Returns options with these, and defaults for the others.
pub(crate) fn options(
    py: Python<'_>,
    precision: Option<&str>,
    queries: Vec<(String, String)>,
) -> PyResult<ReindexOptions> {
    let mut options = ReindexOptions::default();
    options.precision = precision.map(str::parse).transpose().map_err(|error| raised(py, error))?;
    for (name, query) in queries {
        options.queries.push((namespace(py, &name)?, query));
    }
    Ok(options)
}

/// A function that is told the progress, and what it raised.
pub(crate) struct Progress {
    function: Option<Py<PyAny>>,
    error: Option<PyErr>,
}

impl Progress {
    pub(crate) fn new(function: Option<Py<PyAny>>) -> Self {
        Progress { function, error: None }
    }

    /// Stops the work if the function returns `False` or raises an error, or if a signal, such as of Ctrl-C, does.
    pub(crate) fn call(&mut self, step: ReindexProgress) -> ControlFlow<()> {
        let told = |py: Python<'_>| -> PyResult<bool> {
            py.check_signals()?;
            let Some(function) = &self.function else { return Ok(true) };
            let dict = PyDict::new(py);
            dict.set_item("phase", to_python(py, &step.phase)?)?;
            dict.set_item("done", step.done)?;
            dict.set_item("total", step.total)?;
            dict.set_item("rate", step.rate)?;
            dict.set_item("left", step.left)?;
            let answer = function.bind(py).call1((dict,))?;
            Ok(answer.is_none() || answer.is_truthy()?)
        };
        match calling_back(told) {
            Some(Ok(true)) => ControlFlow::Continue(()),
            Some(Ok(false)) | None => ControlFlow::Break(()),
            Some(Err(error)) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Returns the report as a dict, or raises what the function raised.
    pub(crate) fn result(self, py: Python<'_>, report: PyResult<ReindexReport>) -> PyResult<Bound<'_, PyAny>> {
        match self.error {
            Some(error) => Err(error),
            None => to_python(py, &report?),
        }
    }
}
