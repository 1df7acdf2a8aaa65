//! Calls of what is written in Python, from the engine's threads.

use mnemon::Error;
use pyo3::{buffer::PyBuffer, exceptions::PyTypeError, prelude::*};

use crate::shared::calling_back;

/// Calls Python. What it raises becomes the error that `failed` makes of it, with its text as the reason.
pub(crate) fn call<T>(
    call: impl FnOnce(Python<'_>) -> PyResult<T>,
    failed: impl FnOnce(String, PyErr) -> Error,
) -> mnemon::Result<T> {
    match calling_back(|| Python::try_attach(call)) {
        Some(Ok(result)) => Ok(result),
        Some(Err(error)) => Err(failed(error.to_string(), error)),
        // The interpreter ends.
        None => Err(Error::Closed),
    }
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
