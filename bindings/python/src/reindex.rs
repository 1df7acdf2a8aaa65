//! Options and progress of a reindex.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use mnemon::{ReindexOptions, ReindexProgress, ReindexReport};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    callback::calling_back,
    errors::raised,
    shared::lock,
    values::{List, Pair, Space, Text, to_python},
};

/// Returns options with these, and defaults for the others.
pub(crate) fn options(
    py: Python<'_>,
    precision: Option<&str>,
    queries: List<Pair<Space, Text>>,
) -> PyResult<ReindexOptions> {
    let mut options = ReindexOptions::default();
    options.precision = precision.map(str::parse).transpose().map_err(|error| raised(py, error))?;
    options.queries.extend(queries.0.into_iter().map(|Pair(space, query)| (space.0, query.0)));
    Ok(options)
}

/// A function that is told the progress, and what it raised.
#[derive(Clone)]
pub(crate) struct Progress(Arc<State>);

struct State {
    function: Option<Py<PyAny>>,
    error: Mutex<Option<PyErr>>,
    /// The call was ended by a signal.
    stop: AtomicBool,
}

impl Progress {
    pub(crate) fn new(function: Option<Py<PyAny>>) -> Self {
        Progress(Arc::new(State { function, error: Mutex::default(), stop: AtomicBool::new(false) }))
    }

    /// Stops the work if the function returns `False` or raises an error, or if nobody waits for the work any more.
    pub(crate) fn call(&self, step: ReindexProgress) -> ControlFlow<()> {
        if self.0.stop.load(SeqCst) {
            return ControlFlow::Break(());
        }
        let Some(function) = &self.0.function else { return ControlFlow::Continue(()) };
        let told = |py: Python<'_>| -> PyResult<bool> {
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
                *lock(&self.0.error) = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Returns the report as a dict, or raises what the function raised. After an error, such as that of a signal, the work
    /// stops.
    pub(crate) fn result(self, py: Python<'_>, report: PyResult<ReindexReport>) -> PyResult<Bound<'_, PyAny>> {
        self.0.stop.store(report.is_err(), SeqCst);
        match lock(&self.0.error).take() {
            Some(error) => Err(error),
            None => to_python(py, &report?),
        }
    }
}
