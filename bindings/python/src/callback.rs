//! Calls of what is written in Python, from the engine's threads.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread::sleep,
    time::Duration,
};

use mnemon::Error;
use pyo3::{buffer::PyBuffer, exceptions::PyTypeError, prelude::*};

/// The number of callbacks that are running, on all threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// True when the interpreter ends: Python is not called any more.
static ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True while this thread is in a callback.
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// A callback that is running.
struct Running {
    outer: bool,
}

impl Running {
    fn begin() -> Option<Self> {
        RUNNING.fetch_add(1, SeqCst);
        let running = Running { outer: CALLED_BACK.replace(true) };
        // It counts before this is read: either it is waited for, or it does not begin.
        (!ENDED.load(SeqCst)).then_some(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        CALLED_BACK.set(self.outer);
        RUNNING.fetch_sub(1, SeqCst);
    }
}

/// Forgets the callbacks of the process that this one was forked from: their threads are not here.
#[pyfunction]
pub(crate) fn forked() {
    RUNNING.store(0, SeqCst);
    CALLED_BACK.set(false);
}

/// Returns whether this thread calls Python for an engine.
pub(crate) fn is_called_back() -> bool {
    CALLED_BACK.get()
}

/// Waits for the callbacks that are running, such as those of blocks, which the closing of an engine does not wait for.
/// There are none afterwards: a thread that is in Python when the interpreter ends would crash it.
pub(crate) fn end_callbacks(py: Python<'_>) {
    ENDED.store(true, SeqCst);
    py.detach(|| {
        while RUNNING.load(SeqCst) > 0 {
            sleep(Duration::from_millis(1));
        }
    });
}

/// Runs what calls Python. `None` if the interpreter ends.
pub(crate) fn calling_back<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let running = Running::begin()?;
    let result = Python::try_attach(call);
    drop(running);
    result
}

/// Calls Python. What it raises becomes the error that `failed` makes of it, with its text as the reason.
pub(crate) fn call<T>(
    call: impl FnOnce(Python<'_>) -> PyResult<T>,
    failed: impl FnOnce(Python<'_>, String, PyErr) -> Error,
) -> mnemon::Result<T> {
    let called = calling_back(|py| call(py).map_err(|error| failed(py, error.to_string(), error)));
    called.unwrap_or(Err(Error::Closed))
}

/// Returns the attribute of an object that has to have it, or a `TypeError` that names the protocol.
pub(crate) fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str, protocol: &str) -> PyResult<Bound<'py, PyAny>> {
    object.getattr_opt(name)?.ok_or_else(|| {
        PyTypeError::new_err(format!("no attribute {name:?}; help(mnemon.{protocol}) lists what there has to be"))
    })
}

/// Returns the numbers of an array of 32-bit floats, such as numpy's, or of a sequence.
pub(crate) fn numbers(values: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    match PyBuffer::<f32>::get(values) {
        Ok(buffer) => buffer.to_vec(values.py()),
        Err(_) => values.extract(),
    }
}

/// Returns the rows of an array of 32-bit floats with two dimensions, or of a sequence of rows.
pub(crate) fn rows(vectors: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    let Ok(buffer) = PyBuffer::<f32>::get(vectors) else {
        return vectors.try_iter()?.map(|row| numbers(&row?)).collect();
    };
    let &[_, width] = buffer.shape() else {
        return Err(PyTypeError::new_err("vectors are an array of two dimensions"));
    };
    let values = buffer.to_vec(vectors.py())?;
    Ok(values.chunks(width.max(1)).map(<[f32]>::to_vec).collect())
}
